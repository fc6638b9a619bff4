"""Opening a citation: the text it points at, and whether it is still what was indexed."""

from __future__ import annotations

import os

from kb.citations import Target, cite, parse_uri
from kb.config import Config
from kb.errors import NotFound
from kb.ingest.decode import Unreadable, Unsupported, decode
from kb.ingest.parse import Parsers
from kb.ports import Source
from kb.store import SqliteStore
from kb.types import Chunk, Document, Passage, Span

_PLAIN = ("markdown", "code", "note")  # formats whose lines are the file's own


def find_document(store: SqliteStore, name: str) -> Document:
    """By its path in the store, by `note:<id>`, or by the path of its file on this machine."""
    document = store.document_by_path(name)
    if document is None and (inside := _stored_path(store, name)) is not None:
        document = store.document_by_path(inside)
    if document is None:
        raise NotFound(f"no document {name!r}", "kb list shows what there is")
    return document


def open_passage(store: SqliteStore, uri: str) -> Passage:
    document, target = _target(store, uri)
    now = _text(store, document)
    if target.page is not None:
        return _page(store, document, target.page, now)
    lines = None if now is None else now.split("\n")
    if target.start is None:
        return _whole(store, document, lines)
    return _span(store, document, target.start, target.end or target.start, lines)


def _target(store: SqliteStore, uri: str) -> tuple[Document, Target]:
    """A URI, or a path as people type it, with its `#` and `%` not encoded."""
    if (document := store.document_by_path(uri)) is not None:
        return document, Target(uri)
    target = parse_uri(uri)
    return find_document(store, target.path), target


def _stored_path(store: SqliteStore, name: str) -> str | None:
    absolute = os.path.realpath(os.path.expanduser(name))
    inner_first = sorted(store.roots(), key=lambda root: len(root.path), reverse=True)
    for root in inner_first:
        if absolute.startswith(root.path.rstrip(os.sep) + os.sep):
            inside = os.path.relpath(absolute, root.path).replace(os.sep, "/")
            return f"{root.name}/{inside}"
    return None


def _text(store: SqliteStore, document: Document) -> str | None:
    """The document's text as it is now, by the parser that read it; None where its file is gone or
    cannot be read any more."""
    path = store.os_path(document.doc_id)
    if path is None:
        return store.body(document.doc_id) or ""
    try:
        with open(path, "rb") as file:
            data = file.read()
        text = decode(data) if document.type in _PLAIN else _extracted(path, data)
    except (OSError, Unreadable, Unsupported):
        return None
    return text.removesuffix("\n")


def _extracted(path: str, data: bytes) -> str:
    source = Source(os.path.basename(path), data)
    parser = Parsers(Config().chunk.max_chars).detect(source)
    if parser is None:
        raise Unsupported("unsupported format")
    text = parser.parse(source).text
    return decode(data) if text is None else text


def _whole(store: SqliteStore, document: Document, now: list[str] | None) -> Passage:
    if now is None:
        text = "\n\n".join(chunk.text for chunk in store.chunks_of(document.doc_id))
        citation = cite(document.doc_path, Span("line"), None)
        return Passage(document, citation, text, "stale")
    chunks = store.chunks_of(document.doc_id)
    same = all(_still_there(chunk, now) for chunk in chunks)
    citation = cite(document.doc_path, Span("line", 1, len(now)), None)
    return Passage(document, citation, "\n".join(now), "exact" if same else "stale")


def _still_there(chunk: Chunk, now: list[str]) -> bool:
    span = chunk.spans[0]
    return chunk.text in "\n".join(now[(span.start or 1) - 1 : span.end])


def _page(store: SqliteStore, document: Document, page: int, now: str | None) -> Passage:
    """A page as it is now. What was indexed of it is known from its chunks."""
    chunks = [
        chunk
        for chunk in store.chunks_of(document.doc_id)
        if any(span.page == page for span in chunk.spans)
    ]
    pages = [] if now is None else now.split("\f")
    if not chunks and not 1 <= page <= len(pages):
        last = f"it has {len(pages)} pages" if now is not None else "its file is gone"
        raise NotFound(f"{document.doc_path} has no page {page}", last)
    section = chunks[0].section_label if chunks else None
    place = cite(document.doc_path, Span("page", page=page), section)
    indexed = [chunk.text for chunk in chunks]
    for number in (page, *range(1, len(pages) + 1)):
        if number <= len(pages) and all(text in pages[number - 1] for text in indexed):
            if number == page:
                return Passage(document, place, pages[page - 1].strip("\n"), "exact")
            moved = cite(document.doc_path, Span("page", page=number), section)
            return Passage(document, moved, pages[number - 1].strip("\n"), "moved")
    return Passage(document, place, "\n\n".join(indexed), "stale")


def _span(
    store: SqliteStore, document: Document, start: int, end: int, now: list[str] | None
) -> Passage:
    """Lines `start` to `end`. What was indexed there is known from the chunks that cover them."""
    chunks = [
        chunk
        for chunk in store.chunks_of(document.doc_id)
        if chunk.spans and (chunk.spans[0].start or 0) <= end and start <= (chunk.spans[0].end or 0)
    ]
    if not chunks and (now is None or start > len(now)):
        last = f"it has {len(now)} lines" if now is not None else "its file is gone"
        raise NotFound(f"{document.doc_path} has no line {start}", last)
    section = chunks[0].section_label if chunks else None
    span = _like(chunks, start, end)
    here = "\n".join((now or [])[start - 1 : end])
    indexed = [_indexed(chunk, start, end) for chunk in chunks]
    if now is not None and all(text in here for text in indexed):
        return Passage(document, cite(document.doc_path, span, section), here, "exact")
    wanted = "\n\n".join(indexed) if len(indexed) > 1 else indexed[0]
    if now is not None and (moved := _elsewhere(wanted, now)) is not None:
        place = cite(document.doc_path, _like(chunks, *moved), section)
        return Passage(document, place, wanted, "moved")
    return Passage(document, cite(document.doc_path, span, section), wanted, "stale")


def _like(chunks: list[Chunk], start: int, end: int) -> Span:
    """A span of lines, of the kind its chunk has."""
    if chunks and chunks[0].spans[0].kind == "code":
        span = chunks[0].spans[0]
        return Span("code", start, end, symbol=span.symbol, lang=span.lang)
    return Span("line", start, end)


def _indexed(chunk: Chunk, start: int, end: int) -> str:
    """The part of the chunk's text that lies in the lines; all of it where lines do not count,
    as in a chunk that is a piece of one long line."""
    first, last = chunk.spans[0].start or 1, chunk.spans[0].end or 1
    lines = chunk.text.split("\n")
    if len(lines) != last - first + 1:
        return chunk.text
    return "\n".join(lines[max(0, start - first) : end - first + 1])


def _elsewhere(text: str, now: list[str]) -> tuple[int, int] | None:
    whole = "\n".join(now)
    at = whole.find(text) if text.strip() else -1
    if at < 0:
        return None
    start = whole.count("\n", 0, at) + 1
    return start, start + text.count("\n")
