"""The judge port: scores a query and a passage together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kb.types import ModelSpec


class Judge(Protocol):
    """A cross-encoder. Threads may share one judge. The score of a pair depends on the pair alone,
    not on the other pairs of the call. `ModelTraits` has further, optional members."""

    @property
    def spec(self) -> ModelSpec:
        """The specification of the model."""
        ...

    def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        """Score each passage, in order. Higher is better; the scale depends on the model. Raises
        `ModelError`."""
        ...
