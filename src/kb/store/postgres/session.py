"""One transaction: statements, cached reads, and counted changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kb import deadline

if TYPE_CHECKING:
    import psycopg

    from kb.ports import Clock
    from kb.store.postgres.location import Location
    from kb.store.postgres.pool import Connection

Params = Sequence[Any] | Mapping[str, Any] | None
_Value = TypeVar("_Value")
_STREAMED = 500  # rows fetched at a time


class State(NamedTuple):
    """The row of the table `state`, which identifies a state of the store."""

    store_id: str
    created_at: str
    changes: int
    texts: int
    vectors: int
    sparse: int
    chunks: int


@dataclass(slots=True)
class Changes:
    """The changes of a transaction, which its last statement adds to the counters."""

    changes: int = 0
    texts: int = 0
    vectors: int = 0
    sparse: int = 0
    chunks: int = 0
    models: Counter[tuple[int, str]] = field(default_factory=Counter)  # model, column


class Session:
    """Runs the statements of one transaction. Has the names of the store's schema and of this
    machine, and the clock of the store."""

    def __init__(
        self,
        connection: Connection,
        location: Location,
        clock: Clock,
        *,
        reads: bool = False,
    ) -> None:
        self.connection = connection
        self.schema = location.schema
        self.machine = location.machine
        self.clock = clock
        self.changes = Changes()
        self.lag_s = 0.0  # by how much a standby may lag
        self.on_standby = False
        self._cache: dict[str, Any] | None = {} if reads else None

    def execute(self, sql: str, params: Params = None) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement. Parameters are %s or %(name)s."""
        deadline.check()
        return self.connection.execute(sql, params)

    def execute_many(self, sql: str, params: Iterable[Sequence[Any]]) -> int:
        """Run a statement for each item. Returns how many rows it has changed."""
        deadline.check()
        with self.connection.cursor() as cursor:
            cursor.executemany(sql, params)
            return max(0, cursor.rowcount)

    def copy(self, sql: str, rows: Iterable[Sequence[Any]], types: Sequence[str]) -> None:
        """Insert rows with COPY, in binary form. `types` are those of the columns."""
        deadline.check()
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f"COPY {sql} FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def value(self, sql: str, params: Params = None) -> Any:
        """The first column of the first row; None if there is no row."""
        row = self.execute(sql, params).fetchone()
        return row[0] if row else None

    def totals(self, sql: str, params: Params = None) -> tuple[int, ...]:
        """The counts in the first row; their sums, if there are several shards."""
        rows = self.execute(sql, params).fetchall()
        return tuple(sum(column) for column in zip(*rows, strict=True))

    def total(self, sql: str, params: Params = None) -> int:
        """The count in the first column."""
        return self.totals(sql, params)[0]

    @property
    def shards(self) -> Sequence[Session]:
        """The sessions of all shards: see `kb.store.postgres.shards`."""
        return (self,)

    def stream(self, sql: str, params: Params = None) -> Iterator[tuple[Any, ...]]:
        """The rows of a large result, a few hundred at a time."""
        with self.connection.cursor(name="kb_rows") as cursor:
            cursor.itersize = _STREAMED
            for row in cursor.execute(sql, params):
                deadline.check()
                yield row

    def once(self, key: str, read: Callable[[Session], _Value]) -> _Value:
        """A value that a snapshot reads only once, but a writing transaction every time."""
        if self._cache is None:
            return read(self)
        if key not in self._cache:
            self._cache[key] = read(self)
        value: _Value = self._cache[key]
        return value

    @property
    def state(self) -> State:
        return self.once("state", _read_state)

    def count_changes(self) -> None:
        """Add the changes to the counters. Must come last in a transaction: others wait for this
        row until the commit."""
        made = self.changes
        numbers = (made.changes, made.texts, made.vectors, made.sparse, made.chunks)
        if any(numbers):
            self.execute(
                "UPDATE state SET changes = changes + %s, texts = texts + %s, "
                "vectors = vectors + %s, sparse = sparse + %s, chunks = chunks + %s",
                numbers,
            )
        if made.texts:
            self.notify()
        for (model_id, column), count in sorted(made.models.items()):
            if count:
                self.execute(
                    f"UPDATE models SET {column} = {column} + %s WHERE model_id = %s",
                    (count, model_id),
                )

    def notify(self) -> None:
        """Wake the workers of all processes once the transaction is committed."""
        from kb.store.postgres.listener import channel

        self.execute("SELECT pg_notify(%s, '')", (channel(self.schema),))


def _read_state(session: Session) -> State:
    row = session.execute(
        "SELECT store_id, created_at, changes, texts, vectors, sparse, chunks FROM state"
    ).fetchone()
    assert row is not None, "a store has one row of state"
    return State(*row)
