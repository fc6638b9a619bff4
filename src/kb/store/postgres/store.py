"""PostgresStore: the store port over one schema of a PostgreSQL database."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kb.store.postgres.block_cache import BlockCache
from kb.store.postgres.catalog import PostgresCatalog
from kb.store.postgres.connection import Database
from kb.store.postgres.filters import FilterCache
from kb.store.postgres.fulltext import PostgresFulltext
from kb.store.postgres.vectors import PostgresVectors
from kb.types import Degraded

if TYPE_CHECKING:
    from kb.ports import Clock
    from kb.store.postgres.maintenance import PostgresMaintenance
    from kb.store.postgres.queue import PostgresQueue


class PostgresStore:
    """The store port over one schema of a database, or over several shards. Threads may share it.
    New token vectors are stored in `token_format`, or in the default format if that is `none`."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock = time.time,
        token_format: str = "none",
    ) -> None:
        self._location = database.location
        self._clock = clock
        self._token_format = token_format
        self._database = database
        self._filters = FilterCache()
        self._blocks = BlockCache()
        self.catalog = PostgresCatalog(self._database, clock)
        self.fulltext = PostgresFulltext(self._database, self._filters, self._blocks)
        self.vectors = PostgresVectors(self._database, self._filters, self._blocks)

    @cached_property
    def queue(self) -> PostgresQueue:
        from kb.index import token_codes
        from kb.store.postgres.queue import PostgresQueue

        token_format = self._token_format
        if token_format == "none":
            token_format = token_codes.DEFAULT
        return PostgresQueue(self._database, self._clock, token_format)

    @cached_property
    def maintenance(self) -> PostgresMaintenance:
        from kb.store.postgres.maintenance import PostgresMaintenance

        return PostgresMaintenance(self._database, self.fulltext, self.vectors)

    @property
    def location(self) -> str:
        return self._location.shown

    @property
    def path(self) -> Path:
        return self._location.path

    def exists(self) -> bool:
        return self._database.exists()

    def create(self) -> None:
        with self._database.writing():
            pass

    def store_id(self) -> str:
        found = self._database.read(lambda session: session.state.store_id)
        return " ".join(sorted(found.split()))  # of shards, in whichever order they are given

    def snapshot(self) -> AbstractContextManager[object]:
        return self._database.reading()

    def degraded(self) -> tuple[Degraded, ...]:
        with self._database.reading() as session:
            lag_s = session.lag_s
        if lag_s <= self._location.max_lag_s:
            return ()
        return (Degraded("store", "standby_lag", f"{lag_s:.0f} s behind the primary"),)

    def close(self) -> None:
        self._database.close()
        self._filters.forget()
        self._blocks.forget()
        self.fulltext.close()
        self.vectors.close()
