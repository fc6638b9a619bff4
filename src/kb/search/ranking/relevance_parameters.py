"""The parameters of `relevance`. Written by `python -m training.relevance`: do not edit."""

from __future__ import annotations

from collections.abc import Mapping

from kb.values import NamedTuple


class Parameters(NamedTuple):
    """The parameters of one logistic model. A cosine above the `knot` counts more."""

    intercept: float
    weights: Mapping[str, float]
    knot: float = 1.0


# Words alone: without a model, or while a passage has no vector yet.
WORDS = Parameters(
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
)

# Encoders whose cosines are calibrated.
MODELS: Mapping[str, Parameters] = {
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
}

# All other encoders: cosines in relation to those of the other candidates.
OTHER = Parameters(
    -5.0979,
    {
        "margin": 25.5018,
        "coverage": 2.708,
        "known": 2.7618,
        "matches": 2.1094,
        "length": -1.3359,
    },
    knot=1.0,
)
