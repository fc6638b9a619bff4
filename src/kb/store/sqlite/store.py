"""SqliteStore: the store port over one SQLite file."""

from __future__ import annotations

import os
import threading
import time
from contextlib import AbstractContextManager
from functools import cached_property

from kb.store.sqlite.catalog import SqliteCatalog
from kb.store.sqlite.connection import Database
from kb.store.sqlite.fulltext import SqliteFulltext
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.visibility import FilterCache
from kb.values import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from kb.ports import Clock
    from kb.store.sqlite.maintenance import SqliteMaintenance
    from kb.store.sqlite.queue import SqliteQueue
    from kb.store.sqlite.vectors import SqliteVectors
    from kb.types import Degraded


class SqliteStore:
    """The store port over one SQLite file. Threads may share it: each has its own connections.

    `vector_backend` is `auto`, `sqlite-vec`, `numpy` or `python`; with `sqlite-vec`, writes keep
    that backend's table up to date. New token vectors are stored in `token_format`, or in the
    default format if that is `none`; every format can be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        busy_timeout_s: float = 60.0,
        clock: Clock = time.time,
        vector_backend: str = "auto",
        token_format: str = "none",
    ) -> None:
        self._database = Database(
            path, read_only=read_only, busy_timeout_s=busy_timeout_s, clock=clock
        )
        self._clock = clock
        self._lock = threading.Lock()
        self._vectors: SqliteVectors | None = None  # imported on first use
        self._vector_backend = vector_backend
        self._token_format = token_format
        self.catalog = SqliteCatalog(self._database, clock)
        self._filters = FilterCache()
        self.fulltext = SqliteFulltext(self._database, self._filters)
        self._database.on_replaced.append(self._forget)

    @property
    def vectors(self) -> SqliteVectors:
        with self._lock:  # all threads share one, because it has caches
            if self._vectors is None:
                from kb.store.sqlite.vectors import SqliteVectors

                self._vectors = SqliteVectors(self._database, self._vector_backend, self._filters)
            return self._vectors

    @cached_property
    def queue(self) -> SqliteQueue:
        from kb.index import token_codes
        from kb.store.sqlite.queue import SqliteQueue

        token_format = self._token_format
        if token_format == "none":
            token_format = token_codes.DEFAULT
        return SqliteQueue(self._database, self._clock, self.vectors, token_format)

    @cached_property
    def maintenance(self) -> SqliteMaintenance:
        from kb.store.sqlite.maintenance import SqliteMaintenance

        return SqliteMaintenance(self._database, self.vectors, self.fulltext.words)

    @property
    def location(self) -> str:
        return self._database.file

    @property
    def path(self) -> Path:
        return self._database.path

    def exists(self) -> bool:
        return os.path.exists(self._database.file)

    def create(self) -> None:
        with self._database.writing():
            pass

    def store_id(self) -> str:
        with self._database.reading() as connection:
            return str(scalar(connection, "SELECT store_id FROM state"))

    def snapshot(self) -> AbstractContextManager[object]:
        return self._database.reading()

    def degraded(self) -> tuple[Degraded, ...]:
        return ()

    def close(self) -> None:
        self._database.close()
        self._forget()

    def _forget(self) -> None:
        """Drop all caches: another file may have the same version but different contents."""
        self._filters.forget()
        self.fulltext.close()
        if self._vectors is not None:
            self._vectors.close()
