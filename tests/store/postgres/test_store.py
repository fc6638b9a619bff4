"""What only the PostgreSQL store can get wrong: segments, concurrent writers, limits of its
indexes, and values that PostgreSQL does not have."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from kb.errors import StoreBusy
from kb.store import open_store
from kb.store.postgres import dense, embeddings, segments
from kb.store.postgres.block_cache import BlockCache
from kb.store.postgres.pool import Pool
from kb.store.postgres.store import PostgresStore
from kb.types import Filters, LexicalQuery
from tests.conformance.store.samples import (
    EVERYTHING,
    NOW,
    SPEC,
    chunk_ids,
    embed,
    finish,
    outcome,
    put,
)
from tests.postgres import Server
from tests.store.postgres.conftest import Open

Sql = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "FEW", 4)
    monkeypatch.setattr(segments, "FAN", 2)
    monkeypatch.setattr(segments, "_SIZES", (8, 16))
    monkeypatch.setattr(segments, "MOST", 15)


def found(store: PostgresStore, word: str) -> list[int]:
    query = LexicalQuery(((word,),))
    matches = store.fulltext.match(query, every=False, **EVERYTHING | {"limit": 1000})
    return sorted(one.chunk_id for one in matches.chunks)


def sizes(store: PostgresStore, kind: str, model_id: int = 0) -> list[int]:
    with store._database.reading() as session:
        return [one.chunks for one in segments.standings(session, kind, model_id)]


def healthy(store: PostgresStore) -> bool:
    checks = store.maintenance.checks(lambda _: None)
    return all(check.run().state == "ok" for check in checks)


# --- segments -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_segments")
def test_segments_are_written_merged_and_rewritten(store: PostgresStore) -> None:
    numbers = [put(store, f"d{number}", f"boat {number}", "日本") for number in range(30)]
    assert sizes(store, "word")
    assert sizes(store, "ngram")
    assert max(sizes(store, "word")) > 8
    store.catalog.delete_documents(numbers[:25])
    for number in range(30, 40):
        put(store, f"d{number}", f"boat {number}")
    expected = [
        one
        for doc in store.catalog.documents(Filters(), None)
        for one in chunk_ids(store, doc.doc_id)
    ]
    with_boat = [one for one, text in store.catalog.chunk_texts(expected).items() if "boat" in text]
    assert found(store, "boat") == sorted(with_boat)
    assert sum(sizes(store, "word")) < 60  # segments with many deleted chunks were rewritten
    assert healthy(store)


@pytest.mark.usefixtures("small_segments")
def test_removing_chunks_while_segments_are_written(store: PostgresStore, open_again: Open) -> None:
    """No deleted chunk comes back with a merged segment."""
    stop = threading.Event()

    def flush() -> None:
        other = open_again()
        while not stop.is_set():
            other.fulltext.build_index()

    def write(part: int) -> None:
        own = open_again()
        for number in range(25):
            put(own, f"{part}-{number}", f"boat {part} {number}", "word")
            if number % 3 == 2:
                document = own.catalog.document_by_path(f"{part}-{number - 1}")
                assert document is not None
                own.catalog.delete_documents([document.doc_id])

    with ThreadPoolExecutor(3) as pool:
        flushing = pool.submit(flush)
        for each in [pool.submit(write, part) for part in (1, 2)]:
            each.result(60)
        stop.set()
        flushing.result(60)
    left = store.catalog.documents(Filters(), None)
    expected = sorted(chunk_ids(store, one.doc_id)[0] for one in left)
    assert len(left) == 34
    assert found(store, "boat") == expected
    assert healthy(store)


def test_the_cache_of_blocks_is_bounded(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "FEW", 1)
    put(store, "a", *(f"word{number} boat" for number in range(50)))
    cache = BlockCache(max_bytes=2000)
    with store._database.reading() as session:
        numbers = segments.numbers(session, "word", 0)
        for number in range(50):
            terms = [f"word{number}", "boat", "absent"]
            read = cache.read(session, numbers, terms)
            assert {term for _, term in read} == set(terms[:2])
            assert cache._bytes <= 2000
        assert cache.read(session, numbers, ["word1", "word49"]).keys() == {
            (numbers[0], "word1"), (numbers[0], "word49"),
        }  # fmt: skip


# --- vectors --------------------------------------------------------------------------------------


def test_a_large_model_has_an_index_and_selective_filters_are_exact(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(5)
    many = [
        one
        for part in range(4)
        for one in chunk_ids(store, put(store, f"d{part}", *map(str, range(100))))
    ]
    few = chunk_ids(store, put(store, "rare", *map(str, range(15)), tags=("rare",)))
    model_id = store.vectors.use_model(SPEC).model_id
    made = {one: [chance.gauss(0, 1) for _ in range(3)] for one in (*many, *few)}
    finish(store, model_id, [outcome(one, *dense) for one, dense in made.items()])
    exact = [nearest(store, model_id, vector, Filters()) for vector in list(made.values())[:20]]
    monkeypatch.setattr(dense, "MIN_INDEXED", 100)
    monkeypatch.setattr(dense, "MAX_EXACT", 50)
    store.vectors.build_index(model_id)
    by_index = [nearest(store, model_id, vector, Filters()) for vector in list(made.values())[:20]]
    assert {backend for backend, _ in exact} == {"pgvector"}
    assert {backend for backend, _ in by_index} == {"pgvector-hnsw"}
    hits = sum(len({*one} & {*other}) for (_, one), (_, other) in zip(exact, by_index, strict=True))
    assert hits >= 0.95 * sum(len(one) for _, one in exact)
    backend, rare = nearest(store, model_id, [1.0, 0.0, 0.0], Filters(tags=("rare",)))
    assert backend == "pgvector"
    assert sorted(rare) == sorted(few)
    store.vectors.drop_all()
    assert store.vectors.models() == []


def test_a_role_that_does_not_own_the_tables_embeds_without_an_index(
    postgres: Server, store: PostgresStore, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "MIN_INDEXED", 1)
    put(store, "a", "one", "two")
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(
            f"CREATE ROLE {schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {schema}; "
            f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {schema}; "
            f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {schema}".encode()
        )
        writer = open_store(postgres.url(user=schema, schema=schema))
        model_id = embed(writer)
        writer.vectors.build_index(model_id)
        found = writer.vectors.nearest_dense(model_id, [1.0, 0.0, 0.0], **EVERYTHING)
        assert (len(found.chunks), found.backend) == (2, "pgvector")
        writer.close()
        connection.execute(f"DROP OWNED BY {schema}; DROP ROLE {schema}".encode())


def nearest(
    store: PostgresStore, model_id: int, vector: list[float], filters: Filters
) -> tuple[str, list[int]]:
    found = store.vectors.nearest_dense(model_id, vector, filters=filters, now=NOW, limit=20)
    return found.backend, [one.chunk_id for one in found.chunks]


def test_workers_embed_every_chunk_once(store: PostgresStore, open_again: Open) -> None:
    numbers = [
        one
        for part in range(6)
        for one in chunk_ids(store, put(store, f"d{part}", *map(str, range(40))))
    ]
    model_id = store.vectors.use_model(SPEC).model_id

    def work() -> list[int]:
        own, done = open_again(), []
        job = own.queue.start_job(model_id)
        while leased := own.queue.lease(job, model_id, limit=7):
            done += [one.chunk_id for one in leased]
            own.queue.finish(job, model_id, [outcome(one.chunk_id) for one in leased])
        own.queue.end_job(job)
        return done

    with ThreadPoolExecutor(4) as pool:
        done = [one for part in [pool.submit(work) for _ in range(4)] for one in part.result(60)]
    assert sorted(done) == sorted(numbers)
    (model,) = store.vectors.models()
    assert (model.ready, model.pending, model.sparse) == (240, 0, 240)
    assert healthy(store)


def test_chunks_may_be_deleted_while_their_vectors_are_written(
    store: PostgresStore, open_again: Open
) -> None:
    model_id = store.vectors.use_model(SPEC).model_id
    documents = [put(store, f"d{number}", "one", "two", "three") for number in range(40)]

    def work() -> None:
        own = open_again()
        job = own.queue.start_job(model_id)
        while leased := own.queue.lease(job, model_id, limit=5):
            own.queue.finish(job, model_id, [outcome(one.chunk_id) for one in leased])

    with ThreadPoolExecutor(2) as pool:
        working = [pool.submit(work) for _ in range(2)]
        for doc_id in documents[::2]:
            store.catalog.delete_documents([doc_id])
        for each in working:
            each.result(60)
    (model,) = store.vectors.models()
    assert (model.ready, model.pending) == (60, 0)
    assert healthy(store)


# --- values ---------------------------------------------------------------------------------------


def test_texts_that_postgresql_cannot_store_or_index_as_they_are(store: PostgresStore) -> None:
    chance = random.Random(3)
    path = "/".join(chance.randbytes(100).hex() for _ in range(20))
    tag, word = "ü" * 4000 + chance.randbytes(4000).hex(), chance.randbytes(3000).hex()
    doc_id = put(store, path, f"one\0two {word}", title=path, tags=(tag,))
    document = store.catalog.document_by_path(path)
    assert document is not None
    assert (document.doc_id, document.tags) == (doc_id, (tag,))
    assert store.catalog.chunks(doc_id)[0].text == f"one\ufffdtwo {word}"
    assert [
        one.doc_id for one in store.catalog.documents(Filters(path_glob=path[:900] + "**"), NOW)
    ] == [doc_id]
    assert store.catalog.neighboring_paths(path[:-1], 3) == [path]
    for each in ("two", word):
        assert found(store, each) == chunk_ids(store, doc_id)
    store.catalog.tag(doc_id, [], [tag])
    assert store.catalog.tags() == {}


# --- doctor ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize(
    ("damage", "part"),
    [
        ("UPDATE state SET chunks = 7", "counters"),
        ("UPDATE models SET ready = 3", "counters"),
        ("DELETE FROM near_vectors WHERE chunk_id = 2", "vectors"),
        ("INSERT INTO near_vectors VALUES (9, 9, '[1,2,3]')", "vectors"),
        ("DELETE FROM segments WHERE segment = (SELECT min(segment) FROM segments)", "words"),
        ("INSERT INTO pending SELECT 'word', 0, min(chunk_id) FROM chunks", "words"),
        ("UPDATE blocks SET postings = '\\x0102'", "words"),
        ("DELETE FROM segments WHERE kind = 'sparse'", "sparse"),
    ],
)
def test_doctor_repairs_derived_data(
    store: PostgresStore, sql: Sql, damage: str, part: str
) -> None:
    numbers = chunk_ids(store, put(store, "a", *(f"boat {number}" for number in range(20))))
    embed(store)
    sql.execute(damage.encode())
    checks = {check.part: check for check in store.maintenance.checks(lambda _: None)}
    assert checks[part].run().state == "error"
    for check in checks.values():
        if check.run().state != "ok":
            assert check.repair is not None
            assert not check.repair()
    store.close()
    assert healthy(store)
    assert found(store, "boat") == numbers
    options = EVERYTHING | {"limit": 100}
    assert len(store.vectors.nearest_dense(1, [1.0, 0.0, 0.0], **options).chunks) == 20
    assert len(store.vectors.nearest_sparse(1, {"a": 1.0}, **options).chunks) == 20


def test_doctor_reports_changed_texts(store: PostgresStore, sql: Sql) -> None:
    put(store, "a", "text")
    sql.execute("UPDATE chunks SET text = 'other'")
    checks = {check.part: check for check in store.maintenance.checks(lambda _: None)}
    assert "kb ingest --force" in checks["text"].run().to_do


def test_connections_from_before_the_extension_was_added(postgres: Server, schema: str) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {schema}".encode())
    store, other = (open_store(postgres.url(database=schema)) for _ in range(2))
    assert not store.exists()
    assert not other.exists()
    put(store, "a", "text")
    model_id = embed(store)
    for each in (store, other):
        assert each.vectors.nearest_dense(model_id, [1.0, 0.0, 0.0], **EVERYTHING).chunks
        each.close()


# --- connections ----------------------------------------------------------------------------------


def test_the_number_of_connections_is_bounded(postgres: Server) -> None:
    pool = Pool(lambda: psycopg.connect(postgres.url(), autocommit=True), 2)
    one, two = pool.take(5), pool.take(5)
    with pytest.raises(StoreBusy, match="2 connections"):
        pool.take(0.01)
    pool.give(two)
    assert pool.take(5) is two
    pool.give(two)
    pool.close()
    pool.give(one)
    assert one.closed
    assert two.closed


def test_a_chunk_that_another_job_has_just_finished_is_not_leased(
    store: PostgresStore, open_again: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = chunk_ids(store, put(store, "d", "one", "two", "three"))
    model_id = store.vectors.use_model(SPEC).model_id
    other = open_again()
    job, other_job = store.queue.start_job(model_id), other.queue.start_job(model_id)
    choose = embeddings.waiting

    def choose_late(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.undo()
        early = other.queue.lease(other_job, model_id, limit=3)
        for one in early[:2]:
            other.queue.finish(other_job, model_id, [outcome(one.chunk_id)])
        return early  # as a statement that began before them would choose

    monkeypatch.setattr(embeddings, "waiting", choose_late)
    assert store.queue.lease(job, model_id, limit=3) == []
    other.queue.end_job(other_job)
    monkeypatch.setattr(embeddings, "waiting", choose)
    leased = store.queue.lease(job, model_id, limit=3)
    assert [one.chunk_id for one in leased] == ids[2:]
    assert [one.leased for one in store.queue.jobs()] == [1]
