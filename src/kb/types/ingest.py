"""What is on its way into a store: Block -> ChunkDraft, with its DocumentDraft; and what the store
remembers of folders and files, to tell what has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kb.types.places import Span


@dataclass(frozen=True, slots=True)
class Block:
    """What a parser yields: a structural unit of the source, in reading order.

    `atomic` units (a code fence, a table) are never cut by the chunker. A block with another
    `heading_path` than its predecessor's, or with `boundary`, starts a new section.
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
    """What a front matter or `kb add` may say about a document; None means: not said."""

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
    """A document before it has an id. `root_id` is None for notes, which carry their `body`."""

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
    os_path: bytes | None = None  # the name on disk, where it is not `path` in UTF-8
    body: str | None = None


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that was ingested. `whole` is False when only single files of it were asked for. One
    that an import brought is `detached`: nothing at `path` is read before the user attaches it."""

    root_id: int
    name: str
    path: str
    whole: bool
    detached: bool = False


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where a document's file lies: `inside` is its path below the folder `root`. The file of a
    `detached` document must not be read."""

    root: str
    inside: str
    detached: bool


@dataclass(frozen=True, slots=True)
class FileState:
    """What the store remembers of a file, to tell an unchanged one by one stat. A `detached`
    document came by an import, and its file was not read since."""

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
