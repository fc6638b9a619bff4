"""A store survives kills at any moment, many processes at once, and a full disk."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.errors import DiskFull
from tests.cli.conftest import COMMAND
from tests.endurance import CHUNKS, text
from tests.store.builders import check_integrity, put, sqlite_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and limits"),
]
REPOSITORY = Path(__file__).parents[1]
KILLS, FILES = 30, 300


def contents(kb: KnowledgeBase) -> dict[str, Any]:
    """Everything that ingest has written, without ids and times."""
    return {
        each.doc_path: (
            each.title,
            each.content_hash,
            each.tags,
            [(chunk.text, chunk.heading_path, chunk.spans) for chunk in kb.chunks(each.doc_path)],
        )
        for each in kb.documents()
    }


def assert_healthy(kb: KnowledgeBase) -> None:
    wrong = [one for one in kb.doctor().findings if one.state == "error"]
    assert wrong == []


# --- killed ---------------------------------------------------------------------------------------


def _change(folder: Path, chance: random.Random, version: int) -> None:
    """Enough changes to keep an ingest busy for its lifetime."""
    for number in chance.sample(range(FILES), FILES // 3):
        path = folder / f"{number % 7}" / f"{number}.md"
        path.parent.mkdir(exist_ok=True)
        if chance.random() < 0.1:
            path.unlink(missing_ok=True)
        else:
            path.write_text(f"---\ntags: [t{version}]\n---\n" + text(path.name, version))


def test_killed_at_any_moment(tmp_path: Path) -> None:
    chance = random.Random(7)
    folder, store = tmp_path / "files", tmp_path / "kb.sqlite"
    folder.mkdir()
    for version in range(3):
        _change(folder, chance, version)
    kills = attempts = 0
    while kills < KILLS:
        attempts += 1
        assert attempts < 4 * KILLS, "ingest is over too soon to be killed"
        _change(folder, chance, attempts)
        kb = subprocess.Popen(
            [*COMMAND, "--store", store, "ingest", folder],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        time.sleep(chance.uniform(0.05, 0.8))
        kb.kill()
        _, err = kb.communicate(timeout=60)
        kills += kb.returncode == -signal.SIGKILL
        assert kb.returncode in (0, -signal.SIGKILL), err
        if store.exists() and store.stat().st_size:
            with KnowledgeBase(store) as opened:
                assert_healthy(opened)
                counts = {document.chunks for document in opened.documents()}
                assert counts <= {CHUNKS}
    with KnowledgeBase(store) as resumed, KnowledgeBase(tmp_path / "other.sqlite") as other:
        assert not resumed.ingest(folder).failed
        assert not other.ingest(folder).failed
        assert contents(resumed) == contents(other)
        assert len(contents(resumed)) > FILES // 2
        assert_healthy(resumed)


# --- concurrency ----------------------------------------------------------------------------------


def test_many_processes_at_once(tmp_path: Path) -> None:
    store, folder = tmp_path / "kb.sqlite", tmp_path / "files"
    folder.mkdir()
    with KnowledgeBase(store) as kb:  # so that searches find something from the start
        put(kb._store, "first", *(f"needle version0 {part}" for part in range(CHUNKS)))
    jobs = [("write", f"w{number}", "1500") for number in range(4)]
    jobs += [("ingest", str(folder), "150")]
    jobs += [("read", f"r{number}", "500") for number in range(8)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.endurance", role, str(store), *args],
            cwd=REPOSITORY, stderr=subprocess.PIPE, text=True,
        )
        for role, *args in jobs
    ]  # fmt: skip
    problems = [process.communicate(timeout=300)[1] for process in processes]
    assert [problem for problem in problems if problem] == []
    assert [process.returncode for process in processes] == [0] * len(jobs)
    with KnowledgeBase(store) as kb:
        assert_healthy(kb)
        check_integrity(sqlite_store(kb))
        assert {document.chunks for document in kb.documents()} == {CHUNKS}


# --- a full disk ----------------------------------------------------------------------------------


@contextmanager
def _small_disk(folder: Path, *, real: bool) -> Iterator[Callable[[int], None] | None]:
    """Mount a file system of two megabytes at `folder`, and yield a function that enlarges it."""
    folder.mkdir()
    if not real:
        yield None
        return
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("nothing may be mounted here")

    def resize(megabytes: int) -> None:
        again = ["mount", "-o", f"remount,size={megabytes}m", str(folder)]
        subprocess.run(again, check=True, capture_output=True)

    try:
        yield resize
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


# Where mounting is not allowed, these programs limit the file size or SQLite's page count instead.
PRETENDED = {
    "limited": """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
from kb.cli.run import run
sys.exit(run(sys.argv[1:]))
""",
    "pretended": """
import sys
from kb.cli.run import run
from kb.store.sqlite.connection import Database
connect = Database._connect
def limited(*args):
    connection = connect(*args)
    connection.execute("PRAGMA max_page_count = 300")
    return connection
Database._connect = limited
sys.exit(run(sys.argv[1:]))
""",
}


@pytest.mark.parametrize("disk", ["mounted", *PRETENDED])
def test_a_full_disk(tmp_path: Path, disk: str) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for number in range(400):
        (files / f"{number}.md").write_text(text(f"{number}.md", number) + "many words " * 200)
    with _small_disk(tmp_path / "disk", real=disk == "mounted") as resize:
        store = tmp_path / "disk" / "kb.sqlite"
        small = COMMAND if resize else (sys.executable, "-W", "error", "-c", PRETENDED[disk])
        call = ["--store", str(store), "ingest", str(files)]
        full = subprocess.run([*small, *call], capture_output=True, text=True, timeout=120)
        assert (full.returncode, full.stdout) == (2, "")
        assert "is full" in full.stderr
        assert "hint: free some space" in full.stderr
        as_json = subprocess.run([*small, "--json", *call], capture_output=True, timeout=120)
        assert (as_json.returncode, b'"code": "disk_full"' in as_json.stderr) == (2, True)

        if resize:
            resize(64)
        with KnowledgeBase(store) as kb:
            assert_healthy(kb)
            kept = contents(kb)
            assert kept
        done = subprocess.run([*COMMAND, *call], capture_output=True, text=True, timeout=120)
        # On a slow machine it reports its progress, and nothing else.
        told = [line for line in done.stderr.splitlines() if not line.startswith("read: ")]
        assert (done.returncode, told) == (0, [])
        with KnowledgeBase(store) as kb:
            assert_healthy(kb)
            after = contents(kb)
            assert len(after) == 400
            assert {path: after[path] for path in kept} == kept


def test_a_disk_without_a_free_byte(tmp_path: Path) -> None:
    """Searches work, writes report a full disk, and nothing calls the store damaged."""
    with _small_disk(tmp_path / "disk", real=True):
        store = tmp_path / "disk" / "kb.sqlite"
        with KnowledgeBase(store, encoder="none") as kb:
            kb.add("the buoy drifts")
        fill = tmp_path / "disk" / "fill"
        with suppress(OSError), fill.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        with KnowledgeBase(store, encoder="none") as kb:
            assert [hit.doc_path for hit in kb.search("buoy")] == ["note:1"]
            assert kb.get("note:1").text == "the buoy drifts"
            with pytest.raises(DiskFull):
                kb.add("one more")
            findings = {finding.part: finding for finding in kb.doctor().findings}
            assert findings["sqlite"].state == "ok"
            assert findings["disk"].state == "warning"
            fill.unlink()
            kb.add("one more buoy")  # by the same threads, whose readers must see it
            assert len(kb.search("buoy")) == 2
            assert_healthy(kb)


# --- kills during any operation -------------------------------------------------------------------

KILLED = """
import sys
from pathlib import Path
from tests import kills
kills._load()
campaign = kills.Campaign(Path(sys.argv[1]), "suite")
campaign.run(int(sys.argv[2]))
print(campaign.kills.total())
print(*campaign.problems, sep="\\n", file=sys.stderr)
"""


def test_any_operation_killed(tmp_path: Path) -> None:
    """Runs in a separate process, which has no threads when it forks. `python -m tests.kills` tests
    more."""
    told = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "kills", "45"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert told.stderr.strip() == ""
    assert int(told.stdout) >= 30
