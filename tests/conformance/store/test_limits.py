"""Limits as filters: counts, names and failures of the documents that a caller may see."""

from __future__ import annotations

import threading

import pytest

from kb.ports import Store
from kb.types import Filters, Limits
from tests.conformance.store.samples import SPEC, chunk_ids, failure, finish, outcome, put

PROJECT = Filters(limits=Limits(scopes=("project",)))
RED = Filters(limits=Limits(tags=("red", "blue")))
NOTES = Filters(limits=Limits(roots=("note:",)))
HARBOUR = Filters(limits=Limits(roots=("harbour",)))


@pytest.fixture
def documents(store: Store) -> list[int]:
    """A note of each scope, and a file of each of two roots."""
    harbour = store.catalog.ensure_root("/home/harbour", whole=True)
    other = store.catalog.ensure_root("/home/other", whole=True)
    return [
        put(store, "note:1", "salt water", "more water", scope="global", tags=("red",)),
        put(store, "note:2", "salt lake", scope="project", lang="en", kind="lesson"),
        put(store, "harbour/a.md", "salt cod", root_id=harbour.root_id, type="markdown",
            scope="project", tags=("red", "green")),
        put(store, "other/a.md", "salt beef", root_id=other.root_id, type="markdown",
            scope="global", tags=("blue",)),
    ]  # fmt: skip


def test_matching_documents(store: Store, documents: list[int]) -> None:
    first, second, third, fourth = documents
    for filters, expected in (
        (PROJECT, {second, third}),
        (RED, {first, third, fourth}),
        (NOTES, {first, second}),
        (HARBOUR, {third}),
        (Filters(limits=Limits(("project",), ("note:", "harbour"), ("red",))), {third}),
        (Filters(limits=Limits(roots=("missing",))), set()),
        (Filters(scope="global", limits=Limits(scopes=("project",))), set()),
        (Filters(), set(documents)),
    ):
        assert store.catalog.matching([*documents, 99_999], filters) == expected
        found = store.catalog.documents(filters, None)
        assert {each.doc_id for each in found} == expected


def test_counts_of_matching_documents(store: Store, documents: list[int]) -> None:
    counts = store.catalog.counts(PROJECT)
    assert (counts.documents, counts.chunks) == (2, 2)
    assert (counts.by_type, counts.by_kind) == (
        {"markdown": 1, "note": 1},
        {"lesson": 1, "none": 1},
    )
    assert counts.by_scope == {"project": 2}
    assert counts.by_root == {"harbour": 1}
    assert store.catalog.chunk_count(NOTES) == 3
    assert store.catalog.tags(PROJECT) == {"green": 1, "red": 1}
    assert store.catalog.languages(PROJECT) == {"en": 1, None: 1}
    assert [root.name for root in store.catalog.roots(HARBOUR)] == ["harbour"]
    assert [root.name for root in store.catalog.roots(NOTES)] == []


def test_names_of_matching_documents(store: Store, documents: list[int]) -> None:
    assert store.catalog.paths_with_suffix("/a.md", 9) == ["harbour/a.md", "other/a.md"]
    assert store.catalog.paths_with_suffix("/a.md", 9, PROJECT) == ["harbour/a.md"]
    assert store.catalog.neighboring_paths("n", 1, RED) == ["harbour/a.md", "note:1"]
    assert store.catalog.neighboring_paths("n", 1, PROJECT) == ["harbour/a.md", "note:2"]


def test_vectors_and_failures_of_matching_documents(store: Store, documents: list[int]) -> None:
    model_id = store.vectors.use_model(SPEC).model_id
    first, second, third, _ = (chunk_ids(store, each) for each in documents)
    finish(store, model_id, [outcome(first[0]), outcome(third[0], sparse=None, tokens=None)])
    for _ in range(3):
        finish(store, model_id, [failure(second[0], "the lake"), failure(first[1], "the sea")])
    (model,) = store.vectors.models_within(PROJECT)
    assert (model.ready, model.pending, model.failed, model.sparse) == (1, 0, 1, 0)
    assert (model.no_sparse, model.no_tokens) == (1, 1)
    (model,) = store.vectors.models_within(RED)
    assert (model.ready, model.pending, model.failed, model.sparse) == (2, 1, 1, 1)
    assert [each.error for each in store.queue.failures(model_id, 9, PROJECT)] == ["the lake"]
    assert [each.error for each in store.queue.failures(model_id, 9, NOTES)] != ["the lake"]
    assert store.vectors.count_missing_part(model_id, "sparse", PROJECT) == 0


def test_a_store_that_notifies_calls_at_once(store: Store) -> None:
    woken = threading.Event()
    listening = store.queue.listening(woken.set)
    if listening is not None:
        with listening:
            assert woken.wait(30)


def test_a_current_state_is_not_degraded(store: Store) -> None:
    with store.snapshot():
        assert store.degraded() == ()
