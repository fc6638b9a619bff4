"""Stores in folders, files and mounts that cannot be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from kb import KnowledgeBase
from kb.errors import (
    StoreReadOnly,
    StoreUnusable,
)
from kb.store.sqlite.store import SqliteStore
from kb.types import Filters
from tests.store.builders import put


def test_opened_for_reading_only_it_cannot_be_written(store: SqliteStore) -> None:
    put(store, "a", "text")
    reader = SqliteStore(store.path, read_only=True)
    assert reader.catalog.version() == store.catalog.version()
    with pytest.raises(StoreReadOnly):
        put(reader, "b", "text")
    reader.close()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="drops root's rights to see it")
@pytest.mark.parametrize("log_left_behind", [False, True])
def test_a_read_only_folder_can_be_searched(tmp_path: Path, log_left_behind: bool) -> None:
    folder = tmp_path / "shelf"
    store = SqliteStore(folder / "kb.sqlite")
    put(store, "a", "text")
    if not log_left_behind:
        store.close()
    for path in (*tmp_path.parents, tmp_path):  # let other users reach it
        if path.owner() == "root" and path.is_relative_to("/tmp"):
            path.chmod(path.stat().st_mode | 0o555)
    folder.chmod(0o555)
    code = (
        "import os, sys; from pathlib import Path; from kb.errors import StoreReadOnly\n"
        "from kb.store.sqlite.store import SqliteStore; from kb.types import Filters\n"
        "import kb.store.filter_values\n"  # while Python's own modules can be read
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "store = SqliteStore(Path(sys.argv[1]))\n"
        "print([d.doc_path for d in store.catalog.documents(Filters(), None)])\n"
        "try: store.create()\n"
        "except StoreReadOnly as error: print(error.code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(store.path)], capture_output=True, text=True, check=False
    )
    store.close()
    assert done.stdout.splitlines() == ["['a']", "store_read_only"], done.stderr


OTHERS_SHELF = """
import os, sys
from pathlib import Path
from kb import KnowledgeBase
from kb.errors import StoreReadOnly
from tests.models.weightless import Weightless
with KnowledgeBase(Path(sys.argv[2]), encoder=Weightless()) as kb:
    kb.add("what is imported on the way, while this may still read where Python lies")
    kb.embed(), kb.get("note:1"), kb.doctor(fix=True)
if os.geteuid() == 0 and "KEEP_ROOT" not in os.environ:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
with KnowledgeBase(Path(sys.argv[1]), encoder=Weightless()) as kb:
    print(kb.get("note:1").text)
    print(kb.document("note:1").access_count)
    told = kb.doctor()
    print(told.healthy, sorted({one.part for one in told.findings if one.state != "ok"}))
    for write in (lambda: kb.add("b"), kb.embed, lambda: kb.doctor(fix=True)):
        try: write()
        except StoreReadOnly as error: print("cannot" if "not written" in error.message else error)
"""


MOUNTED = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


@pytest.mark.skipif(os.name == "nt", reason="folders of Windows have no such right")
@pytest.mark.parametrize("how", ["rights", "mount"])
def test_a_file_in_a_folder_that_cannot_be_written(tmp_path: Path, how: str) -> None:
    """SQLite cannot create its log there. Not as root, who may write everywhere."""
    folder = tmp_path / "shelf"
    with KnowledgeBase(folder / "kb.sqlite", encoder="none") as kb:
        kb.add("a note")
    for path in (*tmp_path.parents, tmp_path):
        if path.owner() == "root" and path.is_relative_to("/tmp"):
            path.chmod(path.stat().st_mode | 0o555)
    (folder / "kb.sqlite").chmod(0o666)
    paths = (str(folder / "kb.sqlite"), str(tmp_path / "own.sqlite"))
    command = [sys.executable, "-c", OTHERS_SHELF, *paths]
    if how == "mount":
        mounted = ["unshare", "-rm", "sh", "-c", MOUNTED, "sh", str(folder)]
        if not shutil.which("unshare") or subprocess.run([*mounted, "true"]).returncode != 0:
            pytest.skip("this machine lets nobody mount")
        command = [*mounted, "env", "KEEP_ROOT=1", *command]
    else:
        folder.chmod(0o555)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )
    folder.chmod(0o755)
    indexes = ["chunks_cjk", "chunks_fts"]
    expected = ["a note", "0", f"True {indexes}", "cannot", "cannot", "cannot"]
    assert done.stdout.splitlines() == expected, done.stderr


def test_an_error_of_a_read_only_mount_means_a_read_only_store(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test may not be allowed to mount, so it raises SQLite's own error at the same place."""
    put(store, "a", "text")
    other = SqliteStore(store.path)
    connect = other._database._connect

    def on_the_mount(name: str, flags: int) -> apsw.Connection:
        if flags & apsw.SQLITE_OPEN_CREATE:
            raise apsw.CantOpenError("unable to open database file")
        return connect(name, flags)

    monkeypatch.setattr(other._database, "_connect", on_the_mount)
    assert len(other.catalog.documents(Filters(), None)) == 1
    with pytest.raises(StoreReadOnly) as error:
        put(other, "b", "text")
    assert "not written" in error.value.message
    assert str(store.path.parent) in error.value.hint
    other.close()


@pytest.mark.skipif(os.name == "nt", reason="folders of Windows have no such right")
def test_a_missing_store_in_a_read_only_folder_is_missing(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        path = Path("/proc/kb.sqlite")  # where even root cannot make a file
    else:
        tmp_path.chmod(0o555)
        path = tmp_path / "kb.sqlite"
    with pytest.raises(StoreUnusable):
        SqliteStore(path).create()
