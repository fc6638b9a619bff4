"""A parsed document, split into chunks: what a parser process returns.

No I/O, and few imports, so that a parser process starts fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kb.ingest.chunk import iter_chunks
from kb.ports import Parser, Source
from kb.text.normalize import nfc
from kb.types import Attributes, ChunkDraft


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
    warnings = parsed.warnings
    if parsed.text is None and (not source.data.isascii() or b"\x1b$" in source.data):
        from kb.ingest.legacy_encodings import encoding_note

        warnings += tuple(filter(None, [encoding_note(source.data)]))
    return ChunkedDocument(
        parsed.type,
        parsed.title,
        parsed.lang,
        parsed.attributes,
        warnings,
        map(_normalize, iter_chunks(parsed.blocks, max_chars)),
    )


def _normalize(draft: ChunkDraft) -> ChunkDraft:
    """Convert the text to NFC, as a plug-in may not have done so."""
    text, path = nfc(draft.text), tuple(map(nfc, draft.heading_path))
    if text == draft.text and path == draft.heading_path:
        return draft
    return replace(draft, text=text, heading_path=path)
