from __future__ import annotations

import pytest

from kb.errors import InvalidRequest
from kb.types import Attributes, IngestReport
from tests.ingest.conftest import Library
from tests.ingest.plug_ins import plug_in
from tests.store.builders import check_integrity

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
    document = library.store.catalog.documents_by_id([written.doc_id])[written.doc_id]
    assert document.doc_path == f"note:{written.doc_id}"
    assert (document.title, document.type, document.tags) == ("first line", "note", ("x",))
    assert document.date == "2026-05-28T20:26:40Z"
    assert library.store.catalog.body(written.doc_id) == "first line\n\nmore\n"
    (chunk,) = library.store.catalog.chunks(written.doc_id)
    assert chunk.text == "first line\n\nmore"


def test_the_same_note_twice_is_two_notes(library: Library) -> None:
    assert library.indexer.note("text").doc_id != library.indexer.note("text").doc_id


def test_what_is_asked_for_goes_before_what_a_note_says(library: Library) -> None:
    text = "---\ntitle: Said\ntags: [y]\nkind: lesson\n---\ntext\n"
    doc_id = library.indexer.note(text, Attributes(title="Asked", tags=("x",))).doc_id
    document = library.store.catalog.documents_by_id([doc_id])[doc_id]
    assert (document.title, document.tags, document.kind) == ("Asked", ("x", "y"), "lesson")


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_note_is_refused(library: Library, text: str) -> None:
    with pytest.raises(InvalidRequest):
        library.indexer.note(text)


def test_a_note_with_odd_characters(library: Library) -> None:
    written = library.indexer.note("a\0b \ud800 cafe\u0301")
    assert library.store.catalog.body(written.doc_id) == "a\ufffdb ? café"


def test_the_report_starts_empty(library: Library) -> None:
    report = library.ingest()
    assert report == IngestReport(seconds=report.seconds)


# --- long files -----------------------------------------------------------------------------------


def test_a_long_file_is_read_in_stretches(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunks are the same, whether a text is read at once or in windows."""
    paragraphs = [f"Paragraph {number}. " + "Some words. " * (number % 40) for number in range(300)]
    library.put("a.txt", "---\ntitle: Long\n---\n\n" + "\n\n".join(paragraphs) + "\n")
    plug_in(monkeypatch, "ShortWindows")
    library.ingest("")
    (document,) = library.documents().values()
    assert document.title == "Long"
    chunks = library.store.catalog.chunks(document.doc_id)
    lines = (library.folder / "a.txt").read_text().split("\n")
    for chunk in chunks:
        span = chunk.spans[0]
        assert chunk.text == "\n".join(lines[(span.start or 0) - 1 : span.end])
    assert sum(chunk.text.count("Paragraph") for chunk in chunks) == 300


def test_a_bad_byte_in_a_long_file_leaves_what_was_known(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_in(monkeypatch, "ShortWindows")
    library.put("a.txt", "good words\n\n" * 500)
    library.ingest("")
    library.put("a.txt", b"good words\n\n" * 500 + b"\x90\xff", hours_ago=1)
    report = library.ingest("")
    assert [note.path for note in report.failed] == ["library/a.txt"]
    (document,) = library.documents().values()
    assert sum(c.text.count("good") for c in library.store.catalog.chunks(document.doc_id)) == 500
    check_integrity(library.store)


def test_a_file_that_needs_a_missing_library_keeps_what_was_known(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.put("a.html", "<html><body><p>some words here</p></body></html>")
    library.ingest("")
    plug_in(monkeypatch, "WithoutItsLibrary")
    report = library.ingest("", force=True)
    assert [note.reason for note in report.skipped] == [
        "to read it, run: pip install 'kb-search[html]'"
    ]
    assert report.removed == ()
    assert list(library.documents()) == ["library/a.html"]


def test_a_long_title_is_stored_once(library: Library) -> None:
    words = " ".join(f"word{number}" for number in range(20_000))
    body = "\n\n".join(["paragraph " * 100] * 200)
    library.put("a.eml", f"From: a@x.test\nSubject: {words}\n\n{body}\n")
    report = library.ingest("")
    document = library.documents()["library/a.eml"]
    assert len(document.title) <= 500
    assert "word19999" in library.text("library/a.eml")
    chunks = library.store.catalog.chunks(document.doc_id)
    assert sum(len(one) for chunk in chunks for one in chunk.heading_path) < 1000 * len(chunks)
    (note,) = report.warnings
    assert note.reason == "the title is cut after 500 characters"
