"""The hits of the last search: one file for a store and a terminal, which only the user reads."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kb.cli import last_hits

posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(last_hits, "user_folder", lambda kind: str(tmp_path / kind / "kb"))
    return tmp_path / "state" / "kb" / "hits"


def test_each_store_and_terminal_has_its_own(folder: Path) -> None:
    last_hits.save("/a/kb.sqlite", "/dev/pts/1 100", ["x#L1", "y#L2"])
    last_hits.save("/a/kb.sqlite", "/dev/pts/2 200", ["z#L1"])
    last_hits.save("/b/kb.sqlite", "/dev/pts/1 100", [])
    last_hits.save("/a/kb.sqlite", "", ["note:1"])
    assert last_hits.load("/a/kb.sqlite", "/dev/pts/1 100") == ["x#L1", "y#L2"]
    assert last_hits.load("/a/kb.sqlite", "/dev/pts/2 200") == ["z#L1"]
    assert last_hits.load("/b/kb.sqlite", "/dev/pts/1 100") == []
    assert last_hits.load("/a/kb.sqlite", "") == ["note:1"]
    assert last_hits.load("/c/kb.sqlite", "") is None


def test_a_later_session_of_a_terminal_starts_empty(folder: Path) -> None:
    last_hits.save("/a", "/dev/pts/1 100", ["x"])
    assert last_hits.load("/a", "/dev/pts/1 101") is None
    last_hits.save("/a", "/dev/pts/1 101", ["y"])
    assert len(list(folder.iterdir())) == 1


@posix
def test_only_the_user_reads_it(folder: Path) -> None:
    last_hits.save("/a", "", ["x"])
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.parent.stat().st_mode & 0o777 == 0o700


@posix
def test_a_link_is_replaced_and_not_followed(folder: Path, tmp_path: Path) -> None:
    last_hits.save("/a", "", ["x"])
    (file,) = folder.iterdir()
    target = tmp_path / "target"
    target.write_text("precious")
    file.unlink()
    file.symlink_to(target)
    assert last_hits.load("/a", "") is None
    last_hits.save("/a", "", ["y"])
    assert target.read_text() == "precious"
    assert last_hits.load("/a", "") == ["y"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"uris": ["x"]}', b"\xff", b"[" * 99999])
def test_a_damaged_file_is_no_search(folder: Path, content: bytes) -> None:
    last_hits.save("/a", "", ["x"])
    (file,) = folder.iterdir()
    file.write_bytes(content)
    assert last_hits.load("/a", "") is None


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    folder.parent.parent.mkdir()
    folder.parent.write_text("a file")
    last_hits.save("/a", "", ["x"])
    assert last_hits.load("/a", "") is None


def test_old_files_are_removed(folder: Path) -> None:
    for number in range(last_hits._MAX_FILES + 5):
        last_hits.save(f"/store/{number}", "", ["x"])
        os.utime(max(folder.iterdir(), key=lambda each: each.stat().st_ctime_ns), (number, number))
    assert len(list(folder.iterdir())) == last_hits._MAX_FILES
    assert last_hits.load("/store/0", "") is None
    assert last_hits.load(f"/store/{last_hits._MAX_FILES + 4}", "") == ["x"]
