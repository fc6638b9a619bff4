"""Opening a citation: the text it points at, and whether it is still what was indexed."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

from kb import deadline
from kb.config import Config, IngestConfig
from kb.errors import InvalidCitation, NotFound, check_text, short_repr
from kb.ingest.decode import Unreadable, Unsupported, decode
from kb.ingest.document_builder import content_digest
from kb.ingest.escapes import unescape
from kb.ingest.file_names import portable_path
from kb.ingest.parse import Parsers
from kb.ingest.parser_limits import Limits
from kb.ingest.parser_pool import extract_text
from kb.ingest.secret_files import HEAD_BYTES, included_paths, secret_reason
from kb.ports import Source, Store
from kb.regular_files import Links, ReadRefused, open_file
from kb.text.citations import Target, cite, parse_uri
from kb.text.normalize import nfc
from kb.types import LINE_TYPES, Chunk, Document, FilePlace, Passage, Span

_LONGEST_NAME = 10_000  # characters of a path or a citation
_COMPARED = 200  # paths of each kind that a mistyped one is compared with
_LISTED = 10  # paths of one file name
_LONGEST_ADVISED = 500  # characters of a path that was mistyped
_LONGEST_NUMBER = 30  # digits of the number of a chunk


def find_document(store: Store, name: str) -> Document:
    """By its path in the store, by `note:<id>`, or by the path of its file on this machine."""
    if (document := _named(store, name)) is not None:
        return document
    raise NotFound(f"no document {short_repr(name)}", _advice(store, nfc(name)))


def _named(store: Store, name: str) -> Document | None:
    if len(name) > _LONGEST_NAME:
        most = f"{_LONGEST_NAME:,} characters"
        raise InvalidCitation(f"a citation is longer than {most}", "cite as kb search does")
    for path in (nfc(name), *_stored_paths(store, name)):
        if (document := store.catalog.document_by_path(path)) is not None:
            return document
    return None


def _advice(store: Store, name: str) -> str:
    """What may have been meant: a folder, a path that ends like this, or one that is nearly it."""
    known = "kb list shows what there is"
    if len(name) > _LONGEST_ADVISED:
        return known
    if store.catalog.has_folder(name + "/"):
        return f"{name}/ is a folder; kb list --path '{name}/**' shows what is in it"
    same = store.catalog.paths_with_suffix("/" + name, _LISTED + 1)
    if len(same) > 1:
        more = ", and others" if len(same) > _LISTED else ""
        return f"several are called that: {', '.join(same[:_LISTED])}{more}; {known}"
    near = same or _nearest(store, name)
    return f"did you mean {' or '.join(near)}? {known}" if near else known


def _nearest(store: Store, name: str) -> list[str]:
    """The path that is nearly `name`, if there is one among those that come before and after it in
    order, and those of the same file name. To compare all paths would take minutes."""
    from difflib import get_close_matches  # only a mistake needs it

    file = name[name.rfind("/") :] if "/" in name else "/" + name
    catalog = store.catalog
    near = {
        *catalog.neighboring_paths(name, _COMPARED),
        *catalog.paths_with_suffix(file, _COMPARED),
    }
    return get_close_matches(name, sorted(near), n=1, cutoff=0.85)


def passages_at(store: Store, name: str | int) -> tuple[list[Chunk], bool]:
    """The passages that `name` stands for, the number of a chunk, a citation or a document's path;
    and whether they are a whole document."""
    is_number = isinstance(name, int) or (isinstance(name, str) and name.isdecimal())
    if is_number and len(short_repr(name)) <= _LONGEST_NUMBER:
        chunks = list(store.catalog.chunks_by_id([int(name)]).values())
        if not chunks:
            raise NotFound(f"no chunk {name}", "kb search --json shows chunk ids")
        return chunks, False
    document, chunks = chunks_at(store, check_text("a passage", name))
    return chunks, len(chunks) == document.chunks


def chunks_at(store: Store, uri: str) -> tuple[Document, list[Chunk]]:
    """A document and those of its chunks that a citation covers; of a bare path, all."""
    document, target = _target(store, uri)
    chunks = store.catalog.chunks(document.doc_id)
    if target.page is not None:
        chunks = [one for one in chunks if any(span.page == target.page for span in one.spans)]
    elif target.start is not None:
        start, end = target.start, target.end or target.start
        covered = (each for each in _extents(chunks) if each.start <= end and start <= each.end)
        chunks = [extent.chunk for extent in covered]
    if not chunks:
        raise NotFound(f"{uri} holds no passage", "cite one as kb search does")
    return document, chunks


def open_passage(store: Store, uri: str, ingest: IngestConfig | None = None) -> Passage:
    """What `uri` names, by its file as it is now. Where that is not to be read, by what was
    indexed, with the `reason`. The settings `ingest` say what may be read."""
    document, target = _target(store, uri)
    now, reason = _read(store, document, ingest or IngestConfig())
    if target.page is not None:
        passage = _page(store, document, target.page, now, reason)
    elif target.start is None:
        passage = _whole(store, document, now)
    else:
        lines = None if now is None else now.text.split("\n")
        end = target.end or target.start
        passage = _span(store, document, target.start, end, lines, reason)
    return replace(passage, reason=reason)


def file_data(place: FilePlace, ingest: IngestConfig) -> bytes:
    """The bytes of a document's file. The rules for what may be read are those of an ingest: the
    store may have come from elsewhere, and so may what lies there now.

    Raises `OSError`; of its kind is `ReadRefused`, for what must not be read.
    """
    if place.detached:
        raise ReadRefused("its folder is detached", place.inside)
    links: Links = "follow" if ingest.follow_links else "inside"
    with open_file(place.inside, root=place.root, links=links) as file:
        path = file.real_path() if file.linked else file.path
        included = included_paths(ingest.include_secrets)
        if reason := secret_reason(path, file.head(HEAD_BYTES), included):
            raise ReadRefused(reason, file.path)
        return file.read(ingest.max_file_bytes)


def _target(store: Store, uri: str) -> tuple[Document, Target]:
    """A URI, or a path as people type it, with its `#` and `%` not encoded."""
    if (document := _named(store, uri)) is not None:
        return document, Target(uri)
    target = parse_uri(uri)
    document = _named(store, target.path) or _by_file_name(store, target.path)
    return document or find_document(store, target.path), target


def _by_file_name(store: Store, name: str) -> Document | None:
    """The only document whose path ends so. Good enough to read one, not to change it."""
    if not name or len(name) > _LONGEST_ADVISED:
        return None
    same = store.catalog.paths_with_suffix("/" + nfc(name), 2)
    return store.catalog.document_by_path(same[0]) if len(same) == 1 else None


def _stored_paths(store: Store, name: str) -> list[str]:
    """What a file on this machine would be called in the store, by its innermost root first."""
    if "\0" in name:
        return []
    absolute = os.path.realpath(os.path.expanduser(name))
    inner_first = sorted(store.catalog.roots(), key=lambda root: len(root.path), reverse=True)
    inside = [
        (root.name, os.path.relpath(absolute, root.path))
        for root in inner_first
        if absolute.startswith(root.path.rstrip(os.sep) + os.sep)
    ]
    # As the store writes it, or as it may have been typed: with its bytes escaped already.
    return [
        f"{name}/{path}"
        for name, relative in inside
        for path in (portable_path(relative), nfc(relative).replace(os.sep, "/"))
    ]


# --- the text as it is now ------------------------------------------------------------------------


class _Now(NamedTuple):
    text: str
    unchanged: bool  # byte for byte what was indexed


def _read(store: Store, document: Document, ingest: IngestConfig) -> tuple[_Now | None, str | None]:
    """The document's text, by the parser that read it; or why its file was not read."""
    place = store.catalog.file_place(document.doc_id)
    if place is None:
        return _Now(store.catalog.body(document.doc_id) or "", unchanged=True), None
    if place.detached:
        name = document.doc_path.split("/", 1)[0]
        return None, f"its folder is detached; to read its file: kb attach {name} FOLDER"
    try:
        data = file_data(place, ingest)
        text = decode(data) if document.type in LINE_TYPES else None
        if text is None or unescape(place.inside, text) is not text:
            text = _extracted(place.inside, data, ingest)
    except (FileNotFoundError, NotADirectoryError):
        return None, "its file is gone"
    except OSError as error:
        return None, f"its file was not read: {error.strerror or error}"
    except (Unreadable, Unsupported) as error:
        return None, f"its file was not read: {error.reason}"
    return _Now(
        text.removesuffix("\n"), unchanged=content_digest(data) == document.content_hash
    ), None


def _extracted(path: str, data: bytes, ingest: IngestConfig) -> str:
    source = Source(os.path.basename(path), data)
    max_chars = Config().chunk.max_chars
    parsers = Parsers(max_chars)
    parser = parsers.detect(source)
    if parser is None:
        raise Unsupported("unsupported format")
    text = extract_text(parsers.location(parser), source, max_chars, Limits.from_config(ingest))
    return decode(data) if text is None else text


# --- a document, a page, lines --------------------------------------------------------------------


def _whole(store: Store, document: Document, now: _Now | None) -> Passage:
    if now is None:
        text = "\n\n".join(chunk.text for chunk in store.catalog.chunks(document.doc_id))
        return Passage(document, cite(document.doc_path, Span("line"), None), text, "stale")
    state = "exact" if now.unchanged else "stale"
    if "\f" in now.text:  # pages, which have no lines to cite
        text = "\n\n".join(page.strip("\n") for page in now.text.split("\f"))
        return Passage(document, cite(document.doc_path, Span("page"), None), text, state)
    span = Span("line", 1, now.text.count("\n") + 1)
    return Passage(document, cite(document.doc_path, span, None), now.text, state)


def _page(
    store: Store, document: Document, page: int, now: _Now | None, reason: str | None
) -> Passage:
    """A page as it is now. What was indexed of it is known from its chunks."""
    chunks = [
        chunk
        for chunk in store.catalog.chunks(document.doc_id)
        if any(span.page == page for span in chunk.spans)
    ]
    if document.type != "pdf" and not chunks:
        raise NotFound(f"{document.doc_path} has no pages", "cite its lines: path#L3-L9")
    pages = [] if now is None else now.text.split("\f")
    if not chunks and not 1 <= page <= len(pages):
        last = f"it has {len(pages)} pages" if now is not None else reason or ""
        raise NotFound(f"{document.doc_path} has no page {page}", last)
    section = chunks[0].section_label if chunks else None
    indexed = [chunk.text for chunk in chunks]
    for number in (page, *range(1, len(pages) + 1)):
        deadline.check()
        if number <= len(pages) and all(text in pages[number - 1] for text in indexed):
            place = cite(document.doc_path, Span("page", page=number), section)
            state = "exact" if number == page else "moved"
            return Passage(document, place, pages[number - 1].strip("\n"), state)
    place = cite(document.doc_path, Span("page", page=page), section)
    return Passage(document, place, "\n\n".join(indexed), "stale")


def _span(
    store: Store,
    document: Document,
    start: int,
    end: int,
    now: list[str] | None,
    reason: str | None,
) -> Passage:
    """Lines `start` to `end`. What was indexed there is known from the chunks that cover them."""
    extents = [
        extent
        for extent in _extents(store.catalog.chunks(document.doc_id))
        if extent.start <= end and start <= extent.end
    ]
    if not extents and (now is None or start > len(now)):
        last = f"it has {len(now)} lines" if now is not None else reason or ""
        raise NotFound(f"{document.doc_path} has no line {start}", last)
    wanted = [extent.within(start, end) for extent in extents]
    section = extents[0].chunk.section_label if extents else None
    if now is not None and all(extent.stands_at(extent.start, now) for extent in wanted):
        place = cite(document.doc_path, _like(extents, start, min(end, len(now))), section)
        return Passage(document, place, "\n".join(now[start - 1 : end]), "exact")
    if now is not None and (starts := _moved(wanted, now)) is not None:
        first = min(starts)
        behind = max(
            at + extent.end - extent.start for at, extent in zip(starts, wanted, strict=True)
        )
        place = cite(document.doc_path, _like(extents, first, behind), section)
        return Passage(document, place, "\n".join(now[first - 1 : behind]), "moved")
    place = cite(document.doc_path, _like(extents, start, end), section)
    return Passage(document, place, "\n".join(extent.text for extent in wanted), "stale")


def _like(extents: list[_Extent], start: int, end: int) -> Span:
    """A span of lines, of the kind its chunk has."""
    if extents and extents[0].chunk.spans[0].kind == "code":
        span = extents[0].chunk.spans[0]
        return Span("code", start, end, symbol=span.symbol, lang=span.lang)
    return Span("line", start, end)


@dataclass(frozen=True, slots=True)
class _Extent:
    """The lines of a chunk. `piece`: it is a part of one long line, and shares it with others."""

    chunk: Chunk
    start: int
    end: int
    text: str
    piece: bool

    def within(self, start: int, end: int) -> _Extent:
        if self.piece:
            return self
        first, last = max(self.start, start), min(self.end, end)
        lines = self.text.split("\n")[first - self.start : last - self.start + 1]
        return replace(self, start=first, end=last, text="\n".join(lines))

    def stands_at(self, start: int, lines: list[str]) -> bool:
        """Whole lines must be equal: `10` does not stand where `100` does."""
        here = "\n".join(lines[start - 1 : start + self.end - self.start])
        return self.text in here if self.piece else self.text == here

    def first_line(self) -> str:
        return self.text.split("\n", 1)[0]


def _moved(wanted: list[_Extent], lines: list[str]) -> list[int] | None:
    """The lines where each text stands now; None if one of them is nowhere."""
    numbers: dict[str, list[int]] = {}
    for number, line in enumerate(lines, start=1):
        numbers.setdefault(line, []).append(number)
    starts = []
    for extent in wanted:
        whole = numbers.get(extent.first_line(), [])
        for number in range(1, len(lines) + 1) if extent.piece else whole:
            deadline.check()
            if extent.stands_at(number, lines):
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
