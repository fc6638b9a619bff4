"""Which reranker a search gets, and why it gets none. `test_rerank.py` tests its effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kb.errors import ModelMissing
from kb.ports import Encoder, Judge
from kb.search.profiles import BUILT_IN, Profile
from kb.search.query.query_encoder import QueryEncoder
from kb.search.rerank.cross_encoder import CrossEncoder
from kb.search.rerank.late_interaction import Colbert
from kb.search.rerank.selection import RerankerSelector
from kb.search.rerank.stage import RerankStage
from kb.search.results.hits import CandidateCache
from kb.search.retrievers.availability import ActiveModel
from kb.store.model_rows import ATTEMPTS
from kb.store.sqlite.store import SqliteStore
from kb.types import ModelSpec
from tests.models.judges import WordJudge
from tests.models.weightless import Weightless
from tests.store.builders import fail_chunks, put, write_vectors

COLBERT = BUILT_IN["research"]
CROSS_ENCODER = replace(COLBERT, rerank="cross-encoder", rerank_candidates=7)


class NoTokens(Weightless):
    def __init__(self) -> None:
        super().__init__()
        self.spec = ModelSpec("no-tokens", "1", 64, frozenset({"dense", "sparse"}))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """Two passages, the first of which has vectors of every kind."""
    opened = SqliteStore(tmp_path_factory.mktemp("rerankers") / "kb.sqlite")
    put(opened, "a.md", "harbour keys", "boat")
    encoder = Weightless()
    model_id = opened.vectors.use_model(encoder.spec).model_id
    (made,) = encoder.encode(["harbour keys"], want={"dense", "sparse", "tokens"})
    write_vectors(opened, model_id, [(1, made)])
    yield opened
    opened.close()


def missing() -> Any:
    raise ModelMissing("there is no such model", "see: kb models")


def stage(
    store: SqliteStore,
    profile: Profile,
    encoder: Encoder | None = None,
    judge: Judge | None = None,
    *,
    source: Any = None,
    **asked: Any,
) -> RerankStage | None:
    encoders = source or (lambda: encoder)
    kept = {"keeps_tokens": asked.pop("keeps_tokens")} if "keeps_tokens" in asked else {}
    judges = source or (lambda: judge)
    rerankers = RerankerSelector(QueryEncoder(encoders), judges, **kept)
    options: dict[str, Any] = {"explicit": False, "profile_named": False, "budget_ms": None}
    return rerankers.stage(profile, ActiveModel(store, encoders), **(options | asked))


def why(found: RerankStage | None) -> tuple[str, object]:
    assert found is not None
    assert found.reranker is None
    ((part, reason, detail),) = ((one.part, one.reason, one.detail) for one in found.degraded)
    assert part == "rerank"
    return reason, detail


def test_a_profile_without_one(store: SqliteStore) -> None:
    assert stage(store, BUILT_IN["default"], Weightless(), WordJudge(), explicit=True) is None


def test_the_judge_of_the_cross_encoder(store: SqliteStore) -> None:
    found = stage(store, CROSS_ENCODER, judge=WordJudge(), budget_ms=300)
    assert found is not None
    assert isinstance(found.reranker, CrossEncoder)
    assert found.reranker.model == "word-judge"
    assert (found.name, found.candidates, found.blend) == ("cross-encoder", 7, 0.5)
    assert (found.degraded, found.budget_ms, found.warns_of_expression) == ((), 300, False)


def test_colbert_by_the_vectors_of_the_store(store: SqliteStore) -> None:
    found = stage(store, COLBERT, Weightless())
    assert found is not None
    assert isinstance(found.reranker, Colbert)
    assert found.reranker.model == "weightless"
    assert (found.name, found.candidates, found.blend) == ("colbert", 100, 0.5)
    assert found.budget_ms is None
    scores = found.reranker.scores("harbour", [1, 2], CandidateCache(store))
    assert set(scores) == {1}  # the other one will have token vectors later


def test_scripts_are_those_of_the_encoder(store: SqliteStore) -> None:
    encoder = Weightless()
    encoder.spec = replace(encoder.spec, scripts=("Latin",))
    found = stage(store, COLBERT, encoder)
    assert found is not None
    assert found.reranker is not None
    assert found.reranker.scripts == ("Latin",)


def test_an_expression_is_reported_without_a_lexical_retriever(store: SqliteStore) -> None:
    meaning = replace(COLBERT, retrievers=("dense",))
    found = stage(store, meaning, Weightless())
    assert found is not None
    assert found.warns_of_expression


def test_token_vectors_that_are_no_longer_stored(store: SqliteStore, tmp_path: Path) -> None:
    """Passages that have them are compared; others are not reported. If no passage has any,
    reranking is disabled."""
    found = stage(store, COLBERT, Weightless(), keeps_tokens=False)
    assert found is not None
    assert found.reranker is not None
    assert found.reranker.scores("harbour", [1, 2], CandidateCache(store))[2] is None
    bare = SqliteStore(tmp_path / "bare.sqlite")
    put(bare, "a.md", "harbour keys")
    (made,) = Weightless().encode(["harbour keys"])
    write_vectors(bare, bare.vectors.use_model(Weightless().spec).model_id, [(1, made)])
    assert stage(bare, COLBERT, Weightless(), keeps_tokens=False) is None
    asked = stage(bare, COLBERT, Weightless(), keeps_tokens=False, explicit=True)
    assert why(asked) == ("no_model", "token vectors are disabled")
    later = stage(bare, COLBERT, Weightless())
    assert later is not None
    assert later.reranker is not None
    bare.close()


@pytest.mark.parametrize("named", [False, True])
def test_a_disabled_model_is_reported_only_if_requested(store: SqliteStore, named: bool) -> None:
    assert stage(store, CROSS_ENCODER, profile_named=named) is None
    asked = stage(store, CROSS_ENCODER, profile_named=named, explicit=True)
    assert why(asked) == ("no_model", "the judge is disabled")


def test_an_encoder_that_is_switched_off(tmp_path: Path) -> None:
    empty = SqliteStore(tmp_path / "empty.sqlite")
    empty.create()
    assert stage(empty, COLBERT, None, profile_named=True) is None
    asked = stage(empty, COLBERT, None, explicit=True)
    assert why(asked) == ("no_model", "the encoder is disabled")
    empty.close()


def test_missing_token_vectors_are_reported_if_the_profile_is_named(tmp_path: Path) -> None:
    empty = SqliteStore(tmp_path / "empty.sqlite")
    put(empty, "a.md", "harbour")
    assert stage(empty, COLBERT, NoTokens()) is None
    for named in (False, True):
        found = stage(empty, COLBERT, NoTokens(), profile_named=named, explicit=not named)
        assert why(found) == ("no_model", "no-tokens does not produce token vectors")
    empty.close()


def test_pending_vectors(tmp_path: Path) -> None:
    waiting = SqliteStore(tmp_path / "waiting.sqlite")
    put(waiting, "a.md", "harbour", "keys")
    found = stage(waiting, COLBERT, Weightless())
    assert why(found) == ("pending", 2)
    waiting.close()


def test_the_first_reason_is_reported(tmp_path: Path) -> None:
    """Some vectors failed, and others are pending."""
    waiting = SqliteStore(tmp_path / "waiting.sqlite")
    put(waiting, "a.md", "harbour", "keys")
    model_id = waiting.vectors.use_model(Weightless().spec).model_id
    for _ in range(ATTEMPTS):
        fail_chunks(waiting, model_id, [1], "cannot be encoded")
    status = ActiveModel(waiting, Weightless).status("dense")
    assert [part.reason for part in status.degraded] == ["pending", "failed"]
    assert why(stage(waiting, COLBERT, Weightless())) == ("pending", 1)
    waiting.close()


def test_nothing_to_embed_yet(tmp_path: Path) -> None:
    empty = SqliteStore(tmp_path / "empty.sqlite")
    empty.create()
    assert why(stage(empty, COLBERT, Weightless())) == ("pending", 0)
    empty.close()


@pytest.mark.parametrize("profile", [COLBERT, CROSS_ENCODER], ids=lambda one: one.rerank)
def test_a_missing_model_is_always_reported(store: SqliteStore, profile: Profile) -> None:
    found = stage(store, profile, source=missing)
    assert why(found)[0] == "no_model"
    assert "there is no such model" in str(why(found)[1])
