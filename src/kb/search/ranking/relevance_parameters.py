"""The parameters of `relevance`. Written by `python -m training.relevance`: do not edit."""

from __future__ import annotations

from collections.abc import Mapping

from kb.values import NamedTuple


class Parameters(NamedTuple):
    """The parameters of one logistic model. A cosine above the `knot` counts more."""

    intercept: float
    weights: Mapping[str, float]
    knot: float = 1.0


class ParameterSet(NamedTuple):
    """The parameters for queries in some languages: for words alone, which means without a model or
    for a passage that has no vector yet; for each encoder whose cosines are calibrated; and for all
    other encoders, whose cosines are compared with those of the other candidates."""

    words: Parameters
    models: Mapping[str, Parameters]
    other: Parameters


# Queries in English.
ENGLISH = ParameterSet(
    words=Parameters(
        -3.2129,
        {
            "coverage": 3.6325,
            "match": 2.4843,
            "matched_words": 3.3142,
            "known": 4.4952,
            "count": 2.6709,
            "length": -1.341,
            "chars": -1.0218,
        },
        knot=1.0,
    ),
    models={
        "kb-mini": Parameters(
            -12.5111,
            {
                "cosine": 14.9371,
                "high_cosine": 21.6669,
                "coverage": 4.1097,
                "matches": 2.3515,
                "length": -0.7959,
                "short": 1.339,
            },
            knot=0.6179,
        ),
        "kb-mini-multilingual": Parameters(
            -12.4383,
            {
                "cosine": 15.5065,
                "high_cosine": 20.8248,
                "coverage": 3.993,
                "matches": 2.0898,
                "length": -0.8775,
                "short": 1.4786,
            },
            knot=0.6133,
        ),
    },
    other=Parameters(
        -5.0979,
        {
            "margin": 25.5018,
            "coverage": 2.708,
            "known": 2.7618,
            "matches": 2.1094,
            "length": -1.3359,
        },
        knot=1.0,
    ),
)

# Queries in other languages.
FOREIGN = ParameterSet(
    words=Parameters(
        5.7063,
        {
            "coverage": 6.4023,
            "match": 5.86,
            "matched_words": 1.9319,
            "known": 3.8029,
            "count": 0.1206,
            "length": -0.8931,
            "chars": -1.5148,
            "pieces": -2.8351,
            "covered_pieces": 0.324,
        },
        knot=1.0,
    ),
    models={
        "kb-mini": Parameters(
            -6.0772,
            {
                "cosine": 9.2407,
                "high_cosine": 11.0096,
                "coverage": 5.7528,
                "matches": 2.8936,
                "length": -1.3452,
                "short": 0.9447,
                "pieces": -1.5295,
                "covered_pieces": 4.1386,
            },
            knot=0.5537,
        ),
        "kb-mini-multilingual": Parameters(
            -6.0772,
            {
                "cosine": 9.2407,
                "high_cosine": 11.0096,
                "coverage": 5.7528,
                "matches": 2.8936,
                "length": -1.3452,
                "short": 0.9447,
                "pieces": -1.5295,
                "covered_pieces": 4.1386,
            },
            knot=0.5537,
        ),
    },
    other=Parameters(
        -0.8056,
        {
            "margin": 16.0255,
            "coverage": 3.8447,
            "known": 3.558,
            "matches": 2.3073,
            "length": -2.1825,
            "pieces": -2.5337,
            "covered_pieces": 3.2192,
        },
        knot=1.0,
    ),
)
