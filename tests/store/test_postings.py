"""Sparse search equals products computed by hand, in every state of the store."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.errors import BrokenImport, InvalidRequest, ModelBroken, NotFound, StoreUnusable
from kb.index import sparse_weights
from kb.library.doctor import examine
from kb.store.sqlite import segments, vector_pieces
from kb.store.sqlite.store import SqliteStore
from kb.types import Encoding, Filters, Finding, ModelSpec, ScoredChunk
from tests.conftest import Clock
from tests.store.builders import check_integrity, pending_chunks, put, sqlite_store, write_vectors
from tests.store.dense_vectors import NOW
from tests.store.random_filters import LATER, Facts, passes, random_filters

np = pytest.importorskip("numpy")

SPEC = ModelSpec("tiny", "1", 2, frozenset({"dense", "sparse"}))
DENSE = array("f", [1.0, 0.0])
BACKENDS = ("numpy", "python")
Weights = dict[str, float]


def zipf(chance: random.Random, most: int = 12) -> list[str]:
    """Terms by Zipf's law: a few are common, most are rare."""
    return [f"t{int(1 / (1 - chance.random() * 0.995)) - 1}" for _ in range(most)]


def some_weights(chance: random.Random) -> Weights:
    """Few distinct weights, so that many products are equal."""
    return {term: chance.choice([0.25, 0.5, 1.0, 1.7, 0.123]) for term in zipf(chance)}


def write(store: SqliteStore, vectors: dict[int, Weights]) -> None:
    rows = [(one, Encoding(dense=DENSE, sparse=weights)) for one, weights in vectors.items()]
    write_vectors(store, store.vectors.use_model(SPEC).model_id, rows)


def ask(
    store: SqliteStore, query: Weights, limit: int = 10, filters: Filters | None = None
) -> list[ScoredChunk]:
    """Search with both backends, whose results must be identical bit for bit."""
    said: dict[str, Any] = {"filters": filters or Filters(), "now": NOW, "limit": limit}
    answers = [
        store.vectors.nearest_sparse(1, query, backend=backend, **said) for backend in BACKENDS
    ]
    assert [answer.backend for answer in answers] == list(BACKENDS)
    assert answers[0].chunks == answers[1].chunks
    return answers[0].chunks


def by_hand(truth: dict[int, Weights], query: Weights, limit: int) -> list[tuple[int, float]]:
    scores = []
    for chunk_id, weights in truth.items():
        score = 0.0
        for term in sorted(query):
            if term in weights:
                score += query[term] * float(np.float32(weights[term]))
        if score > 0:
            scores.append((-score, chunk_id))
    return [(chunk_id, -score) for score, chunk_id in sorted(scores)[:limit]]


def check(store: SqliteStore, truth: dict[int, Weights], seed: int = 0) -> None:
    chance = random.Random(seed)
    for query in (some_weights(chance), {"t0": 1.0}, {"t3": 0.3, "t1": 2.0}, {"unknown": 1.0}):
        found = [(one.chunk_id, one.score) for one in ask(store, query, 20)]
        assert found == by_hand(truth, query, 20)


# --- filters --------------------------------------------------------------------------------------


class Library:
    """5,000 chunks in 1,000 documents, with the attributes of each."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path)
        self.facts: dict[int, Facts] = {}
        chance = random.Random(3)
        for number in range(1000):
            facts: Facts = {
                "tags": tuple(tag for tag, share in SHARES.items() if chance.random() < share),
                "type": chance.choice(["note", "markdown", "code"]),
                "kind": chance.choice([None, "decision", "lesson"]),
                "lang": chance.choice(["en", "de"]),
                "trust": chance.choice(["primary", "secondary", "generated"]),
                "date": f"20{chance.randint(10, 25)}-01-01",
                "expires_at": chance.choice([NOW, LATER, None, None, None]),
            }
            texts = [f"{number} {line}" for line in range(5)]
            self.facts[put(self.store, f"d{number % 7}/{number}", *texts, **facts)] = facts
        self.truth = {one: some_weights(chance) for one in range(1, 5001)}
        for start in range(1, 5001, 300):  # segments of several sizes, and pending chunks
            write(
                self.store, {one: self.truth[one] for one in range(start, min(start + 300, 5001))}
            )

    def allowed(self, filters: Filters) -> list[int]:
        return [
            5 * (doc_id - 1) + chunk
            for doc_id, facts in self.facts.items()
            if passes(facts, f"d{(doc_id - 1) % 7}/{doc_id - 1}", filters)
            for chunk in range(1, 6)
        ]


SHARES = {"p1": 0.001, "p5": 0.005, "p20": 0.02, "p100": 0.1, "p500": 0.5}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    library = Library(tmp_path_factory.mktemp("shelf") / "kb.sqlite")
    yield library
    library.store.close()


def test_filters_are_exact(shelf: Library) -> None:
    """60 of them: the ids, their order and their scores are those of brute force."""
    chance = random.Random(1)
    shares = []
    for _ in range(60):
        filters = random_filters(chance)
        ids = shelf.allowed(filters)
        shares.append(len(ids) / 5000)
        query, limit = some_weights(chance), chance.choice([1, 10, 100])
        found = [(one.chunk_id, one.score) for one in ask(shelf.store, query, limit, filters)]
        assert found == by_hand({one: shelf.truth[one] for one in ids}, query, limit), filters
    assert min(shares) <= 0.001
    assert max(shares) > 0.2


def test_without_filters_expired_documents_are_absent(shelf: Library) -> None:
    ids = shelf.allowed(Filters())
    for limit in (1, 100, 6000):
        found = ask(shelf.store, {"t0": 1.0, "t2": 0.5}, limit)
        truth = {one: shelf.truth[one] for one in ids}
        expected = by_hand(truth, {"t0": 1.0, "t2": 0.5}, limit)
        assert [(one.chunk_id, one.score) for one in found] == expected
        assert [one.rank for one in found] == list(range(1, len(found) + 1))


# --- histories ------------------------------------------------------------------------------------


@pytest.fixture
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small limits, so that merging begins with a few chunks."""
    monkeypatch.setattr(segments, "FEW", 4)
    monkeypatch.setattr(segments, "FAN", 3)
    monkeypatch.setattr(segments, "_SIZES", (12, 36))
    monkeypatch.setattr(segments, "MOST", 35)


def live(store: SqliteStore) -> set[int]:
    with store._database.reading() as connection:
        return {row[0] for row in connection.execute("SELECT chunk_id FROM chunks")}


@pytest.mark.parametrize("seed", range(6))
def test_long_histories(store: SqliteStore, small_sizes: None, seed: int) -> None:
    """Written, written again, reworded, deleted and rolled back, in any order."""
    chance = random.Random(seed)
    truth: dict[int, Weights] = {}
    sizes = set()
    store.vectors.use_model(SPEC)
    for number in range(70):
        what = chance.choice([*["add"] * 6, "again", "same", "delete", "fail"])
        if what == "add":
            put(store, f"{number}", *(f"{number} {line}" for line in range(chance.randint(1, 9))))
            made = {
                one.chunk_id: some_weights(chance) for one in pending_chunks(store, 1, limit=99)
            }
            write(store, made)
            truth |= made
        elif what == "again" and truth:
            made = {one: some_weights(chance) for one in chance.sample(
                sorted(truth), min(5, len(truth)))}  # fmt: skip
            write(store, made)
            truth |= made
        elif what == "same" and truth:
            write(store, {one: truth[one] for one in list(truth)[:3]})
        elif what == "delete":
            known = [document.doc_id for document in store.catalog.documents(Filters(), None)]
            store.catalog.delete_documents(chance.sample(known, min(2, len(known))))
        elif what == "fail" and truth:
            with pytest.raises(ModelBroken):
                write(store, {next(iter(truth)): {"t0": 9.0}, max(truth): {"t0": -1.0}})
        truth = {one: truth[one] for one in truth.keys() & live(store)}
        check(store, truth, number)
        with store._database.reading() as connection:
            sizes |= {one.size for one in segments.standings(connection, 1)}
            assert len(segments.standings(connection, 1)) < 30
    assert sizes == {0, 1, 2}
    assert store.maintenance.integrity.vectors.postings_fault() is None


@settings(max_examples=30, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(
    vectors=st.lists(
        st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
            st.floats(0, 1e30, allow_subnormal=True), max_size=6,
        ), max_size=8,
    ),
    least=st.integers(1, 9),
)  # fmt: skip
def test_any_terms_and_weights(
    tmp_path_factory: pytest.TempPathFactory, vectors: list[Weights], least: int
) -> None:
    store = SqliteStore(tmp_path_factory.mktemp("any") / "kb.sqlite")
    put(store, "a", *(str(number) for number in range(len(vectors))))
    truth = dict(enumerate(vectors, start=1))
    write(store, truth)
    with store._database.writing() as connection:
        segments.flush(connection, 1, least=least)
    stored = store.vectors.sparse_vectors(1, truth)
    for query in vectors:
        found = [(one.chunk_id, one.score) for one in ask(store, query)]
        assert found == by_hand(stored, query, 10)
    for one, weights in truth.items():
        for term, weight in weights.items():
            assert stored[one].get(term, 0.0) == pytest.approx(weight, rel=6e-3, abs=1e-44)
    assert store.maintenance.integrity.vectors.postings_fault() is None
    store.close()


# --- stored values --------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf"), 1e39])
def test_a_bad_weight_is_refused_with_its_company(store: SqliteStore, bad: float) -> None:
    put(store, "a", "one", "two")
    with pytest.raises(ModelBroken, match="negative or not finite"):
        write(store, {1: {"good": 1.0}, 2: {"bad": bad}})
    assert store.vectors.sparse_vectors(1, [1, 2]) == {}
    assert ask(store, {"good": 1.0}) == []


def test_weights_are_stored_with_three_digits(store: SqliteStore) -> None:
    put(store, "a", "one", "two", "three")
    write(store, {1: {"a": 0.53712, "zero": 0.0, "tiny": 1e-60}, 2: {}})
    with store._database.reading() as connection:
        stored = vector_pieces.read(connection, "sparse", 1, [1, 2, 3])
    assert stored == {1: sparse_weights.compress('{"a":0.537}'), 2: "{}"}
    assert sparse_weights.decimals(stored[1]) == {"a": 0.537}
    assert store.vectors.sparse_vectors(1, [1, 2, 3]) == {1: {"a": float(np.float32(0.537))}, 2: {}}


def test_invalid_queries(store: SqliteStore) -> None:
    put(store, "a", "one")
    write(store, {1: {"a": 1.0}})
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidRequest, match="negative or not finite"):
            ask(store, {"a": bad})
    with pytest.raises(InvalidRequest, match="backend"):
        store.vectors.nearest_sparse(1, {}, filters=Filters(), now=NOW, limit=1, backend="faiss")
    with pytest.raises(NotFound):
        store.vectors.nearest_sparse(2, {}, filters=Filters(), now=NOW, limit=1)
    assert ask(store, {}) == ask(store, {"a": 0.0}) == ask(store, {"a": 1.0}, 0) == []
    assert ask(store, {"a": 2.0}) == [ScoredChunk(1, 2.0, 1)]


def test_chunks_without_a_sparse_vector(store: SqliteStore) -> None:
    put(store, "a", "one", "two")
    model_id = store.vectors.use_model(SPEC).model_id
    assert ask(store, {"a": 1.0}) == []
    write_vectors(store, model_id, [(1, Encoding(dense=DENSE)), (2, Encoding(dense=DENSE))])
    assert ask(store, {"a": 1.0}) == []
    write_vectors(store, model_id, [(2, Encoding(sparse={"a": 1.0}))])  # a later transaction
    assert ask(store, {"a": 1.0}) == [ScoredChunk(2, 1.0, 1)]
    write_vectors(store, model_id, [(2, Encoding(dense=DENSE))])  # without its other parts
    assert ask(store, {"a": 1.0}) == []


# --- states ---------------------------------------------------------------------------------------


@pytest.fixture
def filled(store: SqliteStore) -> SqliteStore:
    """700 chunks: segments, one of them with a deleted chunk, and pending chunks."""
    for number in range(140):
        put(store, f"{number}", *(f"{number} {line}" for line in range(5)))
    chance = random.Random(2)
    for start in range(1, 701, 140):
        write(store, {one: some_weights(chance) for one in range(start, start + 140)})
    store.catalog.delete_documents([3, 50])
    write(store, {one: some_weights(chance) for one in (1, 2, 400)})
    return store


def truth_of(store: SqliteStore) -> dict[int, Weights]:
    return store.vectors.sparse_vectors(1, range(1, 10_000))


def test_a_write_that_fails_leaves_nothing(filled: SqliteStore) -> None:
    """Postings and vectors are written in the same transaction."""
    before = truth_of(filled)

    def broken(*_args: Any, **_said: Any) -> None:
        raise KeyboardInterrupt

    for name in ("_write", "tidy"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(segments, name, broken)
            with pytest.raises(KeyboardInterrupt):
                write(filled, {one: {"t0": 5.0} for one in range(100, 240)})
        check(filled, before)
        assert filled.maintenance.integrity.vectors.postings_fault() is None
    write(filled, {one: {"t0": 5.0} for one in range(100, 240)})
    check(filled, before | {one: {"t0": 5.0} for one in range(100, 240)})


def test_a_plain_sqlite_can_still_write(filled: SqliteStore) -> None:
    check(filled, truth_of(filled))
    plain = apsw.Connection(str(filled.path))
    plain.execute("PRAGMA foreign_keys = ON; DELETE FROM documents WHERE doc_id = 7")
    plain.execute("UPDATE chunks SET text = 'other', parts = '' WHERE chunk_id = 17")
    plain.execute("UPDATE embeddings SET sparse = '{\"t0\": 9}' WHERE chunk_id = 18")
    plain.execute("UPDATE embeddings SET sparse = NULL WHERE chunk_id = 19")
    plain.execute("UPDATE embeddings SET state = 'failed' WHERE chunk_id = 20")
    plain.close()
    truth = truth_of(filled)
    assert truth.keys() & {17, 19, 20, 31} == set()
    assert ask(filled, {"t0": 1.0})[0] == ScoredChunk(18, 9.0, 1)
    check(filled, truth)
    assert filled.maintenance.integrity.vectors.postings_fault() is None


def test_one_reading_block_sees_one_state(filled: SqliteStore) -> None:
    query = {"t0": 1.0, "t1": 1.0}
    with filled.snapshot():
        before = ask(filled, query)
        truth = truth_of(filled)

        def change() -> None:
            write(filled, {one: {"t0": 99.0} for one in range(200, 400)})
            assert ask(filled, query)[0].score == 99.0

        writer = threading.Thread(target=change)
        writer.start()
        writer.join()
        assert ask(filled, query) == before
        check(filled, truth)
    assert ask(filled, query) != before


def test_eight_threads_search_while_one_writes(filled: SqliteStore, small_sizes: None) -> None:
    stop, errors = threading.Event(), []

    def search() -> None:
        try:
            while not stop.is_set():
                with filled.snapshot():
                    check(filled, truth_of(filled))
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=search) for _ in range(8)]
    for thread in threads:
        thread.start()
    chance = random.Random(4)
    try:
        for generation in range(12):
            ids = chance.sample(range(400, 700), 30)
            write(filled, {one: some_weights(chance) for one in ids})
            filled.catalog.delete_documents([generation + 60])
    finally:
        stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_store_that_was_put_back(filled: SqliteStore, tmp_path: Path) -> None:
    """A backup diverges under a store that is still open: its segments and changes have the same
    numbers, but other content."""
    filled.close()
    shutil.copy(filled.path, tmp_path / "backup")
    for weight in (3.0, 7.0):
        write(filled, {one: {"t0": weight} for one in range(200, 400)})
        assert ask(filled, {"t0": 1.0}, 1)[0].score == weight
        check(filled, truth_of(filled))
        filled._database.close()  # the caches stay
        shutil.copy(tmp_path / "backup", filled.path)


def test_a_dropped_model_leaves_no_postings(store: SqliteStore) -> None:
    put(store, "a", *(str(number) for number in range(200)))
    write(store, {one: {"a": 1.0} for one in range(1, 201)})
    store.catalog.delete_documents([1])
    put(store, "b", "one")
    store.vectors.use_model(ModelSpec("other", "1", 2, frozenset({"sparse"})))
    with store._database.reading() as connection:
        for table in ("segments", "postings", "gone", "chunks", "pending"):
            assert connection.execute(f"SELECT * FROM sparse_{table}").fetchall() == [], table


NO_NUMPY = """
import sys
sys.modules["numpy"] = None
from pathlib import Path
from kb.store.sqlite.store import SqliteStore
from kb.types import Filters
store = SqliteStore(Path(sys.argv[1]))
found = store.vectors.nearest_sparse(
    1, {"t0": 1.0, "t2": 0.3}, filters=Filters(), now="2026-05-28T20:26:40Z", limit=20,
    backend=sys.argv[2],
)
print(found.backend, *((one.chunk_id, one.score) for one in found.chunks), sep="|")
"""


@pytest.mark.parametrize("asked", ["auto", "numpy"])
def test_numpy_may_be_missing(filled: SqliteStore, asked: str) -> None:
    expected = ask(filled, {"t0": 1.0, "t2": 0.3}, 20)
    filled.close()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", NO_NUMPY, str(filled.path), asked],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    used, *found = done.stdout.strip().split("|")
    assert used == "python"
    assert found == [str((one.chunk_id, one.score)) for one in expected]


# --- maintenance ----------------------------------------------------------------------------------


def unwell(store: SqliteStore, *, fix: bool = False) -> dict[str, Finding]:
    diagnosis = examine(store, NOW, fix=fix)
    return {one.part: one for one in diagnosis.findings if one.state != "ok"}


FAULTS: dict[str, str] = {
    "a block gone": "DELETE FROM sparse_postings WHERE posting = "
    "(SELECT max(posting) FROM sparse_postings)",
    "a block cut": "UPDATE sparse_postings SET block = x'0011' WHERE posting = "
    "(SELECT max(posting) FROM sparse_postings)",
    "places that are none": "UPDATE sparse_postings SET block = x'0000803fffff' WHERE posting = "
    "(SELECT max(posting) FROM sparse_postings)",
    "another weight": "UPDATE sparse_postings SET block = x'0000803f' || substr(block, 5)",
    "a ghost": "DELETE FROM sparse_gone",
    "too many gone": "INSERT INTO sparse_gone SELECT segment, chunk_id FROM sparse_chunks LIMIT 3",
    "a segment gone": "DROP TRIGGER sparse_segments_delete; DELETE FROM sparse_segments "
    "WHERE segment = (SELECT min(segment) FROM sparse_segments)",
    "no chunks": "DELETE FROM sparse_chunks",
    "nothing waits": "DELETE FROM sparse_pending",
    "another vector": "DROP TRIGGER sparse_update; "
    "UPDATE embeddings SET sparse = '{\"t0\": 7}' WHERE chunk_id = 3",
    "behind the triggers": "DROP TRIGGER sparse_delete; DELETE FROM embeddings WHERE chunk_id = 4",
    "another word": "UPDATE sparse_terms SET term = 'other' WHERE term = 't0'",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_repaired(filled: SqliteStore, fault: str) -> None:
    assert not unwell(filled).keys() - {"pending"}
    filled.close()
    connection = apsw.Connection(str(filled.path))
    connection.execute(FAULTS[fault])
    connection.close()
    found = unwell(filled)
    assert "postings" in found
    assert found["postings"].to_do
    assert all(each.fixed for part, each in unwell(filled, fix=True).items() if part != "pending")
    assert not unwell(filled).keys() - {"pending"}
    check_integrity(filled)
    check(filled, truth_of(filled))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_damaged_index_is_reported(filled: SqliteStore, backend: str) -> None:
    with filled._database.writing() as connection:
        connection.execute("UPDATE sparse_postings SET block = x'0000803fffff'")
    with pytest.raises(StoreUnusable, match="damaged") as error:
        filled.vectors.nearest_sparse(
            1, {"t0": 1.0}, filters=Filters(), now=NOW, limit=5, backend=backend
        )
    assert "kb doctor --fix" in error.value.hint


def test_a_damaged_vector_is_dropped(filled: SqliteStore) -> None:
    with filled._database.writing() as connection:
        connection.execute("UPDATE embeddings SET sparse = '{\"a\": -1}' WHERE chunk_id = 5")
        connection.execute("UPDATE embeddings SET sparse = '[' WHERE chunk_id = 6")
        connection.execute("UPDATE embeddings SET tokens = x'00' WHERE chunk_id = 7")
    assert filled.vectors.sparse_vectors(1, [5, 6]) == {5: {}, 6: {}}
    check(filled, truth_of(filled))
    assert unwell(filled)["embeddings"].what.startswith("3 of ")
    assert unwell(filled, fix=True)["embeddings"].fixed
    assert [one.chunk_id for one in pending_chunks(filled, 1, limit=9)] == [5, 6, 7]


def test_export_and_import(kb: KnowledgeBase, tmp_path: Path, clock: Clock) -> None:
    for number in range(150):
        kb.add(f"note {number}")
    chance = random.Random(8)
    write(sqlite_store(kb), {one: some_weights(chance) for one in range(1, 151)})
    stream = io.BytesIO()
    kb.export(stream, vectors=True)
    data = stream.getvalue()
    with KnowledgeBase(tmp_path / "b.sqlite", clock=clock) as other:
        other.import_(io.BytesIO(data))
        check(sqlite_store(other), truth_of(sqlite_store(kb)))
        with sqlite_store(other)._database.reading() as connection:
            assert segments.standings(connection, 1)
        assert not unwell(sqlite_store(other)).keys() - {"pending"}
    with KnowledgeBase(tmp_path / "c.sqlite", clock=clock) as broken:
        for bad in (b"-1.5", b"NaN", b"1e99"):
            with pytest.raises(BrokenImport, match=r"weights|NaN"):
                broken.import_(io.BytesIO(data.replace(b'":0.25', b'":' + bad, 1)))


def test_text_that_is_not_a_vector() -> None:
    for text in ("[]", "7", '{"a": "b"}', '{"a": true}', '{"a": NaN}', '{"a": -1}', "{", ""):
        with pytest.raises(ValueError, match=r".*"):
            sparse_weights.from_text(text)
    assert sparse_weights.from_text('{"a": 1, "b": 0}') == {"a": 1.0}


def test_compacting_rewrites_the_weights_of_older_versions(store: SqliteStore) -> None:
    put(store, "a", "one", "two", "three")
    write(store, {1: {"a": 0.537, "b": 1.0}, 2: {"a": 0.25}, 3: {"c": 1.0}})
    with store._database.writing() as connection:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        older = ['{"a": 0.537, "b": 1.0}', '{"a": 0.251234}', "no JSON"]
        connection.executemany(
            "UPDATE embeddings SET sparse = ? WHERE chunk_id = ?",
            [(text, number) for number, text in enumerate(older, start=1)],
        )
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)
    before = store.vectors.sparse_vectors(1, [1, 2, 3])
    version = store.vectors.version()
    store.maintenance.compact()
    assert store.vectors.sparse_vectors(1, [1, 2, 3]) == before
    assert store.vectors.version() == version  # nothing has to be built again
    with store._database.reading() as connection:
        stored = vector_pieces.read(connection, "sparse", 1, [1, 2, 3])
        assert [type(each) for each in stored.values()] == [bytes, str, str]
