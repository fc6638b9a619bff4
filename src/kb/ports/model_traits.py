"""Optional properties of encoders and judges, with defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.ports.encoder import Encoder
    from kb.ports.judge import Judge


class ModelTraits:
    """An optional base class of encoders and judges. Each member has a default that suits a local
    model; a model overrides those that do not."""

    remote: bool = False  # whether a server runs the model, which can hang and needs no loading

    @property
    def batch_size(self) -> int:
        """How many texts an embedding job passes to `encode` at a time. May load the model."""
        return 8

    def check(self) -> None:
        """Raise `ModelError` if the model's files are missing or incomplete. Loads nothing."""

    def load(self) -> None:
        """Load the model now, so that the first text need not wait. Raises `ModelError`."""


_DEFAULTS = ModelTraits()


def traits_of(model: Encoder | Judge) -> ModelTraits:
    """Return the model itself if it derives from `ModelTraits`, else the defaults."""
    return model if isinstance(model, ModelTraits) else _DEFAULTS
