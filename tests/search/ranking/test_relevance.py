"""Relevance: a probability that rises with the evidence for a hit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.search.ranking import relevance
from kb.search.ranking.relevance import Signals, estimate, is_calibrated
from kb.search.ranking.relevance_parameters import ENGLISH, FOREIGN, ParameterSet

SHARE = st.floats(0.0, 1.0)
COSINE = st.floats(-1.0, 1.0)
NAMES = st.sampled_from(["kb-mini", "another", None])
SIGNALS = st.builds(
    Signals,
    words=st.floats(0.01, 60.0),
    known=SHARE,
    coverage=SHARE,
    matched=st.floats(0.0, 30.0),
    chars=st.integers(0, 20_000),
    cosine=st.none() | COSINE,
    typical=st.none() | COSINE,
    match=st.none() | SHARE,
    pieces=SHARE,
    english=st.booleans(),
)


@given(SIGNALS, NAMES)
def test_it_is_a_probability(signals: Signals, model: str | None) -> None:
    value = estimate(signals, model)
    assert value is not None
    assert 0.0 <= value <= 1.0


@given(SIGNALS, NAMES, st.sampled_from(["coverage", "known", "matched", "cosine", "match"]), SHARE)
def test_better_signals_never_lower_it(
    signals: Signals, model: str | None, name: str, rise: float
) -> None:
    value = getattr(signals, name)
    if value is None:
        return
    most = 30.0 if name == "matched" else 1.0
    better = signals._replace(**{name: min(most, value + rise * most)})
    before, after = estimate(signals, model), estimate(better, model)
    assert before is not None
    assert after is not None
    assert after >= before


def test_no_words_no_estimate() -> None:
    assert estimate(Signals(0.0, 0.0, 0.0, 0.0, 100, 0.9, 0.5), "kb-mini") is None


def test_words_count_alone_while_there_is_no_vector() -> None:
    every = Signals(3.0, 1.0, 1.0, 4.0, 400)
    none = Signals(3.0, 0.2, 0.0, 0.0, 400)
    assert (estimate(every, None) or 0) > 0.9
    assert estimate(none, None) == pytest.approx(0.0, abs=0.05)
    # No cosine: the model does not matter.
    assert estimate(every, "kb-mini") == estimate(every, None)


def test_more_words_of_equal_weight_are_more_evidence() -> None:
    """Five matches out of ten words are stronger evidence than one out of two."""
    few = Signals(1.0, 1.0, 0.5, 1.0, 400)
    many = Signals(1.0, 1.0, 0.5, 5.0, 400)
    assert (estimate(many, None) or 0) > (estimate(few, None) or 1)


def test_a_long_passage_contains_words_by_chance() -> None:
    short, long, longer = (
        estimate(Signals(3.0, 1.0, 0.4, 2.0, chars), None) or 0 for chars in (200, 2_000, 20_000)
    )
    assert short > long == longer


def test_cosines_of_short_passages_are_lower() -> None:
    short, medium, long = (
        estimate(Signals(3.0, 1.0, 0.2, 1.0, chars, 0.6, 0.5), "kb-mini") or 0
        for chars in (60, 300, 2_000)
    )
    assert short > medium == long


def test_cosines_of_the_bundled_model_are_calibrated() -> None:
    assert is_calibrated("kb-mini")
    assert not is_calibrated("another")
    assert not is_calibrated(None)
    near = Signals(3.0, 1.0, 0.5, 2.0, 400, 0.85, 0.55)
    far = near._replace(cosine=0.5)
    assert (estimate(near, "kb-mini") or 0) > 0.9 > 0.5 > (estimate(far, "kb-mini") or 1)


def test_other_cosines_are_compared_with_those_of_the_other_candidates() -> None:
    """The scale of an encoder that is not calibrated does not matter."""
    high, low = (
        Signals(3.0, 1.0, 0.5, 2.0, 400, 0.30 + shift, 0.10 + shift) for shift in (0.0, 0.6)
    )
    assert estimate(high, "another") == estimate(low, "another")


@pytest.mark.parametrize("parameters", [ENGLISH, FOREIGN])
def test_weights_of_signals_are_not_negative(parameters: ParameterSet) -> None:
    free = {"length", "chars", "short", "pieces"}
    for each in (parameters.words, parameters.other, *parameters.models.values()):
        assert all(weight >= 0 for name, weight in each.weights.items() if name not in free)


def test_queries_in_other_languages_have_parameters_of_their_own() -> None:
    """A question in Chinese that shares half of its pieces with a passage at this cosine is about
    it; a question in English with these signals may not be."""
    english = Signals(6.0, 1.0, 0.5, 6.0, 400, 0.62, 0.5)
    foreign = english._replace(pieces=1.0, english=False)
    for model in ("kb-mini", "kb-mini-multilingual"):
        assert (estimate(foreign, model) or 0) > (estimate(english, model) or 1)
    assert estimate(foreign._replace(cosine=None), None) != estimate(
        english._replace(cosine=None), None
    )


def test_cosines_of_other_languages_are_compared_with_the_other_candidates() -> None:
    """On subjects that the encoder has not learned, passages about anything have high cosines."""
    familiar = Signals(6.0, 1.0, 0.1, 1.0, 400, 0.56, 0.40, pieces=1.0, english=False)
    unfamiliar = familiar._replace(typical=0.55)
    for model in ("kb-mini", "kb-mini-multilingual"):
        high, low = estimate(familiar, model) or 0, estimate(unfamiliar, model) or 1
        assert high > 1.5 * low
        # A list for dense retrieval alone is too short for a typical cosine.
        assert low < (estimate(familiar._replace(typical=None), model) or 0) < 1.1 * high
    english = familiar._replace(english=True)
    assert estimate(english, "kb-mini") == estimate(english._replace(typical=0.55), "kb-mini")


def test_words_of_other_languages_count_only_in_the_passage() -> None:
    """A large store knows the words of most questions, whatever they are about."""
    known = Signals(6.0, 1.0, 0.2, 2.0, 400, pieces=1.0, english=False)
    assert estimate(known, None) == estimate(known._replace(known=0.3), None)
    assert (estimate(known._replace(coverage=0.6), None) or 0) > (estimate(known, None) or 1)


def test_a_model_calibrated_for_english_only_is_used_for_all_languages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = {**ENGLISH.models, "another": ENGLISH.models["kb-mini"]}
    monkeypatch.setattr(relevance, "ENGLISH", ENGLISH._replace(models=models))
    english = Signals(6.0, 1.0, 0.5, 6.0, 400, 0.62, 0.5)
    assert is_calibrated("another")
    assert estimate(english._replace(english=False), "another") == estimate(english, "another")
