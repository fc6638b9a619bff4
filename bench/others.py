"""Other engines, if they are installed: the same vectors in qdrant-edge and in LanceDB.

    pip install qdrant-edge-py lancedb

kb compares a query with every vector. The others run with their defaults: qdrant-edge is exact (no
graph is built before its optimizer runs), and so is the scan of LanceDB. `agree` is the share of
the first 100 hits that are the same as kb's.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import dense, sparse
from bench.timing import spread_ms, table
from kb.store.sqlite.store import SqliteStore
from kb.types import Filters

if TYPE_CHECKING:
    from bench.dense import Floats

COUNTS = (10_000, 100_000)
QUERIES, TOP, ROWS = 200, 100, 2_000
Search = Callable[[Any], list[int]]


def others(counts: Sequence[int] = COUNTS) -> str:
    rows: list[tuple[object, ...]] = []
    for count in counts:
        rows += [(f"{count:,}", *row) for row in _dense(count)]
        rows += [(f"{count:,}", *row) for row in _sparse(count)]
    missing = [name for name in ("qdrant_edge", "lancedb") if find_spec(name) is None]
    note = f" (not installed: {', '.join(missing)})" if missing else ""
    title = f"Other engines: {QUERIES} queries, top {TOP}, warm, vectors only{note}"
    return table(title, ("passages", "what", "p50 ms", "p95 ms", "agree"), rows)


def _dense(count: int) -> Iterator[tuple[object, ...]]:
    vectors, queries = dense.vectors(count), dense.vectors(QUERIES, seed=6)
    store = SqliteStore(dense.store_of(count))
    model_id = store.vectors.models()[0].model_id

    def by_kb(query: Floats) -> list[int]:
        hits = store.vectors.nearest_dense(
            model_id, query.tolist(), filters=Filters(), now=dense.NOW, limit=TOP, backend="auto"
        )
        return [one.chunk_id for one in hits.chunks]

    yield from _measure_rows("dense", list(queries), by_kb, _qdrant_dense(vectors), _lance(vectors))
    store.close()


def _sparse(count: int) -> Iterator[tuple[object, ...]]:
    sparse_vectors, store = sparse.vectors(count), SqliteStore(_sparse_store(count))
    model_id = store.vectors.models()[0].model_id

    def by_kb(query: sparse.Query) -> list[int]:
        hits = store.vectors.nearest_sparse(
            model_id, query, filters=Filters(), now=dense.NOW, limit=TOP
        )
        return [one.chunk_id for one in hits.chunks]

    queries = sparse.queries(QUERIES)
    yield from _measure_rows("sparse", queries, by_kb, _qdrant_sparse(sparse_vectors, count), None)
    store.close()


def _sparse_store(count: int) -> Path:
    path = sparse.BUILD / f"sparse-{count}.sqlite"
    return path if path.exists() else sparse.store_of(count).path


def _measure_rows(
    what: str, queries: Sequence[Any], by_kb: Search, qdrant: Search | None, lance: Search | None
) -> Iterator[tuple[object, ...]]:
    ours = [set(by_kb(query)) for query in queries]
    for name, search in (("kb", by_kb), ("qdrant-edge", qdrant), ("LanceDB", lance)):
        if search is None:
            continue
        same = sum(len(top & set(search(query))) for top, query in zip(ours, queries, strict=True))
        cells = tuple(f"{value:.2f}" for value in spread_ms(search, list(queries), warm_up=0))
        yield f"{what}: {name}", *cells, f"{same / sum(map(len, ours)):.3f}"


# --- other engines --------------------------------------------------------------------------------


def _fresh(name: str) -> Path:
    path = dense.BUILD / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def _qdrant_dense(vectors: Floats) -> Search | None:
    if find_spec("qdrant_edge") is None:
        return None
    import qdrant_edge as edge

    params = edge.EdgeVectorParams(vectors.shape[1], edge.Distance.Cosine)
    shard = edge.EdgeShard.create(str(_fresh("qdrant-dense")), edge.EdgeConfig(vectors=params))
    _upsert(shard, ((number, row.tolist()) for number, row in enumerate(vectors, start=1)))

    def search(query: Floats) -> list[int]:
        queries = edge.QueryRequest(TOP, query=edge.Query.Nearest(query.tolist()))
        return [int(point.id) for point in shard.query(queries)]

    return search


def _qdrant_sparse(sparse_vectors: Any, count: int) -> Search | None:
    if find_spec("qdrant_edge") is None:
        return None
    import qdrant_edge as edge

    params = {"terms": edge.EdgeSparseVectorParams()}
    shard = edge.EdgeShard.create(
        str(_fresh("qdrant-sparse")), edge.EdgeConfig(sparse_vectors=params)
    )
    pairs = zip(
        sparse_vectors.terms[:count].tolist(), sparse_vectors.weights[:count].tolist(), strict=True
    )
    rows = (edge.SparseVector(terms, weights) for terms, weights in pairs)
    _upsert(shard, ((number, {"terms": row}) for number, row in enumerate(rows, start=1)))

    def search(query: sparse.Query) -> list[int]:
        vector = edge.SparseVector([int(term[1:]) for term in query], list(query.values()))
        nearest = edge.Query.Nearest(vector, using="terms")
        return [int(point.id) for point in shard.query(edge.QueryRequest(TOP, query=nearest))]

    return search


def _upsert(shard: Any, rows: Iterator[tuple[int, Any]]) -> None:
    import qdrant_edge as edge

    points = [edge.Point(number, vector) for number, vector in rows]
    for start in range(0, len(points), ROWS):
        shard.update(edge.UpdateOperation.upsert_points(points[start : start + ROWS]))
    shard.flush()


def _lance(vectors: Floats) -> Search | None:
    if find_spec("lancedb") is None:
        return None
    import lancedb

    rows = [{"id": n, "vector": row} for n, row in enumerate(vectors, start=1)]
    vectors_table = lancedb.connect(str(_fresh("lance"))).create_table("vectors", rows)

    def search(query: Floats) -> list[int]:
        hits = (
            vectors_table.search(query)
            .distance_type("cosine")
            .select(["id", "_distance"])
            .limit(TOP)
            .to_list()
        )
        return [int(row["id"]) for row in hits]

    return search
