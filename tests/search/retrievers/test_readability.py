"""Passages and queries that the model cannot read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.models.registry import _reads as READS  # noqa: N812  # replaced by a fixture
from kb.search.retrievers.base import Candidates
from kb.search.retrievers.readability import remove_unreadable, unread_language
from kb.types import ScoredChunk
from tests.models.weightless import Weightless, unexamined

JAPANESE = (
    "来週の金曜日に東京でデータベースの移行を行います。git stash も使います。"
    "サーバーを止めてから、新しい機械に写して、動作を確かめます。"
)
ENGLISH = "git stash keeps changes for later, and git stash pop brings them back"
SPANISH = "¿Cómo puedo guardar los cambios para más tarde con git stash? Esto es lo que se hace."
QUESTION = "¿Cómo puedo recuperar los cambios de git stash?"


def latin(languages: tuple[str, ...] = ()) -> Weightless:
    encoder = Weightless()
    encoder.spec = replace(encoder.spec, scripts=("Latin",), languages=languages)
    return encoder


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase(
        tmp_path / "kb.sqlite", encoder=latin(("en",)), config=unexamined()
    ) as opened:
        for title, text in (("ja", JAPANESE), ("en", ENGLISH), ("es", SPANISH)):
            opened.add(text, title=title)
        opened.embed()
        yield opened


def model_lists(kb: KnowledgeBase, query: str, **options: str) -> set[str]:
    """The titles of hits that a retriever with a model returned."""
    hits = kb.search(query, **options).hits  # type: ignore[arg-type]
    return {hit.title for hit in hits if hit.embedding_model is not None}


def test_a_passage_in_another_script_is_not_in_the_lists_of_the_model(kb: KnowledgeBase) -> None:
    assert "ja" not in model_lists(kb, "git stash")
    assert "en" in model_lists(kb, "git stash")
    assert "ja" in {hit.title for hit in kb.search("git stash").hits}, "found by its words"
    for mode in ("vector", "sparse"):
        assert "ja" not in {hit.title for hit in kb.search("git stash", mode=mode).hits}


def test_a_query_in_a_language_that_the_model_does_not_read(kb: KnowledgeBase) -> None:
    response = kb.search(QUESTION)
    details = {one.detail for one in response.degraded if one.reason == "query_language"}
    (detail,) = details
    assert str(detail).startswith("the query seems to be in Spanish; weightless reads English")
    assert model_lists(kb, QUESTION) == {"en"}, "the Spanish passage is found by its words"
    assert response.hits[0].title == "es"


def test_an_installed_model_that_reads_the_query_is_named(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("kb.models.registry._reads", READS)
        _check_suggestions(kb)
    assert not any("reindex" in str(one.detail) for one in kb.search(QUESTION).degraded)


def _check_suggestions(kb: KnowledgeBase) -> None:
    for query, reason in ((QUESTION, "query_language"), ("東京でデータベース", "language")):
        (detail,) = {one.detail for one in kb.search(query).degraded if one.reason == reason}
        assert str(detail).endswith("; kb-mini 3 reads it: kb reindex --model kb-mini")
    (detail,) = {one.detail for one in kb.search("Où est-ce que le café est-il, là ?").degraded}
    assert "French" in str(detail)


def test_vectors_alone_still_answer_a_query_in_another_language(kb: KnowledgeBase) -> None:
    response = kb.search(QUESTION, mode="vector")
    assert "es" in {hit.title for hit in response.hits}
    assert {one.reason for one in response.degraded} == {"query_language"}


def test_a_model_that_declares_nothing_reads_everything(tmp_path: Path) -> None:
    config = unexamined()
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless(), config=config) as kb:
        kb.add(JAPANESE, title="ja")
        kb.embed()
        assert model_lists(kb, "git stash") == {"ja"}
        assert not kb.search(QUESTION).degraded


def test_many_unreadable_passages_do_not_hide_readable_ones(tmp_path: Path) -> None:
    config = unexamined(profiles={"short": {"candidates": 4, "retrievers": ["dense"], "top": 3}})
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=latin(), config=config) as kb:
        for number in range(9):
            kb.add(f"stash 移行 {number} " + "来週の金曜日に東京で" * 3, title="ja")
        kb.add("a longer text about trees that also mentions one stash", title="en")
        kb.embed()
        assert [hit.title for hit in kb.search("stash", profile="short").hits] == ["en"]


def test_unread_language() -> None:
    assert unread_language(QUESTION, ("en",)) == "es"
    assert unread_language(QUESTION, ("en", "es")) is None
    assert unread_language(QUESTION, ()) is None
    assert unread_language("how can I get the changes back", ("en",)) is None


@given(
    st.lists(st.integers(1, 30), unique=True),
    st.sets(st.integers(1, 30)),
    st.integers(1, 10),
)
def test_removal(ids: list[int], unreadable: set[int], limit: int) -> None:
    ranked = tuple(ScoredChunk(each, 1.0 / rank, rank) for rank, each in enumerate(ids, 1))
    lists = {"lexical": Candidates(ranked), "dense": Candidates(ranked)}
    removed = remove_unreadable(lists, unreadable, limit)
    kept = [each for each in ids if each not in unreadable][:limit]
    assert [one.chunk_id for one in removed["lexical"].ranked] == ids[:limit]
    assert [one.chunk_id for one in removed["dense"].ranked] == kept
    assert [one.rank for one in removed["dense"].ranked] == list(range(1, len(kept) + 1))
