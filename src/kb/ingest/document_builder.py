"""From one file's bytes to a document that can be stored: parse, chunk, and fill in its dates.

Between the stages and the indexer. No I/O.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain, islice

from kb.ingest import dates, file_names, front_matter
from kb.ingest.attribute_bounds import bound_attributes
from kb.ingest.chunk import CHUNKER, chunk
from kb.ingest.decode import Unsupported, normalised
from kb.ingest.file_entry import Found
from kb.ingest.parsed_document import ChunkedDocument
from kb.ingest.parsers.text import TextParser, first_words
from kb.ports import Parser, Source
from kb.text.language import language_of
from kb.text.normalize import nfc
from kb.types import Attributes, ChunkDraft, DocumentDraft, Root


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document on its way to the store, and what the reader should hear about it."""

    document: DocumentDraft
    chunks: Iterable[ChunkDraft]  # to be read once, and only then parsed to the end
    warnings: tuple[str, ...] = ()

    def placed(self, root: Root) -> DocumentDraft:
        """The document as one of `root`'s."""
        doc_path = f"{root.name}/{self.document.path}"
        return replace(self.document, root_id=root.root_id, doc_path=doc_path)


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def chunker_version(parser: Parser, max_chars: int) -> str:
    """What a document's chunks depend on besides its bytes."""
    return f"{parser.name}-{parser.version}.{CHUNKER}.{max_chars}"


def prepare(found: Found, document: ChunkedDocument, content_hash: str, version: str) -> Prepared:
    """The document of the file `found`, whose bytes have this hash and were read by a parser of
    this `chunker_version`; still without a root."""
    name = os.path.basename(found.path)
    chunks = iter(document.chunks)
    if not (first := list(islice(chunks, 4))):
        raise Unsupported("no text")
    said, too_much = bound_attributes(
        replace(document.attributes, lang=document.attributes.lang or document.lang)
    )
    said = replace(said, lang=said.lang or _language(first))
    draft = DocumentDraft(
        root_id=None,
        path=found.path,
        doc_path="",
        title=nfc(said.title or document.title or file_names.title_of(name)),
        type=document.type,
        attributes=_dated(said, name, found.mtime_ns),
        content_hash=content_hash,
        chunker_version=version,
        size_bytes=found.size,
        mtime_ns=found.mtime_ns,
        ctime_ns=found.ctime_ns,
        device=found.device,
        os_path=found.os_path,
    )
    return Prepared(draft, chain(first, chunks), (*document.warnings, *too_much))


def prepare_note(text: str, said: Attributes, now_ns: int, max_chars: int) -> Prepared:
    """A note that is nowhere but in the store, which gives it its path."""
    body = normalised(text.replace("\0", "\ufffd"))
    data = body.encode()
    parser = TextParser()
    parsed = parser.parse(Source("", data, now_ns))
    chunks = tuple(chunk(parsed.blocks, max_chars))
    said, too_much = bound_attributes(front_matter.merged(said, parsed.attributes))
    said = replace(said, lang=said.lang or language_of(body, by_script_only=True))
    own_words = front_matter.without(body, dates.from_ns(now_ns))
    document = DocumentDraft(
        root_id=None,
        path="",
        doc_path="",
        title=nfc(said.title or first_words(own_words if own_words.strip() else body)),
        type=parsed.type,
        attributes=_dated(said, "", now_ns),
        content_hash=digest(data),
        chunker_version=chunker_version(parser, max_chars),
        size_bytes=len(data),
        mtime_ns=now_ns,
        body=body,
    )
    return Prepared(document, chunks, (*parsed.warnings, *too_much))


def _language(first: Iterable[ChunkDraft]) -> str | None:
    """By the first chunks; one alone may be a heading or a licence."""
    return language_of("\n".join(chunk.text for chunk in first))


def _dated(said: Attributes, name: str, mtime_ns: int) -> Attributes:
    """With the dates that were not said: by the file's name, else by its time."""
    day, changed = file_names.day_of(name), dates.iso(dates.from_ns(mtime_ns))
    return replace(
        said,
        date=said.date or day or changed,
        created_at=said.created_at or (dates.moment(day) if day else changed),
        updated_at=said.updated_at or changed,
    )
