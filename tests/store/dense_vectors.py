"""Dense vectors for tests, and brute force search to compare with."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest

from kb.store.sqlite.store import SqliteStore
from kb.types import Encoding, Filters, ModelSpec, ScoredChunk
from tests.store.builders import pending_chunks, write_vectors

np = pytest.importorskip("numpy")

BACKENDS = ("numpy", "sqlite-vec", "python")
NOW = "2026-05-28T20:26:40Z"
DIMENSION = 32
ALL = Filters()
SPEC = ModelSpec("tiny", "1", DIMENSION, frozenset({"dense"}))


def some_vectors(count: int, seed: int = 1) -> Any:
    """One vector in ten equals its neighbor, and one in fifty is the same vector."""
    made = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    made[9::10] = made[8::10][: len(made[9::10])]
    made[7::50] = made[7 % count]
    return made


QUERY = some_vectors(1, seed=9)[0]


def embed(store: SqliteStore, made: Any) -> int:
    model_id = store.vectors.use_model(SPEC).model_id
    rows = [(one.chunk_id, Encoding(dense=array("f", made[one.chunk_id - 1])))
            for one in pending_chunks(store, model_id, limit=len(made))]  # fmt: skip
    write_vectors(store, model_id, rows)
    return model_id


def ask(
    store: SqliteStore, query: Any, backend: str, limit: int = 10, filters: Filters = ALL,
    now: str = NOW,
) -> list[ScoredChunk]:  # fmt: skip
    found = store.vectors.nearest_dense(
        1, array("f", query), filters=filters, now=now, limit=limit, backend=backend
    )
    assert found.backend == backend
    return found.chunks


def brute_force(store: SqliteStore, query: Any, limit: int, ids: list[int]) -> list[int]:
    """The nearest chunks, computed from the stored vectors with other arithmetic and Python's own
    sort."""
    stored = store.vectors.dense_vectors(1, ids)
    asked = np.asarray(query, np.float64) / np.linalg.norm(np.asarray(query, np.float64))
    keys = []
    for chunk_id, vector in stored.items():
        cosine = float(np.asarray(vector, np.float64) @ asked)
        keys.append((-round(cosine, 9), chunk_id))
    return [chunk_id for _, chunk_id in sorted(keys)[:limit]]


def file_of(store: SqliteStore) -> Path:
    return store.path.with_name("kb.sqlite-vectors")
