"""The embedder over a real store: what it writes, what it skips, and what stops it."""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.embedding.embedder import Embedder, EmbedProgress
from kb.errors import InvalidRequest, ModelBroken, ModelError, ModelMismatch
from kb.models import manifest
from kb.models.onnx_encoder import OnnxEncoder
from kb.ports import Encoder
from kb.store.sqlite.store import SqliteStore
from kb.types import EmbedCounts, Encoding, Outcome, TokenVectors
from tests.conftest import Clock
from tests.models import tiny
from tests.models.weightless import Weightless
from tests.store.builders import pending_chunks, put, sqlite_store

WORDS = "radio buoy battery sleep window slot salt water sensor drift clock hull".split()


class Watched(SqliteStore):
    """Records how many rows each transaction wrote."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.commits: list[int] = []

        finish = self.queue.finish

        def record(job_id: int, model_id: int, outcomes: Sequence[Outcome]) -> EmbedCounts:
            written = finish(job_id, model_id, outcomes)
            self.commits.append(sum(written))
            return written

        self.queue.finish = record  # type: ignore[method-assign]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Watched]:
    store = Watched(tmp_path / "kb.sqlite")
    yield store
    store.close()


def fill(store: SqliteStore, count: int, name: str = "a.md") -> None:
    put(store, name, *(f"{WORDS[n % len(WORDS)]} number {n}" for n in range(count)))


def vectors(store: SqliteStore) -> dict[int, array[float]]:
    (model,) = store.vectors.models()
    return store.vectors.dense_vectors(model.model_id, range(1, 10_000))


def asked(store: SqliteStore, encoder: Encoder) -> list[str]:
    """The texts that the store hands out to be embedded."""
    model = store.vectors.use_model(encoder.spec)
    return [each.text for each in pending_chunks(store, model.model_id, limit=10_000)]


# --- behavior -------------------------------------------------------------------------------------


def test_every_chunk_gets_the_vector_of_its_text(store: Watched) -> None:
    fill(store, 30)
    texts = asked(store, Weightless())
    report = Embedder(store, Weightless()).run()
    assert (report.model, report.embedded, report.failed, report.left) == ("weightless", 30, 0, 0)
    (model,) = store.vectors.models()
    assert (model.ready, model.pending) == (30, 0)
    expected = [each.dense for each in Weightless().encode(texts)]
    assert [pytest.approx(vector) for vector in vectors(store).values()] == expected


def test_it_commits_every_hundred_in_units_of_eight(store: Watched) -> None:
    """[002 R9.2, R9.3]"""
    fill(store, 250)
    encoder = Weightless()
    Embedder(store, encoder).run()
    assert store.commits == [100, 100, 50]
    assert max(map(len, encoder.calls)) == 8


def test_a_slow_model_commits_more_often(store: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """This way `kb jobs` shows progress, and a killed process loses only seconds of work."""
    monkeypatch.setattr("kb.embedding.embedder.COMMIT_S", -1.0)
    fill(store, 24)
    seen: list[int] = []

    def hear(_: EmbedProgress) -> None:
        seen.extend(job.done for job in store.queue.jobs())

    Embedder(store, Weightless()).run(on_progress=hear)
    assert store.commits == [8, 8, 8]
    assert seen == [8, 16, 24]


class Foreign(Weightless):
    """Returns vectors in the form that `make` creates."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self.make = make

    def encode(self, texts: Sequence[str], **options: Any) -> list[Encoding]:
        return [
            Encoding(
                self.make(one.dense),
                one.sparse,
                one.tokens and TokenVectors(one.tokens.dimension, self.make(one.tokens.data)),
            )
            for one in super().encode(texts, **options)
        ]


@pytest.mark.parametrize("make", [np.array, list, tuple, lambda one: np.array(one, "f8")])
def test_numbers_of_any_type_are_accepted(tmp_path: Path, make: Callable[[Any], Any]) -> None:
    stored = []
    for number, encoder in enumerate((Weightless(), Foreign(make))):
        store = Watched(tmp_path / f"{number}.sqlite")
        fill(store, 9)
        assert Embedder(store, encoder).run().lacking == 0
        stored.append((vectors(store), store.vectors.token_vectors(1, range(10))))
        store.close()
    assert stored[0] == stored[1]


@pytest.mark.parametrize("made", [5, "text", [["a"]], np.ones((2, 64)), [1e300] * 64, object()])
def test_values_that_are_not_numbers_are_reported(store: Watched, made: object) -> None:
    fill(store, 3)
    with pytest.raises(ModelBroken, match="weightless returned"):
        Embedder(store, Foreign(lambda _: made)).run()
    assert store.vectors.models() == []


def test_results_that_are_not_encodings_are_reported(store: Watched) -> None:
    fill(store, 3)

    class Raw(Weightless):
        def encode(self, texts: Sequence[str], **_: Any) -> Any:
            return [[1.0] * 64 for _ in texts]

    with pytest.raises(ModelBroken, match="something other than vectors"):
        Embedder(store, Raw()).run()


def test_passages_without_a_token_are_done(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as kb:
        for text in ("???", "\N{FIRE}", "salt water"):
            kb.add(text)
        assert kb.embed().lacking == 0
        (model,) = kb._store.vectors.models()
        assert (model.ready, model.sparse, model.tokens) == (3, 3, 3)
        assert not kb._store.queue.has_work(1, frozenset({"sparse", "tokens"}))
        tokens = kb._store.vectors.token_vectors(1, [1, 2, 3])
        assert [len(one) for one in tokens.values()] == [0, 0, 2]
        found = kb.search("salt", mode="vector", profile="notes", rerank="colbert")
        assert (len(found.hits), found.degraded) == (3, ())


@pytest.mark.parametrize("limit", [-1, "x", 1.5, True])
def test_an_invalid_limit(tmp_path: Path, limit: Any) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as kb:
        kb.add("a note")
        with pytest.raises(InvalidRequest):
            kb.embed(limit=limit)
        assert kb._store.vectors.models() == []


def test_embedded_chunks_are_skipped(store: Watched) -> None:
    fill(store, 20)
    Embedder(store, Weightless()).run()
    again = Weightless()
    report = Embedder(store, again).run()
    assert (report.embedded, again.calls) == (0, [])
    fill(store, 3, "b.md")
    assert Embedder(store, again).run().embedded == 3


def test_an_empty_store(store: Watched) -> None:
    store.create()
    report = Embedder(store, Weightless()).run()
    assert (report.embedded, report.left) == (0, 0)


def test_progress(store: Watched) -> None:
    """[002 R9.4]"""
    fill(store, 20)
    seen: list[EmbedProgress] = []
    Embedder(store, Weightless(), batch_size=6).run(on_progress=seen.append)
    assert [(now.done, now.total) for now in seen] == [(6, 20), (12, 20), (18, 20), (20, 20)]
    assert all(now.per_second > 0 for now in seen)


def test_more_parts_on_request(store: Watched) -> None:
    fill(store, 2)
    Embedder(store, Weightless(), want={"sparse", "tokens"}).run()
    vectors = store.vectors.dense_vectors(1, [1, 2])
    weights = store.vectors.sparse_vectors(1, [1, 2])
    tokens = store.vectors.token_vectors(1, [1, 2])
    for one in (1, 2):
        assert len(vectors[one]) == 64
        assert "number" in weights[one]
        assert len(tokens[one]) == len(weights[one])


def test_truncated_texts_are_counted(store: Watched) -> None:
    fill(store, 2)
    put(store, "long.md", "radio " * 20)
    assert Embedder(store, Weightless(max_tokens=10)).run().truncated == 1


@given(limits=st.lists(st.integers(1, 15), max_size=6), size=st.integers(1, 9))
def test_in_several_runs(tmp_path_factory: Any, limits: list[int], size: int) -> None:
    store = Watched(tmp_path_factory.mktemp("store") / "kb.sqlite")
    fill(store, 40)
    left = 40
    for limit in limits:
        report = Embedder(store, Weightless(), batch_size=size, commit_chunks=7).run(limit=limit)
        left -= report.embedded
        assert (report.embedded, report.left) == (min(limit, left + report.embedded), left)
    assert Embedder(store, Weightless(), batch_size=size).run().embedded == left
    assert len(vectors(store)) == 40
    store.close()


def test_it_stops_on_request(store: Watched) -> None:
    fill(store, 50)
    asked = iter([False, False, True])
    report = Embedder(store, Weightless()).run(stop=lambda: next(asked))
    assert report.embedded == 16
    assert report.left == 34


# --- concurrent changes ---------------------------------------------------------------------------


class Meddling(Weightless):
    """Changes the store once, after it has encoded a batch."""

    def __init__(self, deed: Any) -> None:
        super().__init__()
        self._deeds = [deed]

    def encode(self, texts: Sequence[str], **settings: Any) -> list[Encoding]:
        if len(self.calls) > 1:
            with suppress(IndexError):  # another thread did it
                self._deeds.pop()()
        return super().encode(texts, **settings)


def test_chunks_removed_meanwhile(store: Watched) -> None:
    doc_id = put(store, "a.md", *WORDS)
    fill(store, 20, "b.md")
    report = Embedder(store, Meddling(lambda: store.catalog.delete_documents([doc_id]))).run()
    assert report.embedded == 20
    assert report.left == 0


def test_chunks_added_meanwhile(store: Watched) -> None:
    fill(store, 20)
    report = Embedder(store, Meddling(lambda: fill(store, 5, "b.md"))).run()
    assert report.left == 0
    assert report.embedded == 25


# --- failures -------------------------------------------------------------------------------------


def test_a_text_that_fails_alone(store: Watched) -> None:
    fill(store, 20)
    put(store, "bad.md", "poison in the water")
    put(store, "good.md", "salt water")
    encoder = Weightless(fails_on=["poison"])
    report = Embedder(store, encoder).run()
    assert (report.embedded, report.failed, report.left) == (21, 1, 1)
    assert 21 not in vectors(store)
    row = apsw.Connection(str(store.path)).execute(
        "SELECT attempts, error FROM embeddings WHERE state <> 'ready'"
    )
    assert row.fetchall() == [(1, "weightless failed: RuntimeError: cannot take ['poison']")]


def test_after_a_few_attempts_it_has_failed(store: Watched) -> None:
    put(store, "bad.md", "poison")
    for _ in range(5):
        report = Embedder(store, Weightless(fails_on=["poison"])).run()
    assert (report.failed, report.left) == (0, 0)
    (model,) = store.vectors.models()
    assert (model.failed, model.pending) == (1, 0)


class Strange(Weightless):
    """An encoder that returns nonsense after its first `sane` calls."""

    def __init__(self, result: list[Encoding], sane: int = 0) -> None:
        super().__init__()
        self._result = result
        self._sane = sane

    def encode(
        self, texts: Sequence[str], *, want: Set[str] = frozenset({"dense"}), **settings: Any
    ) -> list[Encoding]:
        encodings = super().encode(texts, want=want, **settings)
        return encodings if len(self.calls) <= self._sane else self._result


USELESS = [
    [],
    [Encoding()],
    [Encoding(dense=array("f", [0.0] * 64))],
    [Encoding(dense=array("f", [1.0] * 63))],
    [Encoding(dense=array("f", [float("nan")] * 64))],
    [Encoding(dense=array("f", [float("inf"), float("-inf")] * 32))],
]


@pytest.mark.parametrize("result", USELESS)
def test_a_model_without_vectors_leaves_no_trace(store: Watched, result: list[Encoding]) -> None:
    fill(store, 3)
    with pytest.raises(ModelBroken, match="returned no usable dense vector"):
        Embedder(store, Strange(result)).run()
    assert store.vectors.models() == []
    assert store.commits == []


def test_a_model_that_breaks_during_the_run(store: Watched) -> None:
    """It does not count as a failure of a text, and finished vectors are kept."""
    fill(store, 40)
    with pytest.raises(ModelBroken):
        Embedder(store, Strange([], sane=1 + 2), batch_size=8).run()
    (model,) = store.vectors.models()
    assert model.failed == 0
    assert model.ready == sum(store.commits)
    rows = apsw.Connection(str(store.path)).execute("SELECT DISTINCT state FROM embeddings")
    assert rows.fetchall() in ([], [("ready",)])
    assert Embedder(store, Weightless()).run().left == 0


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_damaged_model_stores_nothing(store: Watched, tmp_path: Path, name: str) -> None:
    fill(store, 3)
    folder = tiny.lay(tmp_path / "tiny")
    (folder / name).write_bytes(b"")
    with pytest.raises(ModelError) as error:
        Embedder(store, OnnxEncoder(manifest.read(folder))).run()
    assert error.value.hint
    assert (store.vectors.models(), store.commits) == ([], [])


def test_another_model_is_refused(store: Watched) -> None:
    fill(store, 3)
    Embedder(store, Weightless()).run()
    with pytest.raises(ModelMismatch):
        Embedder(store, Weightless(version="2")).run()
    assert len(store.commits) == 1


def test_a_real_graph(store: Watched, tmp_path: Path) -> None:
    fill(store, 30)
    encoder = OnnxEncoder(manifest.read(tiny.lay(tmp_path / "tiny")), threads=2)
    texts = asked(store, encoder)
    assert Embedder(store, encoder).run().embedded == 30
    for vector, alone in zip(vectors(store).values(), encoder.encode(texts), strict=True):
        assert vector == pytest.approx(alone.dense)


# --- interruption ---------------------------------------------------------------------------------


class Interrupted(Weightless):
    """Raises `KeyboardInterrupt` while the tenth batch is encoded."""

    def encode(self, texts: Sequence[str], **settings: Any) -> list[Encoding]:
        if len(self.calls) == 10:
            raise KeyboardInterrupt
        return super().encode(texts, **settings)


def test_an_interrupted_run_keeps_its_vectors_and_continues(store: Watched) -> None:
    fill(store, 200)
    with pytest.raises(KeyboardInterrupt):
        Embedder(store, Interrupted()).run()
    done = set(vectors(store))
    assert done == set(range(1, len(done) + 1))
    assert 0 < len(done) < 200
    report = Embedder(store, Weightless()).run()
    assert report.embedded == 200 - len(done)
    assert len(vectors(store)) == 200


KILLED = """
import sys
from pathlib import Path
from kb.embedding.embedder import Embedder
from kb.store.sqlite.store import SqliteStore
from tests.models.weightless import Weightless

store = SqliteStore(Path(sys.argv[1]))
def say(now):
    if now.done > 150:
        print("now", flush=True)
        sys.stdin.read()
Embedder(store, Weightless()).run(on_progress=say)
"""


def test_a_killed_run_continues_after_the_last_commit(store: Watched) -> None:
    """[002 R9.5]"""
    fill(store, 300)
    command = [sys.executable, "-c", KILLED, str(store.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        process.kill()
    assert len(vectors(store)) == 100
    assert Embedder(store, Weightless()).run().embedded == 200


# --- one document, and expired documents ----------------------------------------------------------


def _ready_of(kb: KnowledgeBase, name: str) -> int:
    (model, *_) = kb._store.vectors.models()
    ids = [chunk.chunk_id for chunk in kb.chunks(name)]
    return len(kb._store.vectors.dense_vectors(model.model_id, ids))


def test_only_the_passages_of_the_document_are_embedded(tmp_path: Path) -> None:
    """Its chunk ids lie on both sides of another document's."""
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as kb:
        put(kb._store, "old", "one", "two")
        put(kb._store, "other", "three", "four", "five")
        put(kb._store, "old", "one", "two", "six", "seven")
        progress: list[EmbedProgress] = []
        report = kb.embed(document="old", on_progress=progress.append)
        assert (report.embedded, report.left) == (4, 3)
        assert (_ready_of(kb, "old"), _ready_of(kb, "other")) == (4, 0)
        assert progress[-1].done == progress[-1].total == 4
        assert kb.embed(document="other", limit=2).embedded == 2
        assert kb.embed(document="old").embedded == 0


def test_only_the_passages_of_the_document_are_completed_and_tried_again(tmp_path: Path) -> None:
    failing = Weightless(fails_on=["bad"])
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=failing) as kb:
        for name in ("one", "two"):
            put(kb._store, name, f"{name} bad", f"{name} good")
        for _ in range(3):
            kb.embed()
        with sqlite_store(kb)._database.writing() as connection:
            connection.execute("UPDATE embeddings SET sparse = NULL")
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as kb:
        report = kb.embed(document="two", retry=True)
        assert (report.embedded, report.filled) == (1, 1)
        (model,) = kb._store.vectors.models()
        assert (model.ready, model.failed, model.no_sparse) == (3, 1, 1)


def test_expired_documents_are_neither_embedded_nor_pending(tmp_path: Path) -> None:
    clock = Clock()
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless(), clock=clock) as kb:
        kb.add("a radio that stays")
        kb.add("a buoy that goes", ttl="1h")
        clock.seconds += 7200
        assert kb.pending() == 1
        assert kb.search("radio").degraded[0].detail == 1
        assert kb.embed().embedded == 1
        response = kb.search("radio")
        assert (kb.pending(), response.degraded) == (0, ())
        status = kb.status()["vectors"]
        assert (status["state"], status["pending"], status["models"][0]["pending"]) == (
            "ready", 0, 0,
        )  # fmt: skip
        assert not kb._store.queue.has_work(1, frozenset({"sparse", "tokens"}))
        assert [work.model.pending for work in kb.jobs().work] == [0]
        finding = next(one for one in kb.doctor().findings if one.part == "pending")
        assert finding.state == "ok"


def test_expired_documents_that_failed_or_lack_a_part_do_not_count(tmp_path: Path) -> None:
    clock = Clock()
    failing = Weightless(fails_on=["bad"])
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=failing, clock=clock) as kb:
        kb.add("a radio that stays")
        kb.add("a bad one", ttl="1h")
        kb.add("a buoy without weights", ttl="1h")
        for _ in range(3):
            kb.embed()
        with sqlite_store(kb)._database.writing() as connection:
            connection.execute("UPDATE embeddings SET sparse = NULL WHERE chunk_id = 3")
        assert {part.reason for part in kb.search("radio", mode="sparse").degraded} == {
            "failed", "pending",
        }  # fmt: skip
        clock.seconds += 7200
        assert kb.search("radio", mode="sparse").degraded == ()
        assert kb.search("radio").degraded == ()
        report = kb.embed()
        assert (report.embedded, report.filled, report.lacking, report.given_up) == (0, 0, 0, 0)
        assert kb.doctor().healthy


def test_a_store_of_expired_documents_alone_has_nothing_to_embed(tmp_path: Path) -> None:
    clock = Clock()
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless(), clock=clock) as kb:
        kb.add("a buoy that goes", ttl="1h")
        clock.seconds += 7200
        assert kb.pending() == 0
        assert kb.search("buoy").degraded == ()
        assert (
            kb._services.embedding.step(retry=False, stop=lambda: False, on_progress=print)
            is not None
        )
        assert kb._store.vectors.models() == []
