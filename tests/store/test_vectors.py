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
from kb.types import Encoding, Filters, ScoredChunk
from tests.store.builders import pending_chunks, put, write_vectors
from tests.store.dense_vectors import (
    BACKENDS,
    DIMENSION,
    NOW,
    QUERY,
    SPEC,
    ask,
    brute_force,
    embed,
    file_of,
    some_vectors,
)

np = pytest.importorskip("numpy")

# --- small stores ---------------------------------------------------------------------------------


@pytest.fixture(params=["floats", "codes"])
def small(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SqliteStore]:
    """300 chunks, enough for a file."""
    if request.param == "codes":
        monkeypatch.setattr(int8_codes, "MIN_ROWS", 1)
    monkeypatch.setattr(dense, "_MIN_FILE_ROWS", 10)
    store = SqliteStore(tmp_path / "kb.sqlite", vector_backend="sqlite-vec")
    for number in range(60):
        put(store, f"{number}", *(f"{number} {line}" for line in range(5)))
    embed(store, some_vectors(300))
    yield store
    store.close()


def check(store: SqliteStore, backends: tuple[str, ...] = BACKENDS) -> list[ScoredChunk]:
    """Check that all backends return the same results as brute force, in any state."""
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
    assert file_of(small).read_bytes() == whole  # rebuilt
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


def test_a_store_that_was_restored_from_a_copy(small: SqliteStore, tmp_path: Path) -> None:
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
        "import array, importlib, os, pkgutil, secrets, numpy, simsimd, kb.index, kb.store.sqlite\n"
        "for package in (kb.index, kb.store.sqlite):  # nobody may not read the code\n"
        "    for one in pkgutil.iter_modules(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(one.name)\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    )
    assert child(small.path, "numpy", setup) == ("numpy", expected)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_the_file_is_as_private_as_the_store(small: SqliteStore) -> None:
    small.path.chmod(0o600)
    check(small)
    assert file_of(small).stat().st_mode & 0o777 == 0o600


# --- missing dependencies -------------------------------------------------------------------------

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
def test_another_backend_answers_for_one_that_is_missing(
    small: SqliteStore, asked: str, setup: str, used: str
) -> None:
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


# --- concurrency ----------------------------------------------------------------------------------


def test_one_reading_block_sees_one_state(small: SqliteStore) -> None:
    with small.snapshot():
        before = check(small)
        version = small.vectors.version()

        def change() -> None:
            small.catalog.delete_documents([(before[0].chunk_id - 1) // 5 + 1])
            assert check(small) != before  # a newer matrix is built in the meantime

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
    assert not seen[0].ids.flags.owndata  # mapped
    assert (seen[0].rows is None) == (seen[0].codes is not None)
    assert matrix_file.path_of(small.path) == file_of(small)
