"""Shared by tests of search by meaning: an encoder without weights, and one that fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.types import Encoding
from tests.conftest import Clock
from tests.models.weightless import Weightless


class Failing(Weightless):
    """An encoder that fails while `broken` is set."""

    broken = False

    def encode(self, texts: Sequence[str], **asked: Any) -> list[Encoding]:
        if self.broken:
            raise RuntimeError("out of memory")
        return super().encode(texts, **asked)


@pytest.fixture(autouse=True)
def no_other_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other model is installed, so that none is suggested."""
    monkeypatch.setattr("kb.models.registry.has_multilingual", lambda: False)
    monkeypatch.setattr("kb.models.registry._reads", lambda *_: False)


@pytest.fixture
def encoder() -> Failing:
    return Failing()


@pytest.fixture
def hybrid(tmp_path: Path, clock: Clock, encoder: Failing) -> Iterator[KnowledgeBase]:
    """A knowledge base with an encoder."""
    path = tmp_path / "store" / "kb.sqlite"
    with KnowledgeBase(path, clock=clock, encoder=encoder) as opened:
        yield opened
