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
        9.1638,
        {
            "coverage": 4.2589,
            "match": 4.0956,
            "matched_words": 1.1137,
            "matches": 4.8067,
            "length": -3.3746,
            "chars": -1.4009,
            "pieces": -1.6131,
        },
        knot=1.0,
    ),
    models={
        "kb-mini": Parameters(
            -3.8103,
            {
                "lift": 15.6004,
                "coverage": 3.2221,
                "matches": 3.6615,
                "length": -1.8379,
                "short": 1.9894,
                "pieces": -2.2271,
                "covered_pieces": 3.951,
            },
            knot=1.0,
        ),
        "kb-mini-multilingual": Parameters(
            -3.8103,
            {
                "lift": 15.6004,
                "coverage": 3.2221,
                "matches": 3.6615,
                "length": -1.8379,
                "short": 1.9894,
                "pieces": -2.2271,
                "covered_pieces": 3.951,
            },
            knot=1.0,
        ),
    },
    other=Parameters(
        -1.0346,
        {
            "margin": 13.1539,
            "coverage": 2.8156,
            "known": 1.4614,
            "matches": 2.7163,
            "length": -1.7249,
            "pieces": -2.6593,
            "covered_pieces": 3.9785,
        },
        knot=1.0,
    ),
)
