"""The loop: when it reports changes, they are in the store."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.cli import socket_client
from kb.errors import InvalidRequest, PathMissing, WatchFailed
from kb.watch.changes import folders_to_read, inspect_all, is_relevant
from kb.watch.watcher import FREQUENT_RESCAN_S, Watcher
from tests.models.weightless import Weightless
from tests.watch.conftest import Heard, Process, contents, fresh, watched

MANY = 2_000  # files, which take seconds
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.fixture
def kb(store: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase(store) as opened:
        yield opened


def test_changes_are_followed(kb: KnowledgeBase, root: Path) -> None:
    (root / "old.md").write_text("# Old\n\nthere before\n")
    with watched(kb, root) as heard:
        assert heard.kind("ready")[-1]["report"]["added"] == ["lib/old.md"]
        (root / "new.md").write_text("# New\n\nthere since\n")
        heard.read("lib/new.md")
        assert kb.search("since").returned == 1
        (root / "sub" / "deep").mkdir(parents=True)
        (root / "sub" / "deep" / "x.md").write_text("# X\n\nin a new folder\n")
        heard.read("lib/sub/deep/x.md")
        (root / "old.md").unlink()
        removed = heard.until(lambda event: bool(event["report"] and event["report"]["removed"]))
        assert removed[-1]["report"]["removed"] == ["lib/old.md"]
    assert set(contents(kb.path)) == {"lib/new.md", "lib/sub/deep/x.md"}


def test_an_editor_s_atomic_save(kb: KnowledgeBase, root: Path) -> None:
    (root / "a.md").write_text("# A\n\nfirst\n\n## Kept\n\nstays\n")
    with watched(kb, root) as heard:
        heard.kind("ready")
        doc_id = kb.document("lib/a.md").doc_id
        (root / ".a.md.swp").write_text("# A\n\nsecond\n\n## Kept\n\nstays\n")
        os.replace(root / ".a.md.swp", root / "a.md")
        report = heard.read("lib/a.md")[-1]["report"]
    assert (report["changed"], report["added"]) == (["lib/a.md"], [])
    assert report["chunks_kept"] == 1
    assert kb.document("lib/a.md").doc_id == doc_id


def test_a_rename_embeds_nothing(store: Path, root: Path) -> None:
    (root / "a.md").write_text("# A\n\nfirst\n\n## Second\n\nmore\n")
    with KnowledgeBase(store, encoder=(encoder := Weightless())) as kb, watched(kb, root) as heard:
        assert heard.kind("embedded")[-1]["embedded"] == 2
        made = len(encoder.calls)
        (root / "sub").mkdir()
        (root / "a.md").rename(root / "sub" / "b.md")
        event = heard.read("lib/sub/b.md")[-1]
        assert event["report"]["renamed"] == [{"before": "lib/a.md", "after": "lib/sub/b.md"}]
        assert event["report"]["chunks_added"] == 0
        assert kb.pending() == 0
        (root / "c.md").write_text("# C\n\nthe worker has looked again\n")
        assert heard.kind("embedded")[-1]["embedded"] == 1
    assert len(encoder.calls) == made + 1


def test_new_passages_are_embedded(store: Path, root: Path) -> None:
    with KnowledgeBase(store, encoder=Weightless()) as kb, watched(kb, root) as heard:
        heard.kind("ready")
        (root / "a.md").write_text("# A\n\nbuoys drift\n")
        assert heard.kind("embedded")[-1]["embedded"] == 1
        assert kb.search("buoys", mode="vector").returned == 1


def test_a_root_that_disappears_and_returns(kb: KnowledgeBase, root: Path, tmp_path: Path) -> None:
    (root / "a.md").write_text("# A\n\nfirst\n")
    with watched(kb, root) as heard:
        heard.kind("ready")
        root.rename(tmp_path / "elsewhere")
        assert heard.kind("missing")[-1]["paths"] == (str(root),)
        assert set(contents(kb.path)) == {"lib/a.md"}
        (tmp_path / "elsewhere").rename(root)
        heard.kind("back")
        (root / "b.md").write_text("# B\n\nafter it came back\n")
        heard.read("lib/b.md")
    assert set(contents(kb.path)) == {"lib/a.md", "lib/b.md"}


def test_another_folder_in_its_place(kb: KnowledgeBase, root: Path, tmp_path: Path) -> None:
    (root / "a.md").write_text("# A\n\nfirst\n")
    with watched(kb, root) as heard:
        heard.kind("ready")
        other = tmp_path / "other"
        other.mkdir()
        (other / "b.md").write_text("# B\n\nof another folder\n")
        shutil.rmtree(root)
        other.rename(root)
        heard.read("lib/b.md")
        (root / "c.md").write_text("# C\n\nwatched too\n")
        heard.read("lib/c.md")
    assert set(contents(kb.path)) == {"lib/b.md", "lib/c.md"}


def test_a_single_file(kb: KnowledgeBase, root: Path) -> None:
    (root / "a.md").write_text("# A\n\nfirst\n")
    (root / "b.md").write_text("# B\n\nnot asked for\n")
    with watched(kb, root / "a.md") as heard:
        heard.kind("ready")
        (root / "tmp").write_text("# A\n\nsecond\n")
        os.replace(root / "tmp", root / "a.md")
        heard.read("lib/a.md")
        assert kb.search("second").returned == 1
        (root / "a.md").unlink()
        heard.until(lambda event: bool(event["report"] and event["report"]["removed"]))
        (root / "a.md").write_text("# A\n\nthird\n")
        heard.read("lib/a.md")
    assert set(contents(kb.path)) == {"lib/a.md"}


def test_without_paths_every_root(kb: KnowledgeBase, root: Path, tmp_path: Path) -> None:
    other = tmp_path / "single"
    other.mkdir()
    (other / "one.md").write_text("# One\n\nalone\n")
    (other / "two.md").write_text("# Two\n\nnot asked for\n")
    kb.ingest(root)
    kb.ingest(other / "one.md")
    with watched(kb) as heard:
        assert set(heard.kind("ready")[-1]["paths"]) == {str(root), str(other / "one.md")}
        (root / "a.md").write_text("# A\n\nfirst\n")
        heard.read("lib/a.md")
        (other / "one.md").write_text("# One\n\nchanged\n")
        heard.read("single/one.md")
    assert set(contents(kb.path)) == {"lib/a.md", "single/one.md"}


def test_ignore_files_count_at_once(kb: KnowledgeBase, root: Path) -> None:
    (root / "a.md").write_text("# A\n\nfirst\n")
    with watched(kb, root) as heard:
        heard.kind("ready")
        (root / ".kbignore").write_text("a.md\n")
        heard.until(lambda event: bool(event["report"] and event["report"]["removed"]))
        (root / ".kbignore").unlink()
        heard.read("lib/a.md")


@posix
def test_a_store_that_is_called_by_another_name(root: Path) -> None:
    """Its path differs from the reported one; its own writes are still recognized."""
    (root.parent / "link").symlink_to(root)
    with KnowledgeBase(root.parent / "link" / "kb.sqlite") as kb:
        kb.ingest(root)
        watcher = Watcher(kb, [str(root)])
        watcher._targets = inspect_all([os.path.realpath(root)])
        watcher._rescan_at = math.inf
        assert not watcher._handle_changes([os.path.realpath(root / "kb.sqlite-wal")])
        assert watcher._handle_changes([os.path.realpath(root / "new.md")])


def test_a_store_inside_a_watched_folder(root: Path) -> None:
    with KnowledgeBase(root / "kb.sqlite") as kb, watched(kb, root) as heard:
        heard.kind("ready")
        (root / "a.md").write_text("# A\n\nfirst\n")
        seen = heard.read("lib/a.md")
        (root / "b.md").write_text("# B\n\nsecond\n")
        seen += heard.read("lib/b.md")
    # Its own writes to the store do not count as changes: only the written file was read.
    assert [event["event"] for event in seen] == ["batch", "batch"]


def test_everything_is_scanned_again_at_intervals(kb: KnowledgeBase, root: Path) -> None:
    """A rescan finds changes that the system did not report."""
    with watched(kb, root, rescan_s=0.001) as heard:
        heard.kind("ready")
        assert heard.kind("batch")[-1]["paths"] == (str(root),)


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "watched_s"),
    [(PermissionError(13, "denied"), FREQUENT_RESCAN_S), (OSError(28, "limit"), 0)],
)
def test_folders_that_cannot_be_watched(
    kb: KnowledgeBase,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: OSError,
    watched_s: float,
) -> None:
    """When it is set to continue, the library skips all folders after one that it may not read, and
    reports no limit. A test cannot reach the system's own limit."""

    def watch(*_folders: str, ignore_permission_denied: bool, **_: object) -> Iterator[object]:
        if not ignore_permission_denied:
            raise error
        yield set()

    monkeypatch.setattr("watchfiles.watch", watch)
    watcher = Watcher(kb, [str(root)])
    if not watched_s:
        with pytest.raises(WatchFailed, match="limit"):
            next(watcher._notifications([str(root)]))
        return
    assert next(watcher._notifications([str(root)])) == []
    assert watcher._rescan_s == watched_s


def test_a_path_that_never_was(kb: KnowledgeBase, tmp_path: Path) -> None:
    with pytest.raises(PathMissing):
        Watcher(kb, [str(tmp_path / "nowhere")]).run()


def test_nothing_to_watch(kb: KnowledgeBase) -> None:
    with pytest.raises(InvalidRequest, match="nothing has been ingested"):
        Watcher(kb).run()


def test_a_bad_file_stops_nothing(kb: KnowledgeBase, root: Path) -> None:
    with watched(kb, root) as heard:
        heard.kind("ready")
        (root / "bad.pdf").write_bytes(b"%PDF-1.7\nnothing")
        (root / "good.md").write_text("# Good\n\nfine\n")
        heard.read("lib/good.md")
    assert set(contents(kb.path)) == {"lib/good.md"}


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="file names that are any bytes")
def test_a_name_that_is_not_utf8_stops_nothing(kb: KnowledgeBase, root: Path) -> None:
    with watched(kb, root) as heard:
        heard.kind("ready")
        (root / os.fsdecode(b"\xff.md")).write_text("# Odd\n\nits name is bytes\n")
        heard.until(lambda _: kb.status()["documents"] == 1)
        (root / os.fsdecode(b"\xfe.md")).write_text("# Another\n\nits name, too\n")
        heard.until(lambda _: kb.status()["documents"] == 2)
        (root / "after.md").write_text("# After\n\nstill watched\n")
        heard.read("lib/after.md")
    assert kb.status()["documents"] == 3


@pytest.mark.skipif(sys.platform != "linux", reason="file names that are any bytes")
def test_a_folder_whose_name_is_not_utf8_is_scanned(
    kb: KnowledgeBase, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb.watch.watcher.FREQUENT_RESCAN_S", 0.1)
    (root / os.fsdecode(b"bad\xff")).mkdir()
    with watched(kb, root) as heard:
        heard.kind("ready")
        (root / "after.md").write_text("# After\n\nstill read\n")
        heard.read("lib/after.md")


def begin(store: Path, *paths: Path) -> Process:
    process = Process(store, *paths)
    process.kind("ready")
    return process


@posix
@pytest.mark.parametrize(
    ("how", "status", "said"), [(signal.SIGINT, 130, "stopped\n"), (signal.SIGTERM, 0, "")]
)
def test_the_command_ends_cleanly(
    store: Path, root: Path, how: int, status: int, said: str
) -> None:
    process = begin(store, root)
    socket = Path(f"{store}{socket_client.SUFFIX}")
    assert socket.is_socket()  # serves `kb search`
    (root / "a.md").write_text("# A\n\nfirst\n")
    process.read("lib/a.md")
    assert process.end(how) == (status, said)
    assert not socket.exists()


@posix
@pytest.mark.slow
def test_sigterm_ends_it_between_two_files(store: Path, root: Path) -> None:
    """Also during the first scan; the next start reads the rest."""
    for number in range(MANY):
        (root / f"{number}.md").write_text(f"# {number}\n\n" + "A paragraph of words.\n\n" * 40)
    with KnowledgeBase(store, encoder="none") as kb:
        kb.create()
        process = Process(store, root)
        while not kb.documents(limit=1):
            threading.Event().wait(0.01)
        status, _ = process.end(signal.SIGTERM)
        assert status == 0
        assert "ready" not in [event["event"] for event in process.kind("stopped")]
        assert 0 < len(kb.documents()) < MANY


@posix
def test_killed_and_started_again(store: Path, root: Path) -> None:
    (root / "a.md").write_text("# A\n\nfirst\n")
    begin(store, root).end(signal.SIGKILL)
    (root / "a.md").rename(root / "b.md")
    (root / "c.md").write_text("# C\n\nmissed\n")
    process = Process(store, root)
    report = process.kind("ready")[-1]["report"]
    assert report["renamed"] == [{"before": "lib/a.md", "after": "lib/b.md"}]
    assert report["added"] == ["lib/c.md"]
    process.end(signal.SIGTERM)
    assert contents(store) == fresh(root)


def test_events_in_words(store: Path, root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from kb.cli.watch import _write_event
    from kb.errors import StoreBusy
    from kb.types import IngestReport
    from kb.watch.watcher import Event

    for event in (
        Event("ready", ("/lib",), IngestReport(missing_roots=("/lib",))),
        Event("batch", ("/lib",), IngestReport(added=("lib/a.md",), removed=("x", "y"))),
        Event("batch", ("/lib",), IngestReport(unchanged=3)),
        Event("missing", ("/lib",)),
        Event("failed", error=StoreBusy("locked", "wait"), retry_s=2.0),
        Event("embedded", embedded=3),
    ):
        _write_event(event)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "watching /lib: up to date, missing: /lib",
        "1 added, 2 removed",
        "missing: /lib; its documents are kept",
        "failed, retrying in 2 s: locked",
        "embedded 3 passages",
    ]


def test_waiting_ends_when_the_watcher_has_ended() -> None:
    heard = Heard()
    heard.events.put(None)
    with pytest.raises(AssertionError, match="has ended"):
        heard.kind("ready")


# --- replaced files and folders -------------------------------------------------------------------


@posix
def test_a_folder_that_a_link_has_replaced_is_read_by_the_one_above(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "sub").symlink_to(outside)
    changed = [str(root / "sub" / "deep" / "x.md"), str(root / "sub" / "y.md")]
    assert folders_to_read(changed, [str(root)], hidden=False, store="/none") == [str(root)]


@posix
def test_changes_reported_under_a_link_are_read_where_they_are(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "link").symlink_to(root)
    changed = [str(root / "sub" / "link" / "new.md")]
    assert folders_to_read(changed, [str(root)], hidden=False, store="/none") == [str(root)]


@posix
def test_a_moved_folder_with_a_link_to_the_watched_one(kb: KnowledgeBase, root: Path) -> None:
    """The system then reports changes in the watched folder under the link."""
    with watched(kb, root) as heard:
        heard.kind("ready")
        (root / "a" / "d").mkdir(parents=True)
        (root / "a" / "d" / "x.md").write_text("# X\n\ntext\n")
        heard.read("lib/a/d/x.md")
        (root / "a" / "d" / "link").symlink_to(root)
        (root / "a" / "d" / "y.md").write_text("# Y\n\ntext\n")
        heard.read("lib/a/d/y.md")
        (root / "a" / "d").rename(root / "moved")
        heard.read("lib/moved/x.md")
        (root / "new.md").write_text("# New\n\ntext\n")
        heard.read("lib/new.md")


@posix
def test_nothing_behind_a_link_that_replaces_a_folder_is_read(
    kb: KnowledgeBase, root: Path
) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("# Theirs\n\nnobody asked for this\n")
    (root / "sub").mkdir()
    (root / "sub" / "x.md").write_text("# Ours\n\ntext\n")
    with watched(kb, root) as heard:
        heard.kind("ready")
        (root / "sub" / "x.md").write_text("# Ours\n\nother text\n")
        (root / "sub").rename(root / "aside")
        (root / "sub").symlink_to(outside)
        (root / "last.md").write_text("# Last\n\ntext\n")
        heard.read("lib/last.md")
    assert [one.name for one in kb.roots()] == ["lib"]
    assert kb.search("nobody").returned == 0


@posix
def test_a_pipe_or_a_huge_file_blocks_nothing(kb: KnowledgeBase, root: Path) -> None:
    for name in ("a.md", "b.md"):
        (root / name).write_text(f"# {name}\n\ntext\n")
    with watched(kb, root) as heard:
        heard.kind("ready")
        (root / "a.md").unlink()
        os.mkfifo(root / "a.md")
        os.truncate(root / "b.md", 3 << 30)
        (root / "last.md").write_text("# Last\n\ntext\n")
        heard.read("lib/last.md")


def test_messages_in_the_folders_of_a_maildir_are_relevant(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert is_relevant(os.path.join(root, ".Sent", "cur", "1:2,S"), root, hidden=False)
    assert not is_relevant(os.path.join(root, ".Sent", "maildirfolder"), root, hidden=False)
    assert not is_relevant(os.path.join(root, ".git", "cur", "1"), root, hidden=True)
    assert is_relevant(os.path.join(root, "a", ".kbignore"), root, hidden=False)
