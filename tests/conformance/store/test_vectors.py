"""Models, their vectors, switches between models, and retrieval by vectors."""

from __future__ import annotations

import math
import random
from array import array
from typing import Any

import pytest

from kb.errors import InvalidRequest, ModelMismatch, NotFound
from kb.ports import Store
from kb.types import ExamMark, Filters, ModelSpec, StoredModel, VectorMatches
from tests.conformance.store.conftest import Stores
from tests.conformance.store.samples import (
    EVERYTHING,
    NOW,
    OTHER,
    SPEC,
    chunk_ids,
    embed,
    failure,
    finish,
    outcome,
    put,
)
from tests.conftest import Clock


def counts(store: Store) -> tuple[int, int, int]:
    (model,) = store.vectors.models()
    return model.ready, model.pending, model.failed


def ids(matches: VectorMatches) -> list[int]:
    return [one.chunk_id for one in matches.chunks]


def roles(store: Store) -> dict[str, str | None]:
    return {model.name: model.role for model in store.vectors.models()}


# --- models ---------------------------------------------------------------------------------------


def test_a_store_remembers_its_model(store: Store) -> None:
    put(store, "a", "one", "two")
    assert store.vectors.models() == []
    made = store.vectors.use_model(SPEC, "somewhere")
    assert (made.name, made.version, made.dimension, made.role) == ("tiny", "1", 3, "search")
    assert (made.source, made.pending, made.ready, made.failed) == ("somewhere", 2, 0, 0)
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
def test_vectors_of_two_models_are_not_mixed(store: Store, other: ModelSpec) -> None:
    put(store, "a", "one")
    embed(store)
    with pytest.raises(ModelMismatch) as error:
        store.vectors.use_model(other)
    assert "tiny 1 of 3 dimensions" in error.value.message
    assert counts(store) == (1, 0, 0)


def test_a_model_without_vectors_is_replaced(store: Store) -> None:
    (chunk,) = chunk_ids(store, put(store, "a", "one"))
    first = store.vectors.use_model(SPEC)
    finish(store, first.model_id, [failure(chunk)])
    second = store.vectors.use_model(OTHER)
    assert [model.model_id for model in store.vectors.models()] == [second.model_id]
    with pytest.raises(NotFound):
        store.vectors.nearest_dense(first.model_id, [1.0, 0.0, 0.0], **EVERYTHING)


def test_exam_marks_are_stored(store: Store) -> None:
    model_id = store.vectors.use_model(SPEC).model_id
    marks = (ExamMark("dense", "Latin", 3, 4), ExamMark("sparse", "Han", 0, 4))
    store.vectors.set_exam_marks(model_id, marks)
    assert store.vectors.models()[0].marks == marks
    store.vectors.set_exam_marks(model_id, None)
    assert store.vectors.models()[0].marks is None


def test_what_a_model_has_done_is_counted(store: Store, clock: Clock) -> None:
    one, two, *_ = chunk_ids(store, put(store, "a", "one", "two", "three"))
    put(store, "b", "four", expires_at="2026-05-28T20:26:41Z")
    model_id = store.vectors.use_model(SPEC).model_id
    for _ in range(3):
        finish(store, model_id, [outcome(one, sparse=None), failure(two, "no")])
    (model,) = store.vectors.models()
    assert (model.ready, model.pending, model.failed) == (1, 2, 1)
    assert (model.sparse, model.tokens, model.no_sparse) == (0, 1, 1)
    (counted,) = store.vectors.model_counts()
    assert {name: counted[name] for name in ("name", "ready", "pending", "failed")} == {
        "name": "tiny", "ready": 1, "pending": 2, "failed": 1,
    }  # fmt: skip
    assert (counted["role"], counted["sparse"], counted["tokens"]) == ("search", 0, 1)
    assert counted["last_error"] == "no"
    clock.seconds += 1  # an expired chunk is not pending
    assert counts(store) == (1, 1, 1)


def test_parts_that_will_not_come_are_counted(store: Store) -> None:
    one, two = chunk_ids(store, put(store, "a", "one", "two"))
    model_id = store.vectors.use_model(SPEC).model_id
    finish(store, model_id, [outcome(two)])
    for _ in range(3):
        assert store.vectors.count_missing_part(model_id, "sparse") == 0
        finish(store, model_id, [outcome(one, sparse=None, error="no weights")])
    assert store.vectors.count_missing_part(model_id, "sparse") == 1
    assert store.vectors.count_missing_part(model_id, "tokens") == 0


def test_drop_all_leaves_nothing(store: Store) -> None:
    one, two = chunk_ids(store, put(store, "a", "one", "two"))
    model_id = store.vectors.use_model(SPEC).model_id
    finish(store, model_id, [outcome(one), failure(two)])
    assert store.vectors.drop_all() == 1
    assert store.vectors.models() == []
    assert store.vectors.drop_all() == 0
    store.vectors.use_model(OTHER)
    assert counts(store) == (0, 2, 0)


# --- vectors --------------------------------------------------------------------------------------


def test_vectors_are_read_as_they_were_written(store: Store) -> None:
    one, two = chunk_ids(store, put(store, "a", "one", "two"))
    model_id = store.vectors.use_model(SPEC).model_id
    finish(store, model_id, [outcome(one, 3, 0, 4, sparse={"東京": 0.5, "a": 2.0})])
    both = [one, two]
    assert store.vectors.dense_vectors(model_id, both) == {one: array("f", [0.6, 0.0, 0.8])}
    assert store.vectors.sparse_vectors(model_id, both) == {one: {"a": 2.0, "東京": 0.5}}
    (tokens,) = store.vectors.token_vectors(model_id, both).values()
    assert tokens.dimension == 2
    assert math.hypot(*tokens.data) == pytest.approx(1.0, abs=0.01)
    assert store.vectors.dense_vectors(model_id, [4711]) == {}


def test_which_chunks_have_a_part_of_a_vector(store: Store) -> None:
    one, two, three = chunk_ids(store, put(store, "a", "one", "two", "three"))
    model_id = store.vectors.use_model(SPEC).model_id
    finish(store, model_id, [outcome(one, 3, 0, 4, sparse={"a": 2.0}), outcome(two, sparse=None)])
    for part, expected in (("dense", {one, two}), ("sparse", {one}), ("tokens", {one, two})):
        assert store.vectors.chunks_with(model_id, part, [one, two, three, 4711]) == expected
    assert store.vectors.chunks_with(model_id, "dense", [two]) == {two}
    assert store.vectors.chunks_with(model_id + 1, "dense", [one]) == set()
    with pytest.raises(InvalidRequest):
        store.vectors.chunks_with(model_id, "attempts", [one])


def test_unchanged_chunks_keep_their_vectors(store: Store) -> None:
    doc_id = put(store, "a", "one", "two", "three")
    model_id = embed(store)
    one, two, three = chunk_ids(store, doc_id)
    put(store, "a", "zero", "three", "one")
    assert store.vectors.dense_vectors(model_id, [one, two, three]).keys() == {one, three}
    assert counts(store) == (2, 1, 0)
    put(store, "a", "zero", "three", "one", title="another title")  # part of each chunk's text
    assert counts(store) == (0, 3, 0)
    store.catalog.delete_documents([doc_id])
    assert counts(store) == (0, 0, 0)


def test_the_version_changes_with_the_vectors(store: Store) -> None:
    one, two = chunk_ids(store, put(store, "a", "one", "two"))
    model_id = store.vectors.use_model(SPEC).model_id
    versions = [store.vectors.version()]
    finish(store, model_id, [outcome(one)])
    versions.append(store.vectors.version())
    put(store, "a", "two")
    versions.append(store.vectors.version())
    assert len(set(versions)) == 3
    finish(store, model_id, [failure(two)])
    put(store, "b", "three")
    assert store.vectors.version() == versions[-1]


# --- retrieval ------------------------------------------------------------------------------------


def test_the_nearest_come_first(store: Store) -> None:
    one, two, three = chunk_ids(store, put(store, "a", "one", "two", "three"))
    model_id = store.vectors.use_model(SPEC).model_id
    vectors = {one: (1, 1, 0), two: (2, 0, 0), three: (0, 0, 1)}
    finish(store, model_id, [outcome(chunk, *dense) for chunk, dense in vectors.items()])
    found = store.vectors.nearest_dense(model_id, [5.0, 0.0, 0.0], **EVERYTHING)
    assert ids(found) == [two, one, three]
    scores = [one.score for one in found.chunks]
    assert scores == pytest.approx([1.0, 2**-0.5, 0.0], abs=1e-6)
    assert [one.rank for one in found.chunks] == [1, 2, 3]
    assert found.backend
    limited = store.vectors.nearest_dense(model_id, [5.0, 0.0, 0.0], **EVERYTHING | {"limit": 1})
    assert ids(limited) == [two]


def test_dense_ties_are_ordered_by_chunk_id(store: Store) -> None:
    numbers = chunk_ids(store, put(store, "a", *map(str, range(9))))
    model_id = embed(store)
    found = store.vectors.nearest_dense(model_id, [1.0, 1.0, 0.0], **EVERYTHING)
    assert ids(found) == sorted(numbers)


def test_dense_search_equals_brute_force(store: Store) -> None:
    chance = random.Random(5)
    numbers = chunk_ids(store, put(store, "a", *map(str, range(60))))
    numbers += chunk_ids(store, put(store, "b", *map(str, range(60)), tags=("t",)))
    model_id = store.vectors.use_model(SPEC).model_id
    made = {one: [chance.gauss(0, 1) for _ in range(3)] for one in numbers}
    finish(store, model_id, [outcome(one, *dense) for one, dense in made.items()])
    store.vectors.build_index(model_id)
    for filters, allowed in ((Filters(), numbers), (Filters(tags=("t",)), numbers[60:])):
        query = [chance.gauss(0, 1) for _ in range(3)]
        cosines = {
            one: sum(a * b for a, b in zip(made[one], query, strict=True))
            / (math.hypot(*made[one]) * math.hypot(*query))
            for one in allowed
        }
        expected = sorted(allowed, key=lambda one: -cosines[one])[:20]
        found = store.vectors.nearest_dense(model_id, query, filters=filters, now=NOW, limit=20)
        assert ids(found) == expected


def test_a_query_of_another_dimension_is_refused(store: Store) -> None:
    put(store, "a", "one")
    model_id = embed(store)
    with pytest.raises(ModelMismatch):
        store.vectors.nearest_dense(model_id, [1.0, 0.0], **EVERYTHING)
    with pytest.raises(InvalidRequest):
        store.vectors.nearest_dense(model_id, [0.0, 0.0, 0.0], **EVERYTHING)


def test_sparse_vectors_are_scored_by_their_product(store: Store) -> None:
    weights: list[dict[str, float]] = [{"a": 1.0, "b": 2.0}, {"b": 1.0}, {"c": 9.0}, {"b": 1.0}]
    numbers = chunk_ids(store, put(store, "a", *map(str, range(4))))
    model_id = store.vectors.use_model(SPEC).model_id
    pairs = zip(numbers, weights, strict=True)
    finish(store, model_id, [outcome(chunk, sparse=terms) for chunk, terms in pairs])
    one, two, _, four = numbers

    def nearest(query: dict[str, float], **options: Any) -> list[tuple[int, float]]:
        found = store.vectors.nearest_sparse(model_id, query, **EVERYTHING | options)
        return [(each.chunk_id, each.score) for each in found.chunks]

    assert nearest({"a": 1.0, "b": 0.5}) == [(one, 2.0), (two, 0.5), (four, 0.5)]
    assert nearest({"b": 1.0}, limit=2) == [(one, 2.0), (two, 1.0)]
    assert nearest({"unknown": 1.0}) == []
    assert nearest({}) == []
    assert nearest({"b": 1.0}, filters=Filters(lang="xx")) == []
    put(store, "a", "1")
    assert nearest({"b": 1.0}) == [(two, 1.0)]


def test_expired_chunks_have_no_neighbors(store: Store) -> None:
    put(store, "a", "one", expires_at="2026-05-28T20:26:41Z")
    model_id = embed(store)
    for found in (
        store.vectors.nearest_dense(model_id, [1.0, 0.0, 0.0], **EVERYTHING),
        store.vectors.nearest_sparse(model_id, {"a": 1.0}, **EVERYTHING),
    ):
        assert len(found.chunks) == 1
    later = EVERYTHING | {"now": "2026-05-28T20:26:41Z"}
    assert ids(store.vectors.nearest_dense(model_id, [1.0, 0.0, 0.0], **later)) == []
    assert ids(store.vectors.nearest_sparse(model_id, {"a": 1.0}, **later)) == []


def test_another_connection_finds_new_vectors(stores: Stores, store: Store) -> None:
    put(store, "a", "one")
    model_id = embed(store)
    reader = stores.open(read_only=True)
    assert len(reader.vectors.nearest_dense(model_id, [1.0, 0.0, 0.0], **EVERYTHING).chunks) == 1
    put(store, "b", "two")
    embed(store)
    assert len(reader.vectors.nearest_dense(model_id, [1.0, 0.0, 0.0], **EVERYTHING).chunks) == 2
    reader.vectors.build_index(model_id)


# --- switching models -----------------------------------------------------------------------------


def begin(store: Store, **options: Any) -> StoredModel:
    return store.vectors.begin_switch(OTHER, "source", **options)


def test_a_switch_replaces_the_model_at_once(store: Store) -> None:
    numbers = chunk_ids(store, put(store, "a", "one", "two"))
    old = embed(store)
    new = begin(store)
    assert (new.role, new.source, new.pending) == ("next", "source", 2)
    assert begin(store).model_id == new.model_id  # resumed
    assert not store.vectors.can_switch(new.model_id)
    assert not store.vectors.switch(new.model_id)
    assert roles(store) == {"tiny": "search", "other": "next"}
    version = store.vectors.version()
    finish(store, new.model_id, [outcome(one, 1, 0) for one in numbers])
    assert store.vectors.can_switch(new.model_id)
    assert store.vectors.switch(new.model_id)
    assert store.vectors.models()[0].model_id == new.model_id
    assert roles(store) == {"other": "search", "tiny": "gone"}
    assert store.vectors.version() != version
    assert len(store.vectors.dense_vectors(old, numbers)) == 2  # until they are dropped
    while store.vectors.drop_retired(1):
        pass
    assert roles(store) == {"other": "search"}
    assert not store.vectors.drop_retired()


def test_old_vectors_are_kept_on_request(store: Store) -> None:
    (chunk,) = chunk_ids(store, put(store, "a", "one"))
    embed(store)
    new = begin(store, keep_old=True)
    finish(store, new.model_id, [outcome(chunk, 1, 0)])
    assert store.vectors.switch(new.model_id)
    assert not store.vectors.drop_retired()
    assert roles(store) == {"other": "search", "tiny": None}


def test_failures_of_the_new_model_block_the_switch(store: Store) -> None:
    one, two = chunk_ids(store, put(store, "a", "one", "two"))
    embed(store)
    new = begin(store)
    finish(store, new.model_id, [outcome(one, 1, 0)])
    for _ in range(3):
        finish(store, new.model_id, [failure(two)])
    assert not store.vectors.can_switch(new.model_id)
    assert not store.vectors.switch(new.model_id)
    assert store.vectors.switch(new.model_id, force=True)
    assert roles(store)["other"] == "search"


def test_the_first_model_answers_at_once(store: Store) -> None:
    put(store, "a", "one")
    assert begin(store).role == "search"


def test_another_switch_replaces_an_unfinished_one(store: Store) -> None:
    put(store, "a", "one")
    embed(store)
    begin(store)
    third = store.vectors.begin_switch(ModelSpec("third", "1", 2, frozenset({"dense"})), None)
    assert third.role == "next"
    assert roles(store) == {"tiny": "search", "third": "next", "other": "gone"}
