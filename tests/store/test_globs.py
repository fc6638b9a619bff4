from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.store import globs


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
    assert globs._followed(globs._compiled(pattern), path) == matches


patterns = st.lists(
    st.sampled_from(["*", "**", "**/", "/", "?", "a", "b", "[ab]", "[!a]"]), max_size=7
).map("".join)
paths = st.text(alphabet="ab/", max_size=10)


@given(patterns, paths)
def test_both_ways_to_match_agree(pattern: str, path: str) -> None:
    steps = globs._compiled(pattern)
    by_regex = globs._regex(steps).fullmatch(path) is not None
    assert globs._followed(steps, path) == by_regex == globs.matches(pattern, path)


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_pattern_can_be_asked(pattern: str, path: str) -> None:
    globs.matches(pattern, path)


def test_many_stars_end() -> None:
    assert not globs.matches("lib/" + "*a" * 40 + "b", "lib/" + "a" * 200)
