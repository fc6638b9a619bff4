"""Documents from chunks."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kb.evaluation.metrics import distinct
from kb.evaluation.ranking import documents_until

chunks_of = st.lists(st.sampled_from("abcdefgh"), max_size=200)


@given(chunks=chunks_of, k=st.integers(1, 12))
def test_the_first_k_documents_of_all_chunks(chunks: list[str], k: int) -> None:
    limits: list[int] = []

    def search(limit: int) -> list[str]:
        limits.append(limit)
        return chunks[:limit]

    assert documents_until(search, k) == distinct(chunks)[:k]
    assert limits == [k * 4**step for step in range(len(limits))]


@given(chunks=chunks_of, k=st.integers(1, 12))
def test_no_more_is_asked_for_than_is_needed(chunks: list[str], k: int) -> None:
    answers: list[list[str]] = []

    def search(limit: int) -> list[str]:
        answers.append(chunks[:limit])
        return answers[-1]

    documents_until(search, k)
    *earlier, last = answers
    assert all(len(set(answer)) < k for answer in earlier)
    assert all(len(one) < len(two) for one, two in pairwise(earlier))
    assert len(set(last)) >= k or not earlier or len(last) == len(earlier[-1])


def test_a_short_answer_is_not_the_end() -> None:
    """A pipeline that drops every second candidate still has more to give."""
    chunks = [f"d{number}" for number in range(100)]
    assert documents_until(lambda limit: chunks[:limit:2], 10) == chunks[:20:2]


def test_nothing_found_is_asked_once() -> None:
    limits: list[int] = []

    def search(limit: int) -> list[str]:
        limits.append(limit)
        return []

    assert documents_until(search, 10) == []
    assert limits == [10]


def test_the_order_is_that_of_the_last_answer() -> None:
    """A deeper search may rank otherwise; orders are not mixed."""
    answers = {2: ["a", "a"], 8: ["b", "a", "a"]}
    assert documents_until(answers.__getitem__, 2) == ["b", "a"]
