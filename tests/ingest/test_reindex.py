"""Switching to another model: which vectors answer searches, which are kept, which are dropped."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.errors import InvalidRequest, ModelBroken, ModelMissing, NotFound, StoreMissing
from kb.search.searcher import Searcher
from kb.types import Encoding, SearchRequest
from tests.models.weightless import Weightless
from tests.store.builders import sqlite_store

OLD, NEW = Weightless(), Weightless(32, name="second")


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as opened:
        for number in range(30):
            opened.add(f"note number {number}")
        opened.embed()
        yield opened


def roles(kb: KnowledgeBase) -> dict[str, tuple[str | None, int]]:
    return {one.name: (one.role, one.ready) for one in kb._store.vectors.models()}


def answers_by(kb: KnowledgeBase) -> str | None:
    found = kb.search("note number 7", mode="vector", profile="notes")
    assert found.degraded == ()
    assert found.hits[0].chunk_id == 8
    (name,) = {hit.embedding_model for hit in found.hits}
    return name


def test_a_change_of_the_model(kb: KnowledgeBase) -> None:
    before = kb.index_version()["dense"]
    report, switched = kb.reindex(NEW, grace_s=0)
    assert switched
    assert (report.model, report.embedded, report.left) == ("second", 30, 0)
    assert roles(kb) == {"second": ("search", 30)}
    assert answers_by(kb) == "second"
    assert kb.index_version()["dense"] != before
    kb.add("one more")
    assert kb.embed().model == "second"
    assert [one for one in kb.doctor().findings if one.state == "error"] == []


def test_made_anew_they_are_of_the_same_model(kb: KnowledgeBase) -> None:
    kb.reindex(NEW, grace_s=0)
    report = kb.embed(anew=True)
    assert (report.model, report.embedded) == ("second", 30)
    assert [(one.name, one.source) for one in kb._store.vectors.models()] == [("second", "second")]
    assert answers_by(kb) == "second"


def test_again_is_nothing(kb: KnowledgeBase) -> None:
    kb.reindex(NEW, grace_s=0)
    report, switched = kb.reindex(NEW, grace_s=0)
    assert (report.embedded, switched) == (0, True)


def test_the_old_ones_are_kept_if_asked_for(kb: KnowledgeBase) -> None:
    kb.reindex(NEW, keep_old=True)
    assert roles(kb) == {"second": ("search", 30), "weightless": (None, 30)}
    kb.add("one more")
    kb.embed()
    assert roles(kb)["weightless"] == (None, 30)  # no search uses it
    report, switched = kb.reindex(Weightless(), grace_s=0)
    assert (report.embedded, switched) == (1, True)  # the rest existed
    assert roles(kb) == {"weightless": ("search", 31)}
    assert answers_by(kb) == "weightless"


def test_until_it_is_done_the_old_ones_answer(kb: KnowledgeBase) -> None:
    asked = iter([False, False, True, True, True])
    report, switched = kb.reindex(NEW, stop=lambda: next(asked, True))
    assert (report.embedded, switched) == (16, False)
    assert roles(kb) == {"weightless": ("search", 30), "second": ("next", 16)}
    assert answers_by(kb) == "weightless"
    kb.add("added meanwhile")
    assert kb.embed().model == "weightless"
    assert roles(kb) == {"weightless": ("search", 31), "second": ("next", 16)}
    work = {one.model.name: one.model.pending for one in kb.jobs().work}
    assert work == {"weightless": 0, "second": 15}
    report, switched = kb.reindex(NEW, grace_s=0)
    assert (report.embedded, switched) == (15, True)
    assert roles(kb) == {"second": ("search", 31)}


def test_what_comes_while_it_is_built_is_waited_for(kb: KnowledgeBase) -> None:
    came = iter(["one", "two"])

    def add(_: object) -> None:
        if (text := next(came, None)) is not None:
            kb.add(text)

    report, switched = kb.reindex(NEW, grace_s=0, on_progress=add)
    assert (report.embedded, switched) == (32, True)


def test_no_switch_while_others_are_at_work_on_some(kb: KnowledgeBase) -> None:
    model = kb._store.vectors.begin_switch(NEW.spec, None)
    job = kb._store.queue.start_job(model.model_id)
    kb._store.queue.lease(job, model.model_id, limit=3)
    report, switched = kb.reindex(NEW, grace_s=0)
    assert (switched, report.embedded, report.left, report.elsewhere) == (False, 27, 3, 3)
    assert answers_by(kb) == "weightless"
    kb._store.queue.end_job(job)
    assert kb.reindex(NEW, grace_s=0)[1]


def test_no_passage_loses_its_vectors(kb: KnowledgeBase) -> None:
    """Each attempt is a call: a model that fails for a moment costs one attempt."""
    bad = Weightless(32, name="second", fails_on=["note"])
    for left, given_up in ((30, 0), (30, 0), (0, 30), (0, 30)):
        report, switched = kb.reindex(bad, grace_s=0)
        assert (report.embedded, report.left, report.given_up) == (0, left, given_up)
        assert not switched
        assert answers_by(kb) == "weightless"
        assert report.held is not None
        assert "second 1 could not embed 30 passages (second failed" in report.held
        assert "--force" in report.held
        assert ("kb jobs retry" in report.held) is bool(given_up)
    kb._services.embedding.step(retry=False, stop=lambda: False, on_progress=lambda _: None)
    assert roles(kb) == {"weightless": ("search", 30), "second": ("next", 0)}
    assert not kb.reindex(bad, grace_s=0, force=True)[1]  # there is nothing to switch to
    assert kb.retry() == 30
    bad.fails_on = frozenset()
    report, switched = kb.reindex(bad, grace_s=0)
    assert (report.embedded, report.held, switched) == (30, None, True)


def test_a_passage_that_the_old_model_failed_with_too_does_not_hold_it_up(tmp_path: Path) -> None:
    poison = ["poison"]
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless(fails_on=poison)) as kb:
        kb.add("poison")
        kb.add("water")
        kb.embed()
        new = Weightless(32, name="second", fails_on=poison)
        assert [kb.reindex(new, grace_s=0)[1] for _ in range(3)] == [False, False, True]
        assert roles(kb) == {"second": ("search", 1)}


def test_what_a_model_fails_with_can_be_done_without(kb: KnowledgeBase) -> None:
    bad = Weightless(32, name="second", fails_on=["7"])
    assert not kb.reindex(bad, grace_s=0)[1]
    report, switched = kb.reindex(bad, grace_s=0, force=True)
    assert (report.held, switched) == (None, True)
    assert roles(kb) == {"second": ("search", 29)}


@pytest.mark.parametrize("given", [None, 5, [], "", Weightless])
def test_what_is_no_encoder(kb: KnowledgeBase, given: Any) -> None:
    with pytest.raises(InvalidRequest):
        kb.reindex(given)
    assert roles(kb) == {"weightless": ("search", 30)}


@pytest.mark.parametrize("grace_s", [-1, float("nan"), float("inf"), "1", True])
def test_a_time_that_cannot_be_waited(kb: KnowledgeBase, grace_s: Any) -> None:
    with pytest.raises(InvalidRequest):
        kb.reindex(NEW, grace_s=grace_s)
    assert roles(kb) == {"weightless": ("search", 30)}


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "mistyped.sqlite", encoder=Weightless()) as kb:
        deeds: list[Callable[[], object]] = [
            kb.embed, lambda: kb.embed(anew=True), lambda: kb.reindex(NEW), kb.retry,
        ]  # fmt: skip
        for deed in deeds:
            with pytest.raises(StoreMissing):
                deed()
        assert not kb.path.exists()


class Mute(Weightless):
    def encode(self, *_: object, **__: object) -> list[Encoding]:
        return []


def test_a_model_that_makes_no_vectors_changes_nothing(kb: KnowledgeBase) -> None:
    with pytest.raises(ModelBroken):
        kb.reindex(Mute(32, name="second"))
    with pytest.raises(ModelMissing):
        kb.reindex("none")
    assert roles(kb) == {"weightless": ("search", 30)}


def half_built(kb: KnowledgeBase, encoder: Weightless, **options: Any) -> None:
    asked = iter([False, True, True])
    report, switched = kb.reindex(encoder, stop=lambda: next(asked, True), **options)
    assert (report.embedded, report.held, switched) == (
        8, "22 passages left: run the command again", False,
    )  # fmt: skip


def test_a_third_model_takes_the_place_of_the_second(kb: KnowledgeBase) -> None:
    half_built(kb, NEW)
    half_built(kb, Weightless(16, name="third"))
    assert roles(kb) == {"weightless": ("search", 30), "third": ("next", 8)}
    kb.reindex(Weightless(16, name="third"), grace_s=0)
    assert roles(kb) == {"third": ("search", 30)}


def test_back_to_the_one_that_answers_ends_it(kb: KnowledgeBase) -> None:
    half_built(kb, NEW)
    assert kb.reindex(Weightless(), grace_s=0)[1]
    assert roles(kb) == {"weightless": ("search", 30)}
    kb._services.embedding.step(retry=False, stop=lambda: False, on_progress=lambda _: None)
    assert roles(kb) == {"weightless": ("search", 30)}


def test_one_whose_place_was_taken_meanwhile(kb: KnowledgeBase) -> None:
    def back(_: object) -> None:
        kb.reindex(Weightless(), grace_s=0)

    report, switched = kb.reindex(NEW, grace_s=0, on_progress=back)
    assert not switched
    assert report.held == "a switch to another model has replaced this one"
    assert roles(kb) == {"weightless": ("search", 30)}
    with pytest.raises(NotFound):
        kb._store.queue.start_job(2)


def test_a_store_without_vectors(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "new.sqlite", encoder=Weightless()) as kb:
        kb.add("a note")
        assert kb.reindex(NEW, grace_s=0)[1]
        assert roles(kb) == {"second": ("search", 1)}


def test_dropping_that_was_interrupted_goes_on(kb: KnowledgeBase) -> None:
    asked = iter([False] * 9)
    kb.reindex(NEW, keep_old=True, stop=lambda: next(asked, False))
    with sqlite_store(kb)._database.writing() as connection:
        connection.execute("UPDATE models SET role = 'gone' WHERE role IS NULL")
    assert kb._store.vectors.drop_retired(limit=10)
    assert roles(kb) == {"second": ("search", 30), "weightless": ("gone", 20)}
    assert answers_by(kb) == "second"
    kb.reindex(NEW, grace_s=0)
    assert roles(kb) == {"second": ("search", 30)}
    with sqlite_store(kb)._database.reading() as connection:
        for table in ("sparse_chunks", "sparse_pending"):
            sql = f"SELECT count(*) FROM {table} WHERE model_id <> 2"
            assert connection.execute(sql).fetchone() == (0,)
    assert sqlite_store(kb).maintenance.integrity.vectors.postings_fault() is None


def test_a_worker_that_makes_the_last_ones_lets_them_answer(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_built(kb, NEW)
    step = partial(kb._services.embedding.step, retry=False, on_progress=lambda _: None)
    asked = iter([False, False, False, True])
    step(stop=lambda: next(asked, True))
    assert roles(kb)["weightless"] == ("search", 30)
    step(stop=lambda: False)
    # A search may have begun with the old ones.
    assert roles(kb) == {"weightless": ("gone", 30), "second": ("search", 30)}
    assert answers_by(kb) == "second"
    monkeypatch.setattr("kb.embedding.reindex.GRACE_S", 0.0)
    step(stop=lambda: False)
    assert roles(kb) == {"second": ("search", 30)}


def test_a_worker_keeps_the_old_ones_if_that_was_asked_for(kb: KnowledgeBase) -> None:
    half_built(kb, NEW, keep_old=True)
    kb._services.embedding.step(retry=False, stop=lambda: False, on_progress=lambda _: None)
    assert roles(kb) == {"weightless": (None, 30), "second": ("search", 30)}
    assert kb.reindex(NEW, grace_s=0)[1]
    assert roles(kb) == {"weightless": (None, 30), "second": ("search", 30)}


def test_a_change_that_a_worker_ends_while_others_wait(kb: KnowledgeBase) -> None:
    """This happens with `kb reindex` beside `kb serve`: one has embedded all it could, the other
    embeds the rest."""
    model = kb._store.vectors.begin_switch(NEW.spec, "second")
    kb._services.embedding.encoders.register("second", NEW)
    job = kb._store.queue.start_job(model.model_id)
    kb._store.queue.lease(job, model.model_id, limit=3)
    report, switched = kb.reindex(NEW, grace_s=0)
    assert not switched
    assert report.held is not None
    assert report.held.startswith("other workers are embedding 3 passages")
    kb._store.queue.end_job(job)
    kb._services.embedding.step(retry=False, stop=lambda: False, on_progress=lambda _: None)
    assert roles(kb)["second"] == ("search", 30)


def test_an_encoder_that_is_given_again_is_used_again(kb: KnowledgeBase) -> None:
    kb.reindex(NEW, grace_s=0)
    kb.close()
    with KnowledgeBase(kb.path, encoder=NEW) as again:
        assert answers_by(again) == "second"
        half_built(again, Weightless())
    with KnowledgeBase(kb.path, encoder=Weightless()) as again:
        assert (
            again._services.embedding.encoders.next()
            is again._services.embedding.encoders.default()
        )


def test_a_search_ends_with_the_encoder_it_began_with(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if its threads see the store after the switch."""
    monkeypatch.setattr("kb.search.retrievers.model_retriever.SLOW_FROM", 0)
    here = threading.current_thread()
    searcher = Searcher(
        kb._store, kb.config, time.time, lambda: OLD if threading.current_thread() is here else NEW
    )
    found = searcher.search(
        SearchRequest("note number 7", mode="hybrid", profile="research", rerank="none")
    )
    assert found.degraded == ()
    assert found.hits[0].retrieval.vector_score == pytest.approx(1.0)
    searcher.close()


def test_an_export_knows_whose_vectors_they_are(kb: KnowledgeBase, tmp_path: Path) -> None:
    kb.reindex(NEW, keep_old=True)
    stream = io.BytesIO()
    kb.export(stream, vectors=True)
    with KnowledgeBase(tmp_path / "copy.sqlite", encoder=Weightless()) as copy:
        copy._services.embedding.encoders.register("second", NEW)
        copy.import_(io.BytesIO(stream.getvalue()))
        assert copy._store.vectors.models() == kb._store.vectors.models()
        assert answers_by(copy) == "second"
