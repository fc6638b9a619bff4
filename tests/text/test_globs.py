from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.text import globs


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("lib/*.md", "lib/a.md", True),
        ("lib/*.md", "lib/deep/a.md", False),
        ("lib/**", "lib/deep/a.md", True),
        ("lib/**.md", "lib/deep/a.md", True),
        ("**/a.md", "a.md", True),
        ("**/a.md", "lib/deep/a.md", True),
        ("**/a.md", "xa.md", False),
        ("lib/**/a.md", "lib/a.md", True),
        ("lib/**/a.md", "lib/x/y/a.md", True),
        ("lib/**/a.md", "liba.md", False),
        ("lib/", "lib/deep/a.md", True),
        ("lib/?.md", "lib/a.md", True),
        ("lib?a.md", "lib/a.md", False),
        ("lib/[ab].md", "lib/b.md", True),
        ("lib/[!ab].md", "lib/b.md", False),
        ("lib/[!]a].md", "lib/b.md", True),
        ("lib/[!]a].md", "lib/].md", False),
        ("lib/[]a].md", "lib/].md", True),
        ("lib/[z-a].md", "lib/b.md", False),
        ("lib/[a--b]*", "lib/b.md", True),
        ("lib/[!/]x", "lib/ax", True),
        ("lib[!a]x", "lib/x", False),
        ("lib/[", "lib/[", True),
        ("a.md", "a_md", False),
        ("100%_(x).md", "100%_(x).md", True),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_globs(pattern: str, path: str, matches: bool) -> None:
    assert globs.matches(pattern, path) == matches
    assert globs._run(globs._StateMachine(globs._parse(pattern)), path) == matches
    assert by_definition(pattern, path) == matches


ALPHABET = "abcdeXYZ-]!^+,[./"


@pytest.mark.parametrize(
    ("characters", "members"),
    [
        ("[abX]", "abX"),
        ("[a-c]", "abc"),
        ("[!a-c]", "deXYZ-]!^+,[."),
        ("[^a-c]", "deXYZ-]!^+,[."),
        ("[a-a]", "a"),
        ("[ab-dX-Z]", "abcdXYZ"),
        ("[a-c-e]", "abc-e"),
        ("[-a]", "a-"),
        ("[a-]", "a-"),
        ("[+--]", "-+,"),
        ("[c-a]", ""),
        ("[c-ae]", "e"),
        ("[!c-a]", "abcdeXYZ-]!^+,[."),
        ("[]a]", "a]"),
        ("[!]a]", "bcdeXYZ-!^+,[."),
        ("[X]", "X"),
        ("[X!]", "X!"),
        ("[!X]", "abcdeYZ-]!^+,[."),
        ("[.-/]", "."),  # never a slash
        ("[!!]", "abcdeXYZ-]^+,[."),
    ],
)
def test_sets(characters: str, members: str) -> None:
    for before, after in (("", ""), ("x", "y"), ("*/", "*")):
        found = [
            character
            for character in ALPHABET
            if globs.matches(
                f"{before}{characters}{after}",
                f"{before}{character}{after}".replace("*", "z"),
            )
        ]
        assert set(found) == set(members)


@pytest.mark.parametrize("pattern", ["[", "[]", "[!", "[!]", "[^]", "a[b"])
def test_a_set_without_an_end_is_literal(pattern: str) -> None:
    assert globs.matches(pattern, pattern)
    assert not globs.matches(pattern, "b")


def by_definition(pattern: str, path: str) -> bool:
    """Match by trying every way to read the path, as the module's docstring defines it."""
    if pattern.endswith("/"):
        pattern += "**"
    if not pattern:
        return not path
    if pattern.startswith("**/"):
        after = [0, *(at + 1 for at, character in enumerate(path) if character == "/")]
        return any(by_definition(pattern[3:], path[at:]) for at in after)
    if pattern.startswith("**"):
        return any(by_definition(pattern[2:], path[at:]) for at in range(len(path) + 1))
    if pattern[0] == "*":
        segment = len(path.split("/", 1)[0])
        return any(by_definition(pattern[1:], path[at:]) for at in range(segment + 1))
    step, end = globs._token(pattern, 0)
    if not path or re.fullmatch(step, path[0]) is None:
        return False
    return by_definition(pattern[end:], path[1:])


PARTS = ["*", "*", "**", "**/", "/", "?", "a", "b", "[ab]", "[!a]", "/*", "*a", "a*"]
patterns = st.lists(st.sampled_from(PARTS), max_size=8).map("".join)
paths = st.text(alphabet="ab/", max_size=10)


def test_some_patterns_by_definition() -> None:
    """Random patterns with a fixed seed: quick, and enough for `make mutants`."""
    chance = random.Random(3)
    for _ in range(600):
        pattern = "".join(chance.choices(PARTS, k=chance.randint(0, 6)))
        path = "".join(chance.choices("ab//", k=chance.randint(0, 7)))
        expected = by_definition(pattern, path)
        assert globs.matches(pattern, path) == expected, (pattern, path)
        assert globs._run(globs._StateMachine(globs._parse(pattern)), path) == expected


@settings(max_examples=1000)
@given(patterns, paths)
def test_all_ways_to_match_agree(pattern: str, path: str) -> None:
    steps = globs._parse(pattern)
    expected = by_definition(pattern, path)
    assert globs.matches(pattern, path) == expected
    assert globs._run(globs._StateMachine(steps), path) == expected
    if (regex := globs._regex(steps)) is not None:
        assert (regex.fullmatch(path) is not None) == expected


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_pattern_is_accepted(pattern: str, path: str) -> None:
    globs.matches(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("lib/" + "*a" * 40 + "b", "lib/" + "a" * 4000),
        ("*a" * 300 + "b", "a" * 4000),
        ("**a**a**b", "a" * 4000),
        ("*a*a*b", "a" * 4000),
        ("**/*a*a*b", "a" * 2000 + "/" + "a" * 2000),
        ("**/" * 300 + "b", "a/" * 2000),
        ("**a" * 300 + "b", "a" * 4000),
        ("**/*a" * 200 + "b", "a/" * 2000),
        ("*a**/*a*b", "a" * 2000 + "/" * 2000),
        ("[a-z]*" * 160 + "1", "a" * 4000),
        ("?*" * 400 + "1", "a" * 4000),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    """Runs in another process, so that a hang can be ended. Each pattern matches nothing, after all
    attempts."""
    script = "import sys; from kb.text import globs; sys.exit(globs.matches(*sys.argv[1:]))"
    subprocess.run([sys.executable, "-c", script, pattern, path], check=True, timeout=60)


def test_a_star_is_left_for_good_at_the_next_one_of_its_segment() -> None:
    regex = globs._regex(globs._parse("*a*b/*c/**/*d*e"))
    assert regex is not None
    assert regex.pattern == ("(?>[^/]*?a)[^/]*b/[^/]*c/(?:(?s:.*)/)?(?>[^/]*?d)[^/]*e")
    assert globs.is_simple(globs._parse("a**b")) is False
    assert globs.is_simple(globs._parse("**/a/**/b")) is False


def test_usual_patterns_are_regular_expressions() -> None:
    for pattern in ("lib/**", "**/*.py", "**/*draft*.md", "a/**/b/*c*/d", "**/x/**", "*.md"):
        assert globs._regex(globs._parse(pattern)) is not None
    for pattern in ("**/a/**/b", "**a", "*a**/b"):
        assert globs._regex(globs._parse(pattern)) is None
