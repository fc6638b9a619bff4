"""Seed 002 (Neo Alexandria, phase 8): sparse embeddings, R1, R9 and R10. One test per acceptance
criterion, named after its label: R1.2 is `test_r1_2_...`."""

from __future__ import annotations

import logging
import random
import threading
from array import array
from pathlib import Path
from typing import Any

import pytest

from kb.index import sparse_weights
from kb.ports import ModelTraits
from kb.store.sqlite import vector_pieces
from kb.types import Encoding, TokenVectors
from tests.conformance.seed_002 import Faulty, rows
from tests.conftest import Clock
from tests.models.weightless import Weightless
from tests.store.builders import pending_chunks, sqlite_store, write_vectors
from tests.workers import Crowd, audited, open_by_first, watch

# --- R1: sparse embeddings ------------------------------------------------------------------------


def test_r1_1_every_chunk_gets_term_weights(known: Any) -> None:
    kb = known(Weightless())
    note = kb.add("a retry storm")
    kb.embed()
    weights = kb._store.vectors.sparse_vectors(1, [1])[1]
    assert weights == {"retry": 1.0, "storm": 1.0, "a": 1.0}
    kb.remove(note.doc_path)
    kb.add("salt water")  # updated text becomes new chunks
    kb.embed()
    (model,) = kb._store.vectors.models()
    assert (model.ready, model.sparse, model.tokens) == (1, 1, 1)
    assert set(kb._store.vectors.sparse_vectors(1, range(9))) == {2}


def test_r1_2_stored_as_token_and_weight(known: Any) -> None:
    """Weights are stored as bytes, which take a third of the space of JSON [decision 53]. Older
    stores have JSON."""
    kb = known(Weightless())
    kb.add("storm after storm")
    kb.embed()
    with sqlite_store(kb)._database.reading() as connection:
        (stored,) = vector_pieces.read(connection, "sparse", 1, [1]).values()
    assert isinstance(stored, bytes)
    assert sparse_weights.from_text(stored) == {
        "storm": pytest.approx(1.69315, rel=5e-3),
        "after": 1.0,
    }


def test_r1_3_in_the_same_pass_as_the_dense_vector(known: Any) -> None:
    """Sparse vectors need no extra pass. `make bench` checks the limit of one second."""
    encoder = Weightless()
    kb = known(encoder)
    for number in range(16):
        kb.add(f"note {number}")
    kb.embed()
    assert [len(texts) for texts in encoder.calls] == [1, 8, 8]  # a probe, two units
    assert kb._store.vectors.models()[0].sparse == 16


def test_r1_4_model_and_time_stand_beside_it(known: Any, clock: Clock) -> None:
    kb = known(Weightless())
    kb.add("one")
    kb.embed()
    (row,) = rows(kb)
    assert row[1:3] == ("weightless", "2026-05-28T20:26:40Z")


@pytest.mark.parametrize(
    "fault",
    [
        {"sparse": None},
        {"sparse": {"poison": float("nan")}},
        {"sparse": {"poison": -1.0}},
        {"sparse": {"poison": float("inf")}},
        {"tokens": None},
        {"tokens": TokenVectors(16, array("f", [float("nan")] * 16))},
        {"tokens": TokenVectors(3, array("f", [1.0] * 3))},
        {"raises": True},
    ],
    ids=str,
)
def test_r1_5_a_failure_is_logged_and_the_chunk_stays_searchable(
    known: Any, caplog: pytest.LogCaptureFixture, fault: dict[str, Any]
) -> None:
    kb = known(Faulty(**fault))
    kb.add("salt water")
    kb.add("poison in the water")
    with caplog.at_level(logging.WARNING, "kb.embed"):
        report = kb.embed()
    (record,) = (one for one in caplog.records if one.name == "kb.embed")
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("chunk 2 has only a dense vector: weightless ")
    assert (report.embedded, report.failed, report.left, report.lacking) == (2, 0, 0, 1)
    assert kb.search_vector("poison in the water")[0].chunk_id == 2
    (model,) = kb._store.vectors.models()
    assert (model.ready, min(model.sparse, model.tokens)) == (2, 1)
    before = kb._store.vectors.dense_vectors(1, [1, 2])

    mended = known(Weightless())  # it will be tried again
    again = mended.embed()
    assert (again.embedded, again.filled, again.lacking) == (0, 1, 0)
    assert mended._store.vectors.dense_vectors(1, [1, 2]) == before
    (model,) = mended._store.vectors.models()
    assert (model.ready, model.sparse, model.tokens) == (2, 2, 2)
    assert [row[4:] for row in rows(mended)] == [(0, None), (0, None)]


# --- R9: batches and resumption -------------------------------------------------------------------


def test_r9_1_what_has_none_gets_them(known: Any) -> None:
    """An example is a store that has dense vectors only."""
    kb = known(Weightless())
    for number in range(3):
        kb.add(f"note {number}")
    model_id = kb._store.vectors.use_model(kb.encoder().spec).model_id
    dense = [(one.chunk_id, kb.encoder().encode([one.text])[0])
             for one in pending_chunks(kb._store, model_id, limit=2)]  # fmt: skip
    write_vectors(kb._store, model_id, dense)
    before = kb._store.vectors.dense_vectors(model_id, [1, 2])
    report = kb.embed()
    assert (report.embedded, report.filled, report.lacking) == (1, 2, 0)
    assert set(kb._store.vectors.sparse_vectors(model_id, range(9))) == {1, 2, 3}
    assert kb._store.vectors.dense_vectors(model_id, [1, 2]) == before
    assert kb.embed().filled == 0


@pytest.mark.parametrize(("unit", "device"), [(8, "a CPU"), (32, "a GPU")])
def test_r9_2_in_units_of_8_or_32(known: Any, unit: int, device: str) -> None:
    class Sized(ModelTraits, Weightless):
        batch_size = unit  # the batch size of an encoder on that device

    encoder = Sized()
    kb = known(encoder)
    for number in range(2 * unit):
        kb.add(f"note {number}")
    kb.embed()
    assert [len(texts) for texts in encoder.calls] == [1, unit, unit]


def test_r9_2_the_units_of_the_bundled_runtime() -> None:
    from kb.models.onnx_encoder import CPU_BATCH, GPU_BATCH

    assert (CPU_BATCH, GPU_BATCH) == (8, 32)


def test_r9_3_a_commit_every_hundred(known: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = known(Weightless())
    commits: list[int] = []
    finish = kb._store.queue.finish

    def counted(job_id: int, model_id: int, outcomes: list[Any]) -> Any:
        commits.append(len(outcomes))
        return finish(job_id, model_id, outcomes)

    monkeypatch.setattr(kb._store.queue, "finish", counted)
    for number in range(210):
        kb.add(f"note {number}")
    kb.embed()
    assert commits == [100, 100, 10]


def test_r9_4_progress_is_logged_with_done_and_total(
    known: Any, caplog: pytest.LogCaptureFixture
) -> None:
    kb = known(Weightless())
    for number in range(120):
        kb.add(f"note {number}")
    with caplog.at_level(logging.INFO, "kb.embed"):
        kb.embed()
    told = [one.getMessage() for one in caplog.records if one.name == "kb.embed"]
    assert told == ["embedded 100 of 120 chunks", "embedded 120 of 120 chunks"]


def test_r9_5_interrupted_it_goes_on_from_the_last_commit(tmp_path: Path) -> None:
    """The run is interrupted by kill -9. `tests/test_workers.py` kills three workers many times."""
    path = tmp_path / "kb.sqlite"
    with open_by_first(path) as kb:
        for number in range(300):
            kb.add(f"note {number}")
    watch(path)
    with Crowd(path, "embed", 1, random.Random(9)) as crowd:
        # After the first hundred, before the second; another worker takes its place.
        assert crowd.kill_one(20, least_lines=18)
        crowd.finish()
    with open_by_first(path) as kb:
        assert kb.embed().lacking == 0
        (model,) = kb._store.vectors.models()
        assert (model.ready, model.sparse) == (300, 300)
    assert set(audited(path).values()) == {1}  # committed work was not repeated


# --- R10: in the background -----------------------------------------------------------------------


def test_r10_1_what_is_added_is_enqueued_with_it(known: Any) -> None:
    """The document's own transaction does this: a chunk without vectors is pending."""
    kb = known(Weightless())
    kb.add("a retry storm")
    kb._store.vectors.use_model(kb.encoder().spec)
    (work,) = kb.jobs().work
    assert (work.model.pending, work.model.ready) == (1, 0)


def test_r10_2_sparse_comes_after_dense(known: Any) -> None:
    """A chunk without vectors comes before an older one that lacks a part, and no chunk has term
    weights without a dense vector."""
    kb = known(Faulty(sparse=None))
    kb.add("poison")
    kb.embed()
    encoder = Weightless()
    mended = known(encoder)
    mended.add("water")
    mended.embed()
    assert encoder.calls == [("water",), ("poison",)]
    with sqlite_store(mended)._database.reading() as connection:
        alone = connection.execute("SELECT count(*) FROM embeddings WHERE dense IS NULL").fetchone()
    assert alone == (0,)


def test_r10_3_a_failure_is_marked_for_retry(
    known: Any, caplog: pytest.LogCaptureFixture, clock: Clock
) -> None:
    kb = known(Faulty(sparse=None))
    kb.add("poison")
    with caplog.at_level(logging.WARNING, "kb.embed"):
        kb.embed()
    assert "chunk 1 has only a dense vector" in caplog.text
    (failure,) = kb.jobs().failures
    assert (failure.chunk_id, failure.searchable, failure.given_up) == (1, True, False)
    worker = {"retry": False, "stop": lambda: False, "on_progress": lambda _: None}
    mended = known(Weightless())
    assert mended._services.embedding.step(**worker).filled == 0  # too soon
    clock.seconds += 60
    assert mended._services.embedding.step(**worker).filled == 1
    assert mended.jobs().failures == ()


def test_r10_4_the_time_is_that_of_completion(known: Any, clock: Clock) -> None:
    kb = known(Faulty(sparse=None))
    kb.add("poison")
    kb.embed()
    clock.seconds += 3600
    mended = known(Weightless())
    mended.embed()
    assert rows(mended)[0][2] == "2026-05-28T21:26:40Z"


def test_r10_5_adding_never_waits_for_it(known: Any) -> None:
    """Notes are added while the encoder is busy with earlier ones."""
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Weightless):
        def encode(self, texts: Any, **asked: Any) -> list[Encoding]:
            begun.set()
            assert go_on.wait(60)
            return super().encode(texts, **asked)

    kb = known(Slow())
    kb.add("one")
    with kb.worker():
        assert begun.wait(60)
        assert kb.add("two").doc_id == 2
        assert kb.search("two", mode="lexical").hits[0].doc_id == 2
        go_on.set()
