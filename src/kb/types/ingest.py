"""Values on their way into a store (Block, ChunkDraft, DocumentDraft, DocumentWrite), and the
store's records of folders and files, by which ingest recognizes changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kb.types.citations import Span
from kb.types.documents import Document


@dataclass(frozen=True, slots=True)
class Block:
    """A structural unit of a source, as parsers yield them in reading order.

    The chunker never splits an `atomic` block, such as a code fence or a table. A block with
    `boundary`, or with a different `heading_path` than the block before it, starts a new section.
    """

    text: str
    span: Span
    heading_path: tuple[str, ...] = ()
    atomic: bool = False
    boundary: bool = False


@dataclass(frozen=True, slots=True)
class ChunkDraft:
    """A passage before it has an id."""

    text: str
    heading_path: tuple[str, ...]
    section_label: str | None
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes that front matter or `kb add` may set; None means not set."""

    title: str | None = None
    tags: tuple[str, ...] = ()
    kind: str | None = None
    scope: str | None = None
    trust: str | None = None
    lang: str | None = None
    date: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    expires_at: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """A document before it has an id. `root_id` is None for notes, which have a `body`."""

    root_id: int | None
    path: str
    doc_path: str
    title: str
    type: str
    attributes: Attributes
    content_hash: str
    chunker_version: str
    size_bytes: int
    mtime_ns: int
    ctime_ns: int = 0
    device: int | None = None
    os_path: bytes | None = None  # the path on disk, if it is not `path` in UTF-8
    body: str | None = None


class DocumentWrite(NamedTuple):
    """A document to write. `moved_from` is the id of a document whose file has moved to this path;
    the id is kept. `displaces` is the id of the document that has this path until then: it is moved
    away with a later write, and has a temporary path before that. `replaces` is the document at
    this path as it was read: it must be unchanged, otherwise the write is an `EditConflict`. All of
    its tags are replaced, those from `kb tag` too."""

    draft: DocumentDraft
    chunks: Iterable[ChunkDraft]
    moved_from: int | None = None
    displaces: int | None = None
    replaces: Document | None = None


@dataclass(frozen=True, slots=True)
class Root:
    """An ingested folder. `whole` is False if only single files of it were ingested.

    A `detached` root comes from an import or belongs to another machine, which is `machine` then:
    nothing at `path` is read until the user attaches it.
    """

    root_id: int
    name: str
    path: str
    whole: bool
    detached: bool = False
    machine: str | None = None


@dataclass(frozen=True, slots=True)
class FileState:
    """The store's record of a file, by which one `stat` call recognizes an unchanged file. A
    `detached` document comes from an import, and its file has not been read since."""

    doc_id: int
    path: str
    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    device: int | None
    os_path: bytes | None
    content_hash: str
    indexed_ns: int
    chunker_version: str
    detached: bool = False
