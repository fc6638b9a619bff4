"""Blending two scores: order, scale, and candidates that were not read."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kb.search.rerank.blend import Scale, blend_scores, logistic
from kb.types import ScoredChunk

numbers = st.floats(-1e6, 1e6) | st.integers(-3, 3).map(float)
blends = st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0])
lists = st.lists(numbers, min_size=1, max_size=30).map(lambda found: sorted(found, reverse=True))


def ranked(fused: list[float]) -> list[ScoredChunk]:
    """Chunks 100, 101, ... with these scores, best first."""
    return [ScoredChunk(100 + place, score, place + 1) for place, score in enumerate(fused)]


def scored(scores: list[float | None]) -> dict[int, float]:
    return {100 + place: score for place, score in enumerate(scores) if score is not None}


def ids(found: tuple[ScoredChunk, ...]) -> list[int]:
    return [one.chunk_id for one in found]


@given(fused=lists, data=st.data(), blend=blends)
def test_the_same_chunks_in_another_order(
    fused: list[float], data: st.DataObject, blend: float
) -> None:
    scores = data.draw(st.lists(st.none() | numbers, min_size=len(fused), max_size=len(fused)))
    found = blend_scores(ranked(fused), scored(scores), blend).ranked
    assert sorted(ids(found)) == ids(tuple(ranked(fused)))
    assert [one.rank for one in found] == list(range(1, len(fused) + 1))
    assert all(0.0 <= one.score <= 1.0 for one in found)
    assert all(one.score >= other.score for one, other in itertools.pairwise(found))


@given(fused=lists, data=st.data(), blend=blends)
def test_a_candidate_better_by_both_scores_ranks_first(
    fused: list[float], data: st.DataObject, blend: float
) -> None:
    scores = data.draw(st.lists(numbers, min_size=len(fused), max_size=len(fused)))
    order = ids(blend_scores(ranked(fused), scored(list(scores)), blend).ranked)
    for one, other in itertools.combinations(range(len(fused)), 2):  # `one` is fused higher
        if scores[one] >= scores[other]:
            assert order.index(100 + one) < order.index(100 + other)


@given(fused=lists, data=st.data())
def test_a_higher_score_never_costs_a_place(fused: list[float], data: st.DataObject) -> None:
    """With the reranker alone, the order is that of its scores, and ties keep their order."""
    scores = data.draw(st.lists(numbers, min_size=len(fused), max_size=len(fused)))
    spread = Scale.of(scores).deviation
    gaps = [abs(a - b) for a, b in itertools.combinations(scores, 2) if a != b]
    assume(not gaps or min(gaps) > 1e-9 * max(1.0, spread))
    order = ids(blend_scores(ranked(fused), scored(list(scores)), 1.0).ranked)
    assert order == [100 + place for place in sorted(
        range(len(scores)), key=lambda place: (-scores[place], place)
    )]  # fmt: skip


@given(fused=lists, scores=st.lists(numbers, min_size=30, max_size=30))
def test_a_blend_of_nothing_is_the_fused_order(fused: list[float], scores: list[float]) -> None:
    given_ = scored(list(scores[: len(fused)]))
    assert ids(blend_scores(ranked(fused), given_, 0.0).ranked) == ids(tuple(ranked(fused)))


@given(fused=lists, blend=blends, score=numbers)
def test_equal_scores_change_nothing(fused: list[float], blend: float, score: float) -> None:
    for scores in ({}, scored([score] * len(fused))):
        order = ids(blend_scores(ranked(fused), scores, blend).ranked)
        assert order == ids(tuple(ranked(fused)))


@given(fused=lists, others=lists, blend=blends, scores=st.lists(numbers, min_size=30, max_size=30))
def test_unread_candidates_follow_in_their_order(
    fused: list[float], others: list[float], blend: float, scores: list[float]
) -> None:
    made = blend_scores(ranked(fused), scored(list(scores[: len(fused)])), blend)
    later = [ScoredChunk(1000 + place, score, place + 1) for place, score in enumerate(others)]
    below = made.below(later, made.ranked[-1].score)
    assert [one.chunk_id for one in below] == [one.chunk_id for one in later]
    every = [*made.ranked, *below]
    assert all(one.score >= other.score for one, other in itertools.pairwise(every))


def test_by_hand() -> None:
    """The fused scores 3, 2, 1 are 1.2247, 0 and -1.2247 deviations from their mean; so are 10, 30,
    20."""
    made = blend_scores(ranked([3.0, 2.0, 1.0]), scored([10.0, 30.0, 20.0]), 0.75)
    assert ids(made.ranked) == [101, 102, 100]
    places = [0.75 * 1.224745, 0.25 * -1.224745, 0.75 * -1.224745 + 0.25 * 1.224745]
    assert [one.score for one in made.ranked] == pytest.approx(
        [1 / (1 + 2.718281828**-place) for place in places], rel=1e-5
    )


def test_a_candidate_without_a_score_keeps_its_place() -> None:
    fused = [9.0, 8.0, 7.0, 1.0]
    assert ids(blend_scores(ranked(fused), scored([None, 1.0, 2.0, 3.0]), 0.5).ranked)[0] == 100
    assert ids(blend_scores(ranked(fused), scored([3.0, 2.0, 1.0, None]), 0.5).ranked)[-1] == 103


# --- by hand --------------------------------------------------------------------------------------


def test_the_formula() -> None:
    """`blend * reranker + (1 - blend) * fused`, both in standard deviations, through the logistic
    function."""
    found = blend_scores(ranked([3.0, 2.0, 1.0]), scored([10.0, 30.0, 20.0]), 0.25).ranked
    step = (3 / 2) ** 0.5  # one score apart, in standard deviations of three in a row
    places = {100: 0.25 * -step + 0.75 * step, 101: 0.25 * step, 102: 0.75 * -step}
    assert ids(found) == [100, 101, 102]
    assert [one.score for one in found] == pytest.approx(
        [logistic(places[chunk]) for chunk in places]
    )
    assert logistic(0.0) == 0.5
    assert logistic(1.0) == pytest.approx(0.7310585786)


def test_a_scale() -> None:
    assert Scale.of([]) == Scale(0.0, 0.0)
    assert Scale.of([2.0]) == Scale(2.0, 0.0)
    assert Scale.of([1.0, 3.0]) == Scale(2.0, 1.0)
    assert Scale(2.0, 4.0).z_score(8.0) == 1.5


def test_nearly_equal_scores_count_as_equal() -> None:
    """Relative to their mean, since larger numbers are less exact."""
    assert Scale(0.0, 1e-12).z_score(1.0) == 0.0
    assert Scale(0.0, 1.05e-12).z_score(1.0) == 500.0
    assert Scale(-1000.0, 9e-10).z_score(1.0) == 0.0
    assert Scale(1000.0, 1.05e-9).z_score(-1.0) == -500.0
    assert Scale(0.5, 0.95e-12).z_score(1.0) == 0.0


def test_no_place_is_farther_than_the_logistic_function_reaches() -> None:
    assert Scale(0.0, 1e-6).z_score(1.0) == 500.0
    assert Scale(0.0, 1e-6).z_score(-1.0) == -500.0
    assert Scale(0.0, 1.0).z_score(499.0) == 499.0


def test_later_candidates_are_on_the_scale_of_the_fused_scores() -> None:
    """Their scores never exceed the lowest score before them."""
    found = blend_scores(ranked([3.0, 2.0, 1.0]), scored([1.0, 2.0, 3.0]), 0.5)
    others = [ScoredChunk(7, 9.0, 4), ScoredChunk(8, 0.0, 5), ScoredChunk(9, -1.0, 6)]
    later = found.below(others, 0.4)
    step = (3 / 2) ** 0.5
    assert [(one.chunk_id, one.rank) for one in later] == [(7, 4), (8, 5), (9, 6)]
    expected = [0.4, logistic(-2 * step), logistic(-3 * step)]
    assert [one.score for one in later] == pytest.approx(expected)
