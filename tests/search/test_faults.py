"""Faults in every part of a three-way search, alone and in pairs: there is always a response, and
`degraded` names exactly the missing parts."""

from __future__ import annotations

import itertools
import logging
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase, wire
from kb.config import SearchConfig
from kb.errors import StoreUnusable
from kb.search.retrievers import model_retriever
from kb.types import Degraded
from tests.models.weightless import unexamined
from tests.schemas import validate
from tests.search.conftest import Failing

QUERY = "harbour keys"
# The retrievers that a fault in each part disables.
MISSING = {
    "lexical": ["lexical"],
    "dense": ["dense"],
    "sparse": ["sparse"],
    "encoder": ["dense", "sparse", "rerank"],
    "rerank": ["rerank"],
}
PAIRS = [*((part,) for part in MISSING), *itertools.combinations(MISSING, 2)]
# The store method that each retriever calls.
CALLS = {
    "lexical": ("fulltext.match", "fulltext.match_substrings"),
    "dense": ("vectors.nearest_dense",),
    "sparse": ("vectors.nearest_sparse",),
    "rerank": ("vectors.token_vectors",),
}

Fault = Callable[..., Any]


@pytest.fixture(params=["in one thread", "side by side"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    side_by_side = request.param == "side by side"
    monkeypatch.setattr(model_retriever, "SLOW_FROM", 0 if side_by_side else 1_000_000)
    return str(request.param)


@pytest.fixture
def three_way(tmp_path: Path, encoder: Failing) -> Iterator[KnowledgeBase]:
    config = replace(unexamined(), search=SearchConfig(retriever_timeout_ms=1000))
    with KnowledgeBase(tmp_path / "kb.sqlite", config=config, encoder=encoder) as kb:
        kb.add("the harbour master keeps the keys", title="keys")
        kb.add("a boat in the harbour", title="boat")
        kb.add("flour water salt", title="bread")
        kb.embed()
        assert search(kb, "harbour boat").degraded == ()  # warmed up, without faults
        yield kb


def search(kb: KnowledgeBase, query: str = QUERY) -> Any:
    found = kb.search(query, profile="research", rerank="colbert", explain=True)
    validate(wire.response(found))
    return found


def inject(kb: KnowledgeBase, encoder: Failing, part: str, fault: Fault) -> None:
    if part == "encoder":
        encoder.encode = fault  # type: ignore[method-assign]
    for name in CALLS.get(part, ()):
        port, _, method = name.partition(".")
        setattr(getattr(kb._store, port), method, fault)


def raising(error: Exception) -> Fault:
    def fault(*_: object, **__: object) -> None:
        raise error

    return fault


def missing(faulty: tuple[str, ...]) -> set[str]:
    return {part for each in faulty for part in MISSING[each]}


@pytest.mark.parametrize("error", [RuntimeError("bang"), StoreUnusable("bang", "mend it")])
@pytest.mark.parametrize("faulty", PAIRS, ids="+".join)
def test_one_that_fails_leaves_the_others(
    three_way: KnowledgeBase,
    encoder: Failing,
    threads: str,  # how the retrievers run
    faulty: tuple[str, ...],
    error: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for part in faulty:
        inject(three_way, encoder, part, raising(error))
    if faulty == ("lexical", "encoder"):
        _nothing_is_left(three_way, error)
        return
    with caplog.at_level(logging.WARNING, "kb"):
        found = search(three_way)
    gone = missing(faulty)
    assert {one.part for one in found.degraded} == gone
    assert {one.reason for one in found.degraded} == {"failed"}
    assert len(found.degraded) == len(gone)
    assert all("bang" in str(one.detail) for one in found.degraded)
    assert all(f"search degraded: {part} failed" in caplog.text for part in gone)
    assert found.hits[0].title == "keys"
    sources = {source for hit in found for source in hit.sources}
    names = {"lexical": "fts", "dense": "vec", "sparse": "sparse"}
    assert sources == {name for part, name in names.items() if part not in gone}
    assert (found.hits[0].score_kind == "rerank") == ("rerank" not in gone)


def _nothing_is_left(kb: KnowledgeBase, error: Exception) -> None:
    """Neither lexical retrieval nor a model works. A broken store is an error; otherwise the
    response is empty."""
    if isinstance(error, StoreUnusable):
        with pytest.raises(StoreUnusable):
            search(kb)
        return
    found = search(kb)
    assert found.hits == ()
    assert {one.part for one in found.degraded} == {"lexical", "dense", "sparse"}


LATE = [("lexical",), ("dense",), ("sparse",), ("encoder",), ("lexical", "dense")]


@pytest.mark.parametrize("faulty", LATE, ids="+".join)
def test_one_that_is_late_leaves_the_others(
    three_way: KnowledgeBase,
    encoder: Failing,
    monkeypatch: pytest.MonkeyPatch,
    faulty: tuple[str, ...],
) -> None:
    monkeypatch.setattr(model_retriever, "SLOW_FROM", 0)
    gate = threading.Event()
    try:
        for part in faulty:
            inject(three_way, encoder, part, lambda *_, **__: gate.wait(60))
        found = search(three_way)
        late = [
            Degraded(part, "timeout", "no answer within 1 s")
            for part in ("lexical", "dense", "sparse", "rerank")
            if part in missing(faulty)
        ]
        assert list(found.degraded) == late
        assert found.hits[0].title == "keys"
        for one in late:
            stages = found.explain["stages"]
            assert any(stage["stage"] == one.part for stage in stages)
        three_way.close()  # at once, while they still hang
    finally:
        gate.set()


def test_words_are_found_even_if_every_retriever_is_late(
    three_way: KnowledgeBase, encoder: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that hang, as on a busy machine, do not empty the response."""
    monkeypatch.setattr(model_retriever, "SLOW_FROM", 0)
    gate, match = threading.Event(), three_way._store.fulltext.match
    caller = threading.current_thread()

    def late_in_other_threads(*asked: Any, **more: Any) -> Any:
        if threading.current_thread() is not caller:
            gate.wait(60)
        return match(*asked, **more)

    try:
        inject(three_way, encoder, "encoder", lambda *_, **__: gate.wait(60))
        three_way._store.fulltext.match = late_in_other_threads  # type: ignore[method-assign]
        found = search(three_way)
        assert found.hits[0].title == "keys"
        assert {one.part for one in found.degraded} == {"dense", "sparse", "rerank"}
    finally:
        gate.set()


def test_without_a_time_limit_the_late_one_is_waited_for(
    tmp_path: Path, encoder: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_retriever, "SLOW_FROM", 0)
    config = replace(unexamined(), search=SearchConfig(retriever_timeout_ms=0))
    with KnowledgeBase(tmp_path / "kb.sqlite", config=config, encoder=encoder) as kb:
        kb.add("the harbour master keeps the keys")
        kb.embed()
        gate, real = threading.Event(), kb._store.vectors.nearest_dense

        def late(*asked: Any, **more: Any) -> Any:
            assert gate.wait(60)
            return real(*asked, **more)

        sparse = kb._store.vectors.nearest_sparse

        def opening(*asked: Any, **more: Any) -> Any:
            gate.set()
            return sparse(*asked, **more)

        kb._store.vectors.nearest_dense = late  # type: ignore[method-assign]
        kb._store.vectors.nearest_sparse = opening  # type: ignore[method-assign]
        assert search(kb).degraded == ()


def test_a_model_that_is_still_to_be_loaded_is_waited_for(
    tmp_path: Path, encoder: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This concerns the first query of a process; the time limit applies to later ones."""
    monkeypatch.setattr(model_retriever, "SLOW_FROM", 0)
    config = replace(unexamined(), search=SearchConfig(retriever_timeout_ms=1))
    with KnowledgeBase(tmp_path / "kb.sqlite", config=config, encoder=encoder) as kb:
        kb.add("the harbour master keeps the keys")
        kb.embed()
        words, real = threading.Event(), encoder.encode
        match = kb._store.fulltext.match

        def loading(*asked: Any, **more: Any) -> Any:
            assert words.wait(60)  # longer than lexical retrieval takes
            return real(*asked, **more)

        def matched(*asked: Any, **more: Any) -> Any:
            try:
                return match(*asked, **more)
            finally:
                words.set()

        encoder.encode = loading  # type: ignore[method-assign]
        kb._store.fulltext.match = matched  # type: ignore[method-assign]
        assert search(kb).degraded == ()


def test_faults_of_all_three(three_way: KnowledgeBase, encoder: Failing) -> None:
    for part in ("lexical", "dense", "sparse"):
        inject(three_way, encoder, part, raising(RuntimeError("bang")))
    found = search(three_way)
    assert found.hits == ()
    assert [one.part for one in found.degraded] == ["lexical", "dense", "sparse"]


def test_a_fault_is_of_one_search(three_way: KnowledgeBase, encoder: Failing) -> None:
    encoder.broken = True
    assert {one.part for one in search(three_way).degraded} == {"dense", "sparse", "rerank"}
    encoder.broken = False
    assert search(three_way).degraded == ()


# --- an encoder that returns nonsense -------------------------------------------------------------


@pytest.mark.parametrize("weight", [math.nan, math.inf, -1.0, 1e300])
def test_invalid_sparse_weights(three_way: KnowledgeBase, encoder: Failing, weight: float) -> None:
    real = encoder.encode

    def odd(*asked: Any, **more: Any) -> Any:
        return [replace(one, sparse=one.sparse and {"harbour": weight})
                for one in real(*asked, **more)]  # fmt: skip

    encoder.encode = odd  # type: ignore[method-assign]
    found = search(three_way)
    assert [(one.part, one.reason) for one in found.degraded] == [("sparse", "failed")]
    assert {source for hit in found for source in hit.sources} == {"fts", "vec"}
    assert found.hits[0].score_kind == "rerank"
    compared = three_way.compare(QUERY)
    validate(wire.comparison(compared))
    assert {name for name, one in compared.methods.items() if one.error} == {"sparse_only"}


@pytest.mark.parametrize("part", ["dense", "sparse", "tokens"])
def test_a_part_that_the_encoder_cannot_make(
    three_way: KnowledgeBase, encoder: Failing, threads: str, part: str
) -> None:
    real = encoder.encode

    def partly(*asked: Any, **more: Any) -> Any:
        if part in more["want"]:
            raise RuntimeError(f"no {part} today")
        return real(*asked, **more)

    encoder.encode = partly  # type: ignore[method-assign]
    found = search(three_way)
    named = "rerank" if part == "tokens" else part
    assert found.degraded == (Degraded(named, "failed", f"RuntimeError: no {part} today"),)
    assert found.hits[0].title == "keys"
