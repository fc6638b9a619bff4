from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.search.pipeline import FusionStage
from kb.search.query.analysis import analyze
from kb.search.ranking.fusion import Fusion
from kb.search.ranking.word_match import (
    FACTORS,
    FEW_WORDS,
    HIGH_SHARE,
    LONG_FACTORS,
    LOW_SHARE,
    matched_share,
    weigh_by_word_match,
)
from kb.search.retrievers.base import Candidates
from kb.types import ScoredChunk

WEIGHTS = {"lexical": 0.2, "dense": 0.5, "sparse": 0.3}


def test_share_of_the_highest_score() -> None:
    assert matched_share(2.2, {"a": 1.0}) == pytest.approx(1.0)
    assert matched_share(2.2, {"a": 1.0, "b": 3.0}) == pytest.approx(0.25)


@pytest.mark.parametrize("idf", [{}, {"a": 0.0}])
def test_no_share(idf: dict[str, float]) -> None:
    assert matched_share(1.0, idf) is None


@pytest.mark.parametrize(
    ("count", "factor"), [(FEW_WORDS, FACTORS[1]), (FEW_WORDS + 1, LONG_FACTORS[1])]
)
def test_a_long_query(count: int, factor: float) -> None:
    words = [f"{letter}word" for letter in "bcdfghjklm"[:count]]
    ranked = (ScoredChunk(1, 0.9, 1),)
    lexical = Candidates(ranked, ("any",), idf=dict.fromkeys(words, 1.0))
    stage = FusionStage(Fusion("convex"), WEIGHTS, word_match=True)
    candidates = {"lexical": lexical, "dense": Candidates(ranked)}
    weights = stage.query_weights(analyze(" ".join(words)), candidates).weights
    assert weights["lexical"] == pytest.approx(0.2 * factor)


@pytest.mark.parametrize(
    ("words", "factors"), [(FEW_WORDS, FACTORS), (FEW_WORDS + 1, LONG_FACTORS)]
)
@pytest.mark.parametrize(
    ("share", "position"),
    [(0.0, 0.0), (LOW_SHARE, 0.0), ((LOW_SHARE + HIGH_SHARE) / 2, 0.5), (HIGH_SHARE, 1.0),
     (1.2, 1.0)],
)  # fmt: skip
def test_factor(share: float, position: float, words: int, factors: tuple[float, float]) -> None:
    factor = factors[0] + (factors[1] - factors[0]) * position
    weights = weigh_by_word_match(WEIGHTS, share, words).weights
    assert weights == pytest.approx({"lexical": 0.2 * factor, "dense": 0.5, "sparse": 0.3 * factor})


def test_the_words_of_a_long_query_never_count_less() -> None:
    unchanged = weigh_by_word_match(WEIGHTS, 0.0, FEW_WORDS + 1)
    assert (dict(unchanged.weights), unchanged.rules) == (WEIGHTS, ())


def test_without_a_share_nothing_changes() -> None:
    unchanged = weigh_by_word_match(WEIGHTS, None, 3)
    assert (dict(unchanged.weights), unchanged.rules) == (WEIGHTS, ())


def test_the_rule_is_shown() -> None:
    (rule,) = weigh_by_word_match(WEIGHTS, 0.6, 3).rules
    assert rule == "the first passage by words matches 60%: words times 1.5"


@given(st.floats(0, 2), st.floats(0, 2))
def test_a_better_match_never_lowers_the_weight(one: float, other: float) -> None:
    low, high = sorted((one, other))
    first, second = (weigh_by_word_match(WEIGHTS, share, 3).weights for share in (low, high))
    assert first["lexical"] <= second["lexical"]
