"""Dense search: each backend compared with plain numpy and plain sqlite-vec SQL."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import apsw
from tests.store.builders import write_vectors

from bench.timing import _NO_BYTECODE, spread_ms, table, times_ms
from kb.store.sqlite import vec0
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.store import SqliteStore
from kb.types import Attributes, ChunkDraft, DocumentDraft, Encoding, Filters, ModelSpec, Span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

BUILD = Path("build/bench")
COUNTS = (1_000, 10_000, 100_000)
DIMENSION = 384
PER_DOCUMENT = 10
NOW = "2026-01-01T00:00:00Z"
TAGGED = Filters(tags=("hundredth",))
SPEC = ModelSpec("bench", "1", DIMENSION, frozenset({"dense"}))
Search = Callable[["Floats"], object]


# --- the stores ----------------------------------------------------------------------------------


def vectors(count: int, seed: int = 5) -> Floats:
    import numpy as np

    rows = np.random.default_rng(seed).standard_normal((count, DIMENSION), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def store_of(count: int) -> Path:
    """A store of `count` tiny chunks with vectors, created once. One document in a hundred has the
    tag that the filtered searches use."""
    path = BUILD / f"dense-{count}.sqlite"
    if path.exists():
        return path
    BUILD.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    for left in BUILD.glob(f"{unfinished.name}*"):
        left.unlink()
    store = SqliteStore(unfinished)
    for number in range(count // PER_DOCUMENT):
        _write_document(store, number)
    _write_vectors(store, count)
    store.close()
    unfinished.rename(path)
    return path


def _write_document(store: SqliteStore, number: int) -> None:
    name = f"bench/{number:06d}.md"
    attributes = Attributes(tags=("hundredth",) if number % 100 == 0 else ())
    draft = DocumentDraft(None, name, name, "Bench", "markdown", attributes, "-", "bench-1", 0, 0)
    chunks = [
        ChunkDraft(f"{number} {line}", (), None, (Span("line", line, line),))
        for line in range(PER_DOCUMENT)
    ]
    store.catalog.write_document(draft, chunks)


def _write_vectors(store: SqliteStore, count: int) -> None:
    model_id = store.vectors.use_model(SPEC).model_id
    rows = iter(enumerate(vectors(count), start=1))
    while batch := list(islice(rows, 1000)):
        write_vectors(
            store,
            model_id,
            [(chunk_id, Encoding(dense=array("f", row))) for chunk_id, row in batch],
        )


# --- references -----------------------------------------------------------------------------------


def tagged_rows(count: int) -> list[int]:
    return [row for row in range(count) if (row // PER_DOCUMENT) % 100 == 0]


def plain_numpy(matrix: Floats, top: int, rows: Sequence[int] | None) -> Search:
    import numpy as np

    chosen = None if rows is None else np.array(rows)

    def search(query: Floats) -> object:
        part = matrix if chosen is None else matrix[chosen]
        scores = part @ query
        if len(scores) <= top:
            return np.argsort(-scores)
        best = np.argpartition(scores, -top)[-top:]
        return best[np.argsort(-scores[best])]

    return search


def plain_sql(matrix: Floats, tagged: Sequence[int]) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    vec0.load(connection)
    connection.execute(
        f"CREATE VIRTUAL TABLE v USING vec0 (embedding float[{DIMENSION}] distance_metric=cosine);"
        "CREATE TABLE tagged (id INTEGER PRIMARY KEY)"
    )
    with connection:
        connection.executemany(
            "INSERT INTO v (rowid, embedding) VALUES (?, ?)",
            ((number, row.tobytes()) for number, row in enumerate(matrix, start=1)),
        )
        connection.executemany("INSERT INTO tagged VALUES (?)", ((row + 1,) for row in tagged))
    return connection


def plain_sql_search(connection: apsw.Connection, top: int, filtered: bool) -> Search:
    among = "AND rowid IN (SELECT id FROM tagged)" if filtered else ""
    sql = f"SELECT rowid, distance FROM v WHERE embedding MATCH ? AND k = ? {among}"
    return lambda query: connection.execute(sql, (query.tobytes(), top)).fetchall()


def kb_search(store: SqliteStore, backend: str, top: int, filtered: bool) -> Search:
    model_id = store.vectors.models()[0].model_id
    filters = TAGGED if filtered else Filters()

    def search(query: Floats) -> object:
        candidates = store.vectors.nearest_dense(
            model_id, array("f", query), filters=filters, now=NOW, limit=top, backend=backend
        )
        assert candidates.backend == backend, candidates.backend
        return candidates

    return search


# --- measuring ------------------------------------------------------------------------------------


def _searches(
    store: SqliteStore, matrix: Floats, plain: apsw.Connection, filtered: bool, top: int
) -> Iterator[tuple[str, Search, int]]:
    """Every search, with its number of queries."""
    large = len(matrix) > 10_000
    rows = tagged_rows(len(matrix)) if filtered else None
    yield "plain numpy", plain_numpy(matrix, top, rows), 200
    yield "kb, numpy", kb_search(store, "numpy", top, filtered), 200
    yield "plain sqlite-vec SQL", plain_sql_search(plain, top, filtered), 20 if large else 100
    yield "kb, sqlite-vec", kb_search(store, "sqlite-vec", top, filtered), 20 if large else 100
    yield "kb, python", kb_search(store, "python", top, filtered), 2 if large else 20


def _rows(count: int) -> Iterator[tuple[object, ...]]:
    matrix = vectors(count)
    queries = vectors(200, seed=6)
    plain = plain_sql(matrix, tagged_rows(count))
    store = SqliteStore(_with_table(store_of(count)), vector_backend="sqlite-vec")
    for filtered in (False, True):
        for top in (100, 10):
            reference = 0.0
            for label, search, query_count in _searches(store, matrix, plain, filtered, top):
                p50, p95 = spread_ms(search, list(queries[:query_count]), warm_up=1)
                reference = p50 if label.startswith("plain") else reference
                what = f"top {top}" + (", 1 % filter" if filtered else "")
                yield (
                    f"{count:,}",
                    what,
                    label,
                    f"{p50:.2f}",
                    f"{p95:.2f}",
                    f"{p50 / reference:.2f}",
                )
    store.close()


def _with_table(path: Path) -> Path:
    """A copy of the store that also has sqlite-vec's table."""
    copy = path.with_name(path.name.replace("dense", "dense-vec"))
    if not copy.exists():
        shutil.copy(path, copy)
        store = SqliteStore(copy, vector_backend="sqlite-vec")
        store.vectors.build_index(store.vectors.models()[0].model_id)
        store.close()
    return copy


FRESH = """
import re, sys, time
from array import array
from pathlib import Path
from kb.store.sqlite.store import SqliteStore
from kb.types import Filters
store = SqliteStore(Path(sys.argv[1]), read_only=True)
tags = Filters(tags=("hundredth",)) if sys.argv[3] else Filters()
started = time.perf_counter()
if sys.argv[2] == "numpy":
    import numpy
loaded = time.perf_counter()
store.vectors.nearest_dense(
    1, array("f", [1.0] * 384), filters=tags, now="2026-01-01T00:00:00Z", limit=100,
    backend=sys.argv[2],
)
done = time.perf_counter()
status = Path("/proc/self/status").read_text()  # ru_maxrss starts at the parent's value
sizes = {name: int(size) / 1024 for name, size in re.findall(r"(\\w+):\\s+(\\d+) kB", status)}
print(1000 * (loaded - started), 1000 * (done - loaded), sizes["RssAnon"], sizes["RssFile"])
"""


def _fresh(path: Path, backend: str, filtered: bool) -> list[float]:
    """Milliseconds to load numpy and to run the first search in a new process, and its memory in
    MB: its own, and that mapped from files."""
    command = [sys.executable, "-c", FRESH, str(path), backend, "1" if filtered else ""]
    environment = {name: os.environ[name] for name in os.environ if name != _NO_BYTECODE}
    runs = [
        [float(part) for part in subprocess.check_output(command, env=environment).split()]
        for _ in range(5)
    ]
    return [median(column) for column in zip(*runs, strict=True)]


def _fresh_rows() -> Iterator[tuple[object, ...]]:
    for count in COUNTS:
        path = store_of(count)
        store = SqliteStore(path)
        store.vectors.dense.rewrite_file(*_connection(store))
        store.close()
        for backend in ("numpy", "sqlite-vec", "python"):
            if backend == "python" and count > 10_000:
                continue
            where = _with_table(path) if backend == "sqlite-vec" else path
            for filtered in (False, True):
                loading, first, own, mapped = _fresh(where, backend, filtered)
                what = backend + (", 1 % filter" if filtered else "")
                yield (
                    f"{count:,}",
                    what,
                    f"{loading:.0f}",
                    f"{first:.1f}",
                    f"{own:.0f}",
                    f"{mapped:.0f}",
                )


def _connection(store: SqliteStore) -> tuple[Any, Any]:
    with store._database.reading() as connection:
        return connection, store.vectors.models()[0]


def dense() -> str:
    measured = [row for count in COUNTS for row in _rows(count)]
    header = ("chunks", "search", "by", "p50 ms", "p95 ms", "x the plain one above (p50)")
    searches = table(f"Dense search, {DIMENSION} dimensions, warm", header, measured)
    columns = ("chunks", "by", "load numpy, ms", "first search, ms", "own memory, MB", "mapped, MB")
    fresh = table("The first dense search of a process, top 100", columns, list(_fresh_rows()))
    return f"{searches}\n{fresh}\n{_during_writes()}\n{_sizes(COUNTS[-1])}"


def _during_writes() -> str:
    """Search after each write of ten unchanged vectors."""
    rows: list[tuple[object, ...]] = []
    for count in COUNTS:
        store = SqliteStore(store_of(count))
        model_id = store.vectors.models()[0].model_id
        search = kb_search(store, "numpy", 100, False)
        elapsed_ms, queries = [], vectors(60, seed=6)
        search(queries[0])
        for start, query in enumerate(queries):
            ids = range(10 * start + 1, 10 * start + 11)
            candidates = store.vectors.dense_vectors(model_id, ids)
            write_vectors(store, model_id, [(one, Encoding(dense=candidates[one])) for one in ids])
            elapsed_ms += times_ms(search, [query])
        (still_ms,) = times_ms(search, [queries[0]])
        rows.append(
            (f"{count:,}", f"{median(elapsed_ms):.2f}", f"{max(elapsed_ms):.2f}", f"{still_ms:.2f}")
        )
        store.close()
    header = ("chunks", "p50 ms", "max ms", "without a write, ms")
    return table("Search by numpy after every write of ten vectors", header, rows)


def _sizes(count: int) -> str:
    path = store_of(count)
    connection = apsw.Connection(str(path))
    sql = "SELECT sum(pgsize) FROM dbstat WHERE name LIKE ?"
    in_store = scalar(connection, sql, ("embeddings%",)) / count
    log = scalar(connection, sql, ("vector_changes%",)) / count
    connection.close()
    beside = path.with_name(path.name + "-vectors").stat().st_size / count
    extra = (_with_table(path).stat().st_size - path.stat().st_size) / count
    rows = [
        ("the raw numbers", f"{4 * DIMENSION:,}"),
        ("embeddings", f"{in_store:,.0f}"),
        ("the log of changes", f"{log:,.1f}"),
        ("numpy's file beside the store", f"{beside:,.0f}"),
        ("sqlite-vec's table, if configured", f"{extra:,.0f}"),
    ]
    return table(f"Bytes per chunk, {count:,} chunks", ("part", "bytes"), rows)
