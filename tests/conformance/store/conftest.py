from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kb.ports import Store
from kb.store import open_store
from tests.conftest import Clock
from tests.postgres import Server

KINDS = ("sqlite", "postgresql", pytest.param("partitioned", marks=pytest.mark.slow))


class Stores:
    """Opens stores of one kind, and closes them at the end. `locate` returns the URL of the store
    with a name."""

    def __init__(self, locate: Callable[[str], str], clock: Clock) -> None:
        self._locate = locate
        self._clock = clock
        self._opened: list[Store] = []

    def open(self, name: str = "first", **options: Any) -> Store:
        """Open the store `name`; the same name opens the same store again."""
        store = open_store(self._locate(name), clock=self._clock, **options)
        self._opened.append(store)
        return store

    def restore(self, backup: Path) -> Store:
        """Open a backup as a store."""
        store = open_store(backup, clock=self._clock)
        self._opened.append(store)
        return store

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture(params=KINDS)
def stores(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Stores]:
    if request.param == "sqlite":

        def locate(name: str) -> str:
            (tmp_path / name).mkdir(exist_ok=True)
            return str(tmp_path / name / "kb.sqlite")

        opened = Stores(locate, clock)
    else:
        server: Server = request.getfixturevalue("postgres")
        test = uuid.uuid4().hex[:12]
        count = "3" if request.param == "partitioned" else "1"
        opened = Stores(lambda name: server.url(schema=f"t{test}_{name}", partitions=count), clock)
    yield opened
    opened.close()


@pytest.fixture
def store(stores: Stores) -> Store:
    opened = stores.open()
    opened.create()
    return opened
