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
    1.2281,
    {
        "coverage": 2.8882,
        "known": 4.1591,
        "matches": 3.8583,
        "count": 2.002,
        "length": -1.5577,
        "chars": -1.4522,
    },
    knot=1.0,
)

# Encoders whose cosines are calibrated.
MODELS: Mapping[str, Parameters] = {
    "kb-mini": Parameters(
        -16.2598,
        {
            "cosine": 13.9937,
            "high_cosine": 19.1497,
            "coverage": 2.8101,
            "known": 3.3196,
            "matches": 2.7637,
            "length": 0.1081,
            "short": 2.6015,
        },
        knot=0.6176,
    ),
}

# All other encoders: cosines in relation to those of the other candidates.
OTHER = Parameters(
    -8.2006,
    {
        "margin": 23.4779,
        "coverage": 1.7056,
        "known": 4.2204,
        "matches": 0.5364,
        "count": 2.4861,
        "length": -0.7202,
    },
    knot=1.0,
)
