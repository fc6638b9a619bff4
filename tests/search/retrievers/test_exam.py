"""A search with a model that failed the exam uses words, and reports why."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.config import Config, ModelsConfig
from kb.errors import ModelUnfit
from kb.types import ExamMark
from tests.models.weightless import Weightless

NOTES = {
    "keys": "the harbour master keeps the keys of the gate, and the gate is shut at night",
    "boat": "a boat lies in the harbour, and the master of the boat is at the inn",
    "bread": "flour, water and salt make a loaf of bread in the heat of an oven",
    "radio": "the radio wakes in the slot that the gate of the network gives to it",
}
ASKED = "where does the master of the harbour keep the keys of the gate"


@pytest.fixture
def examined(tmp_path: Path) -> Iterator[KnowledgeBase]:
    config = Config(models=ModelsConfig(exam=True))
    with KnowledgeBase(tmp_path / "kb.sqlite", config=config, encoder=Weightless()) as kb:
        for title, text in NOTES.items():
            kb.add(text, title=title)
        kb.embed()
        yield kb


def paths(kb: KnowledgeBase, mode: str | None = None) -> list[tuple[str, int]]:
    return [(hit.doc_path, hit.rank) for hit in kb.search(ASKED, mode=mode).hits]


def test_the_embedding_run_reports_it(tmp_path: Path) -> None:
    config = Config(models=ModelsConfig(exam=True))
    with KnowledgeBase(tmp_path / "kb.sqlite", config=config, encoder=Weightless()) as kb:
        kb.add("some text")
        told = kb.embed().unfit
        assert told is not None
        assert "weightless failed kb's exam: 0 of 12 correct in English" in told
        assert kb.embed().unfit == told  # as long as it is the active model


def test_search_uses_words_and_reports_it(examined: KnowledgeBase) -> None:
    found = examined.search(ASKED)
    assert {(part.part, part.reason) for part in found.degraded} == {
        ("dense", "unfit"),
        ("sparse", "unfit"),
    }
    assert paths(examined) == paths(examined, mode="lexical")
    assert found.hits[0].score_kind == "bm25"


def test_the_status_reports_it_before_any_search(examined: KnowledgeBase) -> None:
    (model,) = examined.status()["vectors"]["models"]
    assert "weightless failed kb's exam" in model["unfit"]


def test_vector_mode_still_uses_the_vectors(examined: KnowledgeBase) -> None:
    found = examined.search(ASKED, mode="vector")
    assert found.hits
    (told,) = found.degraded
    assert told.reason == "unfit"
    assert "guesses" in str(told.detail)


def test_only_the_scripts_it_failed_in_are_left_to_words(examined: KnowledgeBase) -> None:
    store = examined._store
    model = store.vectors.models()[0]
    marks = [ExamMark("dense", "LATIN", 12, 12), ExamMark("dense", "CJK", 1, 8)]
    marks.append(ExamMark("dense", "HANGUL", 0, 8))
    store.vectors.set_exam_marks(model.model_id, marks)
    assert not examined.search(ASKED).degraded
    (told,) = examined.search("港口的钥匙在哪里").degraded
    assert (told.part, told.reason) == ("dense", "unfit")
    assert told.detail == "weightless failed kb's exam: 1 of 8 correct in Chinese"


@pytest.mark.parametrize("query", ["где ключи", "κλειδιά της πύλης", "مفاتيح", "2026", "Ω", "🙂"])
def test_a_model_that_failed_in_every_script_is_used_in_none(
    examined: KnowledgeBase, query: str
) -> None:
    assert {part.reason for part in examined.search(query).degraded} == {"unfit"}


def test_it_does_not_rerank_either(examined: KnowledgeBase) -> None:
    found = examined.search(ASKED, profile="research")
    assert ("rerank", "unfit") in {(part.part, part.reason) for part in found.degraded}
    words = examined.search(ASKED, mode="lexical", rerank=False)
    assert [hit.doc_path for hit in found.hits] == [hit.doc_path for hit in words.hits]


def test_similar_passages_are_found_by_words(examined: KnowledgeBase) -> None:
    found = examined.similar(examined.search(ASKED).hits[0].doc_path)
    assert found.hits[0].score_kind == "bm25"
    (told,) = found.degraded
    assert (told.part, told.reason) == ("dense", "unfit")


def test_the_exam_is_taken_once(examined: KnowledgeBase) -> None:
    encoder = Weightless()
    with KnowledgeBase(examined.path, config=examined.config, encoder=encoder) as kb:
        kb.add("one more note")
        kb.embed()
    assert [len(texts) for texts in encoder.calls] == [1]


def test_without_an_exam_the_model_is_trusted(tmp_path: Path) -> None:
    config = Config(models=ModelsConfig(exam=False))
    with KnowledgeBase(tmp_path / "kb.sqlite", config=config, encoder=Weightless()) as kb:
        kb.add("some text")
        assert kb.embed().unfit is None
        assert not kb.search("text").degraded


def test_marks_of_an_earlier_exam_are_ignored(examined: KnowledgeBase) -> None:
    config = Config(models=ModelsConfig(exam=False))
    with KnowledgeBase(examined.path, config=config, encoder=Weightless()) as kb:
        assert kb.embed().unfit is None
        assert not kb.search(ASKED).degraded


def test_marks_move_with_the_store(examined: KnowledgeBase, tmp_path: Path) -> None:
    examined.export(tmp_path / "all.jsonl", vectors=True)
    with KnowledgeBase(tmp_path / "other.sqlite", config=examined.config) as other:
        other.import_(tmp_path / "all.jsonl")
        (theirs,), (ours,) = other._store.vectors.models(), examined._store.vectors.models()
        assert theirs.marks == ours.marks is not None


@pytest.mark.parametrize(
    "damaged",
    [
        "no JSON",
        "{}",
        "7",
        '["abcd"]',
        '[["dense", "LATIN", "a", "b"]]',
        '[["dense", ["LATIN"], 1, 12]]',
        '[["dense", "LATIN", null, 12]]',
        '[["dense", "LATIN", 1]]',
    ],
)
def test_unreadable_marks_are_ignored(examined: KnowledgeBase, damaged: str) -> None:
    """The next embedding run repeats the exam."""
    before = examined._store.vectors.models()[0].marks
    with closing(sqlite3.connect(examined.path)) as connection, connection:
        connection.execute("UPDATE models SET marks = ?", (damaged,))
    assert examined.status()["vectors"]["models"][0]["unfit"] is None
    assert not examined.search(ASKED).degraded
    examined.embed()
    assert examined._store.vectors.models()[0].marks == before


def test_a_model_that_reads_nothing_replaces_no_other(examined: KnowledgeBase) -> None:
    blind = Weightless(name="blind")
    with pytest.raises(ModelUnfit, match="at best 0 of 12 answers correct") as refused:
        examined.reindex(blind)
    assert "--force" in refused.value.hint
    assert [model.name for model in examined._store.vectors.models()] == ["weightless"]
    report, switched = examined.reindex(blind, force=True, grace_s=0)
    assert switched
    assert report.unfit is not None
