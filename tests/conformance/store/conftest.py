from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kb.ports import Store
from kb.store import open_store
from tests.conftest import Clock

# The URL of a new store in a folder, by the kind of store.
LOCATIONS: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "kb.sqlite"),
}


class Stores:
    """Opens stores of one kind, each in a folder of its own, and closes them at the end."""

    def __init__(self, kind: str, folder: Path, clock: Clock) -> None:
        self._locate = LOCATIONS[kind]
        self._folder = folder
        self._clock = clock
        self._opened: list[Store] = []

    def open(self, name: str = "first", **options: Any) -> Store:
        """Open the store `name`; the same name opens the same store again."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        store = open_store(self._locate(folder), clock=self._clock, **options)
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


@pytest.fixture(params=LOCATIONS)
def stores(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Stores]:
    opened = Stores(request.param, tmp_path, clock)
    yield opened
    opened.close()


@pytest.fixture
def store(stores: Stores) -> Store:
    opened = stores.open()
    opened.create()
    return opened
