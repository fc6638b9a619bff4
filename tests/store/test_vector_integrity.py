"""`kb doctor` on vectors: planted faults are found, and derived data is rebuilt."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from kb import wire
from kb.errors import KbError, ModelBroken, ModelMissing
from kb.library.doctor import examine
from kb.store.sqlite import dense, vec0
from kb.store.sqlite.store import SqliteStore
from kb.types import Encoding, Filters, Finding, ModelSpec
from tests import schemas
from tests.conftest import Clock
from tests.models.weightless import Weightless
from tests.store.builders import check_integrity, fail_chunks, put, write_vectors
from tests.store.dense_vectors import NOW, QUERY, SPEC, ask, embed, file_of, some_vectors


@pytest.fixture
def filled(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """100 chunks with vectors, the table and the file."""
    monkeypatch.setattr(dense, "_MIN_FILE_ROWS", 10)
    store = SqliteStore(tmp_path / "kb.sqlite", clock=clock, vector_backend="sqlite-vec")
    for number in range(20):
        put(store, f"{number}", *(f"{number} {line}" for line in range(5)))
    embed(store, some_vectors(100))
    ask(store, QUERY, "numpy")
    yield store
    store.close()


def unwell(store: SqliteStore, *, fix: bool = False) -> dict[str, Finding]:
    diagnosis = examine(store, NOW, fix=fix)
    schemas.validate(wire.diagnosis(diagnosis))
    return {one.part: one for one in diagnosis.findings if one.state != "ok"}


def test_a_store_with_vectors_is_healthy(filled: SqliteStore) -> None:
    assert unwell(filled) == {}
    filled.catalog.delete_documents([4])  # the table and the file do not reflect this yet
    assert unwell(filled) == {}


FAULTS: dict[str, tuple[str, set[str]]] = {
    "counters": ("UPDATE models SET ready = 7", {"counters"}),
    "orphans": (
        "INSERT INTO embeddings (model_id, chunk_id, state) VALUES (1, 9000, 'ready')",
        {"orphans", "embeddings", "vectors"},
    ),
    "a vector cut": (
        "UPDATE embeddings SET dense = x'0011' WHERE chunk_id = 3", {"embeddings", "vectors"},
    ),
    "a vector of zeros": (
        "UPDATE embeddings SET dense = zeroblob(128) WHERE chunk_id = 3", {"embeddings"},
    ),
    "a vector missing in the table": (
        "DELETE FROM chunks_vec WHERE chunk_id = 5", {"chunks_vec"},
    ),
    "the table without its place": ("DELETE FROM vector_indexes", {"chunks_vec"}),
    "no trigger": ("DROP TRIGGER embeddings_delete", {"schema"}),
    "a change behind the log": (
        "DROP TRIGGER embeddings_update; "
        "UPDATE embeddings SET dense = (SELECT dense FROM embeddings WHERE chunk_id = 1) "
        "WHERE chunk_id = 2", {"schema", "chunks_vec", "vectors"},
    ),
    "the log forgotten": ("DELETE FROM vector_changes", {"chunks_vec", "vectors"}),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_repaired(filled: SqliteStore, fault: str) -> None:
    sql, parts = FAULTS[fault]
    filled.close()
    connection = apsw.Connection(str(filled.path))
    vec0.load(connection)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute(sql)
    connection.close()
    found = unwell(filled)
    assert parts <= set(found) <= parts | {"counters", "pending"}
    assert all(one.to_do for one in found.values())
    mended = unwell(filled, fix=True)
    assert any(one.fixed for one in mended.values())
    left = unwell(filled)
    assert set(left) <= {"pending"}  # a damaged vector was dropped
    check_integrity(filled)
    answers = [ask(filled, QUERY, name) for name in ("numpy", "sqlite-vec", "python")]
    assert answers[0] == answers[1] == answers[2]
    embed(filled, some_vectors(100))
    assert unwell(filled) == {}


def test_a_damaged_file(filled: SqliteStore) -> None:
    data = bytearray(file_of(filled).read_bytes())
    data[-1] ^= 1
    file_of(filled).write_bytes(data)
    found = unwell(filled)
    assert list(found) == ["vectors"]
    assert "kb doctor --fix" in found["vectors"].to_do
    assert unwell(filled, fix=True)["vectors"].fixed
    assert unwell(filled) == {}


def test_indexes_that_cannot_be_checked(
    filled: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vec0, "load", lambda connection: False)
    monkeypatch.setattr("kb.store.sqlite.vector_integrity.numpy_is_there", lambda: False)
    found = unwell(filled)
    assert {part: one.state for part, one in found.items()} == {
        "chunks_vec": "warning", "vectors": "warning",
    }  # fmt: skip


def test_pending_and_failed_chunks(filled: SqliteStore) -> None:
    put(filled, "new", "one", "two")
    for _ in range(3):
        fail_chunks(filled, 1, [101], "no room")
    found = unwell(filled)
    assert list(found) == ["pending"]
    assert found["pending"].what == (
        "100 chunks have vectors (sparse 0, tokens 0), 1 waits for them, "
        "1 has failed permanently: no room"
    )
    assert found["pending"].to_do == "kb embed --retry"


def test_one_chunk_is_singular(store: SqliteStore) -> None:
    put(store, "a", "one")
    embed(store, some_vectors(1))
    told = {one.part: one.what for one in examine(store, NOW).findings}
    assert told["pending"] == "1 chunk has vectors (sparse 0, tokens 0), 0 wait for them"
    assert told["embeddings"] == "1 vector of length 1"


@pytest.mark.parametrize(
    ("error", "state", "with_vectors"),
    [
        (ModelMissing("it is gone", "lay it there"), "warning", False),
        (ModelMissing("it is gone", "lay it there"), "error", True),
        (ModelBroken("it is cut off", "lay it there"), "error", False),
    ],
)
def test_a_model_that_cannot_be_used(
    store: SqliteStore, error: KbError, state: str, with_vectors: bool
) -> None:
    """Without vectors, a missing model is not an error."""

    def source() -> None:
        raise error

    put(store, "a", "one")
    if with_vectors:
        embed(store, some_vectors(1))
    diagnosis = examine(store, NOW, source)
    (found,) = (one for one in diagnosis.findings if one.part == "model")
    assert (found.state, found.what, found.to_do) == (state, error.message, error.hint)
    assert diagnosis.healthy is (state == "warning")


def test_a_model_of_another_version_than_the_vectors(filled: SqliteStore) -> None:
    same = Weightless(SPEC.dimension, name=SPEC.name, version=SPEC.version)
    other = Weightless(SPEC.dimension, name=SPEC.name, version="2")
    said = {}
    for encoder in (same, other):
        diagnosis = examine(filled, NOW, lambda encoder=encoder: encoder)  # type: ignore[misc]  # bound
        said[encoder] = next(one for one in diagnosis.findings if one.part == "model")
        assert diagnosis.healthy
    assert (said[same].state, said[same].to_do) == ("ok", "")
    assert (said[other].state, said[other].to_do) == ("warning", "kb embed --anew")
    assert f"by {SPEC.name} {SPEC.version}, not by {SPEC.name} 2" in said[other].what


def test_a_model_of_another_dimension(store: SqliteStore) -> None:
    put(store, "a", "one")
    store.vectors.use_model(SPEC)
    other = ModelSpec("other", "1", 2, frozenset({"dense"}))
    model_id = store.vectors.use_model(other).model_id
    write_vectors(store, model_id, [(1, Encoding(dense=array("f", [1.0, 0.0])))])
    with store._database.writing() as connection:
        connection.execute("UPDATE models SET dimension = 3")
    assert set(unwell(store)) == {"embeddings"}


def test_a_backup_has_the_vectors(filled: SqliteStore, tmp_path: Path) -> None:
    filled.maintenance.backup(
        tmp_path / "b" / "kb.sqlite", overwrite=False, on_progress=lambda done, total: None
    )
    copy = SqliteStore(tmp_path / "b" / "kb.sqlite")
    for backend in ("numpy", "sqlite-vec", "python"):
        assert ask(copy, QUERY, backend, 30, Filters()) == ask(filled, QUERY, backend, 30)
    assert unwell(copy) == {}
    copy.close()
