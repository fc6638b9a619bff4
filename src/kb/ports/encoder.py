"""The encoder port: turns texts into vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kb.types import Encoding, ModelSpec


class Encoder(Protocol):
    """An embedding model. Threads may share one encoder. The vectors of a text depend on the text
    alone, not on the other texts of the call, except for rounding if these run on another device.
    `ModelTraits` has further, optional members."""

    @property
    def spec(self) -> ModelSpec:
        """The specification of the model: its name, and which vectors it computes."""
        ...

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        """Encode each text, in order, into the parts of `want` that the model supports (see
        `ModelSpec.gives`). No vector is zero. Raises `ModelError`."""
        ...
