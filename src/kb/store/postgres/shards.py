"""Several stores on several servers, searched as one.

Each shard is a complete store, with its own writers and workers: a document and everything that
belongs to it is in one shard, and no transaction spans two of them. The ids of shard 1 of 2 are
odd, and those of shard 2 are even, so that they are unique without any coordination.

Searches read all shards. The lists equal those of one store: postings are scored in the client,
with the statistics of all shards, and the best vectors of each shard are merged by their scores.
Each shard is read in a snapshot of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from kb.errors import StoreReadOnly, StoreUnusable
from kb.store.postgres import shard_ids
from kb.store.postgres.connection import Database
from kb.store.postgres.location import path_of
from kb.store.postgres.session import Session, State

if TYPE_CHECKING:
    from kb.ports import Clock
    from kb.store.postgres.location import Location
    from kb.store.postgres.session import Params

_COUNTER_BITS = 48


class Rows:
    """The rows of a statement that was run on every shard."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows[0] if self._rows else None


class ShardedSession(Session):
    """Runs each statement on every shard, in a snapshot of each."""

    def __init__(self, databases: Sequence[Database], sessions: Sequence[Session]) -> None:
        first = sessions[0]
        self._databases = databases
        self.schema = first.schema
        self.machine = first.machine
        self.clock = first.clock
        self.lag_s = max(each.lag_s for each in sessions)
        self._sessions = sessions
        self._cache = {}

    @property
    def shards(self) -> Sequence[Session]:
        return self._sessions

    def execute(self, sql: str, params: Params = None) -> Any:
        """The rows of all shards, those of the first shard first."""
        found: list[tuple[Any, ...]] = []
        for database, session in zip(self._databases, self._sessions, strict=True):
            with database.errors():  # which name the shard
                found += session.execute(sql, params)
        return Rows(found)

    def value(self, sql: str, params: Params = None) -> Any:
        """The value in the first shard that has one."""
        values = (each.value(sql, params) for each in self._sessions)
        return next((value for value in values if value is not None), None)

    def stream(self, sql: str, params: Params = None) -> Iterator[tuple[Any, ...]]:
        for each in self._sessions:
            yield from each.stream(sql, params)

    @property
    def state(self) -> State:
        """The sums of the counters, and counters that differ between any two states."""
        states = [each.state for each in self._sessions]

        def joined(counts: Iterable[int]) -> int:
            return sum(count << _COUNTER_BITS * at for at, count in enumerate(counts))

        return State(
            " ".join(one.store_id for one in states),
            min(one.created_at for one in states),
            joined(one.changes for one in states),
            joined(one.texts for one in states),
            joined(one.vectors for one in states),
            joined(one.sparse for one in states),
            sum(one.chunks for one in states),
        )


class ShardedDatabase(Database):
    """The databases of all shards, for reading."""

    def __init__(self, locations: Sequence[Location], *, busy_timeout_s: float, clock: Clock):
        shown = " ".join(each.shown for each in locations)
        super().__init__(
            replace(locations[0], shown=shown, path=path_of(locations)),
            read_only=True, busy_timeout_s=busy_timeout_s, clock=clock,
        )  # fmt: skip
        self._databases = [
            Database(each, read_only=True, busy_timeout_s=busy_timeout_s, clock=clock)
            for each in locations
        ]

    @property
    def databases(self) -> Sequence[Database]:
        return self._databases

    def exists(self) -> bool:
        return all(each.exists() for each in self.databases)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        if self._local.session is not None:
            yield self._local.session
            return
        with ExitStack() as stack:
            opened = [stack.enter_context(one.reading()) for one in self.databases]
            session = ShardedSession(self.databases, opened)
            if not self._is_current:
                _check_numbers(session)
                self._is_current = True
            self._local.session = session
            try:
                yield session
            finally:
                self._local.session = None

    def writing(self, **_options: Any) -> NoReturn:
        raise StoreReadOnly(
            "the shards of a store are read together and written one by one",
            "give the URL of one shard: --store URL",
        )

    def close(self) -> None:
        super().close()
        for each in self.databases:
            each.close()


def _check_numbers(session: ShardedSession) -> None:
    """Raise `StoreUnusable` unless the ids of the shards are distinct."""
    rows: Any = session.execute(shard_ids.NUMBERS).fetchall()
    count = len(rows)
    if sorted(rows) != [(number, count) for number in range(1, count + 1)]:
        found = ", ".join(f"{start}/{step}" for start, step in rows)
        raise StoreUnusable(
            f"{session.schema}: these stores are not the shards of one store: {found}",
            f"create each with its number: ?shard=1/{count} to ?shard={count}/{count}",
        )
