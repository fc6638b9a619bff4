"""Several processes that embed one store at once, killed at random, while it is searched."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kb import KnowledgeBase
from tests.workers import (
    FIRST,
    SECOND,
    Crowd,
    audited,
    first,
    open_by_first,
    other,
    second,
    texts,
    watch,
)

TOP = 20
pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="there, what a killed process had leased waits for two minutes"
)


def fill(kb: KnowledgeBase, count: int, start: int = 0) -> None:
    for text in texts(count, start):
        kb.add(text)


@contextmanager
def searching(path: Path, *, never_fewer: bool) -> Iterator[list[str]]:
    """Search by meaning continuously, and list wrong responses. With `never_fewer`, a response with
    fewer than `TOP` hits is wrong too."""
    wrong: list[str] = []
    models: list[str] = []
    ended = threading.Event()

    def search() -> None:
        with open_by_first(path) as kb:
            while not ended.is_set():
                for mode in ("vector", "hybrid"):  # the latter in threads, from 2,000 chunks on
                    found = kb.search("salt water", top=TOP, mode=mode, profile="notes")
                    names = {hit.embedding_model for hit in found.hits} - {None}
                    models.extend(str(name) for name in names)
                    reasons = {part.reason for part in found.degraded} - {"pending"}
                    if reasons or len(names) > 1 or (never_fewer and len(found.hits) < TOP):
                        wrong.append(f"{mode}, {len(found.hits)} of {names}: {found.degraded}")

    thread = threading.Thread(target=search)
    thread.start()
    try:
        yield models
    finally:
        ended.set()
        thread.join()
    assert wrong == []


def check_vectors(path: Path, count: int) -> None:
    """Check that every chunk has the vectors of its text, with all parts, from the active model."""
    with open_by_first(path) as kb:
        (model,) = kb._store.vectors.models()
        assert (model.ready, model.pending, model.failed) == (count, 0, 0)
        assert (model.sparse, model.tokens) == (count, count)
        encoder = first() if model.name == FIRST else second()
        for chunk_id, vector in kb._store.vectors.dense_vectors(
            model.model_id, range(count * 3)
        ).items():
            text = kb.chunk(chunk_id).text
            assert vector == pytest.approx(encoder.encode([text])[0].dense)
        assert kb._store.queue.jobs() == []
        assert [one for one in kb.doctor().findings if one.state == "error"] == []


def embedded_by_a_crowd(path: Path, chunks: int, kills: int, seed: int) -> None:
    with open_by_first(path) as kb:
        fill(kb, chunks)
        watch(path)
        with searching(path, never_fewer=False):
            with Crowd(path, "embed", 3, random.Random(seed)) as crowd:
                while crowd.killed < kills:
                    if not crowd.kill_one(12):  # there was nothing left to do
                        fill(kb, 200, start=chunks)
                        chunks += 200
                crowd.finish()
            kb.embed()  # passages leased by the workers killed last
    check_vectors(path, chunks)
    written = audited(path)
    assert set(written.values()) == {1}, "something was embedded twice after its commit"
    assert len(written) == chunks


def test_workers_that_are_killed(tmp_path: Path) -> None:
    embedded_by_a_crowd(tmp_path / "kb.sqlite", 500, 2, seed=1)


@pytest.mark.slow
def test_many_workers_that_are_killed(tmp_path: Path) -> None:
    embedded_by_a_crowd(tmp_path / "kb.sqlite", 2000, 30, seed=3)


def switched_by_a_crowd(path: Path, chunks: int, kills: int, seed: int) -> None:
    """Switch from one model to the other and back repeatedly, while documents are added."""
    with open_by_first(path) as kb:
        fill(kb, chunks)
        kb.embed()
        with searching(path, never_fewer=True) as models:
            with Crowd(path, "reindex", 1, random.Random(seed)) as crowd:
                while crowd.killed < kills:
                    crowd.kill_one(20)
                    fill(kb, 20, start=chunks)  # they get vectors of both models
                    chunks += 20
                    kb.embed()
                crowd.finish()
            kb.reindex(other(kb), grace_s=0.5)
        assert set(models) <= {FIRST, SECOND}
        check_vectors(path, chunks)
        kb.add("salt of the sea")
        assert kb.embed().model == kb._store.vectors.models()[0].name


def test_a_switch_that_is_killed(tmp_path: Path) -> None:
    switched_by_a_crowd(tmp_path / "kb.sqlite", 400, 2, seed=2)


@pytest.mark.slow
def test_a_switch_that_is_killed_often(tmp_path: Path) -> None:
    switched_by_a_crowd(tmp_path / "kb.sqlite", 2000, 30, seed=4)
