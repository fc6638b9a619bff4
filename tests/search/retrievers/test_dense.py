"""The dense retriever and its failures: lexical search still works, and the failure is reported."""

from __future__ import annotations

import logging
import math
import sys
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kb import Filters, KnowledgeBase, wire
from kb.errors import ConfigError, InvalidRequest, ModelMismatch, QuerySyntax
from kb.search.profiles import resolve
from kb.search.query.query_encoder import normalize
from kb.types import Degraded, Encoding, Response
from tests.models.weightless import Weightless
from tests.schemas import validate
from tests.search.conftest import Failing
from tests.store.builders import sqlite_store


class WithoutNumpy:
    """Hides numpy from imports."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.split(".")[0] == "numpy":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def fill(kb: KnowledgeBase) -> None:
    kb.add("the harbour master keeps the keys", title="keys")
    kb.add("a boat in the harbour", title="boat")
    kb.add("flour water salt", title="bread")


def titles(found: Response) -> list[str]:
    return [hit.title for hit in found]


def by_model(profile: str = "default") -> list[str]:
    """All parts of a profile that need a model: a problem with the model is reported for each."""
    asked = resolve(profile, {})
    reranks = ["rerank"] if asked.rerank == "colbert" else []
    return [name for name in asked.retrievers if name != "lexical"] + reranks


def of_all(reason: str, detail: str | int | None) -> tuple[Degraded, ...]:
    return tuple(Degraded(part, reason, detail) for part in by_model())


class Latin(Failing):
    """Declares Latin script only."""

    def __init__(self) -> None:
        super().__init__(max_tokens=8)
        self.spec = replace(self.spec, scripts=("Latin",))


@pytest.fixture
def latin(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase(tmp_path / "latin.sqlite", encoder=Latin()) as kb:
        kb.add("超级碗在旧金山举行", title="bowl")
        kb.add("the harbour master keeps the keys", title="keys")
        kb.embed()
        yield kb


TWO_WAY = {"retrievers": "lexical,dense", "rerank": "none"}


# --- success --------------------------------------------------------------------------------------


def test_meaning_and_words_are_fused(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    hybrid.embed()
    found = hybrid.search("harbour keys", settings=TWO_WAY, explain=True)
    validate(wire.response(found))
    assert (found.mode, found.degraded) == ("hybrid", ())
    first = found.hits[0]
    assert (first.title, first.sources, first.score_kind) == ("keys", ("fts", "vec"), "fused")
    assert (first.retrieval.method, first.embedding_model) == ("hybrid", "weightless")
    assert first.retrieval.lexical_rank == first.retrieval.vector_rank == 1
    assert first.retrieval.fusion_score == first.score
    stages = {"analyse", "lexical", "dense", "fuse", "literal", "collapse", "hits", "total"}
    assert set(found.timing_ms) == stages
    last = found.hits[-1]
    assert (last.title, last.sources, last.retrieval.lexical_rank) == ("bread", ("vec",), None)


def test_vectors_alone(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    hybrid.embed()
    found = hybrid.search("harbour keys", mode="vector")
    assert (found.mode, found.hits[0].score_kind) == ("vector", "cosine")
    assert all(hit.sources == ("vec",) for hit in found)
    assert all(hit.retrieval.lexical_score is None for hit in found)
    assert found.hits[0].score == found.hits[0].retrieval.vector_score


def test_the_query_is_encoded_once(hybrid: KnowledgeBase, encoder: Failing) -> None:
    fill(hybrid)
    hybrid.embed()
    encoder.calls.clear()
    hybrid.search("harbour keys")
    assert encoder.calls == [("harbour keys",)]
    hybrid.search(" harbour keys ", mode="vector")
    assert len(encoder.calls) == 1


@pytest.mark.parametrize("query", ["", "?!", " "])
def test_a_query_without_words_finds_nothing(hybrid: KnowledgeBase, query: str) -> None:
    fill(hybrid)
    hybrid.embed()
    for mode in ("vector", "hybrid", "lexical"):
        found = hybrid.search(query, mode=mode)
        assert (found.hits, found.degraded) == ((), ())


def test_an_expression_is_not_a_meaning(hybrid: KnowledgeBase) -> None:
    """A query in single quotes is searched by words only."""
    fill(hybrid)
    hybrid.embed()
    found = hybrid.search("'harbour NOT boat'")
    assert titles(found) == ["keys"]
    assert [(one.part, one.reason) for one in found.degraded] == [("query", "expression")]
    assert found.hits[0].score_kind == "bm25"
    assert hybrid.search("'harbour NOT boat'", mode="vector").returned == 3


def test_filters_and_expiry_hold_for_vectors(hybrid: KnowledgeBase) -> None:
    hybrid.add("a boat in the harbour", title="new", tags=["t"])
    hybrid.add("a boat in the harbour", title="old", ttl="1h")
    hybrid.embed()
    assert titles(hybrid.search("boat", mode="vector", filters=Filters(tags=("t",)))) == ["new"]
    hybrid._clock.seconds += 7200  # type: ignore[attr-defined]
    assert titles(hybrid.search("boat", mode="vector")) == ["new"]
    with pytest.raises(InvalidRequest):
        hybrid.search("boat", mode="vector", filters=Filters(kind=("film",)))


def test_index_versions(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    before = hybrid.index_version()
    hybrid.embed()
    after = hybrid.index_version()
    assert set(after) == {"lexical", "dense", "sparse"}
    assert after["dense"] != before["dense"]
    assert hybrid.search("harbour").index_version != hybrid.search(
        "harbour", mode="lexical"
    ).index_version  # fmt: skip


# --- normalize ------------------------------------------------------------------------------------


def test_normalize() -> None:
    assert list(normalize([3.0, 4.0])) == pytest.approx([0.6, 0.8])
    assert list(normalize([3e-30, 4e-30])) == pytest.approx([0.6, 0.8])
    for bad in ([0.0, 0.0], [], [math.nan], [math.inf, 1.0], ["a"], "ab"):
        with pytest.raises(InvalidRequest):
            normalize(bad)  # type: ignore[arg-type]


def test_a_ready_made_vector_needs_no_encoder(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    hybrid.embed()
    vector = Weightless().encode(["harbour keys"])[0].dense
    assert vector is not None
    with KnowledgeBase(hybrid.path, encoder="none") as kb:
        assert kb.search_vector(embedding=vector)[0].title == "keys"
        assert kb.search_vector(embedding=[2 * value for value in vector])[0].title == "keys"
        (first, *_) = kb.search_hybrid("harbour keys", embedding=list(vector))
        assert (first.title, first.sources) == ("keys", ("fts", "vec"))
        assert kb.search_vector(embedding=[]) == ()
        with pytest.raises(ModelMismatch):
            kb.search_vector(embedding=[1.0, 0.0])
        for bad in ([0.0] * 64, [math.nan] * 64):
            with pytest.raises(InvalidRequest):
                kb.search_vector(embedding=bad)


# --- failures -------------------------------------------------------------------------------------


def test_switched_off_without_vectors_is_keyword_search_by_choice(kb: KnowledgeBase) -> None:
    fill(kb)
    found = kb.search("harbour keys")
    assert (found.mode, found.degraded) == ("lexical", ())
    assert kb.status()["vectors"]["state"] == "off"
    assert kb.status()["degraded"] == []


def test_switched_off_but_requested(kb: KnowledgeBase) -> None:
    fill(kb)
    found = kb.search("harbour keys", mode="vector")
    assert (found.hits, [one.reason for one in found.degraded]) == ((), ["no_model"])


def test_a_least_score_holds_without_vectors_too(kb: KnowledgeBase) -> None:
    fill(kb)
    settings = {"min_score": 0.999}
    assert kb.search("harbour", profile="memory", settings=settings).hits == ()


def test_sqlite_vec_cannot_be_loaded(
    hybrid: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another backend returns the same results, and the fallback is reported."""
    fill(hybrid)
    hybrid.embed()
    expected = titles(hybrid.search("harbour keys"))
    monkeypatch.setenv("KB_STORE_VECTOR_BACKEND", "sqlite-vec")
    with KnowledgeBase(hybrid.path, encoder=Weightless()) as kb:
        (told,) = kb.search("harbour keys").degraded
        assert told.reason == "fallback"
        assert str(told.detail).startswith("sqlite-vec has no table of these vectors yet (kb embed")
        kb.embed()  # only the table is missing
        found = kb.search("harbour keys")
        assert (titles(found), found.degraded) == (expected, ())
    monkeypatch.setattr("kb.store.sqlite.vec0.load", lambda _: False)
    with KnowledgeBase(hybrid.path, encoder=Weightless()) as kb:
        found = kb.search("harbour keys")
        assert titles(found) == expected
        assert [(one.part, one.reason) for one in found.degraded] == [("dense", "fallback")]
        kb.add("written all the same")
        assert kb.embed().embedded == 1


def test_an_unknown_backend_is_refused(
    hybrid: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(hybrid)
    hybrid.embed()
    monkeypatch.setenv("KB_STORE_VECTOR_BACKEND", "abacus")
    with pytest.raises(ConfigError, match=r"store\.vector_backend"):
        KnowledgeBase(hybrid.path, encoder=Weightless())


def test_switched_off_with_vectors(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    hybrid.embed()
    with KnowledgeBase(hybrid.path, encoder="none") as kb:
        found = kb.search("harbour keys")
        assert titles(found) == ["keys", "boat"]
        assert found.degraded == of_all("no_model", "the encoder is disabled")
        assert kb.status()["vectors"]["state"] == "no_model"


def test_no_such_model(hybrid: KnowledgeBase, tmp_path: Path) -> None:
    fill(hybrid)
    hybrid.embed()
    with KnowledgeBase(hybrid.path, encoder=str(tmp_path / "nothing")) as kb:
        found = kb.search("harbour keys")
        assert titles(found) == ["keys", "boat"]
        assert found.degraded == of_all("no_model", found.degraded[0].detail)
        assert "nothing" in str(found.degraded[0].detail)
        status = kb.status()
        validate(status)
        assert status["vectors"]["state"] == "no_model"
        assert [one["reason"] for one in status["degraded"]] == ["no_model"]
        assert kb.search("harbour", mode="vector").hits == ()
        assert kb.search("harbour", mode="lexical").degraded == ()


def test_another_model_than_the_store_s(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    hybrid.embed()
    with KnowledgeBase(hybrid.path, encoder=Weightless(version="2")) as kb:
        found = kb.search("harbour keys")
        assert titles(found) == ["keys", "boat"]
        told = "vectors of weightless 1, not weightless 2"
        assert found.degraded == of_all("model_mismatch", told)
        assert kb.status()["vectors"]["state"] == "model_mismatch"
        with pytest.raises(ModelMismatch):
            kb.embed()


def test_a_model_that_fails(
    hybrid: KnowledgeBase, encoder: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    fill(hybrid)
    hybrid.embed()
    encoder.broken = True
    with caplog.at_level(logging.WARNING, "kb"):
        found = hybrid.search("harbour keys", explain=True)
    validate(wire.response(found))
    assert titles(found) == ["keys", "boat"]
    assert found.degraded == of_all("failed", "RuntimeError: out of memory")
    assert found.hits[0].score_kind == "bm25"
    assert "search degraded: dense failed (RuntimeError: out of memory)" in caplog.text
    assert hybrid.search("harbour keys", mode="vector").hits == ()
    encoder.broken = False
    assert hybrid.search("harbour keys").degraded == ()


def test_a_model_that_returns_no_vector(hybrid: KnowledgeBase, encoder: Failing) -> None:
    fill(hybrid)
    hybrid.embed()
    for broken in (Encoding(), Encoding(dense=array("f", [0.0] * 64)), Encoding(array("f", [1.0]))):
        encoder.encode = lambda *_, **__: [broken]  # type: ignore[method-assign]  # noqa: B023
        found = hybrid.search("harbour keys")
        assert titles(found) == ["keys", "boat"]
        assert [(one.part, one.reason) for one in found.degraded] == [
            (part, "failed") for part in by_model()
        ]


def test_vectors_that_are_pending(hybrid: KnowledgeBase, encoder: Failing) -> None:
    fill(hybrid)
    found = hybrid.search("harbour keys")
    assert titles(found) == ["keys", "boat"]
    assert found.degraded == of_all("pending", 3)
    assert encoder.calls == []  # nothing to encode
    assert hybrid.status()["vectors"]["pending"] == 3
    hybrid.embed(limit=2)
    found = hybrid.search("flour")
    assert found.degraded == of_all("pending", 1)
    assert titles(found)[0] == "bread"
    assert found.hits[0].sources == ("fts",)
    status = hybrid.status()
    validate(status)
    assert (status["vectors"]["state"], status["vectors"]["pending"]) == ("pending", 1)
    hybrid.embed()
    assert hybrid.search("flour").degraded == ()
    assert hybrid.status()["vectors"]["state"] == "ready"


def test_an_empty_store_has_nothing_pending(hybrid: KnowledgeBase) -> None:
    hybrid.create()
    assert hybrid.search("harbour").degraded == ()


def test_passages_that_cannot_be_embedded(hybrid: KnowledgeBase, encoder: Failing) -> None:
    fill(hybrid)
    encoder.fails_on = frozenset({"flour"})
    for _ in range(3):
        hybrid.embed()
    found = hybrid.search("flour salt", mode="hybrid")
    assert found.hits == () or found.hits[0].title
    assert [one.reason for one in found.degraded][-1] == "failed"
    status = hybrid.status()
    validate(status)
    assert status["vectors"]["models"][0]["failed"] == 1


def test_numpy_is_missing(hybrid: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors are compared in Python: the same results, and nothing is reported."""
    fill(hybrid)
    hybrid.embed()
    expected = titles(hybrid.search("harbour keys"))
    for name in [name for name in sys.modules if name.split(".")[0] == "numpy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WithoutNumpy(), *sys.meta_path])
    with KnowledgeBase(hybrid.path, encoder=Weightless()) as kb:
        found = kb.search("harbour keys", explain=True)
        assert found.explain is not None
        (stage,) = (one for one in found.explain["stages"] if one["stage"] == "dense")
        assert (stage["backend"], titles(found), found.degraded) == ("python", expected, ())


def test_the_time_of_the_encoding_is_reported(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    hybrid.embed()
    found = hybrid.search("harbour keys", mode="vector", explain=True)
    assert found.explain is not None
    (stage,) = (one for one in found.explain["stages"] if one["stage"] == "dense")
    assert 0 < stage["encoding_ms"] <= stage["ms"]


def test_an_encoder_with_a_missing_dependency(hybrid: KnowledgeBase, encoder: Failing) -> None:
    fill(hybrid)
    hybrid.embed()

    def missing(*_: object, **__: object) -> list[Encoding]:
        raise ModuleNotFoundError("No module named 'onnxruntime'")

    encoder.encode = missing  # type: ignore[method-assign]
    found = hybrid.search("harbour keys")
    assert titles(found) == ["keys", "boat"]
    assert "onnxruntime" in str(found.degraded[0].detail)


def test_a_damaged_lexical_index_leaves_the_vectors(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    hybrid.embed()
    with sqlite_store(hybrid)._database.writing() as connection:
        for table in ("chunks_fts", "chunks_cjk"):
            connection.execute(f"DROP TABLE {table}")
    with KnowledgeBase(hybrid.path, encoder=Weightless()) as kb:
        found = kb.search("harbour keys")
        assert titles(found)[0] == "keys"
        assert "vec" in found.hits[0].sources
        assert [(one.part, one.reason) for one in found.degraded] == [("lexical", "failed")]


# --- scripts and languages ------------------------------------------------------------------------

FOREIGN = Degraded("dense", "language", "weightless reads Latin script")


@pytest.mark.parametrize("profile", ["default", "notes", "memory", "research"])
def test_a_script_that_the_model_does_not_read(latin: KnowledgeBase, profile: str) -> None:
    """The results are those of a lexical search: the other list would be noise."""
    foreign = tuple(replace(FOREIGN, part=part) for part in by_model(profile))
    found = latin.search("超级碗在哪里", profile=profile)
    validate(wire.response(found))
    assert (titles(found), found.degraded) == (["bowl"], foreign)
    assert found.hits[0].sources == ("fts",)
    words = latin.search("超级碗在哪里", profile=profile, mode="lexical")
    assert (titles(found), words.degraded) == (titles(words), ())
    assert latin.search("harbour keys", profile=profile).degraded == ()


def test_vector_mode_is_used_nevertheless(latin: KnowledgeBase) -> None:
    found = latin.search("超级碗在哪里", mode="vector")
    guess = replace(FOREIGN, detail=f"{FOREIGN.detail}; its results here are guesses")
    assert (found.returned, found.degraded) == (2, (guess,))
    assert found.hits[0].sources == ("vec",)


def test_ready_made_vectors_have_no_script(latin: KnowledgeBase) -> None:
    similar = latin.similar("note:1")
    assert (titles(similar), similar.degraded) == (["keys"], ())
    assert len(latin.search_hybrid("超级碗", embedding=[1.0] * 64)) == 2


def test_a_query_longer_than_the_model_reads(latin: KnowledgeBase) -> None:
    for mode in ("hybrid", "vector"):
        found = latin.search("one two three four five six seven eight nine ten", mode=mode)
        assert found.degraded == (Degraded("dense", "truncated", "2 tokens of the query left out"),)
    assert latin.search("one two three four five six seven eight").degraded == ()
    nine = latin.search("one two three four five six seven eight nine")
    assert nine.degraded[0].detail == "1 token of the query left out"


def test_many_words_are_missed_only_where_words_are_looked_for(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    hybrid.embed()
    query = " ".join(f"word{number}" for number in range(300))
    assert [one.part for one in hybrid.search(query).degraded] == ["query"]
    assert hybrid.search(query, mode="vector").degraded == ()


def test_a_malformed_expression_is_one_in_every_mode(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    for mode in ("hybrid", "lexical", "vector"):  # with vectors or without
        with pytest.raises(QuerySyntax):
            hybrid.search("'harbour AND'", mode=mode)
    hybrid.embed()
    for mode in ("hybrid", "lexical", "vector"):
        with pytest.raises(QuerySyntax):
            hybrid.search("'harbour AND'", mode=mode)
        assert hybrid.search("'harbour AND'", mode=mode, malformed="empty").hits == ()
        assert hybrid.search("'harbour AND boat'", mode=mode).hits


# --- vectors from callers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [[10**400] * 64, b"abc", b"12345678", bytearray(8), "abc", 5, {1: 2.0}, {1.0}, ["x"],
            [None], [[1.0]], object(), (value for value in (1.0, 2.0))],
)  # fmt: skip
def test_an_invalid_embedding(hybrid: KnowledgeBase, bad: Any) -> None:
    fill(hybrid)
    hybrid.embed()
    for ask in (hybrid.search_vector, hybrid.search_hybrid):
        with pytest.raises(InvalidRequest) as error:
            ask("harbour", embedding=bad)
        assert error.value.hint


@pytest.mark.parametrize("threshold", [10**400, math.nan, math.inf, "0.5", True, []])
def test_an_invalid_threshold(hybrid: KnowledgeBase, threshold: Any) -> None:
    fill(hybrid)
    with pytest.raises(InvalidRequest, match="threshold"):
        hybrid.search("harbour", threshold=threshold)


def test_k_and_other_settings_of_a_hybrid_search(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    hybrid.embed()
    first = hybrid.search_hybrid("harbour keys", k=1, settings={"candidates": "3x"})[0]
    assert first.score == pytest.approx(1.0)  # 1 / (1 + 1), twice
    other = hybrid.search_hybrid("harbour keys", k=1, settings={"k": 3})[0]
    assert other.score == pytest.approx(0.5)
    with pytest.raises(InvalidRequest):
        hybrid.search_hybrid("harbour keys", settings=[("k", 1)])


def test_an_embedding_of_a_billion_numbers(hybrid: KnowledgeBase) -> None:
    with pytest.raises(InvalidRequest, match="more than 65,536 numbers"):
        hybrid.search_vector(embedding=range(10**9))
