"""Repeated texts go below others that contain as many words of the query."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kb.search.ranking.repetition import demote, words_in
from kb.types import ScoredChunk

chunk_ids = st.lists(st.integers(1, 12), unique=True, max_size=12)
counts = st.dictionaries(st.integers(1, 12), st.integers(0, 3))


def ranked(*ids: int) -> list[ScoredChunk]:
    return [ScoredChunk(number, 1.0 / rank, rank) for rank, number in enumerate(ids, start=1)]


def order(given_ids: list[int], repeated: set[int], words: dict[int, int]) -> list[int]:
    return [one.chunk_id for one in demote(ranked(*given_ids), repeated, words)]


def test_words_in_a_text() -> None:
    assert words_in("Part of the Git suite", ["git", "stash"]) == 1
    assert words_in("git-stash(1)", ["git", "stash"]) == 2
    assert words_in("anything", []) == 0


def test_below_those_with_as_many_words() -> None:
    assert order([1, 2, 3], {1}, {1: 1, 2: 1, 3: 2}) == [2, 3, 1]


def test_not_below_those_with_fewer_words() -> None:
    assert order([1, 2, 3, 4], {1}, {1: 2, 2: 1, 3: 2, 4: 1}) == [2, 3, 1, 4]
    assert order([1, 2, 3], {1}, {1: 2, 2: 1, 3: 0}) == [1, 2, 3]


def test_without_words_below_all() -> None:
    assert order([1, 2, 3], {1}, {}) == [2, 3, 1]


def test_several_repeated_texts() -> None:
    assert order([1, 2, 3, 4], {1, 2}, {1: 0, 2: 1, 3: 1, 4: 0}) == [3, 2, 4, 1]


def test_only_repeated_texts_keep_their_order() -> None:
    assert order([3, 1, 2], {1, 2, 3}, {2: 5}) == [3, 1, 2]


@given(chunk_ids, st.sets(st.integers(1, 12)), counts)
def test_nothing_is_lost_and_the_others_keep_their_order(
    ids: list[int], repeated: set[int], words: dict[int, int]
) -> None:
    result = order(ids, repeated, words)
    assert sorted(result) == sorted(ids)
    others = [number for number in ids if number not in repeated]
    assert [number for number in result if number not in repeated] == others
    for number in repeated & set(ids):
        above = result[: result.index(number)]
        below = result[result.index(number) :]
        assert set(ids[: ids.index(number)]) - repeated <= set(above)
        assert all(
            words.get(other, 0) < words.get(number, 0) for other in below if other not in repeated
        )
