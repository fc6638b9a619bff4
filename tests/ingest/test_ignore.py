from __future__ import annotations

from pathlib import Path

import pytest

from kb.ingest import ignore


def rules(folder: Path, text: str, **place: object) -> ignore.Rules:
    (folder / ".gitignore").write_text(text)
    loaded, bad = ignore.load(str(folder / ".gitignore"), **place)  # type: ignore[arg-type]
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
    assert rules(tmp_path, text).judge(path, folder=folder) is judgement


def test_the_nearest_decides(tmp_path: Path) -> None:
    far = rules(tmp_path, "*.md\n")
    near = rules(tmp_path, "!a.md\n", cut=len("sub/"))
    assert ignore.ignoring([near, far], "sub/a.md", folder=False) is None
    assert ignore.ignoring([near, far], "sub/b.md", folder=False) is far


def test_lines_that_make_no_sense_are_told(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("!\n[z-a]\n*.log\n")
    loaded, bad = ignore.load(str(tmp_path / ".gitignore"))
    assert bad == ["!", "[z-a]"]
    assert loaded is not None
    assert loaded.judge("a.log", folder=False)


def test_an_empty_file_has_no_rules(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbf# only a comment\r\n")
    assert ignore.load(str(tmp_path / ".gitignore")) == (None, [])


def test_above_goes_up_to_the_repository(tmp_path: Path) -> None:
    root = tmp_path / "outside" / "repository" / "folder" / "root"
    root.mkdir(parents=True)
    (tmp_path / "outside" / ".gitignore").write_text("*\n")
    (root.parent.parent / ".git").mkdir()
    (root.parent.parent / ".gitignore").write_text("*.log\n/folder/root/top.md\n")
    (root.parent / ".kbignore").write_text("*.tmp\n")
    levels = ignore.above(str(root))
    assert [level.source for level in levels] == [".kbignore", ".gitignore"]
    for path, ignored in [
        ("a.log", True),
        ("a.tmp", True),
        ("top.md", True),
        ("sub/top.md", False),
    ]:
        assert bool(ignore.ignoring(levels, path, folder=False)) is ignored


def test_above_says_nothing_outside_of_a_repository(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*\n")
    (tmp_path / "root").mkdir()
    assert ignore.above(str(tmp_path / "root")) == []


def test_above_gives_way_to_who_asks_for_an_ignored_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    (tmp_path / "build" / "docs").mkdir(parents=True)
    assert ignore.above(str(tmp_path / "build" / "docs")) == []
