"""Vectors in the space-saving form of schema 15, and the rewriting of those of older versions."""

from __future__ import annotations

import io
import random
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb import Filters, KnowledgeBase
from kb.errors import StoreUnusable
from kb.index import cosine, dense_codes, token_codes
from kb.store.sqlite import embeddings, vector_pieces
from kb.store.sqlite.store import SqliteStore
from kb.types import Encoding, ModelSpec, TokenVectors
from tests.store.builders import put, write_vectors

SPEC = ModelSpec("tiny", "1", 96, frozenset({"dense", "sparse", "tokens"}), token_dimension=64)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "kb.sqlite")
    put(store, "a", *(f"text {number}" for number in range(1, 41)))
    store.vectors.use_model(SPEC)
    yield store
    store.close()


_FORMS = "SELECT DISTINCT length(sparse) > 4, length(tokens) > 4, length(dense) FROM embeddings"


def encoding(seed: int, rows: int = 150) -> Encoding:
    chance = random.Random(seed)
    tokens = array("f", [chance.gauss(0, 1) for _ in range(64 * rows)])
    dense = array("f", [chance.gauss(0, 1) for _ in range(96)])
    return Encoding(dense, {"one": 1.5, f"t{seed % 5}": 0.25}, TokenVectors(64, tokens))


def execute(store: SqliteStore, sql: str) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(store.path))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def to_old_form(store: SqliteStore) -> None:
    """Rewrite the vectors as schema 14 stored them."""
    with store._database.writing() as connection:
        ids = [one for (one,) in connection.execute("SELECT chunk_id FROM embeddings")]
        tokens = vector_pieces.read(connection, "tokens", 1, ids)
        vectors = embeddings.dense_vectors(connection, 1, ids)
        sparse = vector_pieces.read(connection, "sparse", 1, ids)
        connection.executemany(
            "UPDATE embeddings SET dense = ?, sparse = ?, tokens = ? WHERE chunk_id = ?",
            [(cosine.to_bytes(vectors[one]), sparse[one], tokens[one], one) for one in ids],
        )
        connection.execute("DELETE FROM vector_pieces")


def test_token_vectors_of_real_texts_are_deflated() -> None:
    words = [random.Random(seed).randbytes(16) for seed in range(50)]
    chance = random.Random(1)
    tokens = token_codes.header("2-bit", 64, 200)
    tokens += b"".join(chance.choice(words) for _ in range(200))
    pieces = vector_pieces.split(tokens)
    assert sum(map(len, pieces)) < len(tokens) / 2
    assert vector_pieces._join(pieces) == tokens
    assert vector_pieces._join(pieces[:-1]) != tokens


@example(b"\xff")
@example(random.Random(1).randbytes(16_000))
@given(st.one_of(st.binary(max_size=40_000), st.binary(max_size=9).map(lambda data: data * 1500)))
def test_pieces_are_short_and_complete(data: bytes) -> None:
    pieces = vector_pieces.split(data)
    assert all(0 < len(piece) <= 500 for piece in pieces)
    assert len(pieces) <= 64
    assert vector_pieces._join(pieces) == data or not pieces
    assert sum(map(len, pieces)) <= len(data) or data[0] == 255
    assert vector_pieces.in_row(data) == (crc32(data).to_bytes(4, "little") if pieces else data)


@pytest.mark.parametrize("rows", [1, 31, 32, 150, 1000, 1200])
def test_all_token_vectors_are_read(store: SqliteStore, rows: int) -> None:
    one = encoding(1, rows)
    write_vectors(store, 1, [(1, one), (2, encoding(2))])
    assert one.tokens is not None
    stored = token_codes.decode(token_codes.encode(one.tokens))
    read = store.vectors.token_vectors(1, [2, 1, 3])
    assert bytes(read[1].data) == bytes(stored.data)
    assert len(read[2]) == 150
    assert set(read) == {1, 2}


def test_pieces_follow_their_embedding(store: SqliteStore) -> None:
    write_vectors(store, 1, [(1, encoding(1, 300)), (2, encoding(2))])
    with store._database.writing() as connection:
        dense = array("f", [1.0] + [0.0] * 95).tobytes()
        short = token_codes.header("2-bit", 64, 1) + b"0" * 16
        assert embeddings.put(connection, 1, 1, None, dense, None, short)
    count = "SELECT piece >> 6, count(*) FROM vector_pieces GROUP BY 1"
    assert execute(store, count) == [(3, 1), (4, 1), (5, 5)]
    with store._database.writing() as connection:
        connection.execute("UPDATE chunks SET text = 'other' WHERE chunk_id = 2")
        assert not embeddings.put(connection, 1, 99, None, dense, None, short)
    assert execute(store, count) == [(3, 1)]
    store.catalog.delete_documents([1])
    assert execute(store, "SELECT count(*) FROM vector_pieces") == [(0,)]


def test_a_missing_piece_is_found_and_the_passage_embedded_again(store: SqliteStore) -> None:
    write_vectors(store, 1, [(one, encoding(one)) for one in range(1, 41)])
    execute(store, "DELETE FROM vector_pieces WHERE piece = (3 << 7) + 66")
    execute(store, "DELETE FROM vector_pieces WHERE piece >> 7 = 5")
    execute(store, "UPDATE vector_pieces SET data = 'text' WHERE piece = 7 << 7")
    execute(store, "UPDATE embeddings SET tokens = zeroblob(4) WHERE chunk_id = 9")
    execute(store, "UPDATE vector_pieces SET data = zeroblob(9) WHERE piece = 11 << 7")
    with pytest.raises(StoreUnusable, match="damaged"):
        store.vectors.token_vectors(1, [3])
    with KnowledgeBase(store.path) as kb:
        assert {one.part for one in kb.doctor().findings if one.state == "error"} >= {"cells"}
        kb.doctor(fix=True)
        assert [one for one in kb.doctor().findings if one.state == "error"] == []
    assert set(store.vectors.token_vectors(1, range(1, 41))) == {*range(1, 41)} - {3, 5, 7, 9, 11}
    assert execute(store, "SELECT count(*) FROM vector_pieces") == [(35 * 6,)]


def answers(store: SqliteStore) -> list[Any]:
    query = encoding(1000).dense
    assert query is not None
    lists = [
        store.vectors.nearest_dense(1, query, filters=Filters(), now="2026", limit=20, backend=name)
        for name in ("numpy", "python", "sqlite-vec")
    ]
    sparse = store.vectors.nearest_sparse(
        1, {"one": 1.0, "t3": 0.5}, filters=Filters(), now="2026", limit=20
    )
    tokens = store.vectors.token_vectors(1, range(1, 41))
    matrices = {one: bytes(each.data) for one, each in tokens.items()}
    return [[each.chunks for each in lists], sparse.chunks, matrices]


def test_rows_share_pages(tmp_path: Path) -> None:
    """Three vectors of 384 numbers to a page of 4 kB, and pieces without gaps."""
    store = SqliteStore(tmp_path / "large.sqlite")
    put(store, "a", *(f"text {number}" for number in range(300)))
    spec = ModelSpec("large", "1", 384, frozenset({"dense", "sparse", "tokens"}), 64)
    store.vectors.use_model(spec)
    chance = random.Random(1)
    for one in range(1, 301):
        dense = array("f", [chance.gauss(0, 1) for _ in range(384)])
        tokens = array("f", [chance.gauss(0, 1) for _ in range(64 * chance.randrange(20, 250))])
        weights = {f"t{chance.randrange(5000)}": chance.uniform(0.1, 2) for _ in range(60)}
        write_vectors(store, 1, [(one, Encoding(dense, weights, TokenVectors(64, tokens)))])
    store.close()
    sizes = {
        name: (size, payload)
        for name, size, payload in execute(
            store, "SELECT name, sum(pgsize), sum(payload) FROM dbstat GROUP BY name"
        )
    }
    assert sizes["embeddings"][0] / 300 < 1450
    assert sizes["vector_pieces"][0] < 1.12 * sizes["vector_pieces"][1]


def exported(store: SqliteStore) -> bytes:
    with KnowledgeBase(store.path) as kb:
        stream = io.BytesIO()
        kb.export(stream, vectors=True)
        return stream.getvalue()


def test_vectors_of_older_versions_have_the_same_answers(store: SqliteStore) -> None:
    write_vectors(store, 1, [(one, encoding(one)) for one in range(1, 41)])
    before, whole = answers(store), exported(store)
    to_old_form(store)
    assert execute(store, _FORMS) == [(1, 1, 4 * 96)]
    assert answers(store) == before
    assert exported(store) == whole
    execute(store, "VACUUM")
    store.close()
    size = store.path.stat().st_size
    assert store.maintenance.compact() > 0
    assert {row[:2] for row in execute(store, _FORMS)} == {(0, 0)}
    assert all(
        len(dense) < 4 * 96 and len(dense_codes.unpack(dense)) == 4 * 96
        for (dense,) in execute(store, "SELECT dense FROM embeddings")
    )
    store.close()
    assert store.path.stat().st_size < size
    assert answers(store) == before
    assert exported(store) == whole
    with KnowledgeBase(store.path) as kb:
        assert [one for one in kb.doctor().findings if one.state == "error"] == []


def test_vectors_survive_an_export(store: SqliteStore, tmp_path: Path) -> None:
    write_vectors(store, 1, [(one, encoding(one)) for one in range(1, 41)])
    with KnowledgeBase(tmp_path / "copy.sqlite") as copy:
        copy.import_(io.BytesIO(exported(store)))
    copied = SqliteStore(tmp_path / "copy.sqlite")
    assert answers(copied) == answers(store)
    assert exported(copied) == exported(store)
    copied.close()
