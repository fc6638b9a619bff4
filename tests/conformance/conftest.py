"""Stores and models that several conformance tests share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from tests.conftest import Clock
from tests.models.judges import WordJudge
from tests.models.weightless import Weightless, unexamined


@pytest.fixture
def known(tmp_path: Path, clock: Clock) -> Any:
    """Opens the same store with another encoder each time."""
    opened: list[KnowledgeBase] = []

    def open_by(encoder: Weightless) -> KnowledgeBase:
        opened.append(KnowledgeBase(tmp_path / "kb.sqlite", clock=clock, encoder=encoder))
        return opened[-1]

    yield open_by
    for each in opened:
        each.close()


@pytest.fixture
def judge() -> WordJudge:
    return WordJudge()


@pytest.fixture(scope="session")
def judged_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More passages than are reranked, which words, vectors and the judge rank differently."""
    path = tmp_path_factory.mktemp("judged") / "judged.sqlite"
    with KnowledgeBase(path, config=unexamined(), clock=Clock(), encoder=Weightless()) as kb:
        for number in range(130):
            kb.add(f"harbour {'keys ' * (number % 4)} boat{number % 7} {'more ' * (number % 9)}")
        kb.embed()
    return path


@pytest.fixture
def judged(
    tmp_path: Path, clock: Clock, judge: WordJudge, judged_store: Path
) -> Iterator[KnowledgeBase]:
    """A copy of `judged_store`."""
    path = tmp_path / "judged.sqlite"
    shutil.copyfile(judged_store, path)
    with KnowledgeBase(path, clock=clock, encoder=Weightless(), judge=judge) as kb:
        yield kb
