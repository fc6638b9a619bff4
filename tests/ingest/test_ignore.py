from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.ingest import ignore


def rules(folder: Path, text: str, **place: object) -> ignore.Rules:
    (folder / ".gitignore").write_text(text)
    loaded, bad = ignore.read_rules(str(folder), ".gitignore", **place)  # type: ignore[arg-type]
    assert loaded is not None
    assert not bad
    return loaded


@pytest.mark.parametrize(
    ("path", "folder", "judgement"),
    [
        ("a.log", False, True),
        ("deep/a.log", False, True),
        ("keep.log", False, False),
        ("a.md", False, None),
        ("build", True, True),
        ("build", False, None),
        ("top", True, True),
        ("deep/top", True, None),
        ("out", True, None),
        ("out/a.md", False, True),
        ("out/keep.md", False, False),
        ("café.md", False, True),
    ],
)
def test_judge(tmp_path: Path, path: str, folder: bool, judgement: bool | None) -> None:
    text = "# comment\n\n*.log\n!keep.log\nbuild/\n/top\nout/**\n!out/keep.md\ncafe\u0301.md\n"
    assert rules(tmp_path, text).decide(path, folder=folder) is judgement


def test_the_nearest_decides(tmp_path: Path) -> None:
    far = rules(tmp_path, "*.md\n")
    near = rules(tmp_path, "!a.md\n", cut=len("sub/"))
    assert ignore.ignoring_rules([near, far], "sub/a.md", folder=False) is None
    assert ignore.ignoring_rules([near, far], "sub/b.md", folder=False) is far


def test_lines_that_make_no_sense_are_told(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("!\n[z-a]\n*.log\n/\n[a\n[[:what:]]\na\\\n")
    loaded, bad = ignore.read_rules(str(tmp_path), ".gitignore")
    assert bad == ["!", "/", "[a", "[[:what:]]", "a\\"]
    assert loaded is not None
    assert loaded.decide("a.log", folder=False)


def test_an_empty_file_has_no_rules(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbf# only a comment\r\n")
    assert ignore.read_rules(str(tmp_path), ".gitignore") == (None, [])


def test_above_goes_up_to_the_repository(tmp_path: Path) -> None:
    root = tmp_path / "outside" / "repository" / "folder" / "root"
    root.mkdir(parents=True)
    (tmp_path / "outside" / ".gitignore").write_text("*\n")
    (root.parent.parent / ".git").mkdir()
    (root.parent.parent / ".gitignore").write_text("*.log\n/folder/root/top.md\n")
    (root.parent / ".kbignore").write_text("*.tmp\n")
    levels = ignore.rules_above(str(root))
    assert [level.source for level in levels] == [".kbignore", ".gitignore"]
    for path, ignored in [
        ("a.log", True),
        ("a.tmp", True),
        ("top.md", True),
        ("sub/top.md", False),
    ]:
        assert bool(ignore.ignoring_rules(levels, path, folder=False)) is ignored


def test_above_says_nothing_outside_of_a_repository(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*\n")
    (tmp_path / "root").mkdir()
    assert ignore.rules_above(str(tmp_path / "root")) == []


def test_above_gives_way_to_who_asks_for_an_ignored_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    (tmp_path / "build" / "docs").mkdir(parents=True)
    assert ignore.rules_above(str(tmp_path / "build" / "docs")) == []


# --- compared with git ----------------------------------------------------------------------------

PIECES = (
    "*", "*", "**", "***", "**/", "/**", "/**/", "/", "/", "?", "a", "b", "ab", "a.b", ".", "!",
    "#", " ", "\\", "\\*", "\\ ", "[ab]", "[!a]", "[^b]", "[a-b]", "[b-a]", "[]a]", "[]-b]", "[a-]",
    "[[:alpha:]]", "[[:punct:]a]", "[\\]]", "[a\\-b]", "[[:x]", "[", "]", "[a/b]", "[.-z]",
)  # fmt: skip
lines = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)
FOLDERS, FILES = ("a", "b", "ab"), ("a.b", ".b", "b]", "-", "*")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders in folders, three deep, with files of odd names in each."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    top = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", top], check=True, env=os.environ | {"HOME": str(top)})
    folders = [""]
    for _ in range(2):
        folders = ["", *(f"{folder}{name}/" for folder in folders for name in FOLDERS)]
    for folder in folders:
        (top / folder).mkdir(exist_ok=True)
        for name in FILES:
            (top / folder / name).touch()
    return top


def _all_paths(top: Path) -> list[str]:
    return sorted(
        path.relative_to(top).as_posix() for path in top.rglob("*")
        if ".git" not in path.parts and path.name != ".gitignore"
    )  # fmt: skip


def _by_git(top: Path, paths: list[str]) -> set[str]:
    done = subprocess.run(
        ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=top, input="\0".join(paths).encode(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return set(filter(None, done.stdout.decode().split("\0")))


def _by_kb(top: Path, paths: list[str]) -> set[str]:
    loaded, _ = ignore.read_rules(str(top), ".gitignore")
    levels = [] if loaded is None else [loaded]
    ignored: set[str] = set()
    for path in paths:  # a folder comes before what is in it
        if any(
            parent.as_posix() in ignored for parent in Path(path).parents
        ) or ignore.ignoring_rules(levels, path, folder=(top / path).is_dir()):
            ignored.add(path)
    return ignored


@pytest.mark.skipif(os.name != "posix", reason="names that not every system has")
@settings(max_examples=150, deadline=None)
@given(st.lists(lines, min_size=1, max_size=4))
def test_as_git_has_it(repository: Path, patterns: list[str]) -> None:
    (repository / ".gitignore").write_text("\n".join(patterns) + "\n")
    paths = _all_paths(repository)
    assert _by_kb(repository, paths) == _by_git(repository, paths)


@pytest.mark.parametrize(
    ("line", "path", "ignored"),
    [
        ("a ", "a", True),
        ("a\\ ", "a ", True),
        ("a\\ ", "a", False),
        ("a\t", "a", False),
        ("\\#a", "#a", True),
        ("\\!a", "!a", True),
        ("a\r", "a", True),
        ("**/b", "x/y/b", True),
        ("x/**/b", "x/b", True),
        ("x/**", "x", False),
        ("x**y/z", "xy/z", True),
        ("caf?.md", "café.md", True),
        ("[é-ü]", "ö", True),
    ],
)
def test_lines(tmp_path: Path, line: str, path: str, ignored: bool) -> None:
    (tmp_path / ".gitignore").write_text(line + "\n", encoding="utf-8", newline="")
    loaded, bad = ignore.read_rules(str(tmp_path), ".gitignore")
    assert not bad
    assert loaded is not None
    assert bool(loaded.decide(path, folder=False)) is ignored


HOSTILE = [
    "*a*a*a*a*a*a*a*a*a*a*b",
    "**/a/**/a/**/a/**/a/**/b",
    "*a*/" * 30 + "b",
    "?*" * 200 + "b",
    "[a]*" * 200 + "b",
    "a**a**a**a**a**/b",
    "/**/*a*a*a*a*a*a*b/**/*a*a*a*b/**",
]


def test_no_line_takes_long() -> None:
    """Runs in a separate process, so that a hang fails the test."""
    code = (
        "from kb.ingest import ignore\nfrom tests.ingest.test_ignore import HOSTILE\n"
        "for line in HOSTILE:\n"
        "    rules = ignore.Rules('x', (ignore.parse(line),))\n"
        "    for path in ('a' * 255, '/'.join(['a'] * 2000), '/'.join(['a' * 255] * 15)):\n"
        "        assert not rules.decide(path, folder=False), line\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True)
    assert done.returncode == 0, done.stderr
