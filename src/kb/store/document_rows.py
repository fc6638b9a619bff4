"""Documents and chunks as the values of columns, and their digests. Pure; shared by all stores."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kb.errors import EditConflict

if TYPE_CHECKING:
    from kb.types import ChunkDraft, Document, DocumentDraft

_to_json = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` makes one for each call


def check_replaced(current: Document | None, expected: Document) -> None:
    """Raise `EditConflict` if the stored document is not the one that is to be replaced."""
    if current is None or _editable(current) != _editable(expected):
        raise EditConflict(
            f"{expected.doc_path} was changed or removed in the meantime",
            "read it again, and merge both",
        )


def _editable(document: Document) -> tuple[object, ...]:
    """What an edit replaces or relies on; accesses change without an edit."""
    return (
        document.doc_id, document.content_hash, document.title, document.kind, document.scope,
        document.expires_at, sorted(document.tags),
    )  # fmt: skip


def document_columns(draft: DocumentDraft, now: str) -> dict[str, Any]:
    """The columns of a document. `now` stands for the times that the draft lacks."""
    attributes = draft.attributes
    return {
        "root_id": draft.root_id,
        "path": draft.path,
        "doc_path": draft.doc_path,
        "title": draft.title,
        "type": draft.type,
        "kind": attributes.kind,
        "scope": attributes.scope or "global",
        "lang": attributes.lang,
        "trust": attributes.trust or "primary",
        "date": attributes.date or now,
        "created_at": attributes.created_at or now,
        "updated_at": attributes.updated_at or now,
        "expires_at": attributes.expires_at,
        "indexed_at": now,
        "content_hash": draft.content_hash,
        "chunker_version": draft.chunker_version,
        "size_bytes": draft.size_bytes,
        "mtime_ns": draft.mtime_ns,
        "ctime_ns": draft.ctime_ns,
        "device": draft.device,
        "os_path": draft.os_path,
        "metadata": json.dumps(dict(attributes.metadata), ensure_ascii=False, sort_keys=True),
        "body": draft.body,
    }


def chunk_place(chunk: ChunkDraft, chunker_version: str) -> tuple[str | None, str, str, str]:
    """The columns `section_label`, `chunker_version`, `spans` and `heading_path`."""
    spans = _to_json([span.to_dict() for span in chunk.spans])
    path = _to_json(chunk.heading_path)
    return chunk.section_label, chunker_version, spans, path


def content_digest(heading: str, text: str) -> str:
    """The digest by which an unchanged chunk is recognized."""
    import hashlib  # a search needs no OpenSSL

    return hashlib.blake2b(f"{heading}\0{text}".encode(), digest_size=16).hexdigest()


def body_digest(body: str) -> str:
    """The digest of a note's text."""
    import hashlib

    return hashlib.blake2b(body.encode(), digest_size=16).hexdigest()
