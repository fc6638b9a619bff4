"""Sparse search: the store's inverted index compared with a plain product of sparse arrays, on
random vectors with the term frequencies of prose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw
from tests.store.builders import write_vectors

from bench.dense import PER_DOCUMENT, TAGGED, _write_document, tagged_rows
from bench.timing import seconds, spread_ms, table
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.store import SqliteStore
from kb.types import Encoding, Filters, ModelSpec, Vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BUILD = Path("build/bench")
COUNTS = (10_000, 100_000)
NOW = "2026-01-01T00:00:00Z"
VOCABULARY, NONZERO, QUERY_TERMS = 30_000, 120, 8
BATCH = 100  # chunks in a transaction, as `kb embed` commits them
SPEC = ModelSpec("bench-sparse", "1", 4, frozenset({"dense", "sparse"}))
Query = Mapping[str, float]
Search = Callable[[Query], object]


# --- the stores ----------------------------------------------------------------------------------


class SparseVectors(NamedTuple):
    """Vectors with the same number of terms each: the terms and their weights."""

    terms: NDArray[np.int32]
    weights: NDArray[np.float32]


@cache
def vectors(count: int, nonzero: int = NONZERO, seed: int = 5) -> SparseVectors:
    """Terms by Zipf's law, without duplicates in a vector."""
    import numpy as np

    chance = np.random.default_rng(seed)
    odds = np.cumsum(1 / (np.arange(VOCABULARY) + 10.0))
    terms = np.empty((count, nonzero), np.int32)
    for row in range(count):
        drawn = np.searchsorted(odds, chance.random(4 * nonzero) * odds[-1]).tolist()
        terms[row] = list(islice(dict.fromkeys(drawn), nonzero))
    return SparseVectors(terms, chance.gamma(2.0, 0.4, (count, nonzero)).astype(np.float32))


def queries(count: int = 200) -> list[Query]:
    return [
        {f"t{term}": float(weight) for term, weight in zip(terms, weights, strict=True)}
        for terms, weights in zip(*vectors(count, QUERY_TERMS, seed=6), strict=True)
    ]


class Made(NamedTuple):
    path: Path
    dense_s: float  # time to write the vectors, without and with the sparse part
    sparse_s: float
    slowest_s: float  # the longest transaction


def store_of(count: int) -> Made:
    BUILD.mkdir(parents=True, exist_ok=True)
    path = BUILD / f"sparse-{count}.sqlite"
    for left in BUILD.glob(f"{path.name}*"):
        left.unlink()
    store = SqliteStore(path)
    for number in range(count // PER_DOCUMENT):
        _write_document(store, number)
    model_id = store.vectors.use_model(SPEC).model_id
    dense = [_seconds(store, model_id, batch) for batch in _batches(count, with_sparse=False)]
    sparse = [_seconds(store, model_id, batch) for batch in _batches(count, with_sparse=True)]
    store.close()
    return Made(path, sum(dense), sum(sparse), max(sparse))


def _batches(count: int, *, with_sparse: bool) -> Iterator[list[tuple[int, Encoding]]]:
    rows = enumerate(_encodings(count, with_sparse=with_sparse), start=1)
    while batch := list(islice(rows, BATCH)):
        yield batch


def _encodings(count: int, *, with_sparse: bool) -> Iterator[Encoding]:
    if not with_sparse:
        yield from (Encoding(dense=Vector("f", [1.0, 0.0, 0.0, 0.0])) for _ in range(count))
        return
    for terms, weights in zip(*vectors(count), strict=True):
        names = (f"t{term}" for term in terms.tolist())
        yield Encoding(sparse=dict(zip(names, weights.tolist(), strict=True)))


def _seconds(store: SqliteStore, model_id: int, batch: list[tuple[int, Encoding]]) -> float:
    return seconds(lambda: write_vectors(store, model_id, batch))


# --- the reference --------------------------------------------------------------------------------


def plain_numpy(count: int, top: int, filtered: bool) -> Search:
    """The same postings as one array in memory, split by term; no store, no state, no ids."""
    import numpy as np

    drawn = vectors(count)
    terms = drawn.terms.ravel()
    order = np.argsort(terms, kind="stable")
    weights = drawn.weights.ravel()[order]
    rows = (order // NONZERO).astype(np.int32)
    cuts = np.searchsorted(terms[order], np.arange(VOCABULARY + 1))
    chosen = np.array(tagged_rows(count)) if filtered else None

    def search(query: Query) -> object:
        scores = np.zeros(count)
        for term, weight in query.items():
            part = slice(cuts[int(term[1:])], cuts[int(term[1:]) + 1])
            scores[rows[part]] += weights[part] * weight
        if chosen is not None:
            scores = scores[chosen]
        if len(scores) <= top:
            return np.argsort(-scores)
        best = np.argpartition(scores, -top)[-top:]
        return best[np.argsort(-scores[best])]

    return search


# --- measuring ------------------------------------------------------------------------------------


def kb_search(store: SqliteStore, backend: str, top: int, filtered: bool) -> Search:
    filters = TAGGED if filtered else Filters()

    def search(query: Query) -> object:
        candidates = store.vectors.nearest_sparse(
            1, query, filters=filters, now=NOW, limit=top, backend=backend
        )
        assert candidates.backend == backend, candidates.backend
        return candidates

    return search


def _rows(count: int, store: SqliteStore) -> Iterator[tuple[object, ...]]:
    for filtered in (False, True):
        reference = 0.0
        for label, search, query_count in (
            ("plain numpy, in memory", plain_numpy(count, 100, filtered), 200),
            ("kb, numpy", kb_search(store, "numpy", 100, filtered), 200),
            ("kb, python", kb_search(store, "python", 100, filtered), 20),
        ):
            p50, p95 = spread_ms(search, queries(query_count), warm_up=1)
            reference = reference or p50
            what = "top 100" + (", 1 % filter" if filtered else "")
            yield f"{count:,}", what, label, f"{p50:.2f}", f"{p95:.2f}", f"{p50 / reference:.2f}"


def _sizes(path: Path, count: int) -> Iterator[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    text = scalar(connection, "SELECT sum(length(CAST(sparse AS BLOB))) FROM embeddings")
    yield f"{count:,}", "the vectors themselves, as JSON", f"{text / count:,.0f}"
    sql = "SELECT sum(pgsize) FROM dbstat WHERE name = ?"
    for name in ("sparse_postings", "sparse_segments", "sparse_chunks", "sparse_terms"):
        yield f"{count:,}", name, f"{scalar(connection, sql, (name,)) / count:,.1f}"
    parts: Any = scalar(connection, "SELECT count(*) FROM sparse_segments")
    connection.close()
    yield f"{count:,}", "segments, in all", parts


def sparse() -> str:
    searched: list[tuple[object, ...]] = []
    written: list[tuple[object, ...]] = []
    sizes: list[tuple[object, ...]] = []
    for count in COUNTS:
        written_store = store_of(count)
        rate, slowest = count / written_store.sparse_s, 1000 * written_store.slowest_s
        written.append((f"{count:,}", f"{count / written_store.dense_s:,.0f}", f"{rate:,.0f}",
                        f"{slowest:,.0f}"))  # fmt: skip
        store = SqliteStore(written_store.path)
        searched += _rows(count, store)
        store.close()
        sizes += _sizes(written_store.path, count)
    title = f"Sparse search, {QUERY_TERMS} terms, {NONZERO} non-zeros per chunk, warm"
    header = ("chunks", "search", "by", "p50 ms", "p95 ms", "x plain numpy (p50)")
    columns = ("chunks", "4 numbers per chunk, chunks/s", "sparse vectors added, chunks/s",
               "slowest transaction, ms")  # fmt: skip
    return "\n".join((
        table(title, header, searched),
        table(f"Writing, {BATCH} chunks per transaction", columns, written),
        table("Bytes per chunk", ("chunks", "part", "bytes"), sizes),
    ))  # fmt: skip
