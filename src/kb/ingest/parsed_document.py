"""A parsed document, split into chunks: what a parser process returns.

No I/O, and few imports, so that a parser process starts fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kb.ingest.chunk import iter_chunks
from kb.ports import Parsed, Parser, Source
from kb.text.normalize import nfc
from kb.types import Attributes, ChunkDraft

# Formats of text files that kb shows as a rendering.
_TEXT_TYPES = frozenset({"man", "subtitles", "conversation", "canvas", "bookmarks", "notebook"})


@dataclass(frozen=True, slots=True)
class ChunkedDocument:
    """A `ports.Parsed` with chunks instead of blocks. `chunks` can be iterated once; a long file is
    parsed during the iteration. With `lang_detected`, a `lang` of None means that the language
    could not be detected from the text either."""

    type: str
    title: str | None
    lang: str | None
    attributes: Attributes
    warnings: tuple[str, ...]
    chunks: Iterable[ChunkDraft]
    lang_detected: bool = False


def parse_and_chunk(parser: Parser, source: Source, max_chars: int) -> ChunkedDocument:
    """Parse `source` with `parser` in this process, and split it into chunks."""
    parsed = parser.parse(source)
    return ChunkedDocument(
        parsed.type,
        parsed.title,
        parsed.lang,
        parsed.attributes,
        all_warnings(parsed, source.data),
        map(_normalize, iter_chunks(parsed.blocks, max_chars)),
    )


def all_warnings(parsed: Parsed, data: bytes) -> tuple[str, ...]:
    """The parser's warnings, and one that names the encoding of `data`, which was parsed, if it is
    an older one than UTF-8."""
    is_text = parsed.text is None or parsed.type in _TEXT_TYPES
    if not is_text or (data.isascii() and b"\x1b$" not in data):
        return parsed.warnings
    from kb.ingest.decode import wide_encoding
    from kb.ingest.legacy_encodings import encoding_note

    note = encoding_note(data) if wide_encoding(data) is None else None
    return parsed.warnings if note is None else (*parsed.warnings, note)


def _normalize(draft: ChunkDraft) -> ChunkDraft:
    """Convert the text to NFC, as a plug-in may not have done so."""
    text, path = nfc(draft.text), tuple(map(nfc, draft.heading_path))
    if text == draft.text and path == draft.heading_path:
        return draft
    return replace(draft, text=text, heading_path=path)
