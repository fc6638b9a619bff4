"""Vectors as rows: whose they are, what waits for them, what keeps and what loses them."""

from __future__ import annotations

import io
from array import array
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.errors import BrokenImport, ModelBroken, ModelMismatch, NotFound
from kb.index import token_codes
from kb.store.sqlite.store import SqliteStore
from kb.types import Attributes, ChunkDraft, DocumentDraft, Encoding, ModelSpec, Span, TokenVectors
from tests import schemas
from tests.conftest import Clock
from tests.store.builders import (
    check_integrity,
    fail_chunks,
    pending_chunks,
    put,
    sqlite_store,
    write_vectors,
)

SPEC = ModelSpec("tiny", "1", 3, frozenset({"dense"}))


def vector(*values: float) -> Encoding:
    return Encoding(dense=array("f", values))


def embed(store: SqliteStore, spec: ModelSpec = SPEC) -> int:
    """A vector for every chunk, which its id decides."""
    model_id = store.vectors.use_model(spec).model_id
    waiting = pending_chunks(store, model_id, limit=1000)
    rows = [(one.chunk_id, vector(one.chunk_id, 1.0, 2.0)) for one in waiting]
    write_vectors(store, model_id, rows)
    return model_id


def standing(store: SqliteStore) -> tuple[int, int, int]:
    (model,) = store.vectors.models()
    return model.ready, model.pending, model.failed


# --- models ---------------------------------------------------------------------------------------


def test_a_store_remembers_its_model(store: SqliteStore) -> None:
    put(store, "a", "one", "two")
    assert store.vectors.models() == []
    made = store.vectors.use_model(SPEC)
    assert (made.name, made.version, made.dimension, made.pending) == ("tiny", "1", 3, 2)
    assert store.vectors.use_model(SPEC) == made
    assert store.vectors.models() == [made]


@pytest.mark.parametrize(
    "other",
    [
        ModelSpec("other", "1", 3, frozenset({"dense"})),
        ModelSpec("tiny", "2", 3, frozenset({"dense"})),
        ModelSpec("tiny", "1", 4, frozenset({"dense"})),
    ],
)
def test_mixing_is_refused(store: SqliteStore, other: ModelSpec) -> None:
    put(store, "a", "one")
    embed(store)
    with pytest.raises(ModelMismatch) as error:
        store.vectors.use_model(other)
    assert "tiny 1 of 3 dimensions" in error.value.message
    assert "tiny" in error.value.hint
    assert standing(store) == (1, 0, 0)


def test_dropped_vectors_leave_nothing_behind(store: SqliteStore) -> None:
    put(store, "a", "one", "two")
    model_id = store.vectors.use_model(SPEC).model_id
    write_vectors(store, model_id, [(1, Encoding(dense=array("f", [1.0] * SPEC.dimension)))])
    fail_chunks(store, model_id, [2], "no room")
    assert store.queue.last_error(model_id) == "no room"
    assert store.vectors.drop_all() == 1
    assert store.vectors.models() == []
    made = store.vectors.use_model(ModelSpec(SPEC.name, "2", SPEC.dimension, SPEC.gives))
    assert (made.version, made.ready, made.pending, made.failed) == ("2", 0, 2, 0)
    check_integrity(store)


def test_a_model_that_left_no_vectors_gives_way(store: SqliteStore) -> None:
    put(store, "a", "one")
    first = store.vectors.use_model(SPEC)
    fail_chunks(store, first.model_id, [1], "no")
    second = store.vectors.use_model(ModelSpec("other", "1", 5, frozenset({"dense"})))
    assert second.model_id > first.model_id
    assert [model.name for model in store.vectors.models()] == ["other"]
    with pytest.raises(NotFound):
        pending_chunks(store, first.model_id, limit=1)


# --- what waits -----------------------------------------------------------------------------------


def test_what_waits_comes_by_id_with_its_heading(store: SqliteStore) -> None:
    draft = DocumentDraft(None, "a", "a", "Title", "note", Attributes(), "-", "1", 1, 1)
    span = (Span("line", 1, 1),)
    store.catalog.write_document(draft, [
        ChunkDraft("words", ("Title", "Part"), None, span),
        ChunkDraft("Title of all", (), None, span),
    ])  # fmt: skip
    model_id = store.vectors.use_model(SPEC).model_id
    found = pending_chunks(store, model_id, limit=10)
    assert [one.text for one in found] == ["Title › Part\nwords", "Title of all"]
    assert pending_chunks(store, model_id, limit=1) == found[:1]
    write_vectors(store, model_id, [(found[0].chunk_id, vector(1, 0, 0))])
    assert pending_chunks(store, model_id, limit=10) == found[1:]


def test_three_failures_are_for_good(store: SqliteStore, clock: Clock) -> None:
    put(store, "a", "one", "two")
    model_id = store.vectors.use_model(SPEC).model_id
    for attempt in range(3):
        assert len(pending_chunks(store, model_id, limit=10)) == 2, attempt
        clock.seconds += 1
        fail_chunks(store, model_id, [1, 4711], f"reason {attempt}")
    assert [one.chunk_id for one in pending_chunks(store, model_id, limit=10)] == [2]
    assert standing(store) == (0, 1, 1)
    (counted,) = store.vectors.model_counts()
    assert (counted["failed"], counted["last_error"]) == (1, "reason 2")
    assert store.queue.retry(model_id) == 1
    assert standing(store) == (0, 2, 0)
    write_vectors(store, model_id, [(1, vector(1, 2, 3))])
    fail_chunks(store, model_id, [1], "too late: it has its vectors")
    assert standing(store) == (1, 1, 0)
    assert store.vectors.model_counts()[0]["last_error"] is None


# --- writing --------------------------------------------------------------------------------------


def test_vectors_are_normalised_on_the_way_in(store: SqliteStore) -> None:
    put(store, "a", "one")
    model_id = store.vectors.use_model(SPEC).model_id
    assert write_vectors(store, model_id, [(1, vector(3, 0, 4))]) == 1
    assert store.vectors.dense_vectors(model_id, [1, 2]) == {1: array("f", [0.6, 0.0, 0.8])}
    assert write_vectors(store, model_id, [(1, vector(0, 2, 0))]) == 1  # updates are allowed
    assert store.vectors.dense_vectors(model_id, [1]) == {1: array("f", [0.0, 1.0, 0.0])}


@pytest.mark.parametrize("bad", [(0, 0, 0), (float("nan"), 0, 1), (float("inf"), 0, 0), (1, 2)])
def test_a_bad_vector_is_refused_with_its_company(store: SqliteStore, bad: Any) -> None:
    put(store, "a", "one", "two")
    model_id = store.vectors.use_model(SPEC).model_id
    before = store.vectors.version()
    with pytest.raises(ModelBroken):
        write_vectors(store, model_id, [(1, vector(1, 0, 0)), (2, vector(*bad))])
    assert store.vectors.dense_vectors(model_id, [1, 2]) == {}
    assert store.vectors.version() == before


def test_chunks_that_have_gone_are_left_out(store: SqliteStore) -> None:
    put(store, "a", "one")
    model_id = store.vectors.use_model(SPEC).model_id
    assert write_vectors(store, model_id, [(1, vector(1, 0, 0)), (9, vector(1, 0, 0))]) == 1


def test_sparse_and_tokens_may_come_later(store: SqliteStore) -> None:
    put(store, "a", "one", "two")
    model_id = embed(store)
    tokens = TokenVectors(2, array("f", [0.6, 0.8]))
    added = Encoding(sparse={"東京": 0.5}, tokens=tokens)
    assert write_vectors(store, model_id, [(1, added)]) == 1
    with store._database.reading() as connection:
        rows = connection.execute("SELECT sparse, tokens, dense IS NULL FROM embeddings").fetchall()
    assert rows == [('{"東京": 0.5}', token_codes.encode(tokens), 0), (None, None, 0)]


# --- what keeps and what loses them ---------------------------------------------------------------


def test_kept_chunks_keep_their_vectors(store: SqliteStore) -> None:
    put(store, "a", "one", "two", "three")
    model_id = embed(store)
    before = store.vectors.dense_vectors(model_id, [1, 2, 3])
    put(store, "a", "zero", "three", "one")  # two has gone, zero has come, the others have moved
    kept = store.vectors.dense_vectors(model_id, range(10))
    assert kept == {1: before[1], 3: before[3]}
    assert [one.text for one in pending_chunks(store, model_id, limit=9)] == ["a\nzero"]
    assert standing(store) == (2, 1, 0)
    put(store, "a", "zero", "three", "one", title="another title")  # which stands above each
    assert standing(store) == (0, 3, 0)


def test_another_text_has_no_vector(store: SqliteStore) -> None:
    put(store, "a", "one", "two", "three")
    model_id = embed(store)
    with store._database.writing() as connection:
        connection.execute("UPDATE chunks SET text = 'other' WHERE chunk_id = 1")
        connection.execute("UPDATE chunks SET heading = 'other' WHERE chunk_id = 2")
        connection.execute("UPDATE chunks SET text = text, ordinal = 7 WHERE chunk_id = 3")
    assert list(store.vectors.dense_vectors(model_id, [1, 2, 3])) == [3]


def test_what_goes_takes_its_vectors_along(kb: KnowledgeBase, clock: Clock) -> None:
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


def test_every_change_counts(store: SqliteStore) -> None:
    put(store, "a", "one", "two")
    seen = {store.vectors.version()}
    model_id = embed(store)
    seen.add(store.vectors.version())
    write_vectors(store, model_id, [(1, vector(5, 5, 5))])
    seen.add(store.vectors.version())
    put(store, "a", "one")
    seen.add(store.vectors.version())
    assert len(seen) == 4
    fail_chunks(store, model_id, [1], "no change")
    put(store, "b", "three")
    assert store.vectors.version() in seen


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
