from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.search.ranking.word_match import (
    HIGH_SHARE,
    LEAST_FACTOR,
    LOW_SHARE,
    MAX_WORDS,
    MOST_FACTOR,
    matched_share,
    weigh_by_word_match,
)

WEIGHTS = {"lexical": 0.2, "dense": 0.5, "sparse": 0.3}


def test_share_of_the_highest_score() -> None:
    assert matched_share(2.2, {"a": 1.0}) == pytest.approx(1.0)
    assert matched_share(2.2, {"a": 1.0, "b": 3.0}) == pytest.approx(0.25)


@pytest.mark.parametrize("idf", [{}, {"a": 0.0}, {str(word): 1.0 for word in range(MAX_WORDS + 1)}])
def test_no_share(idf: dict[str, float]) -> None:
    assert matched_share(1.0, idf) is None


def test_a_query_of_six_words_has_a_share() -> None:
    assert matched_share(1.0, {str(word): 1.0 for word in range(MAX_WORDS)}) is not None


@pytest.mark.parametrize(
    ("share", "factor"),
    [
        (0.0, LEAST_FACTOR),
        (LOW_SHARE, LEAST_FACTOR),
        ((LOW_SHARE + HIGH_SHARE) / 2, (LEAST_FACTOR + MOST_FACTOR) / 2),
        (HIGH_SHARE, MOST_FACTOR),
        (1.2, MOST_FACTOR),
    ],
)
def test_factor(share: float, factor: float) -> None:
    weights = weigh_by_word_match(WEIGHTS, share).weights
    assert weights == pytest.approx({"lexical": 0.2 * factor, "dense": 0.5, "sparse": 0.3 * factor})


def test_without_a_share_nothing_changes() -> None:
    unchanged = weigh_by_word_match(WEIGHTS, None)
    assert (dict(unchanged.weights), unchanged.rules) == (WEIGHTS, ())


def test_the_rule_is_shown() -> None:
    (rule,) = weigh_by_word_match(WEIGHTS, 0.6).rules
    assert rule == "the first passage by words matches 60%: words times 1.5"


@given(st.floats(0, 2), st.floats(0, 2))
def test_a_better_match_never_lowers_the_weight(one: float, other: float) -> None:
    low, high = sorted((one, other))
    first, second = (weigh_by_word_match(WEIGHTS, share).weights for share in (low, high))
    assert first["lexical"] <= second["lexical"]
