"""Fusion: properties of any lists, and the numbers of the seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.errors import InvalidRequest
from kb.search.ranking import fusion
from kb.search.ranking.calibration import keyword_score, spread
from kb.search.ranking.fusion import (
    Fusion,
    RankedList,
    convex_sum,
    rrf,
    weighted_sum,
)
from kb.types import ScoredChunk

NAMES = ("lexical", "dense", "sparse")


def listed(name: str, scores: dict[int, float], **said: object) -> RankedList:
    """A list in the order of its scores."""
    order = sorted(scores, key=lambda chunk: (-scores[chunk], chunk))
    ranked = [ScoredChunk(chunk, scores[chunk], rank) for rank, chunk in enumerate(order, start=1)]
    return replace(RankedList(name, ranked), **said)  # type: ignore[arg-type]


def scores_of(fused: Sequence[ScoredChunk]) -> dict[int, float]:
    return {one.chunk_id: one.score for one in fused}


FUSIONS: dict[str, Callable[[Sequence[RankedList]], list[ScoredChunk]]] = {
    "rrf": rrf,
    "weighted": weighted_sum,
    "zscore": partial(convex_sum, normalisation="zscore"),
    "minmax": partial(convex_sum, normalisation="minmax"),
}
every_fusion = pytest.mark.parametrize("fuse", FUSIONS.values(), ids=FUSIONS)

any_float = st.floats(allow_nan=True, allow_infinity=True)
usual = st.floats(-1, 1)


def lists_of(score: st.SearchStrategy[float]) -> st.SearchStrategy[list[RankedList]]:
    scores = st.dictionaries(st.integers(1, 12), score, max_size=12)
    weights = st.floats(0, 5)
    absent = st.sampled_from(("zero", "half", "least"))
    one = st.tuples(scores, weights, absent)
    return st.lists(one, min_size=1, max_size=3).map(
        lambda drawn: [
            listed(name, found, weight=weight, absent=how)
            for name, (found, weight, how) in zip(NAMES, drawn, strict=False)
        ]
    )


# --- properties -----------------------------------------------------------------------------------


@every_fusion
@given(lists_of(any_float))
def test_any_lists_give_finite_scores_in_order(
    fuse: Callable[[Sequence[RankedList]], list[ScoredChunk]], lists: list[RankedList]
) -> None:
    fused = fuse(lists)
    assert {one.chunk_id for one in fused} == {
        one.chunk_id for each in lists for one in each.ranked
    }
    assert all(math.isfinite(one.score) for one in fused)
    assert [one.rank for one in fused] == list(range(1, len(fused) + 1))
    assert [one.score for one in fused] == sorted((one.score for one in fused), reverse=True)


@every_fusion
@given(lists_of(usual))
def test_the_order_of_the_lists_does_not_matter(
    fuse: Callable[[Sequence[RankedList]], list[ScoredChunk]], lists: list[RankedList]
) -> None:
    assert all(fuse(order) == fuse(lists) for order in permutations(lists))


@every_fusion
@given(lists_of(usual), st.integers(1, 12), st.integers(1, 12))
def test_better_in_every_list_is_never_worse_in_the_sum(
    fuse: Callable[[Sequence[RankedList]], list[ScoredChunk]],
    lists: list[RankedList],
    one: int,
    other: int,
) -> None:
    def places(chunk: int) -> list[ScoredChunk | None]:
        return [next((hit for hit in each.ranked if hit.chunk_id == chunk), None) for each in lists]

    pairs = list(zip(places(one), places(other), strict=True))
    if any(ours is None or theirs is None or ours.score < theirs.score for ours, theirs in pairs):
        return
    if any(ours.rank > theirs.rank for ours, theirs in pairs if ours and theirs):
        return
    fused = scores_of(fuse(lists))
    assert fused[one] >= fused[other] - 1e-12


@every_fusion
@given(st.dictionaries(st.integers(1, 12), usual, max_size=12), st.sampled_from(NAMES))
def test_an_empty_list_changes_no_order(
    fuse: Callable[[Sequence[RankedList]], list[ScoredChunk]], scores: dict[int, float], empty: str
) -> None:
    name = "dense" if empty == "lexical" else "lexical"
    alone = listed(name, {chunk: abs(score) for chunk, score in scores.items()})
    fused = fuse([alone, RankedList(empty)])
    ranks = {one.chunk_id: one.score for one in alone.ranked}
    ordered = [ranks[one.chunk_id] for one in fused]
    # Scores that differ by less than rounding errors may tie, and ties are ordered by chunk id.
    assert all(one >= other - 1e-9 for one, other in pairwise(ordered))


@every_fusion
def test_no_lists_and_only_empty_ones(
    fuse: Callable[[Sequence[RankedList]], list[ScoredChunk]],
) -> None:
    assert fuse([]) == []
    assert fuse([RankedList("lexical"), RankedList("dense")]) == []


@every_fusion
def test_all_equal_scores_are_ordered_by_lexical_rank_then_id(
    fuse: Callable[[Sequence[RankedList]], list[ScoredChunk]],
) -> None:
    same = {5: 0.5, 3: 0.5, 9: 0.5}
    dense = RankedList("dense", [ScoredChunk(chunk, 0.5, 1) for chunk in same])
    assert [one.chunk_id for one in fuse([dense])] == [3, 5, 9]
    words = RankedList("lexical", [ScoredChunk(9, 0.5, 1), ScoredChunk(3, 0.5, 1)], weight=0.0)
    fused = fuse([dense, replace(words, known={5: 0.5})])
    assert [one.chunk_id for one in fused][:2] in ([3, 9], [9, 3], [9, 5], [3, 5])


# --- reciprocal ranks -----------------------------------------------------------------------------


def test_rank_two_and_rank_five() -> None:
    """[000] 1/(60+2) + 1/(60+5) = 0.0315, more than any chunk of one list can have."""
    words = RankedList("lexical", [ScoredChunk(1, 9.0, 1), ScoredChunk(7, 8.0, 2)])
    meaning = RankedList("dense", [ScoredChunk(number, 0.5, number - 1) for number in range(2, 6)])
    meaning = replace(meaning, ranked=[*meaning.ranked, ScoredChunk(7, 0.1, 5)])
    fused = rrf([words, meaning])
    assert fused[0].chunk_id == 7
    assert fused[0].score == pytest.approx(1 / 62 + 1 / 65)
    assert round(fused[0].score, 4) == 0.0315
    assert fused[1].score == pytest.approx(1 / 61)


def test_k_and_weights() -> None:
    words = listed("lexical", {1: 0.9}, weight=2.0)
    meaning = listed("dense", {2: 0.9})
    assert scores_of(rrf([words, meaning], k=10)) == {1: 2 / 11, 2: 1 / 11}


def test_ties_go_by_lexical_rank_then_by_id() -> None:
    words = RankedList("lexical", [ScoredChunk(4, 0.9, 1), ScoredChunk(2, 0.8, 2)])
    meaning = RankedList("dense", [ScoredChunk(2, 0.9, 1), ScoredChunk(4, 0.8, 2)])
    assert [one.chunk_id for one in rrf([words, meaning])] == [4, 2]
    others = RankedList("sparse", [ScoredChunk(8, 0.9, 1)])
    assert [
        one.chunk_id for one in rrf([RankedList("dense", [ScoredChunk(9, 1.0, 1)]), others])
    ] == [8, 9]


# --- the weighted sum -----------------------------------------------------------------------------


def test_seven_to_three() -> None:
    """[003] 0.7 * vector + 0.3 * keyword."""
    words = listed("lexical", {1: 0.5}, weight=0.3)
    meaning = listed("dense", {1: 0.8, 2: 0.4}, weight=0.7)
    fused = scores_of(weighted_sum([words, meaning]))
    assert fused[1] == pytest.approx(0.7 * 0.8 + 0.3 * (0.35 + 0.64 * 0.5))
    assert fused[2] == pytest.approx(0.7 * 0.4)


@given(st.floats(0, 1, exclude_max=True))
def test_no_keyword_hit_is_below_the_minimum_score(score: float) -> None:
    words = listed("lexical", {1: score}, weight=0.3)
    meaning = listed("dense", {1: -1.0, 2: 1.0}, weight=0.7)
    assert scores_of(weighted_sum([words, meaning]))[1] >= 0.1
    assert 0.35 <= keyword_score(score) < 1


def test_the_weight_of_a_retriever_that_did_not_run_goes_to_the_other() -> None:
    words = listed("lexical", {1: 0.5}, weight=0.3)
    assert scores_of(weighted_sum([words, RankedList("dense", weight=0.7, ran=False)])) == {
        1: pytest.approx(keyword_score(0.5))
    }
    # One that ran and found nothing keeps its weight.
    assert scores_of(weighted_sum([words, RankedList("dense", weight=0.7)])) == {
        1: pytest.approx(0.3 * keyword_score(0.5))
    }


def test_all_weights_zero() -> None:
    words = listed("lexical", {1: 0.5}, weight=0.0)
    assert weighted_sum([words])[0].chunk_id == 1
    assert convex_sum([words, listed("dense", {2: 0.3}, weight=0.0)])[0].chunk_id in (1, 2)


# --- convex sums ----------------------------------------------------------------------------------


def test_a_word_that_only_one_chunk_has_counts() -> None:
    """The list has a single score, but the chunk still ranks above those that lack the word."""
    words = listed("lexical", {7: 0.8}, absent="zero")
    meaning = listed("dense", {number: 0.5 + number / 1000 for number in range(1, 50)})
    assert convex_sum([words, meaning])[0].chunk_id == 7


def test_lexical_scores_are_spread_again() -> None:
    """0.95 is twice as far from 0.9 as 0.9 is from 0.8: BM25 of 19, 9 and 4."""
    assert [spread(score) for score in (0.0, 0.5, 0.9, 0.95)] == pytest.approx([0, 1, 9, 19])
    words = listed("lexical", {1: 0.95, 2: 0.9, 3: 0.8}, absent="zero")
    fused = scores_of(convex_sum([words], "minmax"))
    assert fused == {1: 1.0, 2: pytest.approx(5 / 15), 3: 0.0}


@given(any_float, any_float)
def test_the_spread_keeps_the_order(one: float, other: float) -> None:
    low, high = sorted(max(-1e6, min(1e6, each)) if each == each else 0 for each in (one, other))
    assert spread(low) <= spread(high)


def test_a_list_that_was_cut_may_have_gone_on() -> None:
    words = listed("lexical", {1: 0.9, 2: 0.8}, absent="half")
    meaning = listed("dense", {3: 0.9, 1: 0.5, 2: 0.5})
    fused = scores_of(convex_sum([words, meaning], "minmax"))
    assert fused[3] == pytest.approx(0.5)  # 2 on a scale from 2 to 9 by words: the lowest


def test_known_scores_count_as_if_they_had_been_found() -> None:
    words = listed("lexical", {1: 0.9, 2: 0.8}, absent="zero")
    meaning = listed("dense", {3: 0.9, 4: 0.7})
    known = replace(meaning, known={1: 0.1, 2: 0.85})
    order = [one.chunk_id for one in convex_sum([words, known])]
    assert order.index(2) < order.index(1)
    assert order == [
        one.chunk_id
        for one in convex_sum([words, listed("dense", {3: 0.9, 4: 0.7, 1: 0.1, 2: 0.85})])
    ]


def test_a_chunk_without_a_vector_is_neither_good_nor_bad() -> None:
    words = listed("lexical", {1: 0.5, 2: 0.5, 3: 0.5}, absent="zero")
    meaning = listed("dense", {1: 0.9, 3: 0.1}, unknown={2})
    assert [one.chunk_id for one in convex_sum([words, meaning])] == [1, 2, 3]


def test_a_list_of_equal_scores_changes_nothing() -> None:
    words = listed("lexical", {1: 0.3, 2: 0.6}, absent="zero")
    flat = listed("dense", {1: 0.4, 2: 0.4})
    for normalisation in ("zscore", "minmax"):
        fused = convex_sum([words, flat], normalisation)
        assert [one.chunk_id for one in fused] == [2, 1]


def test_zscores_lie_between_zero_and_one() -> None:
    fused = convex_sum([listed("lexical", {number: number**9 for number in range(1, 100)})])
    assert all(0 < one.score < 1 for one in fused)


def test_an_unknown_normalization_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"^normalisation ") as error:
        convex_sum([], "softmax")
    assert "zscore, minmax" in error.value.hint


# --- numbers --------------------------------------------------------------------------------------


def logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_zscores_by_hand() -> None:
    """The scores are 1 and 3 by words (after spreading), 3 and 1 by meaning. Each is one standard
    deviation from the mean."""
    words = listed("lexical", {1: 0.5, 2: 0.75}, weight=0.25)
    meaning = listed("dense", {1: 3.0, 2: 1.0}, weight=0.75)
    expected = {1: pytest.approx(logistic(0.5)), 2: pytest.approx(logistic(-0.5))}
    assert scores_of(convex_sum([words, meaning])) == expected
    assert scores_of(Fusion("convex")([words, meaning])) == expected
    # Only the proportions count.
    heavier = [replace(words, weight=0.5), replace(meaning, weight=1.5)]
    assert scores_of(convex_sum(heavier)) == expected


def test_minmax_by_hand() -> None:
    words = listed("lexical", {1: 0.5, 2: 0.75}, weight=0.25)
    meaning = listed("dense", {1: 3.0, 2: 1.0}, weight=0.75)
    expected = {1: pytest.approx(0.75), 2: pytest.approx(0.25)}
    assert scores_of(convex_sum([words, meaning], "minmax")) == expected
    assert scores_of(Fusion("convex", normalisation="minmax")([words, meaning])) == expected


def test_weights_of_nothing_are_equal_ones() -> None:
    words = listed("lexical", {1: 0.5, 2: 0.75}, weight=0.0)
    meaning = listed("dense", {1: 3.0, 2: 2.0, 3: 1.0}, weight=0.0, absent="least")
    fused = scores_of(convex_sum([words, meaning], "minmax"))
    assert fused == {1: 0.5, 2: 0.75, 3: 0.0}


@pytest.mark.parametrize(
    ("absent", "scores", "expected"),
    [
        ("least", {1: 4.0, 2: 2.0}, {1: 1.0, 2: 0.0, 3: 0.0}),
        ("zero", {1: 4.0, 2: 2.0}, {1: 1.0, 2: 0.5, 3: 0.0}),
        ("half", {1: 4.0, 2: 2.0}, {1: 1.0, 2: 1 / 3, 3: 0.0}),
        ("zero", {1: 1.0, 2: -1.0}, {1: 1.0, 2: 0.0, 3: 0.0}),  # not better than the last
        ("half", {1: 1.0, 2: -1.0}, {1: 1.0, 2: 0.0, 3: 0.0}),
    ],
)
def test_scores_of_missing_candidates(
    absent: str, scores: dict[int, float], expected: dict[int, float]
) -> None:
    found = listed("dense", scores, absent=absent)
    other = listed("sparse", {3: 1.0}, weight=0.0)
    assert scores_of(convex_sum([found, other], "minmax")) == pytest.approx(expected)


def test_by_default_a_missing_candidate_counts_as_the_last() -> None:
    assert RankedList("dense").absent == "least"
    assert RankedList("dense").ran


def test_an_unknown_score_leaves_its_weight_to_the_others() -> None:
    words = listed("lexical", {1: 0.5, 2: 0.75, 3: 0.8}, weight=0.25)  # 1, 3 and 4
    meaning = listed("dense", {1: 3.0, 3: 1.0}, weight=0.75, unknown={2})
    fused = scores_of(convex_sum([words, meaning], "minmax"))
    assert fused == pytest.approx({1: 0.75, 2: 2 / 3, 3: 0.25})


def test_unknown_to_all_is_in_the_middle_of_nothing() -> None:
    """No list can score it."""
    alone = listed("dense", {1: 0.5}, unknown={1})
    assert scores_of(convex_sum([alone], "minmax")) == {1: 0.0}
    assert scores_of(convex_sum([alone], "zscore")) == {1: 0.5}


@pytest.mark.parametrize(
    ("low", "gap", "flat"),
    [
        (0.0, 1e-12, True),
        (0.0, 1.05e-12, False),
        (-1000.0, 9.5e-10, True),  # larger numbers are less exact
        (-1000.0, 1.05e-9, False),
        (0.5, 9.5e-13, True),
    ],
)
def test_nearly_equal_scores_count_as_equal(low: float, gap: float, flat: bool) -> None:
    found = listed("dense", {1: low, 2: low + gap})
    fused = scores_of(convex_sum([found], "minmax"))
    assert fused == ({1: 0.5, 2: 0.5} if flat else {1: 0.0, 2: 1.0})


def test_a_flat_list_by_zscore_is_in_the_middle() -> None:
    assert scores_of(convex_sum([listed("dense", {1: 0.7, 2: 0.7})])) == {1: 0.5, 2: 0.5}


def test_sparse_scores_are_bent_and_negative_ones_are_nothing() -> None:
    """In the weighted sum, scores are from 0 to 1."""
    sparse = listed("sparse", {1: 3.0, 2: -3.0}, weight=1.0)
    assert scores_of(weighted_sum([sparse])) == {1: 0.75, 2: 0.0}
    dense = listed("dense", {1: 0.8, 2: -0.8}, weight=0.5)
    assert scores_of(weighted_sum([dense])) == {1: 0.4, 2: 0.0}


def test_scores_that_are_not_numbers() -> None:
    scores = {1: math.inf, 2: 2e6, 3: -2e6, 4: -math.inf, 5: math.nan, 6: 1e6, 7: 3.0}
    found = RankedList("dense", [ScoredChunk(chunk, scores[chunk], 1) for chunk in scores])
    expected = {1: 1e6, 2: 1e6, 3: -1e6, 4: -1e6, 5: 0.0, 6: 1e6, 7: 3.0}
    assert found.scores() == expected
    assert RankedList("dense", known=scores).scores() == expected


def test_a_score_that_was_found_counts_before_a_known_one() -> None:
    assert RankedList("dense", [ScoredChunk(1, 0.9, 1)], known={1: 0.1, 2: 0.2}).scores() == {
        1: 0.9,
        2: 0.2,
    }


def test_the_spread_of_a_perfect_score() -> None:
    assert spread(1.0) == pytest.approx(1000.0)
    assert spread(0.999) == pytest.approx(999.0)


def test_ties_rank_candidates_without_words_last() -> None:
    words = RankedList("lexical", [ScoredChunk(7, 0.9, 1), ScoredChunk(9, 0.8, 2)])
    meaning = RankedList("dense", [ScoredChunk(8, 0.9, 1), ScoredChunk(1, 0.8, 2)])
    assert [one.chunk_id for one in rrf([meaning, words])] == [7, 8, 9, 1]


# --- profiles -------------------------------------------------------------------------------------


def test_names() -> None:
    assert fusion.FUSIONS == ("none", "rrf", "weighted", "convex")
    assert fusion.NORMALISATIONS == ("zscore", "minmax")


def test_repr_of_a_fusion() -> None:
    assert repr(Fusion("rrf")) == "rrf(k=60)"
    assert repr(Fusion("rrf", k=1.5)) == "rrf(k=1.5)"
    assert repr(Fusion("convex")) == "convex(zscore)"
    assert repr(Fusion("weighted")) == "weighted()"


def test_each_fusion_by_its_name() -> None:
    lists = [listed("lexical", {1: 0.5}, weight=0.3), listed("dense", {1: 0.8, 2: 0.4}, weight=0.7)]
    assert Fusion("rrf", k=9)(lists) == rrf(lists, 9)
    assert Fusion("weighted")(lists) == weighted_sum(lists)
    assert Fusion("convex")(lists) == convex_sum(lists)
    gone = RankedList("sparse", weight=1.0, ran=False)
    assert Fusion("rrf")([*lists, gone]) == rrf(lists)
    assert Fusion("weighted")([*lists, gone]) == weighted_sum([*lists, gone])
    assert Fusion("convex")([*lists, gone]) == convex_sum(lists)


def test_scales() -> None:
    two = [listed("lexical", {1: 0.5}), listed("sparse", {1: 0.5})]
    assert Fusion("rrf").kind(two) == "rrf"
    assert Fusion("weighted").kind(two) == "weighted"
    assert Fusion("convex").kind(two) == Fusion("none").kind(two) == "fused"
    assert Fusion("none").kind(two[1:]) == "sparse"
    assert Fusion("weighted").kind(two[1:]) == "weighted"


def test_one_list_keeps_its_own_scale_but_under_rrf_and_weights() -> None:
    words = listed("lexical", {1: 0.5}, weight=0.3)
    gone = RankedList("dense", weight=0.7, ran=False)
    assert Fusion("convex").kind([words, gone]) == "bm25"
    assert Fusion("convex")([words, gone]) == list(words.ranked)
    assert Fusion("none").kind([listed("dense", {1: 0.5})]) == "cosine"
    assert Fusion("rrf").kind([words, gone]) == "rrf"
    assert scores_of(Fusion("rrf")([words, gone])) == {1: 0.3 / 61}
    assert Fusion("weighted").kind([words, gone]) == "weighted"
    assert Fusion("convex").kind([words, listed("dense", {1: 0.5})]) == "fused"


def test_nothing_ran() -> None:
    gone = RankedList("dense", ran=False)
    for name in ("none", "rrf", "weighted", "convex"):
        assert Fusion(name)([gone]) == []
