"""Figures about a library: growth, kinds, languages, and documents that deserve a look.

Stale documents are old and were never read; orphans have neither tags nor links; near-duplicates
have almost the same mean vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kb.text.wikilinks import keys_of
from kb.types import Document, JsonDict

if TYPE_CHECKING:
    from kb.ports import Store

MAX_DOCUMENTS = 50_000
_MAX_LISTED = 10  # documents of each list
_STALE_YEARS = 1
_SAME = 0.97  # the cosine from which documents are near-duplicates


def statistics(documents: Sequence[Document], duplicates: Sequence[JsonDict], now: str) -> JsonDict:
    """The figures as `statistics.v1`. `duplicates` are the pairs of `near_duplicates`, and `now` is
    an ISO 8601 time."""
    counted = documents[:MAX_DOCUMENTS]
    return {
        "schema_version": "statistics.v1",
        "documents": len(documents),
        "left_out": len(documents) - len(counted),
        "months": _months(counted),
        "kinds": dict(Counter(each.kind or "none" for each in counted).most_common()),
        "formats": dict(Counter(each.type for each in counted).most_common()),
        "languages": dict(Counter(each.lang or "unknown" for each in counted).most_common()),
        "most_read": _to_json(most_read(counted)),
        "stale": _to_json(stale(counted, now)),
        "orphans": _to_json(orphans(counted)),
        "near_duplicates": list(duplicates),
    }


def _months(documents: Sequence[Document]) -> list[JsonDict]:
    """The number of documents in each month that has any, by their date, oldest first."""
    counts = Counter(each.date[:7] for each in documents)
    kinds = Counter((each.date[:7], each.kind or "none") for each in documents)
    return [
        {
            "month": month,
            "documents": counts[month],
            "kinds": {kind: count for (at, kind), count in sorted(kinds.items()) if at == month},
        }
        for month in sorted(counts)
    ]


def most_read(documents: Sequence[Document]) -> list[Document]:
    read = [each for each in documents if each.access_count]
    return sorted(read, key=lambda each: (-each.access_count, each.doc_path))


def stale(documents: Sequence[Document], now: str) -> list[Document]:
    """Documents that were never read and have not been changed for a year, oldest first."""
    before = f"{int(now[:4]) - _STALE_YEARS:04d}{now[4:]}"
    unread = [each for each in documents if not each.access_count and each.updated_at < before]
    return sorted(unread, key=lambda each: (each.updated_at, each.doc_path))


def orphans(documents: Sequence[Document]) -> list[Document]:
    """Notes and Markdown files without tags that neither link nor are linked."""
    linked = {key for each in documents for key in each.metadata.get("links_to") or ()}
    return [
        each
        for each in documents
        if each.type in ("note", "markdown")
        and not each.tags
        and not each.metadata.get("links_to")
        and not linked.intersection(keys_of(each.doc_path))
    ]


def near_duplicates(store: Store, documents: Sequence[Document]) -> list[JsonDict]:
    """Pairs of documents with almost the same mean vector, most similar first."""
    from kb.library.library_map import mean_vectors

    points = mean_vectors(store, documents)
    if len(points) < 2:
        return []
    import numpy as np

    rows = np.array([center for _, center, _ in points], np.float32)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    similarity = np.triu(rows @ rows.T, k=1)
    pairs = np.argwhere(similarity >= _SAME)
    ranked = sorted(((-float(similarity[a, b]), int(a), int(b)) for a, b in pairs))[:_MAX_LISTED]
    return [
        {"documents": _to_json([points[a][0], points[b][0]]), "similarity": round(-negative, 3)}
        for negative, a, b in ranked
    ]


def _to_json(documents: Sequence[Document]) -> list[JsonDict]:
    return [
        {
            "doc_path": each.doc_path,
            "title": each.title,
            "date": each.date[:10],
            "updated_at": each.updated_at[:10],
            "access_count": each.access_count,
        }
        for each in documents[:_MAX_LISTED]
    ]
