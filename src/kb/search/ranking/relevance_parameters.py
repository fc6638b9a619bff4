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
    -3.2654,
    {
        "coverage": 1.3743,
        "known": 4.0349,
        "matches": 6.7286,
        "length": -2.313,
        "chars": -0.4705,
    },
    knot=1.0,
)

# Encoders whose cosines are calibrated.
MODELS: Mapping[str, Parameters] = {
    "kb-mini": Parameters(
        -11.45,
        {
            "cosine": 9.6151,
            "high_cosine": 18.2975,
            "coverage": 1.4596,
            "known": 3.848,
            "matches": 3.8013,
            "length": -1.278,
        },
        knot=0.6567,
    ),
}

# All other encoders: cosines in relation to those of the other candidates.
OTHER = Parameters(
    -6.5625,
    {
        "margin": 18.682,
        "coverage": 1.3264,
        "known": 4.3354,
        "matches": 4.0704,
        "length": -1.4835,
    },
    knot=1.0,
)
