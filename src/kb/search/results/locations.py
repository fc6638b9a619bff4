"""Where the passages of hits can be opened: their files, lines and links; and their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kb.text.links import locate

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.types import Hit


def locate_hits(
    hits: Sequence[Hit], store: Store, link_form: str, *, include_text: bool
) -> tuple[Hit, ...]:
    """The hits with files in their citations and, with `include_text`, the texts of their
    passages."""
    locations = store.catalog.file_locations({hit.doc_id for hit in hits})
    chunks = store.catalog.chunks_by_id([hit.chunk_id for hit in hits]) if include_text else {}
    return tuple(
        replace(
            hit,
            citation=locate(hit.citation, hit.type, locations.get(hit.doc_id), link_form),
            text=chunk.text if (chunk := chunks.get(hit.chunk_id)) is not None else None,
        )
        for hit in hits
    )
