"""Builds the documents that the indexer stores, from parsed files and from notes. No I/O."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from kb.ingest import dates, file_names, front_matter
from kb.ingest.attribute_bounds import bound_attributes, bound_title
from kb.ingest.chunk import CHUNKER, chunk
from kb.ingest.decode import Unsupported, normalize_text
from kb.ingest.file_entry import FileEntry
from kb.ingest.parsed_document import ChunkedDocument
from kb.ingest.parsers.text import TextParser, first_words
from kb.ingest.secret_files import extracted_reason, sheet_reason, token_warning
from kb.ports import Parser, Source
from kb.text.language import detect_language, sample_language
from kb.text.normalize import nfc
from kb.text.timestamps import utc_timestamp
from kb.types import Attributes, ChunkDraft, DocumentDraft, Root

# Types whose bytes do not show their text. Files of other types have already been checked for
# secrets.
_EXTRACTED = frozenset(
    """
    archive bookmarks canvas conversation docx email epub evernote html image man opendocument pdf
    pptx rtf subtitles xlsx zotero
    """.split()
)


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document ready to store, and warnings about it for the user."""

    draft: DocumentDraft
    chunks: Iterable[ChunkDraft]  # can be iterated once; the iteration parses the rest
    warnings: list[str] = field(default_factory=list)  # complete once `chunks` has been iterated

    def in_root(self, root: Root) -> DocumentDraft:
        """The document with the id and path that it has in `root`."""
        doc_path = f"{root.name}/{self.draft.path}"
        return replace(self.draft, root_id=root.root_id, doc_path=doc_path)


def content_digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def chunker_version(parser: Parser, max_chars: int) -> str:
    """The version of everything that a document's chunks depend on besides its bytes."""
    return f"{parser.name}-{parser.version}.{CHUNKER}.{max_chars}"


def build_document(
    entry: FileEntry,
    document: ChunkedDocument,
    content_hash: str,
    version: str,
    *,
    secret_allowed: bool = False,
) -> PreparedDocument:
    """Build the document of a file, still without a root.

    `content_hash` is the digest of its bytes, `version` the `chunker_version` of its parser. Raises
    `Unsupported` if the file has no text. Unless `secret_allowed`, it also raises it for extracted
    text that is a private key, and, when `chunks` is iterated, for a spreadsheet of passwords.
    """
    name = os.path.basename(entry.path)
    chunks = iter(document.chunks)
    if not (first := list(islice(chunks, 4))):
        raise Unsupported("; ".join(("no text", *document.warnings[:1])))
    text = "\n".join(chunk.text for chunk in first)
    is_checked = document.type in _EXTRACTED and not secret_allowed
    if is_checked and (reason := extracted_reason(text)):
        raise Unsupported(reason)
    attributes, warnings = bound_attributes(
        replace(document.attributes, lang=document.attributes.lang or document.lang)
    )
    if not attributes.lang and not document.lang_detected:
        attributes = replace(attributes, lang=sample_language(first))
    title, title_warnings = bound_title(
        nfc(attributes.title or document.title or file_names.title_of(name))
    )
    draft = DocumentDraft(
        root_id=None,
        path=entry.path,
        doc_path="",
        title=title,
        type=document.type,
        attributes=_with_dates(attributes, name, entry.mtime_ns),
        content_hash=content_hash,
        chunker_version=version,
        size_bytes=entry.size,
        mtime_ns=entry.mtime_ns,
        ctime_ns=entry.ctime_ns,
        device=entry.device,
        os_path=entry.os_path,
    )
    all_warnings = [*document.warnings, *warnings, *title_warnings]
    every: Iterable[ChunkDraft] = chain(first, chunks)
    if not secret_allowed:
        if document.type == "xlsx" or name.lower().endswith((".ods", ".ots")):
            every = _refuse_passwords(every)
        every = _warn_of_tokens(every, all_warnings)
    return PreparedDocument(draft, every, all_warnings)


def _refuse_passwords(chunks: Iterable[ChunkDraft]) -> Iterator[ChunkDraft]:
    """Yield the chunks of a spreadsheet. Raises `Unsupported` at a column of passwords."""
    for each in chunks:
        if reason := sheet_reason(each.text):
            raise Unsupported(reason)
        yield each


def _warn_of_tokens(chunks: Iterable[ChunkDraft], warnings: list[str]) -> Iterator[ChunkDraft]:
    """Yield the chunks, and add one warning if a chunk contains the token of a service."""
    is_found = False
    for each in chunks:
        if not is_found and (warning := token_warning(each.text)) is not None:
            warnings.append(warning)
            is_found = True
        yield each


def build_note(text: str, attributes: Attributes, now_ns: int, max_chars: int) -> PreparedDocument:
    """Build a note, which exists only in the store; the store assigns its path."""
    body = normalize_text(text.replace("\0", "\ufffd"))
    data = body.encode()
    parser = TextParser()
    parsed = parser.parse(Source("", data, now_ns))
    chunks = tuple(chunk(parsed.blocks, max_chars))
    attributes, warnings = bound_attributes(front_matter.merge(attributes, parsed.attributes))
    attributes = replace(
        attributes, lang=attributes.lang or detect_language(body, script_only=True)
    )
    text = front_matter.strip(body, dates.from_ns(now_ns))
    draft = DocumentDraft(
        root_id=None,
        path="",
        doc_path="",
        title=nfc(attributes.title or first_words(text if text.strip() else body)),
        type=parsed.type,
        attributes=_with_dates(attributes, "", now_ns),
        content_hash=content_digest(data),
        chunker_version=chunker_version(parser, max_chars),
        size_bytes=len(data),
        mtime_ns=now_ns,
        body=body,
    )
    all_warnings = [*parsed.warnings, *warnings]
    return PreparedDocument(draft, tuple(_warn_of_tokens(chunks, all_warnings)), all_warnings)


def _with_dates(attributes: Attributes, name: str, mtime_ns: int) -> Attributes:
    """Fill in missing dates from the file's name, otherwise from its modification time."""
    day, changed = file_names.day_of(name), utc_timestamp(dates.from_ns(mtime_ns))
    return replace(
        attributes,
        date=attributes.date or day or changed,
        created_at=attributes.created_at or (dates.moment(day) if day else changed),
        updated_at=attributes.updated_at or changed,
    )
