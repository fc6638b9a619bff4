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
    0.3474,
    {
        "coverage": 1.2493,
        "known": 4.4952,
        "matches": 3.389,
        "count": 2.9796,
        "length": -1.6167,
        "chars": -1.2959,
    },
    knot=1.0,
)

# Encoders whose cosines are calibrated.
MODELS: Mapping[str, Parameters] = {
    "kb-mini": Parameters(
        -6.0728,
        {
            "cosine": 13.6638,
            "high_cosine": 19.1224,
            "coverage": 2.1943,
            "known": 3.0489,
            "matches": 1.3185,
            "count": 1.9058,
            "length": -0.3029,
            "chars": -1.5338,
        },
        knot=0.6176,
    ),
}

# All other encoders: cosines in relation to those of the other candidates.
OTHER = Parameters(
    0.7981,
    {
        "margin": 22.1554,
        "coverage": 1.7851,
        "known": 4.337,
        "matches": 0.7811,
        "count": 2.6837,
        "length": -0.7542,
        "chars": -1.5378,
    },
    knot=1.0,
)
