"""Files that appear complete or not at all, and the remains of killed processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kb import KnowledgeBase, atomic
from kb.errors import InvalidRequest

HOLD = """
import sys
from pathlib import Path
from kb import atomic
with atomic.atomic_path(Path(sys.argv[1])) as part, atomic.scratch_folder("test") as folder:
    for end in ("", "-wal"):
        Path(str(part) + end).write_text("half")
    (folder / "x").write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
"""
posix = pytest.mark.skipif(sys.platform == "win32", reason="only what is a day old is removed")


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)


def _holding(target: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(target)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(".x."))


@posix
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    target = tmp_path / "x.jsonl"
    killed, running = _holding(target), _holding(target)
    other = _holding(tmp_path / "x.other")
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert len(_hidden(tmp_path)) == 6
    assert len(list((tmp_path / "temporary").iterdir())) == 3
    with atomic.atomic_path(target) as part, atomic.scratch_folder("test"):
        part.write_text("whole")
        assert len(_hidden(tmp_path)) == 5  # of the two that run, and its own
        assert len(list((tmp_path / "temporary").iterdir())) == 3
    assert target.read_text() == "whole"
    for process in (other, running):
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with atomic.atomic_path(target, overwrite=True) as part:
        part.write_text("again")
    assert [name.split(".")[2] for name in _hidden(tmp_path)] == ["other", "other"]


@posix
@pytest.mark.parametrize("how", ["backup", "export", "export.gz"])
def test_backups_and_exports_tidy_up(kb: KnowledgeBase, tmp_path: Path, how: str) -> None:
    kb.add("words")
    target = tmp_path / f"x.{how}"
    process = _holding(target)
    process.kill()
    process.communicate()
    assert _hidden(tmp_path)
    (kb.backup if how == "backup" else kb.export)(target)
    assert _hidden(tmp_path) == []


def test_what_nobody_knows_is_removed_after_a_day(tmp_path: Path) -> None:
    """Files of other machines, of other versions of kb, and on Windows."""
    old, new = tmp_path / ".x.1234abcd.part", tmp_path / ".x.00000000-1-abcd.part"
    mine = tmp_path / ".x.part.txt"
    for path in (old, new, mine):
        path.write_text("half")
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (long_ago, long_ago))
    os.utime(mine, (long_ago, long_ago))
    with atomic.atomic_path(tmp_path / "x") as part:
        part.write_text("whole")
    assert _hidden(tmp_path) == [new.name, mine.name]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    for target in (tmp_path / ("x" * 300), tmp_path / "file" / "x", Path(), Path("/")):
        (tmp_path / "file").touch()
        with pytest.raises(InvalidRequest), atomic.atomic_path(target) as part:
            part.write_text("x")
