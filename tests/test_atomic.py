"""Files that appear complete or not at all, and the remains of killed processes."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
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
def test_remains_of_a_killed_process_are_removed_by_the_next(tmp_path: Path) -> None:
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


def test_files_of_unknown_owners_are_removed_after_a_day(tmp_path: Path) -> None:
    """The owner of a file is unknown if it comes from another machine or another version of kb, and
    on Windows."""
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


def test_a_target_that_cannot_be_written(tmp_path: Path) -> None:
    for target in (tmp_path / ("x" * 300), tmp_path / "file" / "x", Path(), Path("/")):
        (tmp_path / "file").touch()
        with pytest.raises(InvalidRequest), atomic.atomic_path(target) as part:
            part.write_text("x")


# --- protected files ------------------------------------------------------------------------------

Write = Callable[..., object]
WRITERS = pytest.mark.parametrize("how", ["backup", "export"])
STORE_FILES = ("", "-wal", "-shm", "-journal", "-vectors", "-words", ".sock")


@WRITERS
@pytest.mark.parametrize("end", STORE_FILES)
def test_the_store_is_not_replaced(kb: KnowledgeBase, how: str, end: str) -> None:
    kb.add("words")
    target = Path(f"{kb.path}{end}")
    before = target.read_bytes() if target.is_file() else b""
    with pytest.raises(InvalidRequest, match="the store"):
        getattr(kb, how)(target, overwrite=True)
    assert (target.read_bytes() if target.is_file() else b"") == before
    assert kb.search("words").returned == 1


@posix
@WRITERS
@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_the_store_is_not_replaced_under_another_name(
    kb: KnowledgeBase, tmp_path: Path, how: str, link: Callable[[Path, Path], None]
) -> None:
    kb.add("words")
    link(tmp_path / "x", kb.path)
    with pytest.raises(InvalidRequest, match="is the store itself"):
        getattr(kb, how)(tmp_path / "x", overwrite=True)
    assert kb.search("words").returned == 1


@WRITERS
def test_uploads_are_not_replaced(kb: KnowledgeBase, how: str) -> None:
    kb.add("words")
    uploads = kb.path.parent / "uploads"
    (uploads / ".kb-uploads").mkdir(parents=True)
    (uploads / "a.md").write_text("uploaded")
    with pytest.raises(InvalidRequest, match="in the store's uploads"):
        getattr(kb, how)(uploads / "a.md", overwrite=True)
    assert (uploads / "a.md").read_text() == "uploaded"


@WRITERS
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize(
    "name",
    ["config.toml", "user.toml", "trusted/a", "o.sqlite-words", "o.sqlite-uploads/a"],
)
def test_settings_and_files_of_other_stores_are_not_replaced(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, how: str, name: str, exists: bool
) -> None:
    kb.add("words")
    folder = kb.path.parent
    monkeypatch.setenv("KB_CONFIG", str(folder / "user.toml"))
    monkeypatch.setattr("kb.paths.user_folder", lambda _kind: str(folder))
    (folder / "o.sqlite").touch()
    (folder / "o.sqlite-uploads" / ".kb-uploads").mkdir(parents=True)
    target = folder / name
    target.parent.mkdir(exist_ok=True)
    if exists:
        target.write_text("mine")
    with pytest.raises(InvalidRequest, match=r"settings|belongs to the store|uploads"):
        getattr(kb, how)(target, overwrite=True)
    assert (target.read_text() if target.exists() else None) == ("mine" if exists else None)


@posix
@WRITERS
@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_settings_are_not_replaced_under_another_name(
    kb: KnowledgeBase, tmp_path: Path, how: str, link: Callable[[Path, Path], None]
) -> None:
    kb.add("words")
    settings = kb.path.with_name("config.toml")
    settings.write_text("")
    link(tmp_path / "x.jsonl", settings)
    with pytest.raises(InvalidRequest, match="settings"):
        getattr(kb, how)(tmp_path / "x.jsonl", overwrite=True)


@posix
def test_an_export_is_written_into_a_pipe(kb: KnowledgeBase, tmp_path: Path) -> None:
    kb.add("words")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    read: list[bytes] = []
    for target in (tmp_path / "pipe", tmp_path / "link"):
        thread = threading.Thread(
            target=lambda: read.append((tmp_path / "pipe").read_bytes()), daemon=True
        )
        thread.start()
        kb.export(target)
        thread.join(60)
        assert b'"body":"words"' in read.pop()
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)
    assert (tmp_path / "link").is_symlink()


@posix
def test_a_backup_does_not_replace_a_pipe(kb: KnowledgeBase, tmp_path: Path) -> None:
    kb.add("words")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidRequest, match="is not a regular file"):
        kb.backup(tmp_path / "pipe", overwrite=True)
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)


@posix
@WRITERS
def test_a_device_is_not_replaced(kb: KnowledgeBase, tmp_path: Path, how: str) -> None:
    kb.add("words")
    node = tmp_path / "null"
    try:
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        node.open("wb").close()
    except (OSError, AttributeError):
        pytest.skip("devices can be made by root only")
    if how == "export":
        kb.export(node)
        kb.export(node, overwrite=True)
    else:
        with pytest.raises(InvalidRequest, match="is not a regular file"):
            kb.backup(node, overwrite=True)
    assert stat.S_ISCHR(node.lstat().st_mode)


@posix
@WRITERS
def test_a_link_stays_a_link(kb: KnowledgeBase, tmp_path: Path, how: str) -> None:
    kb.add("words")
    write: Write = getattr(kb, how)
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    with pytest.raises(InvalidRequest, match="which does not exist"):
        write(link, overwrite=True)
    target.write_text("before")
    with pytest.raises(InvalidRequest, match="already exists"):
        write(link)
    write(link, overwrite=True)
    assert link.is_symlink()
    assert b"words" in target.read_bytes()


def test_other_files_are_not_written_through_links(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("before")
    (tmp_path / "link").symlink_to("target")
    with (
        pytest.raises(InvalidRequest, match="is a link"),
        atomic.atomic_path(tmp_path / "link", overwrite=True) as part,
    ):
        part.write_text("after")
    assert (tmp_path / "target").read_text() == "before"


# --- permissions ----------------------------------------------------------------------------------


@posix
@WRITERS
@pytest.mark.parametrize(
    ("store", "replaced", "expected"),
    [(0o600, None, 0o600), (0o600, 0o644, 0o600), (0o644, 0o600, 0o600), (0o644, None, 0o644)],
)
def test_copies_are_as_private_as_the_store(
    kb: KnowledgeBase, tmp_path: Path, how: str, store: int, replaced: int | None, expected: int
) -> None:
    kb.add("words")
    kb.path.chmod(store)
    target = tmp_path / "copy"
    if replaced is not None:
        target.touch()
        target.chmod(replaced)
    seen: set[int] = set()

    def look(_done: int, _total: int) -> None:
        seen.update(stat.S_IMODE(part.stat().st_mode) for part in tmp_path.glob(".copy.*.part"))

    getattr(kb, how)(target, overwrite=True, on_progress=look)
    assert seen == {0o600}
    assert stat.S_IMODE(target.stat().st_mode) == expected


@posix
def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "config.toml"
    target.touch()
    target.chmod(0o600)
    with atomic.atomic_path(target, overwrite=True) as part:
        part.write_text("secret")
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
