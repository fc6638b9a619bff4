"""A kind of store in which every port fails: the minimum that a new package in `kb.store` needs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.ports import Catalog, Fulltext, Maintenance, Queue, Store, Vectors
    from kb.types import Degraded


class BrokenStore:
    def __init__(self, url: str) -> None:
        self.location = url
        self.path = local_path(url)

    @property
    def catalog(self) -> Catalog:
        raise NotImplementedError

    @property
    def fulltext(self) -> Fulltext:
        raise NotImplementedError

    @property
    def vectors(self) -> Vectors:
        raise NotImplementedError

    @property
    def queue(self) -> Queue:
        raise NotImplementedError

    @property
    def maintenance(self) -> Maintenance:
        raise NotImplementedError

    def exists(self) -> bool:
        return False

    def create(self) -> None:
        raise NotImplementedError

    def store_id(self) -> str:
        raise NotImplementedError

    def snapshot(self) -> AbstractContextManager[object]:
        raise NotImplementedError

    def degraded(self) -> tuple[Degraded, ...]:
        return ()

    def close(self) -> None:
        """Nothing is open."""


def local_path(url: str) -> Path:
    return Path("/nowhere") / url.rpartition("/")[2]


def open_store(url: str, **_options: Any) -> Store:
    return BrokenStore(url)
