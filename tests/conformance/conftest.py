"""Stores and models that several conformance tests share."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.library import store_copy
from tests.conftest import Clock
from tests.models.judges import WordJudge
from tests.models.weightless import Weightless, unexamined
from tests.postgres import Server
from tests.store.builders import sqlite_store


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new store is: every conformance test that does not look into files or tables runs on
    each kind of store."""
    if request.param == "sqlite":
        return str(tmp_path / "store" / "kb.sqlite")
    server: Server = request.getfixturevalue("postgres")
    return server.url(schema=f"k{uuid.uuid4().hex[:12]}")


@pytest.fixture
def kb(place: str, clock: Clock) -> Iterator[KnowledgeBase]:
    with KnowledgeBase(place, clock=clock) as opened:
        yield opened


def sqlite_file(kb: KnowledgeBase) -> Path:
    """The store's file, for tests that open it; they are skipped for other stores."""
    return sqlite_store(kb).path


@pytest.fixture
def known(place: str, clock: Clock) -> Any:
    """Opens the same store with another encoder each time."""
    opened: list[KnowledgeBase] = []

    def open_by(encoder: Weightless) -> KnowledgeBase:
        opened.append(KnowledgeBase(place, clock=clock, encoder=encoder))
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
    place: str, clock: Clock, judge: WordJudge, judged_store: Path
) -> Iterator[KnowledgeBase]:
    """A copy of `judged_store`."""
    if "://" in place:
        store_copy.copy(str(judged_store), place, lambda _done, _total: None)
    else:
        Path(place).parent.mkdir()
        shutil.copyfile(judged_store, place)
    with KnowledgeBase(place, clock=clock, encoder=Weightless(), judge=judge) as kb:
        yield kb
