"""Relevance: the probability that a hit is about what the query asks. Pure functions.

A logistic model of a few features. Better signals never lower the probability.
`relevance_parameters` holds its parameters, which `python -m training.relevance` fits: one set for
words alone, one for each encoder whose cosines have been calibrated, and one for all other
encoders, which compares a hit's cosine with those of the query's other candidates. Each exists
twice: for queries in English, and for those in other languages, where cosines are lower, and words
have inflections that no stemmer removes, or no spaces between them.

Half of the questions in the training data have no answer in their store. So 0.5 means: as likely
about the question as not, if half of all questions can be answered.
"""

from __future__ import annotations

from math import exp, log, log1p

from kb.search.ranking.relevance_parameters import ENGLISH, FOREIGN, Parameters
from kb.values import NamedTuple

_MAX_MARGIN = 0.25  # in a small store, larger margins occur by chance
# A hit is compared with the other candidates only in part: in a small store about one subject, all
# of them may be near.
_LIFT_SHARE = 2 / 3
_USUAL_TYPICAL = 0.41  # the median of `typical` in the fit for other languages than English
_MAX_LOGIT = 30.0
_LEAST_CHARS = 50  # shorter passages are equally unlikely to contain a word by chance
_MOST_CHARS = 2_000  # the fit has seen few longer passages
_SHORT_CHARS = 300  # cosines of shorter passages are lower
_MEAN_MATCH = 0.6  # the mean match of passages with every word
_EVERY_WORD = 0.999  # a coverage of 1, but for rounding
_DIGITS = 4  # more would only show the noise of floating-point sums


class Signals(NamedTuple):
    """The evidence for the relevance of a hit.

    Words are weighted by their inverse document frequency: a word that is in no passage counts 1,
    a common one almost nothing. `words` is the sum for the query, and `coverage` the share that the
    passage contains. `matched` is the number of the query's words that the passage contains, and
    `known` the share that the store contains; for both, all words are equal. `chars` is the length
    of the passage: a long one contains more words by chance. `cosine` is None if the query or the
    passage has no vector. `typical` is the median cosine of the candidates. `match` is the share of
    the highest possible BM25 score: it distinguishes a passage that is about a word from one that
    mentions it in passing. It is None if it is unknown. `pieces` is the share of the query's weight
    in pieces of unspaced script, such as Chinese: many of them are not words, so that passages
    contain fewer of them than of words. `english` is False if the query is in another language.
    """

    words: float
    known: float
    coverage: float
    matched: float
    chars: int
    cosine: float | None = None
    typical: float | None = None
    match: float | None = None
    pieces: float = 0.0
    english: bool = True

    def has_every_word(self) -> bool:
        """Whether the passage contains every word of the query."""
        return self.coverage >= _EVERY_WORD

    def facts(self) -> dict[str, float]:
        """The known values by name, as numbers."""
        values = self._asdict() | {"english": int(self.english)}
        return {name: value for name, value in values.items() if value is not None}


def features(signals: Signals, knot: float = 1.0) -> dict[str, float]:
    """The features of the model by name. `length`, `pieces`, `chars` and `short` describe the query
    and the passage; the others rise with better signals. `matched_words` is the match in words:
    half of a long query is stronger evidence than half of a short one. `high_cosine` is the part of
    the cosine above `knot`. `lift` is the cosine minus a share of the typical one: on subjects
    that the encoder has not learned, all cosines are higher. `pieces` and `covered_pieces` apply to
    queries in unspaced script."""
    words, known, coverage, matched, chars, cosine, typical, match, pieces, _ = signals
    share = _MEAN_MATCH * coverage if match is None else min(match, coverage)
    values = {
        "coverage": coverage,
        "match": share,
        "matched_words": share * words,
        "known": known,
        "matches": log1p(coverage * words),
        "count": log1p(matched),
        "length": log1p(words),
        "pieces": pieces,
        "covered_pieces": pieces * coverage,
        "chars": log(_LEAST_CHARS + min(chars, _MOST_CHARS)),
        "short": log((_LEAST_CHARS + _SHORT_CHARS) / (_LEAST_CHARS + min(chars, _SHORT_CHARS))),
    }
    if cosine is not None:
        values["cosine"] = cosine
        values["high_cosine"] = max(0.0, cosine - knot)
        values["lift"] = cosine - _LIFT_SHARE * (_USUAL_TYPICAL if typical is None else typical)
        values["margin"] = 0.0 if typical is None else min(cosine - typical, _MAX_MARGIN)
    return values


def estimate(signals: Signals, model: str | None) -> float | None:
    """The relevance of a hit, given the name of the model that computed its vector. None for a
    query without words."""
    if not signals.words:
        return None
    return probability(signals, _parameters(signals, model))


def _parameters(signals: Signals, model: str | None) -> Parameters:
    """The parameters for these signals. A model that was calibrated for English only has the same
    parameters for other languages."""
    group = ENGLISH if signals.english else FOREIGN
    if signals.cosine is None:
        return group.words
    for calibrated in (group.models, ENGLISH.models):
        if (parameters := calibrated.get(model or "")) is not None:
            return parameters
    return group.words if signals.typical is None else group.other


def probability(signals: Signals, parameters: Parameters) -> float:
    """The logistic model."""
    value = max(-_MAX_LOGIT, min(logit(signals, parameters), _MAX_LOGIT))
    return round(1.0 / (1.0 + exp(-value)), _DIGITS)


def logit(signals: Signals, parameters: Parameters) -> float:
    """The logarithm of the odds that a hit is relevant."""
    values = features(signals, parameters.knot)
    weighted = (weight * values[name] for name, weight in parameters.weights.items())
    return parameters.intercept + sum(weighted)


def is_calibrated(model: str | None) -> bool:
    """Whether there are separate parameters for the cosines of this model."""
    return model in ENGLISH.models
