from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.config import ChunkConfig
from kb.ingest.parsers import text
from kb.ingest.progress import EVERY_CHUNKS, Progress, ProgressReporter
from kb.types import ChunkDraft
from tests.ingest.conftest import Library
from tests.ingest.parsers.pdfs import made, text_page
from tests.ingest.plug_ins import plug_in
from tests.store.builders import check_integrity


def drafts(count: int) -> Iterable[ChunkDraft]:
    return (ChunkDraft(f"text {number}", (), None, ()) for number in range(count))


def long_text(paragraphs: int) -> str:
    return "\n\n".join(f"paragraph {number} " + "word " * 30 for number in range(paragraphs))


def events_of(library: Library, name: str) -> list[Progress]:
    """The events of a run while it reads the file."""
    events: list[Progress] = []
    library.indexer.ingest([library.folder / name], on_event=events.append)
    inside = [event for event in events if event.parts or event.chunks]
    assert all(event.path == f"library/{name}" for event in inside)
    return inside


# --- the reporter ---------------------------------------------------------------------------------


def test_chunks_are_counted_and_stay_as_they_are() -> None:
    events: list[Progress] = []
    reporter = ProgressReporter(events.append)
    reporter.start("read", 3, 9, "a.txt")
    given_back = list(reporter.count(drafts(2 * EVERY_CHUNKS + 5)))
    assert given_back == list(drafts(2 * EVERY_CHUNKS + 5))
    assert events[0] == Progress("read", 3, 9, "a.txt")
    assert [event.chunks for event in events[1:]] == [EVERY_CHUNKS, 2 * EVERY_CHUNKS]


def test_the_next_file_begins_at_nothing() -> None:
    events: list[Progress] = []
    reporter = ProgressReporter(events.append)
    reporter.start("read", 0, 2, "a.txt")
    reporter.parse_progress(1, 2)
    reporter.start("read", 1, 2, "b.txt")
    assert events[1:] == [
        Progress("read", 0, 2, "a.txt", part=1, parts=2),
        Progress("read", 1, 2, "b.txt"),
    ]


def test_without_a_listener() -> None:
    reporter = ProgressReporter(None)
    reporter.parse_progress(1, 2)
    assert len(list(reporter.count(drafts(3)))) == 3


@given(total=st.integers(1, 3000), steps=st.lists(st.integers(-5, 4000), max_size=300))
def test_whatever_a_parser_tells_is_few_and_makes_sense(total: int, steps: list[int]) -> None:
    events: list[Progress] = []
    reporter = ProgressReporter(events.append)
    for step in sorted(steps):
        reporter.parse_progress(step, total)
    reporter.parse_progress(1, 0)
    reporter.parse_progress(0, -1)
    assert len(events) <= 101
    assert all(0 <= event.part <= event.parts == total for event in events)


# --- inside a file --------------------------------------------------------------------------------


def test_inside_a_long_text(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, "ShortWindows")
    content = long_text(6000)
    library.put("long.txt", content)
    events = events_of(library, "long.txt")
    parts = [event.part for event in events]
    assert parts == sorted(parts)
    assert len(set(parts)) > 5
    assert parts[0] == 0
    assert parts[-1] > len(content) * 0.8
    assert {event.parts for event in events} == {len(content)}
    chunks = [event.chunks for event in events]
    assert chunks == sorted(chunks)
    assert chunks[-1] >= 2 * EVERY_CHUNKS


def test_inside_a_long_pdf(library: Library) -> None:
    library.put("long.pdf", made(*(text_page(f"This is page {page}.") for page in range(30))))
    told = [(event.part, event.parts) for event in events_of(library, "long.pdf")]
    assert told == [(page, 30) for page in range(1, 31)]


def test_a_short_file_is_one_event(library: Library) -> None:
    library.put("short.txt")
    assert events_of(library, "short.txt") == []


# --- interrupted inside a file --------------------------------------------------------------------


def test_an_interruption_inside_a_file_leaves_none_of_it(library: Library) -> None:
    library.put("a.txt", "the first\n")
    library.put("long.txt", long_text(4000))

    def interrupt(event: Progress) -> None:
        if event.chunks:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        library.indexer.ingest([library.folder], on_event=interrupt)
    assert list(library.documents()) == ["library/a.txt"]
    check_integrity(library.store)
    assert library.ingest("").added == ("library/long.txt",)


def test_an_interruption_inside_a_changed_file_leaves_what_was_known(library: Library) -> None:
    library.put("long.txt", "as it was\n")
    library.ingest("")
    library.put("long.txt", long_text(4000), hours_ago=1)

    def interrupt(event: Progress) -> None:
        if event.chunks:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        library.indexer.ingest([library.folder], on_event=interrupt)
    assert library.text("library/long.txt") == "as it was"
    check_integrity(library.store)
    assert library.ingest("").changed == ("library/long.txt",)


# --- memory ---------------------------------------------------------------------------------------


def test_a_long_text_is_held_once(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes and a constant; nothing is kept per chunk."""
    monkeypatch.setattr(text, "WINDOW_BYTES", 32_768)
    library.config = replace(library.config, chunk=ChunkConfig(max_chars=200))
    content = "\n\n".join(f"{number} " + "word " * 30 for number in range(8_000))
    library.put("first.txt", content[:1000])
    library.ingest("first.txt")  # so that everything is loaded
    library.put("long.txt", content)
    tracemalloc.start()
    try:
        library.ingest("long.txt")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < len(content) + 2_000_000
