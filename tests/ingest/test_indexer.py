from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kb.config import ChunkConfig
from kb.errors import DiskFull, InvalidRequest, PathMissing
from kb.ingest.indexer import Progress
from kb.ports import Written
from kb.types import Attributes, FileNote, IngestReport
from tests.ingest.conftest import Library
from tests.store.builders import check_integrity

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
    (root,) = library.store.roots()
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
    assert len(library.store.chunks_of(library.documents()["library/a.md"].doc_id)) == 2


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
    assert len(library.store.roots()) == 1
    assert library.ingest("sub/b.md").unchanged == 1


def test_a_single_file_makes_its_folder_a_root_of_single_files(library: Library) -> None:
    library.put("a.md")
    library.put("b.md")
    assert library.ingest("a.md").added == ("library/a.md",)
    (root,) = library.store.roots()
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
    assert len(library.store.roots()) == 1


def test_a_folder_of_single_files_can_be_asked_for_as_a_whole(library: Library) -> None:
    library.put("a.md")
    library.put("b.md")
    library.ingest("a.md")
    report = library.ingest("")
    assert (report.added, report.unchanged) == (("library/b.md",), 1)
    (root,) = library.store.roots()
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
    library.put("a.png", b"\x89PNG\0")
    report = library.ingest("a.png")
    assert report.skipped == (FileNote("library/a.png", "binary file .png"),)
    assert library.store.roots() == []


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
    assert len(library.store.roots()) == 1
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
    assert {note.reason for note in report.skipped} == {"may hold secrets"}
    assert len(report.skipped) == 3
    assert library.store.roots() == []


def test_a_pipe_asked_for_by_name(library: Library) -> None:
    os.mkfifo(library.folder / "pipe.md")
    report = library.ingest("pipe.md")
    assert [note.reason for note in report.skipped] == ["not a regular file"]


# --- what is missing ------------------------------------------------------------------------------


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
    """As if the documents had been read from a file system that is not mounted now."""
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


def test_a_file_system_that_is_counted_anew_is_no_other(library: Library) -> None:
    library.put("a.md")
    library.put("b.md")
    library.ingest("")
    on_another_device(library, "*")
    (library.folder / "b.md").unlink()
    assert library.ingest().removed == ("library/b.md",)


def test_files_that_changed_places_are_noticed(library: Library) -> None:
    """Of the same size and time, as archives unpack them."""
    one, two = library.put("1.txt", "AAAA alpha"), library.put("2.txt", "BBBB alpha")
    library.ingest("")
    between = library.folder / "3.txt"
    one.rename(between)
    two.rename(one)
    between.rename(two)
    assert library.ingest().changed == ("library/1.txt", "library/2.txt")


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
    scandir = os.scandir

    def failing(path: str) -> object:
        if path.endswith("/sub"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    report = library.ingest("")
    assert report.removed == ("library/a.md", "library/subway/c.md")
    assert report.skipped == (FileNote("library/sub", "Permission denied"),)


def test_a_file_that_vanishes_before_it_is_read(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.put("a.md")
    library.ingest("")
    library.put("a.md", "changed\n")
    from kb.ingest import indexer, load

    def vanishing(path: str, *rest: object) -> object:
        os.unlink(path)
        return load.load(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(indexer, "load", vanishing)
    report = library.ingest("")
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
    version = library.store.index_version()
    dry = library.ingest("", dry_run=True)
    assert library.store.index_version() == version
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
    library.put("far.txt", b"fine words\n" * 500_000 + b"gr\xf6\xdfe\n")
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
    assert library.store.roots() == []


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

    def full(*_: object, **__: object) -> Written:
        raise DiskFull("the disk is full")

    monkeypatch.setattr(library.store, "write_document", full)
    with pytest.raises(DiskFull):
        library.ingest("")


# --- attributes -----------------------------------------------------------------------------------


def test_front_matter_is_stored(library: Library) -> None:
    library.put(
        "a.md",
        "---\ntitle: Said\ntags: [x, y]\nkind: lesson\nscope: project\ntrust: secondary\n"
        "lang: de\ndate: 2026-01-02\nttl: 300d\nrating: 5\n---\ntext\n",
    )
    library.ingest("")
    document = library.documents()["library/a.md"]
    assert (document.title, document.tags, document.kind) == ("Said", ("x", "y"), "lesson")
    assert (document.scope, document.trust, document.lang) == ("project", "secondary", "de")
    assert (document.date, document.expires_at) == ("2026-01-02", "2026-10-29T00:00:00Z")
    assert document.metadata == {"rating": 5}


def test_dates_without_front_matter(library: Library) -> None:
    library.put("a.md", hours_ago=1)
    library.put("2026-01-02 call.md", hours_ago=1)
    library.put("2026-02-31.md", hours_ago=1)
    library.ingest("")
    documents = library.documents()
    hour_ago = "2026-05-28T19:26:40Z"
    plain, dated, impossible = (
        documents[f"library/{name}.md"] for name in ("a", "2026-01-02 call", "2026-02-31")
    )
    assert (plain.date, plain.created_at, plain.updated_at) == (hour_ago, hour_ago, hour_ago)
    assert (dated.date, dated.created_at) == ("2026-01-02", "2026-01-02T00:00:00Z")
    assert dated.updated_at == hour_ago
    assert impossible.date == hour_ago


# --- notes ----------------------------------------------------------------------------------------


def test_a_note(library: Library) -> None:
    written = library.indexer.note("first line\r\n\r\nmore\n", Attributes(tags=("x",)))
    document = library.store.documents_by_id([written.doc_id])[written.doc_id]
    assert document.doc_path == f"note:{written.doc_id}"
    assert (document.title, document.type, document.tags) == ("first line", "note", ("x",))
    assert document.date == "2026-05-28T20:26:40Z"
    assert library.store.body(written.doc_id) == "first line\n\nmore\n"
    (chunk,) = library.store.chunks_of(written.doc_id)
    assert chunk.text == "first line\n\nmore"


def test_the_same_note_twice_is_two_notes(library: Library) -> None:
    assert library.indexer.note("text").doc_id != library.indexer.note("text").doc_id


def test_what_is_asked_for_goes_before_what_a_note_says(library: Library) -> None:
    text = "---\ntitle: Said\ntags: [y]\nkind: lesson\n---\ntext\n"
    doc_id = library.indexer.note(text, Attributes(title="Asked", tags=("x",))).doc_id
    document = library.store.documents_by_id([doc_id])[doc_id]
    assert (document.title, document.tags, document.kind) == ("Asked", ("x", "y"), "lesson")


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_note_is_refused(library: Library, text: str) -> None:
    with pytest.raises(InvalidRequest):
        library.indexer.note(text)


def test_a_note_with_odd_characters(library: Library) -> None:
    written = library.indexer.note("a\0b \ud800 cafe\u0301")
    assert library.store.body(written.doc_id) == "a\ufffdb ? café"


def test_the_report_starts_empty(library: Library) -> None:
    report = library.ingest()
    assert report == IngestReport(seconds=report.seconds)


# --- long files -----------------------------------------------------------------------------------


def test_a_long_file_is_read_in_stretches(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same chunks, whether a text is read at once or piece by piece."""
    paragraphs = [f"Paragraph {number}. " + "Some words. " * (number % 40) for number in range(300)]
    library.put("a.txt", "---\ntitle: Long\n---\n\n" + "\n\n".join(paragraphs) + "\n")
    monkeypatch.setattr("kb.ingest.parsers.text.WINDOW_BYTES", 5_000)
    library.ingest("")
    (document,) = library.documents().values()
    assert document.title == "Long"
    chunks = library.store.chunks_of(document.doc_id)
    lines = (library.folder / "a.txt").read_text().split("\n")
    for chunk in chunks:
        span = chunk.spans[0]
        assert chunk.text == "\n".join(lines[(span.start or 0) - 1 : span.end])
    assert sum(chunk.text.count("Paragraph") for chunk in chunks) == 300


def test_a_bad_byte_in_a_long_file_leaves_what_was_known(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb.ingest.parsers.text.WINDOW_BYTES", 1_000)
    library.put("a.txt", "good words\n\n" * 500)
    library.ingest("")
    library.put("a.txt", b"good words\n\n" * 500 + b"\xff", hours_ago=1)
    report = library.ingest("")
    assert [note.path for note in report.failed] == ["library/a.txt"]
    (document,) = library.documents().values()
    assert sum(c.text.count("good") for c in library.store.chunks_of(document.doc_id)) == 500
    check_integrity(library.store)


def test_a_file_that_needs_a_missing_library_keeps_what_was_known(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("selectolax")
    library.put("a.html", "<html><body><p>some words here</p></body></html>")
    library.ingest("")
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    report = library.ingest("", force=True)
    assert [note.reason for note in report.skipped] == ["needs: pip install 'kb-search[html]'"]
    assert report.removed == ()
    assert list(library.documents()) == ["library/a.html"]
