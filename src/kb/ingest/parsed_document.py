"""A document as its parser reads it, cut into chunks: what a parser process gives back.

Between the parsers and `draft`. No I/O, and few imports: a parser process loads little else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kb.ingest.chunk import stream
from kb.ports import Parser, Source
from kb.text.normalize import nfc
from kb.types import Attributes, ChunkDraft


@dataclass(frozen=True, slots=True)
class ChunkedDocument:
    """A `ports.Parsed` whose blocks are chunks. They can be read once, and a long file is parsed
    while they are."""

    type: str
    title: str | None
    lang: str | None
    attributes: Attributes
    warnings: tuple[str, ...]
    chunks: Iterable[ChunkDraft]


def chunked(parser: Parser, source: Source, max_chars: int) -> ChunkedDocument:
    """Parse `source` with `parser`, in this process."""
    parsed = parser.parse(source)
    return ChunkedDocument(
        parsed.type,
        parsed.title,
        parsed.lang,
        parsed.attributes,
        parsed.warnings,
        map(_composed, stream(parsed.blocks, max_chars)),
    )


def _composed(draft: ChunkDraft) -> ChunkDraft:
    """In NFC, also where a plug-in did not see to it."""
    text, path = nfc(draft.text), tuple(map(nfc, draft.heading_path))
    if text == draft.text and path == draft.heading_path:
        return draft
    return replace(draft, text=text, heading_path=path)
