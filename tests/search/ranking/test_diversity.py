"""At most a few passages of a document among the first hits."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kb.search.ranking.diversity import FIRST, limit_per_document, non_increasing
from kb.types import ScoredChunk

documents_of = st.lists(st.integers(1, 5), max_size=40)


def ranked(documents: list[int], scores: list[float] | None = None) -> list[ScoredChunk]:
    """Chunks 0, 1, 2… of these documents."""
    values = scores or [1.0 - 0.01 * number for number in range(len(documents))]
    return [ScoredChunk(n, value, n + 1) for n, value in enumerate(values)]


def order(documents: list[int], limit: int, scores: list[float] | None = None) -> list[int]:
    owners = dict(enumerate(documents))
    return [
        one.chunk_id for one in limit_per_document(ranked(documents, scores), owners, limit).ranked
    ]


def test_others_come_forward() -> None:
    assert order([1, 1, 1, 2, 3], 2) == [0, 1, 3, 4, 2]


def test_after_the_first_hits_the_order_is_the_old_one() -> None:
    documents = [1] * 5 + [2, 3, 4, 5, 6, 7, 8, 1, 9]
    assert order(documents, 3) == [0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 3, 4, 12, 13]


def test_a_document_alone_keeps_its_places() -> None:
    assert order([1] * 12, 3) == list(range(12))


def test_irrelevant_passages_do_not_come_forward() -> None:
    assert order([1, 1, 1, 2], 2, [0.9, 0.8, 0.8, 0.4]) == [0, 1, 3, 2]
    assert order([1, 1, 1, 2], 2, [0.9, 0.8, 0.8, 0.39]) == [0, 1, 2, 3]


def test_moved_passages_are_counted() -> None:
    documents = [1] * 5 + [2, 2, 2, 2] + list(range(3, 12))
    result = limit_per_document(ranked(documents), dict(enumerate(documents)), 3)
    assert result.moved == {1: 2, 2: 1}
    short = limit_per_document(ranked([1] * 5), dict.fromkeys(range(5), 1), 3)
    assert short.moved == {}, "all of them are among the first hits"


def test_scores_do_not_rise() -> None:
    documents = [1, 1, 2]
    result = limit_per_document(ranked(documents, [0.9, 0.8, 0.5]), dict(enumerate(documents)), 1)
    assert [(one.chunk_id, one.score) for one in result.ranked] == [(0, 0.9), (2, 0.5), (1, 0.5)]
    assert non_increasing([]) == []


@given(documents_of, st.integers(1, 4))
def test_nothing_is_lost(documents: list[int], limit: int) -> None:
    owners = dict(enumerate(documents))
    result = limit_per_document(ranked(documents), owners, limit)
    ids = [one.chunk_id for one in result.ranked]
    assert sorted(ids) == list(range(len(documents)))
    scores = [one.score for one in result.ranked]
    assert scores == sorted(scores, reverse=True)
    first = Counter(owners[number] for number in ids[:FIRST])
    others = Counter(documents)
    available = sum(min(limit, count) for count in others.values())
    if available >= FIRST:
        assert max(first.values()) <= limit
