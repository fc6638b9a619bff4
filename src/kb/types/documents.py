"""Documents and chunks, as a store returns them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kb.types.citations import Span
from kb.values import Any, NamedTuple, dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """A stored document. Times are ISO 8601 in UTC."""

    doc_id: int
    root_id: int | None
    path: str
    doc_path: str
    title: str
    type: str
    kind: str | None
    scope: str
    lang: str | None
    trust: str
    tags: tuple[str, ...]
    date: str
    created_at: str
    updated_at: str
    expires_at: str | None
    indexed_at: str
    access_count: int
    content_hash: str
    size_bytes: int
    metadata: Mapping[str, Any]
    chunks: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stored passage."""

    chunk_id: int
    doc_id: int
    ordinal: int
    text: str
    heading_path: tuple[str, ...]
    section_label: str | None
    spans: tuple[Span, ...]
    chunker_version: str
    content_hash: str
    indexed_at: str


class ChunkText(NamedTuple):
    """The text of a chunk. `copies` is the number of documents of the same root that have a chunk
    with this text, counted up to 5; it is 0 for texts of more than 200 characters. `chunk` returns
    the whole chunk, which takes longer to build."""

    doc_id: int
    text: str
    copies: int
    chunk: Callable[[], Chunk]


class FileLocation(NamedTuple):
    """The location of a document's file: `inside` is its path below the folder `root`. The file of
    a `detached` document must not be read."""

    root: str
    inside: str
    detached: bool


class BoostFields(NamedTuple):
    """The fields of a chunk's document that boosts use. A search reads those of all candidates."""

    doc_id: int
    doc_path: str
    kind: str | None
    access_count: int


class ChunkChanges(NamedTuple):
    """The number of chunks that a write of a document added, kept and removed."""

    doc_id: int
    chunks_added: int
    chunks_kept: int
    chunks_removed: int


class PendingChunk(NamedTuple):
    """A chunk that has no vectors yet, with the text to encode: its heading, then its own text."""

    chunk_id: int
    text: str
