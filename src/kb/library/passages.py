"""Opens citations: returns the text of a file as it is now, and whether it is still the indexed
text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import NamedTuple

from kb import deadline
from kb.config import Config, IngestConfig
from kb.errors import NotFound
from kb.ingest.decode import Unreadable, Unsupported, decode
from kb.ingest.document_builder import content_digest
from kb.ingest.escapes import unescape
from kb.ingest.parse import Parsers
from kb.ingest.parser_limits import Limits
from kb.ingest.parser_pool import extract_text
from kb.ingest.secret_files import HEAD_BYTES, included_paths, secret_reason
from kb.library.lookup import find_target
from kb.ports import Source, Store
from kb.regular_files import Links, ReadRefused, open_file
from kb.text.citations import Target, cite, format_uri
from kb.text.links import FILE, locate
from kb.types import LINE_TYPES, Chunk, Document, FileLocation, Passage, Span

_LARGE_BYTES = 8 << 20
_LARGE_READS = Lock()
_POLL_S = 0.05


def open_passage(
    store: Store, uri: str, ingest: IngestConfig | None = None, link_form: str = FILE
) -> Passage:
    """Open a citation or a document's path. If the file must not or cannot be read, the passage has
    the indexed text and the `reason`. `ingest` decides which files may be read, and `link_form`
    how the citation links to the file."""
    document, target = find_target(store, uri)
    current, reason = _read(store, document, ingest or IngestConfig())
    if target.page is not None:
        passage = _open_page(store, document, target, target.page, current, reason)
    elif target.start is None:
        passage = _open_document(store, document, current)
    else:
        lines = None if current is None else current.text.split("\n")
        end = target.end or target.start
        passage = _open_lines(store, document, target.start, end, lines, reason)
    location = store.catalog.file_location(document.doc_id)
    citation = locate(passage.citation, document.type, location, link_form)
    return replace(passage, citation=citation, reason=reason)


def file_data(location: FileLocation, ingest: IngestConfig) -> bytes:
    """The bytes of a document's file, read by the rules of an ingest: the store may come from
    another machine, and the file may have been replaced.

    Raises `OSError`; its subclass `ReadRefused` for a file that must not be read.
    """
    if location.detached:
        raise ReadRefused("its folder is detached", location.inside)
    links: Links = "follow" if ingest.follow_links else "inside"
    with open_file(location.inside, root=location.root, links=links) as file:
        path = file.real_path() if file.linked else file.path
        included = included_paths(ingest.include_secrets)
        if reason := secret_reason(path, file.head(HEAD_BYTES), included):
            raise ReadRefused(reason, file.path)
        return file.read(ingest.max_file_bytes)


def original(store: Store, document: Document, ingest: IngestConfig) -> bytes:
    """The bytes of a document's file. Raises `NotFound` if there is none that may be read."""
    location = store.catalog.file_location(document.doc_id)
    if location is None:
        raise NotFound(f"{document.doc_path} has no file", "read it with: kb get")
    try:
        return file_data(location, ingest)
    except OSError as error:
        raise NotFound(
            f"the file cannot be read: {error.strerror or error}", "check the file, and ingest it"
        ) from error


# --- the current text -----------------------------------------------------------------------------


class _CurrentText(NamedTuple):
    text: str
    unchanged: bool  # the file has the same bytes as when it was indexed


def _read(
    store: Store, document: Document, ingest: IngestConfig
) -> tuple[_CurrentText | None, str | None]:
    """The document's text, extracted by its parser; or the reason why its file was not read."""
    location = store.catalog.file_location(document.doc_id)
    if location is None:
        return _CurrentText(store.catalog.body(document.doc_id) or "", unchanged=True), None
    if location.detached:
        name = document.doc_path.split("/", 1)[0]
        return None, f"its folder is detached; to read its file: kb attach {name} FOLDER"
    try:
        with _large_read(document.size_bytes):
            data = file_data(location, ingest)
            text = decode(data) if document.type in LINE_TYPES else None
            if text is None or unescape(location.inside, text) is not text:
                text = _extract(location.inside, data, ingest)
    except (FileNotFoundError, NotADirectoryError):
        return None, "its file no longer exists"
    except OSError as error:
        return None, f"its file was not read: {error.strerror or error}"
    except (Unreadable, Unsupported) as error:
        return None, f"its file was not read: {error.reason}"
    unchanged = content_digest(data) == document.content_hash
    return _CurrentText(text.removesuffix("\n"), unchanged), None


@contextmanager
def _large_read(size_bytes: int) -> Iterator[None]:
    """Allow one thread at a time to read a large file: decoding takes many times its size in
    memory."""
    if size_bytes < _LARGE_BYTES:
        yield
        return
    while not _LARGE_READS.acquire(timeout=_POLL_S):
        deadline.check()
    try:
        yield
    finally:
        _LARGE_READS.release()


def _extract(path: str, data: bytes, ingest: IngestConfig) -> str:
    source = Source(os.path.basename(path), data)
    max_chars = Config().chunk.max_chars
    parsers = Parsers(max_chars)
    parser = parsers.detect(source)
    if parser is None:
        raise Unsupported("unsupported format")
    text = extract_text(parsers.location(parser), source, max_chars, Limits.from_config(ingest))
    return decode(data) if text is None else text


# --- documents, pages and lines -------------------------------------------------------------------


def _open_document(store: Store, document: Document, current: _CurrentText | None) -> Passage:
    if current is None:
        text = "\n\n".join(chunk.text for chunk in store.catalog.chunks(document.doc_id))
        return Passage(document, cite(document.doc_path, Span("line"), None), text, "stale")
    state = "exact" if current.unchanged else "stale"
    if "\f" in current.text:  # pages, whose lines cannot be cited
        text = "\n\n".join(page.strip("\n") for page in current.text.split("\f"))
        return Passage(document, cite(document.doc_path, Span("page"), None), text, state)
    span = Span("line", 1, current.text.count("\n") + 1)
    return Passage(document, cite(document.doc_path, span, None), current.text, state)


def _open_page(
    store: Store,
    document: Document,
    target: Target,
    page: int,
    current: _CurrentText | None,
    reason: str | None,
) -> Passage:
    """The current text of a page, or of one passage of it. A page is recognized by the chunks that
    were indexed for it."""
    chunks = [
        chunk
        for chunk in store.catalog.chunks(document.doc_id)
        if any(span.page == page for span in chunk.spans)
    ]
    if document.type != "pdf" and not chunks:
        raise NotFound(f"{document.doc_path} has no pages", "cite its lines: path#L3-L9")
    pages = [] if current is None else current.text.split("\f")
    if not chunks and not 1 <= page <= len(pages):
        hint = f"it has {len(pages)} pages" if current is not None else reason or ""
        raise NotFound(f"{document.doc_path} has no page {page}", hint)
    span = Span("page", page=page)
    if target.passage is not None:
        chunks = chunks[target.passage - 1 : target.passage]
        if not chunks:
            raise NotFound(
                f"page {page} of {document.doc_path} has no passage {target.passage}",
                f"read the whole page: {format_uri(document.doc_path, span)}",
            )
        span = replace(span, extra={"passage": target.passage})
    section = chunks[0].section_label if chunks else None
    indexed = [chunk.text for chunk in chunks]
    for number in (page, *range(1, len(pages) + 1)):
        deadline.check()
        if number <= len(pages) and all(text in pages[number - 1] for text in indexed):
            citation = cite(document.doc_path, replace(span, page=number), section)
            text = pages[number - 1] if target.passage is None else indexed[0]
            state = "exact" if number == page else "moved"
            return Passage(document, citation, text.strip("\n"), state)
    citation = cite(document.doc_path, span, section)
    return Passage(document, citation, "\n\n".join(indexed), "stale")


def _open_lines(
    store: Store,
    document: Document,
    start: int,
    end: int,
    lines: list[str] | None,
    reason: str | None,
) -> Passage:
    """Lines `start` to `end` of the current text, or wherever the indexed text has moved to."""
    extents = [
        extent
        for extent in _extents(store.catalog.chunks(document.doc_id))
        if extent.start <= end and start <= extent.end
    ]
    if not extents and (lines is None or start > len(lines)):
        hint = f"it has {len(lines)} lines" if lines is not None else reason or ""
        raise NotFound(f"{document.doc_path} has no line {start}", hint)
    cited = [extent.clip(start, end) for extent in extents]
    section = extents[0].chunk.section_label if extents else None
    if lines is not None and all(extent.is_at(extent.start, lines) for extent in cited):
        citation = cite(document.doc_path, _span(extents, start, min(end, len(lines))), section)
        return Passage(document, citation, "\n".join(lines[start - 1 : end]), "exact")
    if lines is not None and (starts := _locate(cited, lines)) is not None:
        first = min(starts)
        last = max(at + extent.end - extent.start for at, extent in zip(starts, cited, strict=True))
        citation = cite(document.doc_path, _span(extents, first, last), section)
        return Passage(document, citation, "\n".join(lines[first - 1 : last]), "moved")
    citation = cite(document.doc_path, _span(extents, start, end), section)
    return Passage(document, citation, "\n".join(extent.text for extent in cited), "stale")


def _span(extents: list[_Extent], start: int, end: int) -> Span:
    """A span from line `start` to `end`, of the same kind and with the same place as the span of
    the first chunk."""
    if extents and extents[0].chunk.spans[0].kind == "code":
        span = extents[0].chunk.spans[0]
        return Span("code", start, end, symbol=span.symbol, lang=span.lang)
    return Span("line", start, end, extra=extents[0].chunk.spans[0].extra if extents else {})


@dataclass(frozen=True, slots=True)
class _Extent:
    """The lines of a chunk. A `partial` extent is part of one long line that other chunks share."""

    chunk: Chunk
    start: int
    end: int
    text: str
    partial: bool

    def clip(self, start: int, end: int) -> _Extent:
        """The part of the extent that is between two lines."""
        if self.partial:
            return self
        first, last = max(self.start, start), min(self.end, end)
        lines = self.text.split("\n")[first - self.start : last - self.start + 1]
        return replace(self, start=first, end=last, text="\n".join(lines))

    def is_at(self, start: int, lines: list[str]) -> bool:
        """Whether the text is at this line. Whole lines must be equal: `10` is not in `100`."""
        text = "\n".join(lines[start - 1 : start + self.end - self.start])
        return self.text in text if self.partial else self.text == text

    def first_line(self) -> str:
        return self.text.split("\n", 1)[0]


def _locate(extents: list[_Extent], lines: list[str]) -> list[int] | None:
    """The lines where each extent is now; None if one of them is missing."""
    numbers: dict[str, list[int]] = {}
    for number, line in enumerate(lines, start=1):
        numbers.setdefault(line, []).append(number)
    starts = []
    for extent in extents:
        candidates = numbers.get(extent.first_line(), [])
        for number in range(1, len(lines) + 1) if extent.partial else candidates:
            deadline.check()
            if extent.is_at(number, lines):
                starts.append(number)
                break
        else:
            return None
    return starts


def _extents(chunks: list[Chunk]) -> list[_Extent]:
    lines = [(chunk.spans[0].start, chunk.spans[0].end) for chunk in chunks if chunk.spans]
    shared = {span for span, count in Counter(lines).items() if count > 1}
    return [
        _Extent(chunk, span.start, span.end, chunk.text, (span.start, span.end) in shared)
        for chunk in chunks
        if chunk.spans and (span := chunk.spans[0]).start is not None and span.end is not None
    ]
