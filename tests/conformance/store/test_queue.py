"""Jobs and leases: assignment of work, failures, and writes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kb.errors import ModelBroken, NotFound
from kb.ports import Store
from kb.types import EmbedCounts, Encoding, Outcome, PendingChunk
from tests.conformance.store.conftest import Stores
from tests.conformance.store.samples import (
    OTHER,
    PARTS,
    SPEC,
    chunk_ids,
    chunks,
    draft,
    embed,
    failure,
    finish,
    outcome,
    put,
)
from tests.conftest import Clock


@pytest.fixture
def numbers(store: Store) -> list[int]:
    """The ids of ten chunks that need vectors."""
    return chunk_ids(store, put(store, "a", *(f"text {number}" for number in range(10))))


@pytest.fixture
def model(store: Store, numbers: list[int]) -> int:
    assert numbers
    return store.vectors.use_model(SPEC).model_id


def ids(leased: Sequence[PendingChunk]) -> list[int]:
    return [one.chunk_id for one in leased]


def counts(store: Store) -> tuple[int, ...]:
    (model,) = store.vectors.models()
    return model.ready, model.pending, model.failed, model.sparse, model.tokens


# --- leases ---------------------------------------------------------------------------------------


def test_two_jobs_never_lease_the_same_chunk(store: Store, model: int, numbers: list[int]) -> None:
    one, other = store.queue.start_job(model), store.queue.start_job(model)
    first = store.queue.lease(one, model, limit=4)
    second = store.queue.lease(other, model, limit=4)
    third = store.queue.lease(one, model, limit=4, after=first[-1])
    assert sorted(ids([*first, *second, *third])) == sorted(numbers)
    assert store.queue.lease(other, model, limit=4) == []
    leased = {job.job_id: job.leased for job in store.queue.jobs()}
    assert leased == {one: 6, other: 4}
    assert store.queue.lease(one, model, limit=0) == []


def test_jobs_of_other_connections_are_respected(stores: Stores, store: Store, model: int) -> None:
    other = stores.open()
    leased = store.queue.lease(store.queue.start_job(model), model, limit=6)
    rest = other.queue.lease(other.queue.start_job(model), model, limit=10)
    assert len(rest) == 4
    assert not set(ids(leased)) & set(ids(rest))


def test_chunks_in_a_given_order(store: Store, model: int, numbers: list[int]) -> None:
    job = store.queue.start_job(model)
    wanted = [numbers[7], numbers[2], 10_000, numbers[5]]
    assert ids(store.queue.lease(job, model, limit=2, among=wanted)) == wanted[:2]
    assert ids(store.queue.lease(job, model, limit=9, among=wanted)) == wanted[3:]


def test_the_newest_documents_come_first(store: Store) -> None:
    def write(year: int) -> list[int]:
        updated_at = f"{year}-01-01T00:00:00Z"
        doc_id = put(store, str(year), f"{year} one", f"{year} two", updated_at=updated_at)
        return chunk_ids(store, doc_id)

    oldest, newest, between = write(2020), write(2026), write(2023)
    order = [*newest, *between, *oldest]
    model = store.vectors.use_model(SPEC).model_id
    assert store.queue.newest(model, limit=10) == order
    assert store.queue.newest(model, limit=2, without=order[:1]) == order[1:3]
    job = store.queue.start_job(model)
    store.queue.lease(job, model, limit=2, among=order[:2])
    store.queue.finish(job, model, [outcome(order[0])])
    assert store.queue.newest(model, limit=10) == order[2:]  # the second one is leased


def test_a_chunk_comes_with_its_heading(store: Store) -> None:
    drafted = draft("a", title="Title")
    first, second = chunks("words", "Title of all")
    store.catalog.write_document(drafted, [replace(first, heading_path=("Title", "Part")), second])
    model = store.vectors.use_model(SPEC).model_id
    leased = store.queue.lease(store.queue.start_job(model), model, limit=10)
    assert [one.text for one in leased] == ["Title › Part\nwords", "Title of all"]


def test_one_document_alone(store: Store, model: int) -> None:
    doc_id = put(store, "b", "other text")
    job = store.queue.start_job(model)
    assert ids(store.queue.lease(job, model, limit=10, doc_id=doc_id)) == chunk_ids(store, doc_id)


def test_finished_chunks_are_given_back(store: Store, model: int, numbers: list[int]) -> None:
    job = store.queue.start_job(model)
    one, two, *rest = ids(store.queue.lease(job, model, limit=10))
    assert store.queue.finish(job, model, [outcome(one), failure(two)]) == EmbedCounts(1, 0)
    (now,) = store.queue.jobs()
    assert (now.model_id, now.done, now.leased, now.lost) == (model, 2, 8, False)
    other = store.queue.start_job(model)
    assert ids(store.queue.lease(other, model, limit=10)) == [two]  # it failed once
    store.queue.end_job(job)
    assert sorted(ids(store.queue.lease(other, model, limit=10))) == sorted(rest)


def test_leases_expire(store: Store, model: int, clock: Clock) -> None:
    job, other = store.queue.start_job(model), store.queue.start_job(model)
    leased = ids(store.queue.lease(job, model, limit=10))
    clock.seconds += 100
    store.queue.renew_job(job)
    store.queue.renew_job(other)
    clock.seconds += 100
    assert store.queue.lease(other, model, limit=10) == []
    clock.seconds += 100  # the first job is no longer renewed
    store.queue.renew_job(other)
    lost = {one.job_id: one.lost for one in store.queue.jobs()}
    assert lost == {job: True, other: False}
    assert len(store.queue.lease(other, model, limit=10)) == 10
    # The first job was only slow: its vectors are written, and those of the second are not.
    one, two, three, *_ = leased
    assert store.queue.finish(job, model, [outcome(one), outcome(two)]) == EmbedCounts(2, 0)
    late = [outcome(chunk, 0, 1, 0) for chunk in (one, two, three)]
    assert store.queue.finish(other, model, late) == EmbedCounts(1, 0)
    vectors = store.vectors.dense_vectors(model, [one, two, three])
    assert [vectors[each][0] for each in (one, two, three)] == [1.0, 1.0, 0.0]


def test_has_work_agrees_with_lease(store: Store, model: int, clock: Clock) -> None:
    job = store.queue.start_job(model)
    assert store.queue.has_work(model, PARTS)
    *most, last = ids(store.queue.lease(job, model, limit=10))
    assert not store.queue.has_work(model, PARTS)
    store.queue.finish(job, model, [*map(outcome, most), failure(last)])
    assert not store.queue.has_work(model, PARTS)  # the failure is recent
    clock.seconds += 61
    assert store.queue.has_work(model, PARTS)


def test_expired_documents_need_no_vectors(store: Store, model: int, clock: Clock) -> None:
    doc_id = put(store, "b", "passing", expires_at="2026-05-28T20:26:41Z")
    job = store.queue.start_job(model)
    assert len(store.queue.lease(job, model, limit=10, doc_id=doc_id)) == 1
    store.queue.end_job(job)
    clock.seconds += 1
    job = store.queue.start_job(model)
    assert store.queue.lease(job, model, limit=10, doc_id=doc_id) == []


# --- failures -------------------------------------------------------------------------------------


def test_patient_jobs_wait_longer_each_time(
    store: Store, model: int, numbers: list[int], clock: Clock
) -> None:
    one, *rest = numbers
    finish(store, model, map(outcome, rest))
    for wait_s in (60, 600):
        finish(store, model, [failure(one, "no")])
        job = store.queue.start_job(model)
        assert store.queue.lease(job, model, limit=9, patient=True) == []
        clock.seconds += wait_s - 1
        assert store.queue.lease(job, model, limit=9, patient=True) == []
        clock.seconds += 1
        assert ids(store.queue.lease(job, model, limit=9, patient=True)) == [one]
        store.queue.end_job(job)
    finish(store, model, [failure(one, "for good")])
    job = store.queue.start_job(model)
    assert store.queue.lease(job, model, limit=9) == []
    assert counts(store) == (9, 0, 1, 9, 9)
    (failed,) = store.queue.failures(model)
    assert (failed.chunk_id, failed.doc_path, failed.attempts) == (one, "a", 3)
    assert (failed.given_up, failed.searchable, failed.error) == (True, False, "for good")
    assert store.queue.last_error(model) == "for good"
    assert store.queue.retry(model) == 1
    assert store.queue.retry(model) == 0
    assert ids(store.queue.lease(job, model, limit=9, patient=True)) == [one]


def test_retry_of_one_document(store: Store, model: int, numbers: list[int]) -> None:
    doc_id = put(store, "b", "other")
    (other,) = chunk_ids(store, doc_id)
    for _ in range(3):
        finish(store, model, [failure(numbers[0]), failure(other)])
    assert store.queue.retry(model, doc_id=doc_id) == 1
    assert counts(store)[2] == 1


def test_recent_failures_come_first(
    store: Store, model: int, numbers: list[int], clock: Clock
) -> None:
    for number in numbers[:3]:
        clock.seconds += 1
        finish(store, model, [failure(number, f"error of {number}")])
    one, two, three = numbers[:3]
    assert [each.chunk_id for each in store.queue.failures(model)] == [three, two, one]
    assert [each.chunk_id for each in store.queue.failures(model, 1)] == [three]
    assert store.queue.last_error(model) == f"error of {three}"


def test_a_missing_part_is_given_up_too(
    store: Store, model: int, numbers: list[int], clock: Clock
) -> None:
    one, *rest = numbers
    finish(store, model, map(outcome, rest))
    partial = outcome(one, sparse=None, error="no weights")
    job = store.queue.start_job(model)
    assert store.queue.finish(job, model, [partial]) == EmbedCounts(1, 0)
    assert counts(store) == (10, 0, 0, 9, 10)
    for _ in range(2):
        assert store.queue.lease(job, model, limit=9) == []
        assert store.queue.lease(job, model, limit=9, lacking=PARTS, patient=True) == []
        clock.seconds += 601
        assert ids(store.queue.lease(job, model, limit=9, lacking=PARTS, patient=True)) == [one]
        assert store.queue.finish(job, model, [partial]) == EmbedCounts(0, 0)
    assert store.queue.lease(job, model, limit=9, lacking=PARTS) == []
    (failed,) = store.queue.failures(model)
    assert (failed.attempts, failed.given_up, failed.searchable) == (3, True, True)
    assert store.queue.retry(model) == 1
    assert ids(store.queue.lease(job, model, limit=9, lacking=PARTS)) == [one]
    assert store.queue.finish(job, model, [failure(one)]) == EmbedCounts(0, 0)
    assert counts(store) == (10, 0, 0, 9, 10)  # the other parts stay
    assert store.queue.finish(job, model, [outcome(one)]) == EmbedCounts(0, 1)
    assert (store.queue.failures(model), store.queue.last_error(model)) == ([], None)


# --- writing --------------------------------------------------------------------------------------


def test_only_missing_parts_are_added(store: Store, model: int, numbers: list[int]) -> None:
    one = numbers[0]
    dense = Outcome(one, Encoding(dense=array("f", [1.0, 0.0, 0.0])), want=frozenset({"dense"}))
    finish(store, model, [dense])
    job = store.queue.start_job(model)
    assert one not in ids(store.queue.lease(job, model, limit=10))
    assert ids(store.queue.lease(job, model, limit=10, lacking=PARTS)) == [one]
    assert store.queue.finish(job, model, [outcome(one, 0, 1, 0)]) == EmbedCounts(0, 1)
    assert store.vectors.dense_vectors(model, [one]) == {one: array("f", [1.0, 0.0, 0.0])}
    assert store.vectors.sparse_vectors(model, [one]) == {one: {"a": 1.0}}
    assert store.queue.lease(job, model, limit=10, lacking=PARTS) == []


@pytest.mark.parametrize("bad", [(0, 0, 0), (float("nan"), 0, 1), (float("inf"), 0, 0), (1, 2)])
def test_an_invalid_vector_is_refused_with_the_whole_batch(
    store: Store, model: int, numbers: list[int], bad: tuple[float, ...]
) -> None:
    version = store.vectors.version()
    with pytest.raises(ModelBroken):
        finish(store, model, [outcome(numbers[0]), outcome(numbers[1], *bad)])
    assert store.vectors.dense_vectors(model, numbers) == {}
    assert store.vectors.version() == version


def test_deleted_chunks_are_skipped(store: Store, model: int, numbers: list[int]) -> None:
    assert finish(store, model, [outcome(numbers[0]), outcome(4711)]) == EmbedCounts(1, 0)


def test_a_retired_model_gets_no_more_vectors(store: Store, model: int, numbers: list[int]) -> None:
    embed(store)
    late = put(store, "b", "late")
    job = store.queue.start_job(model)
    new = store.vectors.begin_switch(OTHER, None).model_id
    finish(store, new, [outcome(one, 1, 0) for one in [*numbers, *chunk_ids(store, late)]])
    assert store.vectors.switch(new)
    assert store.queue.lease(job, model, limit=10) == []
    assert store.queue.finish(job, model, [outcome(*chunk_ids(store, late))]) == EmbedCounts(0, 0)
    with pytest.raises(NotFound):
        store.queue.start_job(model)
