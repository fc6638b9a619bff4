"""Several stores searched as one: the results are those of one store with all documents."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kb import KnowledgeBase
from kb.cli.run import run as run_kb
from kb.errors import (
    InvalidRequest,
    KbError,
    ModelMismatch,
    StoreError,
    StoreReadOnly,
    StoreUnusable,
)
from kb.ports import Store
from kb.store import local_path, open_store
from kb.store.postgres import dense, segments
from kb.store.postgres.location import Location, parse_all
from kb.text.normalize import unspaced_runs
from kb.types import Filters, LexicalQuery
from tests.conformance.store.samples import (
    EVERYTHING,
    NOW,
    OTHER,
    chunk_ids,
    embed,
    failure,
    finish,
    put,
)
from tests.conformance.store.test_parity import (
    EXPRESSIONS,
    FILTERS,
    QUERIES,
    SPEC,
    WORDS,
    outcome,
    texts,
    title,
)
from tests.conftest import Clock
from tests.postgres import Server

COUNT = 3
ALL = Filters()
_COPIED = ("documents", "document_tags", "chunks", "embeddings")  # in the order of foreign keys


def shard_url(server: Server, name: str, number: int, count: int = COUNT) -> str:
    return server.url(schema=f"{name}_{number}", shard=f"{number}/{count}")


def joined(server: Server, name: str, count: int = COUNT) -> str:
    return " ".join(shard_url(server, name, number, count) for number in range(1, count + 1))


@pytest.fixture(scope="module")
def pair(postgres: Server) -> Iterator[tuple[Store, Store]]:
    """The same documents in one store and in three shards."""
    name = f"shards_{random.getrandbits(40)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "FEW", 6)
        patch.setattr(segments, "FAN", 3)
        patch.setattr(segments, "_SIZES", (18, 54))
        patch.setattr(segments, "MOST", 50)
        for number in range(1, COUNT + 1):
            store = open_store(shard_url(postgres, name, number), clock=Clock())
            fill(store, random.Random(number), number)
            store.close()
        whole = open_store(postgres.url(schema=name), clock=Clock())
        whole.create()
        copy_rows(postgres, name)
        for check in whole.maintenance.checks(lambda _: None):
            if check.run().state != "ok":
                assert check.repair is not None
                check.repair()
        sharded = open_store(joined(postgres, name), clock=Clock())
        yield whole, sharded
        whole.close()
        sharded.close()


def fill(store: Store, chance: random.Random, number: int) -> None:
    for at in range(25):
        tags = tuple(chance.sample(["a", "b", "c"], chance.randrange(3)))
        put(store, f"d{at}-{number}", *texts(chance), title=title(chance), tags=tags,
            lang=chance.choice(["en", "ja", None]),
            expires_at=NOW if at % 11 == 0 else None)  # fmt: skip
    store.catalog.delete_documents([one.doc_id for one in store.catalog.documents(ALL, None)[::7]])
    model_id = store.vectors.use_model(SPEC).model_id
    job = store.queue.start_job(model_id)
    while leased := store.queue.lease(job, model_id, limit=17):
        store.queue.finish(job, model_id, [outcome(one.chunk_id, chance) for one in leased])
    store.queue.end_job(job)
    put(store, f"new-{number}", "boat without vectors")
    finish(store, model_id, [failure(one) for one in newest(store)])


def newest(store: Store) -> list[int]:
    return [max(one for each in store.catalog.documents(ALL, None)
                for one in chunk_ids(store, each.doc_id))]  # fmt: skip


def copy_rows(server: Server, name: str) -> None:
    """Copy the rows of all shards; the indexes are rebuilt afterwards."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"INSERT INTO {name}.models SELECT * FROM {name}_1.models".encode())
        for table in _COPIED:
            for number in range(1, COUNT + 1):
                connection.execute(
                    f"INSERT INTO {name}.{table} SELECT * FROM {name}_{number}.{table}".encode()
                )
        for kind, some in (("word", ""), ("ngram", "WHERE cjk <> ''")):
            connection.execute(
                f"INSERT INTO {name}.pending SELECT '{kind}', 0, chunk_id "
                f"FROM {name}.chunks {some}".encode()
            )
        connection.execute(f"UPDATE {name}.state SET changes = 9, texts = 9, sparse = 9".encode())


# --- results --------------------------------------------------------------------------------------


def test_ids_of_shards_are_distinct(pair: tuple[Store, Store]) -> None:
    whole, sharded = pair
    documents = sharded.catalog.documents(ALL, None)
    assert len({one.doc_id for one in documents}) == len(documents) > 60
    assert {one.doc_id % COUNT for one in documents} == set(range(COUNT))
    assert documents == whole.catalog.documents(ALL, None)


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_words(pair: tuple[Store, Store], query: str, every: bool) -> None:
    words = tuple((word,) for word in query.split() if not unspaced_runs(word))
    asked = LexicalQuery(words, tuple(unspaced_runs(query)))
    for filters in FILTERS:
        for limit in (3, 100):
            options: dict[str, Any] = {"filters": filters, "now": NOW, "limit": limit}
            expected, found = (each.fulltext.match(asked, every=every, **options) for each in pair)
            assert found == expected


@pytest.mark.parametrize("query", QUERIES)
def test_phrases_and_substrings(pair: tuple[Store, Store], query: str) -> None:
    for filters in FILTERS:
        options: dict[str, Any] = {"filters": filters, "now": NOW, "limit": 7}
        expected, found = (
            each.fulltext.match_phrases([query, "boat"], prefer=[40, 41], **options)
            for each in pair
        )
        assert found == expected
        expected_parts, found_parts = (
            each.fulltext.match_substrings(query.split(), **options) for each in pair
        )
        assert found_parts == expected_parts


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(pair: tuple[Store, Store], expression: str) -> None:
    for filters in FILTERS:
        expected, found = (
            each.fulltext.match_expression(expression, filters=filters, now=NOW, limit=50)
            for each in pair
        )
        assert found == expected


def test_vectors(pair: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(11)
    for _ in range(20):
        weights = {word: chance.random() for word in chance.sample(WORDS, 8)}
        vector = [chance.gauss(0, 1) for _ in range(SPEC.dimension)]
        for filters in FILTERS:
            options: dict[str, Any] = {"filters": filters, "now": NOW, "limit": 30}
            expected, found = (each.vectors.nearest_sparse(1, weights, **options) for each in pair)
            assert found == expected
            expected, found = (each.vectors.nearest_dense(1, vector, **options) for each in pair)
            assert found == expected
            assert [one.rank for one in found.chunks] == list(range(1, len(found.chunks) + 1))
    monkeypatch.setattr(dense, "MIN_INDEXED", 1)
    near = pair[1].vectors.nearest_dense(1, vector, **EVERYTHING)
    assert near.backend == "pgvector"  # no shard has an index


def test_what_is_read_by_id(pair: tuple[Store, Store]) -> None:
    whole, sharded = pair
    documents = [one.doc_id for one in whole.catalog.documents(ALL, None)]
    chunks = [one for doc_id in documents for one in chunk_ids(whole, doc_id)]
    for read in (
        lambda store: store.catalog.documents_by_id([*documents, 4711]),
        lambda store: [store.catalog.chunks(each) for each in documents],
        lambda store: store.catalog.chunks_by_id([*chunks, 4711]),
        lambda store: list(store.catalog.chunk_texts(chunks).items()),
        lambda store: store.catalog.document_ids(chunks),
        lambda store: store.catalog.boost_fields(chunks),
        lambda store: {one: text.copies for one, text in
                       store.catalog.texts_with_copies(chunks).items()},
        lambda store: store.vectors.dense_vectors(1, chunks),
        lambda store: store.vectors.sparse_vectors(1, chunks),
        lambda store: store.vectors.chunks_with(1, "sparse", chunks),
        lambda store: store.catalog.document_by_path("d3-2"),
        lambda store: store.catalog.document_by_path("absent"),
        lambda store: store.catalog.matching(documents, FILTERS[1]),
    ):  # fmt: skip
        assert read(sharded) == read(whole)


def test_lists_and_counts(pair: tuple[Store, Store]) -> None:
    whole, sharded = pair
    for filters in FILTERS:
        for read in (
            lambda store, filters=filters: store.catalog.documents(filters, NOW),
            lambda store, filters=filters: store.catalog.documents(filters, NOW, limit=7, offset=5),
            lambda store, filters=filters: store.catalog.documents_page(
                filters, None, limit=9, offset=4, max_bytes=20
            ),
            lambda store, filters=filters: store.catalog.counts(filters),
            lambda store, filters=filters: store.catalog.chunk_count(filters),
            lambda store, filters=filters: store.catalog.languages(filters),
            lambda store, filters=filters: list(store.catalog.tags(filters).items()),
            lambda store, filters=filters: store.catalog.paths_with_suffix("-2", 4, filters),
            lambda store, filters=filters: store.catalog.neighboring_paths("d17-1", 3, filters),
            lambda store, filters=filters: [
                replace(one, marks=None) for one in store.vectors.models_within(filters)
            ],
            lambda store, filters=filters: store.queue.failures(1, 5, filters),
        ):  # fmt: skip
            assert read(sharded) == read(whole)
    assert sharded.catalog.documents_below("d1") == whole.catalog.documents_below("d1")
    assert sharded.catalog.expired(NOW) == whole.catalog.expired(NOW)
    assert sharded.vectors.models() == whole.vectors.models()
    assert sharded.catalog.neighboring_paths("d17-1", 0) == []


def test_a_search_finds_the_same(pair: tuple[Store, Store]) -> None:
    results = []
    for store in pair:
        with KnowledgeBase(store=store) as kb:
            results.append([
                [(hit.doc_path, hit.score) for hit in kb.search(query, top=20).hits]
                for query in ("boat storm", "東京", "retries of the database", '"locked database"')
            ])  # fmt: skip
    assert results[0] == results[1]
    assert all(results[0])


def test_every_shard_is_checked(pair: tuple[Store, Store]) -> None:
    checks = list(pair[1].maintenance.checks(lambda _: None))
    assert {check.part.split(":")[0] for check in checks} == {"shard 1", "shard 2", "shard 3"}
    assert {check.run().state for check in checks} == {"ok"}
    assert all(check.repair is None for check in checks)
    assert pair[1].maintenance.versions() == pair[0].maintenance.versions()
    assert pair[1].maintenance.size_bytes() > pair[0].maintenance.size_bytes()


# --- states ---------------------------------------------------------------------------------------


@pytest.fixture
def two(postgres: Server, schema: str) -> Iterator[tuple[Store, Store, Store]]:
    """Two shards, and both as one store."""
    urls = [shard_url(postgres, schema, number, 2) for number in (1, 2)]
    opened = [open_store(url) for url in (*urls, " ".join(urls))]
    for each in opened[:2]:
        each.create()
    yield opened[0], opened[1], opened[2]
    for each in opened:
        each.close()


def test_a_write_to_any_shard_is_seen(two: tuple[Store, Store, Store]) -> None:
    first, second, both = two
    query = LexicalQuery((("boat",),))
    versions = set()
    for number, store in enumerate((first, second, second, first), start=1):
        doc_id = put(store, f"d{number}", f"boat {number}")
        found = both.fulltext.match(query, every=False, **EVERYTHING)
        assert len(found.chunks) == number
        assert both.catalog.chunks(doc_id)[0].text == f"boat {number}"
        versions.add(both.catalog.version())
    assert len(versions) == 4


def test_states_of_two_shards_differ_even_if_their_sums_are_equal(
    two: tuple[Store, Store, Store],
) -> None:
    first, second, both = two
    put(first, "a", "boat")
    before = both.catalog.version()
    first.catalog.delete_documents([one.doc_id for one in first.catalog.documents(ALL, None)])
    put(second, "b", "boat")
    assert both.catalog.version() != before


def test_shards_are_written_one_by_one(two: tuple[Store, Store, Store]) -> None:
    both = two[2]
    doc_id = put(two[0], "a", "boat")
    with pytest.raises(StoreReadOnly, match="one by one"):
        put(both, "b", "boat")
    with pytest.raises(StoreReadOnly):
        both.catalog.delete_documents([doc_id])
    model_id = two[0].vectors.use_model(SPEC).model_id
    assert two[0].queue.has_work(model_id, frozenset())
    assert not both.queue.has_work(model_id, frozenset())  # servers that read do not embed
    assert not both.vectors.can_switch(model_id)
    assert not both.vectors.drop_retired()
    with pytest.raises(InvalidRequest, match="one by one"):
        list(both.maintenance.export())
    with KnowledgeBase(store=both) as kb:
        assert [one.text for one in kb.chunks("a")] == ["boat"]
        assert [hit.doc_path for hit in kb.search("boat").hits] == ["a"]


def test_ids_stay_distinct_after_a_merge(two: tuple[Store, Store, Store]) -> None:
    """An import with ids of its own is refused; one that gets new ids is not."""
    first, second, both = two
    put(first, "a", "boat", "tree")
    lines = list(first.maintenance.export(vectors=True))
    with pytest.raises(KbError, match="shard"):
        second.maintenance.load(lines, merge=False, on_progress=lambda *_: None)
    for _ in range(2):
        second.maintenance.load(lines, merge=True, on_progress=lambda *_: None)
    for number in range(5):
        put(second, f"b{number}", "boat")
    numbers = [one for each in second.catalog.documents(ALL, None)
               for one in (each.doc_id, *chunk_ids(second, each.doc_id))]  # fmt: skip
    assert {number % 2 for number in numbers} == {0}
    assert both.catalog.counts().documents == 7


def test_a_shard_without_the_model_lacks_vectors(two: tuple[Store, Store, Store]) -> None:
    first, second, both = two
    put(first, "a", "boat")
    put(second, "b", "boat", "tree")
    model_id = embed(first)
    (model,) = both.vectors.models()
    assert (model.ready, model.pending) == (1, 2)
    assert len(both.vectors.nearest_dense(model_id, [1.0, 0.0, 0.0], **EVERYTHING).chunks) == 1
    embed(second, OTHER)
    with pytest.raises(ModelMismatch, match="shard"):
        both.vectors.models()


def test_stores_that_are_no_shards_are_refused(postgres: Server, schema: str) -> None:
    urls = [postgres.url(schema=f"{schema}_{number}") for number in (1, 2)]
    for url in urls:
        store = open_store(url)
        store.create()
        store.close()
    both = open_store(" ".join(urls))
    with pytest.raises(StoreUnusable, match="not the shards of one store: 1/1, 1/1") as error:
        both.catalog.counts()
    assert "shard=1/2" in error.value.hint
    both.close()
    missing = open_store(f"{urls[0]} {postgres.url(schema=f'{schema}_absent')}")
    assert not missing.exists()
    missing.close()


# --- URLs -----------------------------------------------------------------------------------------


def test_urls_of_shards() -> None:
    first, second = "postgresql://u:secret@a/team?shard=1/2", "postgresql://u@b/team?shard=2/2"
    locations = parse_all(f"{first} {second}")
    assert [one.shard for one in locations] == [(1, 2), (2, 2)]
    assert "shard" not in locations[0].dsn
    paths = {local_path(url) for url in (first, second, f"{first} {second}")}
    assert len(paths) == 3
    both = open_store(f"{first} {second}")
    assert both.location == "postgresql://u@a/team postgresql://u@b/team"
    assert both.path == local_path(f"{first} {second}")


@pytest.mark.parametrize("given", ["", "1", "0/2", "3/2", "1/65", "1/2/3", "-1/2", "a/b", "1/100"])
def test_a_wrong_shard_is_refused(given: str) -> None:
    with pytest.raises(InvalidRequest, match="shard"):
        Location.parse(f"postgresql://db/a?shard={given}")


def test_a_watcher_of_all_shards_is_refused(
    two: tuple[Store, Store, Store], postgres: Server, schema: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    urls = " ".join(shard_url(postgres, schema, number, 2) for number in (1, 2))
    assert two[2].exists()
    assert run_kb(["--store", urls, "watch", str(tmp_path)]) == 2
    assert "give the URL of one shard" in capsys.readouterr().err


@pytest.fixture
def second_server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="kb-postgres-") as folder:
        os.chmod(folder, 0o755)  # the server may run as another user
        server = Server(Path(folder) / "server")
        yield server
        server.stop()


def test_shards_on_two_servers(postgres: Server, second_server: Server, schema: str) -> None:
    servers = (postgres, second_server)
    urls = [each.url(schema=schema, shard=f"{at}/2") for at, each in enumerate(servers, start=1)]
    opened = [open_store(url, busy_timeout_s=0.1) for url in (*urls, " ".join(urls))]
    first, second, both = opened
    put(first, "a", "boat")
    put(second, "b", "boat boat")
    model_id = embed(first)
    assert embed(second) == model_id
    found = both.fulltext.match(LexicalQuery((("boat",),)), every=False, **EVERYTHING)
    assert [one.chunk_id for one in found.chunks] == [2, 1]
    assert len(both.vectors.nearest_dense(model_id, [1.0, 0.0, 0.0], **EVERYTHING).chunks) == 2
    second_server.stop()
    with pytest.raises(StoreError, match=f":{second_server.port}/"):  # names the shard
        both.catalog.counts()
    assert first.catalog.counts().documents == 1
    for each in opened:
        each.close()
