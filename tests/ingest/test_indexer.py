from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kb.config import ChunkConfig
from kb.errors import DiskFull, PathMissing
from kb.ingest import parser_pool, walk
from kb.ingest.file_entry import FileEntry
from kb.ingest.indexer import Progress
from kb.ingest.secret_files import BY_NAME
from kb.regular_files import open_folder
from kb.store.sqlite.connection import Database
from kb.types import ChunkChanges, FileNote
from tests.ingest.conftest import Library

# --- a folder -------------------------------------------------------------------------------------


def test_a_folder_becomes_a_root(library: Library) -> None:
    library.put("a.md", "# Title\n\ntext\n")
    library.put("sub/b.txt")
    library.put("c.py", "def f():\n    pass\n")
    report = library.ingest("")
    assert report.added == ("library/a.md", "library/c.py", "library/sub/b.txt")
    assert report.chunks_added == 3
    documents = library.documents()
    assert [document.type for document in documents.values()] == ["markdown", "code", "note"]
    assert documents["library/a.md"].title == "Title"
    assert documents["library/c.py"].lang == "python"
    (root,) = library.store.catalog.roots()
    assert (root.path, root.whole) == (str(library.folder), True)


def test_nothing_changed(library: Library, opened: list[str]) -> None:
    library.put("a.md")
    library.ingest("")
    opened.clear()
    report = library.ingest("")
    assert (report.added, report.changed, report.unchanged) == ((), (), 1)
    assert opened == []


def test_no_paths_refresh_all_roots(library: Library) -> None:
    library.put("one/a.md")
    library.put("two/b.md")
    library.ingest("one", "two")
    library.put("one/a.md", "other text\n")
    library.put("two/c.md")
    report = library.ingest()
    assert (report.added, report.changed, report.unchanged) == (("two/c.md",), ("one/a.md",), 1)


def test_a_changed_file(library: Library) -> None:
    library.put("a.md", "# One\n\nfirst\n\n# Two\n\nsecond\n")
    library.ingest("")
    library.put("a.md", "# One\n\nfirst\n\n# Two\n\nchanged\n", hours_ago=1)
    report = library.ingest("")
    assert report.changed == ("library/a.md",)
    assert (report.chunks_added, report.chunks_kept, report.chunks_removed) == (1, 1, 1)
    assert "changed" in library.text("library/a.md")


def test_a_removed_file(library: Library) -> None:
    library.put("a.md")
    library.put("b.md")
    library.ingest("")
    (library.folder / "b.md").unlink()
    assert library.ingest("").removed == ("library/b.md",)
    assert list(library.documents()) == ["library/a.md"]


@pytest.mark.parametrize("change", ["ignored", "empty", "binary", "hidden"])
def test_what_is_no_longer_wanted_goes(library: Library, change: str) -> None:
    library.put("a.md")
    library.ingest("")
    match change:
        case "ignored":
            library.put(".gitignore", "*.md\n")
        case "empty":
            library.put("a.md", b"", hours_ago=1)
        case "binary":
            library.put("a.md", b"a\0\1", hours_ago=1)
        case "hidden":
            (library.folder / "a.md").rename(library.folder / ".a.md")
    assert library.ingest("").removed == ("library/a.md",)


def test_a_touched_file_is_hashed_once(library: Library, opened: list[str]) -> None:
    library.put("a.md")
    library.ingest("")
    library.age("a.md", hours_ago=1)
    opened.clear()
    assert library.ingest("").unchanged == 1
    assert opened == ["a.md"]
    assert library.ingest("").unchanged == 1
    assert opened == ["a.md"]


def test_a_file_changed_within_a_tick_of_the_clock_is_noticed(library: Library) -> None:
    library.put("a.md", "first text\n", hours_ago=0)
    library.ingest("")
    library.put("a.md", "other text\n", hours_ago=0)  # the same size and time
    assert library.ingest("").changed == ("library/a.md",)


def test_a_fresh_file_is_hashed_until_its_time_can_be_trusted(
    library: Library, opened: list[str]
) -> None:
    library.put("a.md", hours_ago=0)
    for seconds, reads in [(0, 1), (1, 2), (3, 3), (4, 3)]:
        library.clock.seconds += seconds
        library.ingest("")
        assert len(opened) == reads


def test_a_new_chunker_reads_everything_again(library: Library) -> None:
    library.put("a.md", "one\n\ntwo\n")
    library.ingest("")
    library.config = replace(library.config, chunk=ChunkConfig(max_chars=5))
    report = library.ingest("")
    assert report.changed == ("library/a.md",)
    assert len(library.store.catalog.chunks(library.documents()["library/a.md"].doc_id)) == 2


def test_force_reads_everything_again(library: Library) -> None:
    library.put("a.md")
    library.ingest("")
    assert library.ingest("", force=True).changed == ("library/a.md",)


# --- parts, single files, nested roots ------------------------------------------------------------


def test_a_folder_inside_a_root_is_a_part_of_it(library: Library) -> None:
    library.put("a.md")
    library.put("sub/b.md")
    library.put("sub/gone.md")
    library.ingest("")
    library.put("a.md", "changed\n")
    library.put("sub/b.md", "changed\n")
    (library.folder / "sub" / "gone.md").unlink()
    report = library.ingest("sub")
    assert (report.changed, report.removed) == (("library/sub/b.md",), ("library/sub/gone.md",))
    assert len(library.store.catalog.roots()) == 1
    assert library.ingest("sub/b.md").unchanged == 1


def test_a_single_file_makes_its_folder_a_root_of_single_files(library: Library) -> None:
    library.put("a.md")
    library.put("b.md")
    assert library.ingest("a.md").added == ("library/a.md",)
    (root,) = library.store.catalog.roots()
    assert not root.whole
    library.put("a.md", "changed\n")
    report = library.ingest()
    assert (report.added, report.changed) == ((), ("library/a.md",))
    (library.folder / "a.md").unlink()
    assert library.ingest().removed == ("library/a.md",)


def test_single_files_of_one_folder_share_a_root(library: Library) -> None:
    library.put("a.md")
    library.put("sub/b.md")
    library.ingest("a.md")
    assert library.ingest("sub/b.md").added == ("library/sub/b.md",)
    assert len(library.store.catalog.roots()) == 1


def test_a_folder_of_single_files_can_be_asked_for_as_a_whole(library: Library) -> None:
    library.put("a.md")
    library.put("b.md")
    library.ingest("a.md")
    report = library.ingest("")
    assert (report.added, report.unchanged) == (("library/b.md",), 1)
    (root,) = library.store.catalog.roots()
    assert root.whole


def test_a_single_file_stays_where_it_is_when_a_root_grows_around_it(library: Library) -> None:
    library.put("sub/a.md")
    library.put("sub/b.md")
    library.ingest("sub/a.md")
    assert library.ingest("").added == ("library/sub/b.md",)
    assert list(library.documents()) == ["library/sub/b.md", "sub/a.md"]
    library.put("sub/a.md", "changed\n")
    assert library.ingest("sub/a.md").changed == ("sub/a.md",)
    library.put("sub/a.md", "changed again\n")
    assert library.ingest("").changed == ("sub/a.md",)
    (library.folder / "sub" / "a.md").unlink()
    assert library.ingest("sub").removed == ("sub/a.md",)


def test_a_new_file_in_a_whole_root_belongs_to_it(library: Library) -> None:
    library.put("sub/a.md")
    library.ingest("sub/a.md")
    library.ingest("")
    library.put("sub/c.md")
    assert library.ingest("sub/c.md").added == ("library/sub/c.md",)


def test_a_file_that_cannot_be_taken_leaves_no_root_behind(library: Library) -> None:
    library.put("a.gif", b"GIF89a\0")
    report = library.ingest("a.gif")
    assert report.skipped == (FileNote("library/a.gif", "binary file .gif"),)
    assert library.store.catalog.roots() == []


def test_nested_roots(library: Library) -> None:
    library.put("inner/a.md")
    library.ingest("inner")
    library.put("b.md")
    report = library.ingest("")
    assert (report.added, report.unchanged) == (("library/b.md",), 1)
    library.put("inner/a.md", "changed\n")
    assert library.ingest("").changed == ("inner/a.md",)
    library.put("inner/c.md")
    assert library.ingest("inner/c.md").added == ("inner/c.md",)
    assert list(library.documents()) == ["inner/a.md", "inner/c.md", "library/b.md"]


def test_paths_that_include_each_other(library: Library) -> None:
    library.put("sub/a.md")
    assert library.ingest("sub/a.md", "sub", "", "sub").added == ("library/sub/a.md",)
    assert len(library.store.catalog.roots()) == 1
    assert library.ingest("", "sub", "sub/a.md", "").unchanged == 1


def test_a_folder_includes_the_single_files_that_a_root_above_has_in_it(library: Library) -> None:
    library.put("a.md")
    library.put("sub/b.md")
    library.put("sub/c.md")
    library.ingest("a.md")
    library.ingest("sub/b.md")
    library.put("sub/b.md", "changed\n")
    report = library.ingest("sub")
    assert (report.added, report.changed) == (("sub/c.md",), ("library/sub/b.md",))


def test_a_link_as_an_argument_is_what_it_leads_to(library: Library, tmp_path: Path) -> None:
    library.put("a.md")
    (tmp_path / "link").symlink_to(library.folder)
    assert library.ingest(tmp_path / "link").added == ("library/a.md",)
    assert library.ingest("").unchanged == 1


def test_a_file_asked_for_by_name_in_a_root_that_ignores_it(library: Library) -> None:
    library.put("a.log")
    library.put(".gitignore", "*.log\n")
    library.ingest("")
    report = library.ingest("a.log")
    assert report.skipped == (FileNote("library/a.log", "ignored by .gitignore"),)


def test_a_secret_asked_for_by_name(library: Library) -> None:
    library.put("server.key")
    library.put(".ssh/config")
    report = library.ingest("server.key", ".ssh", ".ssh/config")
    assert {note.reason for note in report.skipped} == {BY_NAME}
    assert len(report.skipped) == 3
    assert library.store.catalog.roots() == []


def test_a_pipe_asked_for_by_name(library: Library) -> None:
    os.mkfifo(library.folder / "pipe.md")
    report = library.ingest("pipe.md")
    assert [note.reason for note in report.skipped] == ["not a regular file"]


# --- missing parts --------------------------------------------------------------------------------


def test_a_path_that_is_nowhere_is_an_error(library: Library) -> None:
    library.put("a.md")
    with pytest.raises(PathMissing, match=r"gone\.md"):
        library.ingest("", "gone.md")
    assert library.documents() == {}


def test_a_path_with_a_nul_is_an_error(library: Library) -> None:
    with pytest.raises(PathMissing):
        library.indexer.ingest(["a\0b"])


def test_a_root_that_is_missing_removes_nothing(library: Library) -> None:
    library.put("a.md")
    library.ingest("")
    library.folder.rename(library.folder.with_name("away"))
    for report in (library.ingest(), library.ingest(""), library.ingest("a.md")):
        assert report.removed == ()
        assert len(report.missing_roots) == 1
    assert list(library.documents()) == ["library/a.md"]


def test_the_other_roots_are_refreshed_all_the_same(library: Library) -> None:
    library.put("one/a.md")
    library.put("two/b.md")
    library.ingest("one", "two")
    (library.folder / "one").rename(library.folder / "away")
    library.put("two/c.md")
    report = library.ingest()
    assert report.added == ("two/c.md",)
    assert report.missing_roots == (str(library.folder / "one"),)


def on_another_device(library: Library, glob: str) -> None:
    """Pretend that the documents were read from a file system that is not mounted now."""
    with library.store._database.writing() as connection:
        connection.execute("UPDATE documents SET device = -1 WHERE path GLOB ?", (glob,))


def test_an_unmounted_root_removes_nothing(library: Library) -> None:
    library.put("a.md")
    library.ingest("")
    on_another_device(library, "*")
    (library.folder / "a.md").unlink()
    library.put(".placeholder")  # a bare mount point need not be empty
    report = library.ingest()
    assert (report.removed, report.missing_roots) == ((), (str(library.folder),))


def test_an_unmounted_folder_below_a_root_removes_nothing(library: Library) -> None:
    library.put("a.md")
    library.put("usb/b.md")
    library.put("usb/deep/c.md")
    library.ingest("")
    on_another_device(library, "usb/*")
    for path in ("a.md", "usb/b.md", "usb/deep/c.md"):
        (library.folder / path).unlink()
    (library.folder / "usb" / "deep").rmdir()
    report = library.ingest()
    assert report.removed == ("library/a.md",)
    assert report.missing_roots == (str(library.folder / "usb"),)


def test_what_is_reported_as_kept_is_kept(library: Library) -> None:
    """One disk after another was mounted at the folder, and now there is a third one."""
    library.put("a.md")
    library.put("usb/b.md")
    library.put("usb/c.md")
    library.ingest("")
    on_another_device(library, "usb/b.md")
    for path in ("a.md", "usb/b.md", "usb/c.md"):
        (library.folder / path).unlink()
    report = library.ingest()
    assert report.removed == ("library/a.md",)
    assert report.missing_roots == (str(library.folder / "usb"),)
    assert set(library.documents()) == {"library/usb/b.md", "library/usb/c.md"}


def test_a_file_system_that_is_counted_anew_is_no_other(library: Library) -> None:
    library.put("a.md")
    library.put("b.md")
    library.ingest("")
    on_another_device(library, "*")
    (library.folder / "b.md").unlink()
    assert library.ingest().removed == ("library/b.md",)


def test_files_that_changed_places_are_noticed(library: Library) -> None:
    """The files have the same size and time, as after unpacking an archive."""
    one, two = library.put("1.txt", "AAAA alpha"), library.put("2.txt", "BBBB alpha")
    library.ingest("")
    between = library.folder / "3.txt"
    one.rename(between)
    two.rename(one)
    between.rename(two)
    renamed = {(one.before, one.after) for one in library.ingest().renamed}
    assert renamed == {("library/1.txt", "library/2.txt"), ("library/2.txt", "library/1.txt")}
    assert "BBBB" in library.text("library/1.txt")


def test_dates_follow_the_time_of_a_file_that_was_touched(library: Library) -> None:
    library.put("a.md", hours_ago=48)
    library.put("b.md", "---\ndate: 2026-01-02\n---\ntext\n", hours_ago=48)
    library.ingest("")
    library.age("a.md", 3)
    library.age("b.md", 3)
    assert library.ingest().unchanged == 2
    documents = library.documents()
    assert documents["library/a.md"].date == "2026-05-28T17:26:40Z"
    assert documents["library/b.md"].date == "2026-01-02"
    assert documents["library/b.md"].updated_at == "2026-05-28T17:26:40Z"


def test_a_deleted_file_that_is_named_goes(library: Library) -> None:
    library.put("a.md")
    library.put("sub/b.md")
    library.put("sub/c.md")
    library.ingest("")
    (library.folder / "a.md").unlink()
    assert library.ingest("a.md").removed == ("library/a.md",)
    (library.folder / "sub" / "b.md").unlink()
    (library.folder / "sub" / "c.md").unlink()
    (library.folder / "sub").rmdir()
    assert library.ingest("sub").removed == ("library/sub/b.md", "library/sub/c.md")


def test_an_emptied_root_on_the_same_device_is_empty(library: Library) -> None:
    library.put("a.md").unlink()
    library.put("b.md")
    library.ingest("")
    (library.folder / "b.md").unlink()
    assert library.ingest().removed == ("library/b.md",)


def test_what_lies_below_an_unreadable_folder_is_kept(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.put("a.md")
    library.put("sub/b.md")
    library.put("subway/c.md")
    library.ingest("")
    (library.folder / "a.md").unlink()
    (library.folder / "subway" / "c.md").unlink()

    def failing(root: str, inside: str, **options: bool) -> object:
        if inside == "sub":
            raise PermissionError(13, "Permission denied")
        return open_folder(root, inside, **options)

    monkeypatch.setattr(walk, "open_folder", failing)
    report = library.ingest("")
    assert report.removed == ("library/a.md", "library/subway/c.md")
    assert report.skipped == (FileNote("library/sub", "Permission denied"),)


def test_a_file_that_vanishes_before_it_is_read(library: Library) -> None:
    library.put("a.md")
    library.ingest("")
    library.put("a.md", "changed\n")

    def vanish(now: Progress) -> None:
        if now.stage == "read":
            (library.folder / "a.md").unlink(missing_ok=True)

    report = library.ingest("", on_event=vanish)
    assert (report.failed, report.removed) == ((), ())
    assert "vanished" in report.skipped[0].reason
    assert library.ingest("").removed == ("library/a.md",)


# --- dry runs, progress, failures of the store ----------------------------------------------------


def test_a_dry_run_says_the_same_and_does_nothing(library: Library) -> None:
    for name in ("same.md", "changed.md", "touched.md", "gone.md"):
        library.put(name)
    library.ingest("")
    library.put("changed.md", "other text\n")
    library.age("touched.md", hours_ago=2)
    library.put("new.md", "new text\n")
    library.put("empty.md", b"")
    (library.folder / "gone.md").unlink()
    version = library.store.catalog.version()
    dry = library.ingest("", dry_run=True)
    assert library.store.catalog.version() == version
    done = library.ingest("")
    assert dry.dry_run
    assert not done.dry_run
    assert done.added == ("library/new.md",)
    outcome = replace(done, chunks_added=0, chunks_removed=0, dry_run=True, seconds=dry.seconds)
    assert dry == outcome


def test_a_dry_run_finds_out_what_a_real_one_would(library: Library) -> None:
    library.put("over.md", "---\nttl: 1h\n---\nlong over\n")
    library.put("empty.md", "---\ntitle: Nothing\n---\n")
    library.put("odd.md", "---\ntags: [\n---\ntext\n")
    library.put("far.txt", b"fine words\n" * 500_000 + b"gr\x90\xffe\n")
    library.put("fine.md")
    dry = library.ingest("", dry_run=True)
    done = library.ingest("")
    assert (dry.added, dry.skipped, dry.failed) == (done.added, done.skipped, done.failed)
    assert dry.warnings == done.warnings
    assert dry.added == ("library/fine.md", "library/odd.md")
    assert [note.path for note in dry.skipped] == ["library/empty.md", "library/over.md"]
    assert [note.path for note in dry.failed] == ["library/far.txt"]


def test_a_dry_run_makes_no_root(library: Library) -> None:
    library.put("a.md")
    assert library.ingest("", dry_run=True).added == ("library/a.md",)
    assert library.ingest("a.md", dry_run=True).added == ("library/a.md",)
    assert library.store.catalog.roots() == []


def test_progress(library: Library) -> None:
    library.put("a.md")
    library.put("b.md")
    events: list[Progress] = []
    library.indexer.ingest([library.folder], on_event=events.append)
    assert events == [
        Progress("walk", 0, 1, str(library.folder)),
        Progress("read", 0, 2, "library/a.md"),
        Progress("read", 1, 2, "library/b.md"),
        Progress("read", 2, 2),
    ]


def test_an_interruption_leaves_whole_documents(library: Library) -> None:
    library.put("a.md")
    library.put("b.md")

    def interrupt(event: Progress) -> None:
        if event.path == "library/b.md":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        library.indexer.ingest([library.folder], on_event=interrupt)
    assert list(library.documents()) == ["library/a.md"]
    assert library.ingest("").added == ("library/b.md",)


def test_a_store_that_cannot_be_written_ends_the_run(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.put("a.md")

    def full(*_: object, **__: object) -> ChunkChanges:
        raise DiskFull("the disk is full")

    monkeypatch.setattr(library.store.catalog, "write_documents", full)
    with pytest.raises(DiskFull):
        library.ingest("")


def test_no_parser_is_waited_for_inside_a_transaction(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other writers would wait for it too."""
    depth, waits = 0, list[int]()
    writing, receive = Database.writing, parser_pool.Parsing._receive

    @contextmanager
    def counted(self: Database) -> Iterator[Any]:
        nonlocal depth
        depth += 1
        try:
            with writing(self) as connection:
                yield connection
        finally:
            depth -= 1

    def recorded(self: parser_pool.Parsing) -> Any:
        waits.append(depth)
        return receive(self)

    monkeypatch.setattr(Database, "writing", counted)
    monkeypatch.setattr(parser_pool.Parsing, "_receive", recorded)
    monkeypatch.setattr(parser_pool, "_BUFFER_BYTES", 1000)  # the rest is written to a file
    sections = [f"# Section {number}\n\nThe gateway waits.\n" for number in range(8_000)]
    library.put("long.md", "\n".join(sections))
    library.put("other.md")
    library.ingest(library.folder)
    assert len(waits) > 2  # several messages of the long file
    assert set(waits) == {0}
    assert library.store.catalog.counts().chunks == 8_001


@pytest.mark.parametrize("seconds", [15_000_000_000, -15_000_000_000])
def test_a_time_that_the_store_cannot_hold(
    library: Library, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """Some file systems have years after 2262."""
    library.put("a.md")
    built = FileEntry.from_stat

    class Info:
        def __init__(self, info: os.stat_result) -> None:
            self.info = info

        def __getattr__(self, name: str) -> Any:
            late = name in ("st_mtime_ns", "st_ctime_ns")
            return seconds * 10**9 if late else getattr(self.info, name)

    def late(path: str, disk_path: str, info: Any) -> FileEntry:
        return built(path, disk_path, Info(info))  # type: ignore[arg-type]

    monkeypatch.setattr(FileEntry, "from_stat", late)
    assert library.ingest("").added == ("library/a.md",)
    assert library.ingest("").unchanged == 1
