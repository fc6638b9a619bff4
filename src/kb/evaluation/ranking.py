"""From passages to documents: what a method under test returns.

kb finds chunks, judgments are about documents. Stands between a search and `runs`, which calls a
`Ranker` for every query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kb.evaluation.metrics import distinct

# (query text, k) -> the ids of up to k documents, best first
Ranker = Callable[[str, int], Sequence[str]]

_GROWTH = 4  # few searches for documents of many chunks, little too much for those of one


def documents_until(search: Callable[[int], Sequence[str]], k: int) -> list[str]:
    """The first k documents, each where its best chunk stands.

    `search(limit)` returns the document id of each of the best `limit` chunks, best first. It is
    asked for more until k documents are there or it has no more to give. A short answer alone does
    not say the latter: a pipeline may cut candidates and still find more with a larger limit.
    """
    limit, seen = k, 0
    while True:
        chunks = search(limit)
        documents = distinct(chunks)
        if len(documents) >= k or len(chunks) <= seen:
            return documents[:k]
        limit, seen = limit * _GROWTH, len(chunks)
