"""Vectors as rows: what triggers drop, the log of changes, and exports."""

from __future__ import annotations

import io
from array import array
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.errors import BrokenImport
from kb.index import sparse_weights, token_codes
from kb.store.sqlite import vector_pieces
from kb.store.sqlite.store import SqliteStore
from kb.types import Encoding, ModelSpec, TokenVectors
from tests import schemas
from tests.conftest import Clock
from tests.store.builders import (
    pending_chunks,
    put,
    sqlite_store,
    write_vectors,
)

SPEC = ModelSpec("tiny", "1", 3, frozenset({"dense"}))


def vector(*values: float) -> Encoding:
    return Encoding(dense=array("f", values))


def embed(store: SqliteStore, spec: ModelSpec = SPEC) -> int:
    """A vector for every chunk, derived from its id."""
    model_id = store.vectors.use_model(spec).model_id
    waiting = pending_chunks(store, model_id, limit=1000)
    rows = [(one.chunk_id, vector(one.chunk_id, 1.0, 2.0)) for one in waiting]
    write_vectors(store, model_id, rows)
    return model_id


def standing(store: SqliteStore) -> tuple[int, int, int]:
    (model,) = store.vectors.models()
    return model.ready, model.pending, model.failed


def test_sparse_and_tokens_may_come_later(store: SqliteStore) -> None:
    put(store, "a", "one", "two")
    model_id = embed(store)
    tokens = TokenVectors(2, array("f", [0.6, 0.8]))
    added = Encoding(sparse={"東京": 0.5}, tokens=tokens)
    assert write_vectors(store, model_id, [(1, added)]) == 1
    with store._database.reading() as connection:
        rows = connection.execute("SELECT sparse, tokens, dense IS NULL FROM embeddings").fetchall()
        pieces = vector_pieces.read(connection, "tokens", model_id, [1, 2])
    stored = sparse_weights.compress('{"東京":0.5}')
    kept = vector_pieces.in_row
    assert rows == [(kept(stored), kept(token_codes.encode(tokens)), 0), (None, None, 0)]
    assert pieces == {1: token_codes.encode(tokens)}


# --- kept and dropped vectors ---------------------------------------------------------------------


def test_another_text_has_no_vector(store: SqliteStore) -> None:
    put(store, "a", "one", "two", "three")
    model_id = embed(store)
    with store._database.writing() as connection:
        connection.execute("UPDATE chunks SET text = 'other' WHERE chunk_id = 1")
        connection.execute("UPDATE chunks SET heading = 'other' WHERE chunk_id = 2")
        connection.execute("UPDATE chunks SET text = text, ordinal = 7 WHERE chunk_id = 3")
    assert list(store.vectors.dense_vectors(model_id, [1, 2, 3])) == [3]


def test_deleted_chunks_lose_their_vectors(kb: KnowledgeBase, clock: Clock) -> None:
    kb.add("one")
    kb.add("two", ttl="1h")
    model_id = embed(sqlite_store(kb))
    clock.seconds += 7200
    kb.gc()
    assert list(kb._store.vectors.dense_vectors(model_id, [1, 2])) == [1]
    kb.remove("note:1")
    with sqlite_store(kb)._database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM embeddings").fetchone() == (0,)
    assert standing(sqlite_store(kb)) == (0, 0, 0)


def test_the_log_of_changes_is_bounded(store: SqliteStore) -> None:
    put(store, "a", "one")
    with store._database.writing() as connection:
        connection.execute(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000) "
            "INSERT INTO vector_changes (model_id, chunk_id, stamp) SELECT 1, i, 0 FROM n"
        )
        row = connection.execute("SELECT count(*), max(change) FROM vector_changes").fetchone()
    assert row == (20_000, 25_000)


# --- export and import ----------------------------------------------------------------------------


def exported(kb: KnowledgeBase, *, vectors: bool) -> bytes:
    stream = io.BytesIO()
    schemas.validate(kb.export(stream, vectors=vectors))
    return stream.getvalue()


@pytest.fixture
def embedded(kb: KnowledgeBase) -> KnowledgeBase:
    for number in range(5):
        kb.add(f"note {number}")
    model_id = embed(sqlite_store(kb))
    tokens = TokenVectors(3, array("f", [0.0, 0.6, 0.8]))
    write_vectors(kb._store, model_id, [(2, Encoding(sparse={"ß": 0.1}, tokens=tokens))])
    kb.add("one that waits")
    return kb


def test_vectors_survive_an_export(embedded: KnowledgeBase, tmp_path: Path, clock: Clock) -> None:
    data = exported(embedded, vectors=True)
    with KnowledgeBase(tmp_path / "b.sqlite", clock=clock) as other:
        other.import_(io.BytesIO(data))
        assert exported(other, vectors=True) == data
        assert other._store.vectors.models() == embedded._store.vectors.models()
        assert other._store.vectors.dense_vectors(
            1, range(9)
        ) == embedded._store.vectors.dense_vectors(1, range(9))


def test_an_export_without_vectors(embedded: KnowledgeBase, tmp_path: Path, clock: Clock) -> None:
    data = exported(embedded, vectors=False)
    assert b"base64" not in data
    with KnowledgeBase(tmp_path / "b.sqlite", clock=clock) as other:
        other.import_(io.BytesIO(data))
        assert other._store.vectors.models() == []
        assert exported(other, vectors=False) == data


def test_merging_takes_vectors_of_the_same_model(
    embedded: KnowledgeBase, tmp_path: Path, clock: Clock
) -> None:
    data = exported(embedded, vectors=True)
    theirs = embedded._store.vectors.dense_vectors(1, [1])[1]
    with KnowledgeBase(tmp_path / "b.sqlite", clock=clock) as same:
        same.add("mine")
        embed(sqlite_store(same))
        same.import_(io.BytesIO(data), merge=True)
        assert standing(sqlite_store(same)) == (6, 1, 0)
        assert same._store.vectors.dense_vectors(1, [2]) == {2: theirs}
    with KnowledgeBase(tmp_path / "c.sqlite", clock=clock) as other:
        other.add("mine")
        embed(sqlite_store(other), ModelSpec("other", "1", 3, frozenset({"dense"})))
        other.import_(io.BytesIO(data), merge=True)
        assert standing(sqlite_store(other)) == (1, 6, 0)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (b'"dense":{"base64":"', b'"dense":{"base64":"AAAA', 8),
        (b'"dense":{"base64":"', b'"dense":{"base64":"?', 8),
        (b'"dense":{"base64":', b'"dense":{"base46":', 8),
        (b'"embedded_at"', b'"embedded_on"', 8),
        (b'{"\xc3\x9f":0.1}', b'{"x":"y"}', 9),
        (b'"dimension":3', b'"dimension":"3"', 1),
        (b'"models":[{', b'"models":[7,{', 1),
    ],
)  # fmt: skip
def test_damaged_vectors_are_not_imported(
    embedded: KnowledgeBase, tmp_path: Path, old: bytes, new: bytes, line: int
) -> None:
    data = exported(embedded, vectors=True)
    assert old in data
    with KnowledgeBase(tmp_path / "b.sqlite") as other:
        with pytest.raises(BrokenImport, match=f"line {line}:"):
            other.import_(io.BytesIO(data.replace(old, new, 1)))
        assert not other.path.exists()
