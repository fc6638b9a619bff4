"""Dense search: every backend equals brute force, in every state of the store."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kb.errors import InvalidRequest, ModelMismatch
from kb.index import int8_codes
from kb.store.sqlite import dense, matrix, matrix_file, vec0
from kb.store.sqlite.store import SqliteStore
from kb.types import Encoding, Filters, ModelSpec, ScoredChunk
from tests.store.builders import pending_chunks, put, write_vectors

np = pytest.importorskip("numpy")

BACKENDS = ("numpy", "sqlite-vec", "python")
NOW = "2026-05-28T20:26:40Z"
LATER = "2026-06-28T20:26:40Z"
DIMENSION = 32
ALL = Filters()
SPEC = ModelSpec("tiny", "1", DIMENSION, frozenset({"dense"}))


def some_vectors(count: int, seed: int = 1) -> Any:
    """One vector in ten equals its neighbor, and one in fifty is the same vector."""
    made = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    made[9::10] = made[8::10][: len(made[9::10])]
    made[7::50] = made[7 % count]
    return made


def embed(store: SqliteStore, made: Any) -> int:
    model_id = store.vectors.use_model(SPEC).model_id
    rows = [(one.chunk_id, Encoding(dense=array("f", made[one.chunk_id - 1])))
            for one in pending_chunks(store, model_id, limit=len(made))]  # fmt: skip
    write_vectors(store, model_id, rows)
    return model_id


def ask(
    store: SqliteStore, query: Any, backend: str, limit: int = 10, filters: Filters = ALL,
    now: str = NOW,
) -> list[ScoredChunk]:  # fmt: skip
    found = store.vectors.nearest_dense(
        1, array("f", query), filters=filters, now=now, limit=limit, backend=backend
    )
    assert found.backend == backend
    return found.chunks


def brute_force(store: SqliteStore, query: Any, limit: int, ids: list[int]) -> list[int]:
    """Different arithmetic over the stored vectors, and Python's own sort."""
    stored = store.vectors.dense_vectors(1, ids)
    asked = np.asarray(query, np.float64) / np.linalg.norm(np.asarray(query, np.float64))
    keys = []
    for chunk_id, vector in stored.items():
        cosine = float(np.asarray(vector, np.float64) @ asked)
        keys.append((-round(cosine, 9), chunk_id))
    return [chunk_id for _, chunk_id in sorted(keys)[:limit]]


# --- filters --------------------------------------------------------------------------------------

SHARES = {"p1": 0.001, "p5": 0.005, "p20": 0.02, "p100": 0.1, "p500": 0.5}
Facts = dict[str, Any]


class Library:
    """20,000 chunks in 4,000 documents, with the attributes of each document."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path, vector_backend="sqlite-vec")
        self.facts: dict[int, Facts] = {}
        chance = random.Random(3)
        for number in range(4000):
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
        self.made = some_vectors(20_000)
        embed(self.store, self.made)

    def allowed(self, filters: Filters) -> list[int]:
        """Evaluated here, without SQL. Documents have five chunks each, in order."""
        return [
            5 * (doc_id - 1) + chunk
            for doc_id, facts in self.facts.items()
            if _passes(facts, f"d{(doc_id - 1) % 7}/{doc_id - 1}", filters)
            for chunk in range(1, 6)
        ]


def _passes(facts: Facts, path: str, asked: Filters) -> bool:
    return (
        (facts["expires_at"] is None or facts["expires_at"] > NOW)
        and set(asked.tags) <= set(facts["tags"])
        and (not asked.tags_any or bool(set(asked.tags_any) & set(facts["tags"])))
        and (not asked.type or facts["type"] in asked.type)
        and (not asked.kind or facts["kind"] in asked.kind)
        and asked.lang in (None, facts["lang"])
        and (asked.trust_min is None or facts["trust"] in ("primary", "secondary"))
        and (asked.after is None or facts["date"] >= asked.after)
        and (asked.path_glob is None or path.startswith(asked.path_glob.removesuffix("*")))
    )


def random_filters(chance: random.Random) -> Filters:
    values: dict[str, Any] = {
        "tags": tuple(chance.sample(list(SHARES), chance.choice([1, 1, 1, 2]))),
        "tags_any": tuple(chance.sample(list(SHARES), 2)),
        "type": tuple(chance.sample(["note", "markdown", "code"], chance.choice([1, 2]))),
        "kind": (chance.choice(["decision", "lesson"]),),
        "lang": chance.choice(["en", "de"]),
        "trust_min": "secondary",
        "after": f"20{chance.randint(10, 26)}-01-01",
        "path_glob": f"d{chance.randrange(8)}/*",
    }
    return Filters(**{name: values[name] for name in chance.sample(list(values), chance.choice(
        [1, 1, 2, 3]))})  # fmt: skip


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    library = Library(tmp_path_factory.mktemp("shelf") / "kb.sqlite")
    yield library
    library.store.close()


@pytest.mark.parametrize("part", range(4))
def test_filters_are_exact(shelf: Library, part: int) -> None:
    """200 of them, for each backend: the ids and their order are those of brute force."""
    chance = random.Random(part)
    shares = []
    for number in range(50):
        filters = random_filters(chance)
        ids = shelf.allowed(filters)
        shares.append(len(ids) / 20_000)
        query = chance.choice([shelf.made[chance.randrange(20_000)], some_vectors(1, number)[0]])
        limit = chance.choice([1, 10, 100])
        answers = [ask(shelf.store, query, backend, limit, filters) for backend in BACKENDS]
        expected = brute_force(shelf.store, query, limit, ids)
        assert [one.chunk_id for one in answers[0]] == expected, filters
        assert answers[1] == answers[0], filters
        assert answers[2] == answers[0], filters
    assert min(shares) <= 0.001
    assert max(shares) > 0.2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
def test_without_filters_expired_documents_are_absent(
    shelf: Library, backend: str, limit: int
) -> None:
    ids = shelf.allowed(Filters())
    for row in (7, 8, 1234):  # the first is the same as four hundred others
        found = ask(shelf.store, shelf.made[row], backend, limit)
        expected = brute_force(shelf.store, shelf.made[row], limit, ids)
        assert [one.chunk_id for one in found] == expected


def test_more_than_sqlite_vec_gives(shelf: Library) -> None:
    query = array("f", shelf.made[0])
    found = shelf.store.vectors.nearest_dense(
        1, query, filters=Filters(), now=NOW, limit=5000, backend="sqlite-vec"
    )
    assert found.backend == "numpy"
    assert found.chunks == ask(shelf.store, shelf.made[0], "numpy", 5000)
    assert len(found.chunks) == 5000


# --- small stores ---------------------------------------------------------------------------------


@pytest.fixture(params=["floats", "codes"])
def small(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SqliteStore]:
    """300 chunks, enough for a file."""
    if request.param == "codes":
        monkeypatch.setattr(int8_codes, "MIN_ROWS", 1)
        monkeypatch.setattr(matrix, "_CODED", 0)
    monkeypatch.setattr(dense, "_MIN_FILE_ROWS", 10)
    store = SqliteStore(tmp_path / "kb.sqlite", vector_backend="sqlite-vec")
    for number in range(60):
        put(store, f"{number}", *(f"{number} {line}" for line in range(5)))
    embed(store, some_vectors(300))
    yield store
    store.close()


QUERY = some_vectors(1, seed=9)[0]


def check(store: SqliteStore, backends: tuple[str, ...] = BACKENDS) -> list[ScoredChunk]:
    """All backends find what brute force finds, whatever the state is."""
    with store._database.reading() as connection:
        ids = [row[0] for row in connection.execute("SELECT chunk_id FROM chunks")]
        expected = brute_force(store, QUERY, 20, ids)
        answers = [ask(store, QUERY, backend, 20) for backend in backends]
    for answer in answers:
        assert [one.chunk_id for one in answer] == expected
        assert answer == answers[0]
    return answers[0]


def test_every_change_is_followed(small: SqliteStore) -> None:
    best = check(small)[0].chunk_id
    small.catalog.delete_documents([(best - 1) // 5 + 1])
    assert best not in [one.chunk_id for one in check(small)]
    put(small, "60", "new", "words")
    check(small)
    model_id = small.vectors.models()[0].model_id
    waiting = [one.chunk_id for one in pending_chunks(small, model_id, limit=9)]
    write_vectors(small, model_id, [(one, Encoding(dense=array("f", QUERY))) for one in waiting])
    assert [one.chunk_id for one in check(small)][:2] == waiting
    write_vectors(small, model_id, [(waiting[0], Encoding(dense=array("f", -QUERY)))])
    assert check(small)[0].chunk_id == waiting[1]
    small.catalog.delete_documents([61])
    check(small)


def test_long_histories(small: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sometimes everything is read again; in between, only changes."""
    monkeypatch.setattr(matrix, "_FEW", 40)
    built: list[int] = []
    read_all = matrix.build
    monkeypatch.setattr(
        matrix,
        "build",
        lambda *args: built.append(1) or read_all(*args),  # type: ignore[func-returns-value]
    )
    chance = random.Random(5)
    model_id = small.vectors.models()[0].model_id
    for number in range(60):
        if number % 3 == 0:
            known = [document.doc_id for document in small.catalog.documents(Filters(), None)]
            small.catalog.delete_documents(chance.sample(known, 2))
        else:
            put(small, f"x{number}", f"x {number}", f"y {number}")
            embed(small, some_vectors(1000, number))
        if number % 7 == 0:
            ids = list(small.vectors.dense_vectors(model_id, range(1000)))
            rows = [(one, Encoding(dense=array("f", some_vectors(1, one)[0])))
                    for one in chance.sample(ids, 5)]  # fmt: skip
            write_vectors(small, model_id, rows)
        check(small)
    assert 2 < len(built) < 20


def test_a_store_without_vectors(store: SqliteStore) -> None:
    put(store, "a", "one")
    store.vectors.use_model(SPEC)
    found = store.vectors.nearest_dense(1, array("f", QUERY), filters=Filters(), now=NOW, limit=5)
    assert found.chunks == []


def test_queries_that_cannot_be_asked(small: SqliteStore) -> None:
    def nearest(vector: Any, **said: Any) -> Any:
        given: dict[str, Any] = {
            "filters": Filters(),
            "now": NOW,
            "limit": 5,
            "backend": "auto",
        } | said
        return small.vectors.nearest_dense(1, vector, **given)

    with pytest.raises(ModelMismatch, match="3 dimensions"):
        nearest([1.0, 2.0, 3.0])
    for bad in (0.0, float("nan"), float("inf")):
        with pytest.raises(InvalidRequest):
            nearest([bad] * DIMENSION)
    with pytest.raises(InvalidRequest, match="backend"):
        nearest(QUERY, backend="faiss")
    assert nearest(QUERY, limit=0).chunks == []
    assert nearest([float(value) for value in QUERY]).chunks == nearest(4 * QUERY).chunks


# --- the file beside the store --------------------------------------------------------------------


def reopened(store: SqliteStore, **said: Any) -> SqliteStore:
    """The store as a new process opens it."""
    store.close()
    return SqliteStore(store.path, **said)


def file_of(store: SqliteStore) -> Path:
    return store.path.with_name("kb.sqlite-vectors")


def test_a_fresh_process_maps_the_file(small: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    before = check(small)
    assert file_of(small).exists()
    monkeypatch.setattr(matrix, "build", None)  # would fail
    fresh = reopened(small)
    assert check(fresh) == before
    fresh.catalog.delete_documents([3])
    check(fresh)
    again = reopened(fresh)
    check(again)
    again.close()


def _flip(data: bytearray, place: int) -> bytearray:
    data[place] ^= 1
    return data


DAMAGES: dict[str, Callable[[bytearray], bytes | bytearray]] = {
    "empty": lambda data: b"",
    "a header cut": lambda data: data[:100],
    "no rows": lambda data: data[:4096],
    "the end cut": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "a bit of the header": lambda data: _flip(data, 60),
    "a bit of the first line": lambda data: _flip(data, 3),
    "a bit of an id": lambda data: _flip(data, 4096 + 8),
    "a bit of a vector": lambda data: _flip(data, len(data) - 70),
    "the last bit": lambda data: _flip(data, len(data) - 1),
    "zeros": lambda data: data[:4096] + bytes(len(data) - 4096),
    "a letter": lambda data: b"dear reader " * 2000,
    "no JSON": lambda data: data.replace(b'{"owner"', b'["owner"', 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_not_trusted(small: SqliteStore, damage: str) -> None:
    before = check(small)
    whole = file_of(small).read_bytes()
    file_of(small).write_bytes(DAMAGES[damage](bytearray(whole)))
    fresh = reopened(small)
    assert check(fresh) == before
    assert file_of(small).read_bytes() == whole  # made anew
    fresh.close()


@pytest.mark.parametrize("change", ["cut", "emptied", "garbled", "removed"])
def test_a_file_that_is_changed_while_it_is_mapped(small: SqliteStore, change: str) -> None:
    """Reading a mapped page that the file no longer has would end the process."""
    before = check(small)
    path = file_of(small)
    data = path.read_bytes()
    if change == "cut":
        os.truncate(path, 4096)
    elif change == "emptied":
        os.truncate(path, 0)
    elif change == "garbled":
        with open(path, "r+b") as file:
            file.seek(5000)
            file.write(bytes(reversed(data[5000:])))
    else:
        path.unlink()
    assert check(small) == before


def test_a_file_of_another_store(small: SqliteStore, tmp_path: Path) -> None:
    check(small)
    other = SqliteStore(tmp_path / "other" / "kb.sqlite")
    for number in range(60):
        put(other, f"{number}", *(f"{number} {line}" for line in range(5)))
    embed(other, some_vectors(300, seed=2))
    shutil.copy(file_of(small), file_of(other))
    check(other, ("numpy", "python"))
    other.close()


def test_a_store_that_was_put_back(small: SqliteStore, tmp_path: Path) -> None:
    """A backup diverges: the same number of changes, but different ones."""
    small.close()
    shutil.copy(small.path, tmp_path / "backup")
    for seed in (11, 12):
        store = SqliteStore(small.path)
        rows = [(one, Encoding(dense=array("f", some_vectors(1, seed + one)[0])))
                for one in range(1, 300)]  # fmt: skip
        write_vectors(store, 1, rows)
        check(store, ("numpy", "python"))
        store.close()
        if seed == 11:
            shutil.copy(tmp_path / "backup", small.path)


@pytest.mark.parametrize("obstacle", ["a folder", "read only"])
def test_where_no_file_can_be_written(small: SqliteStore, obstacle: str) -> None:
    if obstacle == "a folder":
        file_of(small).mkdir()
    fresh = reopened(small, read_only=obstacle == "read only")
    check(fresh)
    assert not file_of(small).is_file()
    assert [path.name for path in small.path.parent.iterdir() if ".part" in path.name] == []
    fresh.close()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="drops root's rights to see it")
def test_a_read_only_folder(small: SqliteStore) -> None:
    expected = [one.chunk_id for one in check(small)]
    small.close()
    file_of(small).unlink()
    for path in small.path.parents:
        if path.owner() == "root" and path.is_relative_to("/tmp"):
            path.chmod(path.stat().st_mode | 0o555)
    small.path.parent.chmod(0o555)
    setup = (
        "import array, os, secrets, numpy; from kb.store.sqlite import dense, matrix, store\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    )
    assert child(small.path, "numpy", setup) == ("numpy", expected)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_the_file_is_as_private_as_the_store(small: SqliteStore) -> None:
    small.path.chmod(0o600)
    check(small)
    assert file_of(small).stat().st_mode & 0o777 == 0o600


# --- what may be missing --------------------------------------------------------------------------

CHILD = """
{setup}
import sys
from array import array
from pathlib import Path
from kb.store.sqlite.store import SqliteStore
from kb.types import Filters
store = SqliteStore(Path(sys.argv[1]))
query = array("f", map(float, sys.argv[3].split()))
found = store.vectors.nearest_dense(
    1, query, filters=Filters(), now="2026-05-28T20:26:40Z", limit=20, backend=sys.argv[2]
)
print(found.backend, *(one.chunk_id for one in found.chunks))
"""
NO_NUMPY = "import sys; sys.modules['numpy'] = None\n"
NO_SQLITE_VEC = "import sys; sys.modules['sqlite_vec'] = None\n"


def child(path: Path, backend: str, setup: str = "") -> tuple[str, list[int]]:
    """The result of another process: the backend and the hits."""
    code = CHILD.format(setup=setup)
    query = " ".join(str(float(value)) for value in QUERY)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(path), backend, query],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    used, *ids = done.stdout.split()
    return used, [int(one) for one in ids]


@pytest.mark.parametrize(
    ("asked", "setup", "used"),
    [
        ("numpy", NO_NUMPY, "python"),
        ("sqlite-vec", NO_NUMPY, "sqlite-vec"),
        ("sqlite-vec", NO_SQLITE_VEC, "python"),
        ("sqlite-vec", NO_SQLITE_VEC + "import numpy", "numpy"),
        ("auto", "", "python"),  # too few to load numpy for
        ("auto", "import numpy", "numpy"),
        ("auto", "from kb.store.sqlite import dense; dense.SMALL = 10", "numpy"),
        ("auto", NO_NUMPY + "from kb.store.sqlite import dense; dense.SMALL = 10", "sqlite-vec"),
        ("auto", NO_NUMPY + NO_SQLITE_VEC + "from kb.store.sqlite import dense; dense.SMALL = 10",
         "python"),
    ],
)  # fmt: skip
def test_what_is_there_answers(small: SqliteStore, asked: str, setup: str, used: str) -> None:
    expected = [one.chunk_id for one in check(small)]
    small.close()
    assert child(small.path, asked, setup) == (used, expected)


def test_sqlite_vec_does_not_load_numpy(small: SqliteStore) -> None:
    small.close()
    setup = "import atexit, sys; atexit.register(lambda: sys.modules.get('numpy') and 1 / 0)\n"
    assert child(small.path, "sqlite-vec", NO_NUMPY)[0] == "sqlite-vec"
    assert child(small.path, "sqlite-vec", setup)[0] == "sqlite-vec"


def test_the_table_is_made_when_it_is_asked_for(store: SqliteStore) -> None:
    put(store, "a", *(str(number) for number in range(30)))
    embed(store, some_vectors(30))
    assert not store.maintenance.integrity.vectors.has_table()
    query = array("f", QUERY)
    found = store.vectors.nearest_dense(
        1, query, filters=Filters(), now=NOW, limit=5, backend="sqlite-vec"
    )
    assert found.backend == "numpy"
    other = reopened(store, vector_backend="sqlite-vec")
    other.vectors.build_index(1)
    assert check(other)
    other.close()


def test_a_table_that_was_left_behind(small: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """If vectors are written where sqlite-vec cannot be loaded, the table lags behind, and searches
    know by how much."""
    with monkeypatch.context() as patch:
        patch.setattr(vec0, "load", lambda connection: False)
        small.catalog.delete_documents([1, 2, 3])
        put(small, "more", "a", "b", "c")
        embed(small, some_vectors(1000))
        check(small, ("numpy", "python"))
    check(small)
    put(small, "yet more", "d")
    embed(small, some_vectors(1000))
    assert small.maintenance.integrity.vectors.table_fault() is None
    check(small)
    small.close()


def test_too_far_behind(small: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vec0, "_MANY", 4)
    small.catalog.delete_documents([1])
    query = array("f", QUERY)
    found = small.vectors.nearest_dense(
        1, query, filters=Filters(), now=NOW, limit=5, backend="sqlite-vec"
    )
    assert found.backend == "numpy"
    small.vectors.build_index(1)
    check(small)


def test_a_plain_sqlite_can_still_write(small: SqliteStore) -> None:
    """No trigger uses the table: without the extension, everything else works."""
    import apsw

    check(small)
    small.close()
    plain = apsw.Connection(str(small.path))
    plain.execute("PRAGMA foreign_keys = ON; DELETE FROM documents WHERE doc_id = 5")
    plain.execute("UPDATE chunks SET text = 'other', parts = '' WHERE chunk_id = 7")
    assert plain.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
    plain.close()
    check(small)


# --- at the same time -----------------------------------------------------------------------------


def test_one_reading_block_sees_one_state(small: SqliteStore) -> None:
    with small.snapshot():
        before = check(small)
        version = small.vectors.version()

        def change() -> None:
            small.catalog.delete_documents([(before[0].chunk_id - 1) // 5 + 1])
            assert check(small) != before  # a newer matrix is made meanwhile

        writer = threading.Thread(target=change)
        writer.start()
        writer.join()
        assert check(small) == before
        assert small.vectors.version() == version
    assert check(small) != before


def test_eight_threads_search_while_one_writes(
    small: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every response is that of one state: all vectors of a generation exist, or none, and brute
    force in the same transaction returns the same."""
    monkeypatch.setattr(matrix, "_FEW", 30)
    stop, errors = threading.Event(), []

    def search(backend: str) -> None:
        try:
            while not stop.is_set():
                check(small, (backend,))
        except BaseException as error:
            errors.append(error)
            raise

    threads = [
        threading.Thread(target=search, args=(backend,))
        for backend in ("numpy",) * 5 + ("sqlite-vec",) * 2 + ("python",)
    ]
    for thread in threads:
        thread.start()
    for generation in range(25):
        put(small, f"g{generation}", *(f"g{generation} {line}" for line in range(6)))
        embed(small, some_vectors(1000, generation))
        small.catalog.delete_documents([generation + 1])
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    check(small)


def test_the_matrix_is_shared(small: SqliteStore) -> None:
    """Once built, it is the same object in every thread, and is never built again for the same
    state."""
    seen: list[Any] = []

    def look() -> None:
        with small._database.reading() as connection:
            seen.append(small.vectors.dense.current(connection, small.vectors.models()[0]))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one) for one in seen}) == 1
    assert not seen[0].rows.flags.owndata  # mapped
    assert matrix_file.path_of(small.path) == file_of(small)
