"""Stores whose large tables are divided. The suites in `tests/conformance/store` run on one too."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from kb.errors import InvalidRequest
from kb.ports import Store
from kb.store import open_store
from kb.store.postgres import dense
from kb.store.postgres.location import Location
from kb.types import Filters
from tests.conformance.store.samples import NOW, SPEC, chunk_ids, finish, outcome, put
from tests.conftest import Clock
from tests.postgres import Server

Sql = psycopg.Connection[tuple[Any, ...]]
TABLES = ("blocks", "chunks", "embeddings", "near_vectors")
_INDEXES = """
SELECT c.relname, replace(pg_get_indexdef(c.oid), ' ONLY ', ' ') FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('i', 'I')
  AND NOT c.relispartition ORDER BY 1
"""
_CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = current_schema()::regnamespace AND conparentid = 0 AND contype <> 'n'
  AND conrelid IN (SELECT oid FROM pg_class WHERE NOT relispartition) ORDER BY 1, 2
"""
_STORAGE = """
SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
  AND c.relname LIKE %s AND a.attname = %s AND a.attstorage = %s
"""


@pytest.fixture
def divided(postgres: Server, schema: str, clock: Clock) -> Iterator[Store]:
    """A new store with four partitions."""
    store = open_store(postgres.url(schema=schema, partitions="4"), clock=clock)
    store.create()
    yield store
    store.close()


def test_a_divided_store_has_the_same_keys_and_indexes(
    postgres: Server, schema: str, divided: Store, sql: Sql
) -> None:
    whole = open_store(postgres.url(schema=f"{schema}_whole"))
    whole.create()
    whole.close()
    found: Any = [sql.execute(each).fetchall() for each in (_INDEXES, _CONSTRAINTS)]
    sql.execute(f"SET search_path = {schema}_whole, public".encode())
    expected: Any = [sql.execute(each).fetchall() for each in (_INDEXES, _CONSTRAINTS)]
    assert repr(found).replace(schema, "") == repr(expected).replace(f"{schema}_whole", "")
    assert divided.exists()


@pytest.mark.usefixtures("divided")
def test_every_partition_stores_bytes_uncompressed(sql: Sql) -> None:
    for column in (("embeddings", "dense", "e"), ("blocks", "postings", "e"),
                   ("near_vectors", "vector", "p")):  # fmt: skip
        assert sql.execute(_STORAGE, (f"{column[0]}%", *column[1:])).fetchone() == (4,)


def test_rows_are_spread_over_the_partitions(divided: Store, sql: Sql) -> None:
    ids = chunk_ids(divided, put(divided, "d", *map(str, range(400))))
    model_id = divided.vectors.use_model(SPEC).model_id
    finish(divided, model_id, [outcome(one) for one in ids])
    for table in ("chunks", "embeddings", "near_vectors"):
        rows = sql.execute(f"SELECT count(*) FROM {table} GROUP BY tableoid".encode()).fetchall()
        assert len(rows) == 4
        assert sum(count for (count,) in rows) == 400
        assert min(rows) > (50,)


def test_an_existing_store_ignores_the_number(
    postgres: Server, schema: str, divided: Store, sql: Sql
) -> None:
    doc_id = put(divided, "d", "boat")
    for number in ("1", "7"):
        other = open_store(postgres.url(schema=schema, partitions=number))
        assert other.catalog.chunks(doc_id)[0].text == "boat"
        other.close()
    count = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'chunks'::regclass"
    assert sql.execute(count).fetchone() == (4,)


@pytest.mark.parametrize("number", ["0", "65", "-1", "two", "", "2.5", "1000000000000000000000"])
def test_a_wrong_number_is_refused(number: str) -> None:
    with pytest.raises(InvalidRequest, match="partitions"):
        Location.parse(f"postgresql://db/a?partitions={number}")
    assert "partitions" not in Location.parse("postgresql://db/a?partitions=4").dsn


def test_each_partition_has_a_vector_index(
    divided: Store, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "MIN_INDEXED", 100)
    monkeypatch.setattr(dense, "MAX_EXACT", 50)
    chance = random.Random(5)
    ids = chunk_ids(divided, put(divided, "d", *map(str, range(400))))
    model_id = divided.vectors.use_model(SPEC).model_id
    made = {one: [chance.gauss(0, 1) for _ in range(3)] for one in ids}
    finish(divided, model_id, [outcome(one, *vector) for one, vector in made.items()])
    queries = list(made.values())[:20]
    exact = [nearest(divided, model_id, vector) for vector in queries]
    assert {backend for backend, _ in exact} == {"pgvector"}

    divided.vectors.build_index(model_id)
    by_index = [nearest(divided, model_id, vector) for vector in queries]
    assert {backend for backend, _ in by_index} == {"pgvector-hnsw"}
    hits = sum(len({*one} & {*other}) for (_, one), (_, other) in zip(exact, by_index, strict=True))
    assert hits >= 0.95 * sum(len(one) for _, one in exact)

    damage = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass"
    for name in (f"near_vectors_hnsw_{model_id}", f"near_vectors_hnsw_{model_id}_2"):
        sql.execute(damage, (name,))  # as an interrupted build leaves them
    assert nearest(divided, model_id, queries[0])[0] == "pgvector"
    checks = {check.part: check for check in divided.maintenance.checks(lambda _: None)}
    assert checks["indexes"].run().state == "warning"
    repair = checks["indexes"].repair
    assert repair is not None
    repair()
    assert checks["indexes"].run().state == "ok"
    divided.vectors.build_index(model_id)
    assert nearest(divided, model_id, queries[0])[0] == "pgvector-hnsw"

    divided.vectors.drop_all()
    left = "SELECT 1 FROM pg_indexes WHERE schemaname = current_schema() AND indexname LIKE %s"
    assert not sql.execute(left, ("near_vectors_hnsw%",)).fetchall()


def test_an_interrupted_build_of_the_indexes_continues(
    divided: Store, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "MIN_INDEXED", 1)
    ids = chunk_ids(divided, put(divided, "d", *map(str, range(40))))
    model_id = divided.vectors.use_model(SPEC).model_id
    finish(divided, model_id, [outcome(one) for one in ids])
    name = f"near_vectors_hnsw_{model_id}"
    what = f"USING hnsw ((vector::halfvec(3)) halfvec_ip_ops) WHERE model_id = {model_id}"
    for statement in (
        f"CREATE INDEX {name} ON ONLY near_vectors {what}",
        f"CREATE INDEX {name}_0 ON near_vectors_0 {what}",
        f"ALTER INDEX {name} ATTACH PARTITION {name}_0",
        f"CREATE INDEX {name}_1 ON near_vectors_1 {what}",
        f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{name}_1'::regclass",
    ):
        sql.execute(statement.encode())
    before = oids(sql, name)
    assert nearest(divided, model_id, [1.0, 0.0, 0.0])[0] == "pgvector"
    divided.vectors.build_index(model_id)
    assert nearest(divided, model_id, [1.0, 0.0, 0.0])[0] == "pgvector-hnsw"
    after = oids(sql, name)
    assert after[f"{name}_0"] == before[f"{name}_0"]
    assert after[f"{name}_1"] != before[f"{name}_1"]
    assert len(after) == 5


def oids(sql: Sql, name: str) -> dict[str, int]:
    found = sql.execute(
        "SELECT relname, oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
        "AND starts_with(relname, %s)",
        (name,),
    )
    return dict(found.fetchall())


def nearest(store: Store, model_id: int, vector: list[float]) -> tuple[str, list[int]]:
    found = store.vectors.nearest_dense(model_id, vector, filters=Filters(), now=NOW, limit=20)
    return found.backend, [one.chunk_id for one in found.chunks]
