"""Documents and their passages, as a store holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kb.types.places import Span


@dataclass(frozen=True, slots=True)
class Document:
    """A stored document (spec 2). Times are ISO 8601 in UTC."""

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


class Written(NamedTuple):
    """What writing a document did to the chunks it had."""

    doc_id: int
    chunks_added: int
    chunks_kept: int
    chunks_removed: int


class ToEmbed(NamedTuple):
    """A chunk without ready vectors, and the text that stands for it: its heading, then itself."""

    chunk_id: int
    text: str
