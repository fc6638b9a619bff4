"""The parameters of `relevance`. Written by `python -m training.relevance`: do not edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Parameters(NamedTuple):
    """The parameters of one logistic model. A cosine above the `knot` counts more."""

    intercept: float
    weights: Mapping[str, float]
    knot: float = 1.0


# Words alone: without a model, or while a passage has no vector yet.
WORDS = Parameters(
    -3.465,
    {
        "coverage": 2.654,
        "match": 5.851,
        "known": 4.1462,
        "matches": 2.0059,
        "count": 2.6465,
        "length": -0.232,
        "chars": -1.1001,
    },
    knot=1.0,
)

# Encoders whose cosines are calibrated.
MODELS: Mapping[str, Parameters] = {
    "kb-mini": Parameters(
        -14.5587,
        {
            "cosine": 14.444,
            "high_cosine": 18.0495,
            "coverage": 3.2825,
            "known": 2.2182,
            "matches": 2.1086,
            "length": -0.2596,
            "short": 2.2116,
        },
        knot=0.6235,
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
    -6.7082,
    {
        "margin": 23.2084,
        "coverage": 3.2279,
        "known": 3.351,
        "matches": 2.0182,
        "length": -0.624,
    },
    knot=1.0,
)
