"""Reads the nearest passages to find out whether they are code (see `ranking.code`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kb.search.ranking.code import are_code, has_code_name
from kb.search.retrievers.base import Candidates

if TYPE_CHECKING:
    from kb.ports import Store

_NEAREST = 10  # passages that are read


def finds_code(store: Store, candidates: Mapping[str, Candidates], text: str) -> bool:
    """Whether the query `text` is in words, and the first passages by meaning are code. Reads no
    texts if there are no weighted terms, because only their weight depends on the result."""
    dense, sparse = candidates.get("dense"), candidates.get("sparse")
    if dense is None or sparse is None or not (dense.ran and sparse.ran):
        return False
    if has_code_name(text):
        return False
    nearest = [one.chunk_id for one in dense.ranked[:_NEAREST]]
    return are_code(store.catalog.chunk_texts(nearest).values())
