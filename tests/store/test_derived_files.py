"""Files beside the store that are derived from it: however one is damaged or forged, a search
returns what it returns without the file, and `kb doctor` finds and repairs it."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kb.index import int8_codes
from kb.store.sqlite import array_file, dense, fulltext, matrix_file, word_files, words
from kb.store.sqlite.array_file import Content
from kb.store.sqlite.store import SqliteStore
from kb.types import Filters, LexicalQuery
from tests.store.builders import put
from tests.store.dense_vectors import NOW, QUERY, ask, embed, some_vectors

np = pytest.importorskip("numpy")
pytest.importorskip("simsimd")

WORDS = "boat red hull anchor storm retry jitter gateway battery cold night".split()
FILES: dict[str, Callable[[Path], Path]] = {
    "words": lambda store: word_files.paths(store)[0],
    "vectors": matrix_file.path_of,
}
CHECKS = {"words": "words", "vectors": "vectors"}  # the names of the checks of `kb doctor`
ARRAYS = {
    "words": ["ids", "lengths", "term_bytes", "term_ends", "starts", "places", "counts",
              "pair_bits", "pair_ends", "changed"],
    "vectors": ["ids", "center", "codes", "scales"],
}  # fmt: skip
ABOUT = {"words": ["store_id", "since", "mark"], "vectors": ["owner", "mark", "bounds"]}


@pytest.fixture(autouse=True)
def small_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fulltext, "MIN_INDEXED_CHUNKS", 1)
    monkeypatch.setattr(words, "MIN_INDEXED_CHUNKS", 1)
    monkeypatch.setattr(dense, "_MIN_FILE_ROWS", 1)
    monkeypatch.setattr(int8_codes, "MIN_ROWS", 1)


def make(path: Path, seed: int) -> SqliteStore:
    store = SqliteStore(path)
    choose = random.Random(seed)
    for number in range(20):
        put(store, f"d{number}", *(" ".join(choose.choices(WORDS, k=30)) for _ in range(3)))
    embed(store, some_vectors(60, seed=seed))
    store.fulltext.build_index()
    ask(store, QUERY, "numpy")  # writes the file
    return store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = make(tmp_path / "kb.sqlite", seed=1)
    yield made
    made.close()


def answers(path: Path) -> list[Any]:
    """What a new process finds by words, by a phrase and by vectors."""
    store = SqliteStore(path)
    try:
        queries = [LexicalQuery((("boat",), ("red",))), LexicalQuery((("red boat",), ("cold",)))]
        by_words = [
            store.fulltext.match(each, every=False, filters=Filters(), now=NOW, limit=9)
            for each in queries
        ]
        return [*by_words, ask(store, QUERY, "numpy", 9)]
    finally:
        store.close()


def faults(path: Path, kind: str) -> list[str]:
    """What `kb doctor` finds in the file, before and after it repairs it."""
    store = SqliteStore(path)
    try:
        checks = {check.part: check for check in store.maintenance.checks(lambda _: None)}
        check = checks[CHECKS[kind]]
        before = check.run()
        if before.state != "ok" and check.repair is not None:
            check.repair()
        return [before.state, check.run().state]
    finally:
        store.close()


# --- damage ---------------------------------------------------------------------------------------


def flipped(data: bytes, seed: int) -> bytes:
    changed = bytearray(data)
    for place in random.Random(seed).sample(range(len(data)), 9):
        changed[place] ^= 0x55
    return bytes(changed)


def with_header(data: bytes, kind: str, body: bytes) -> bytes:
    """The file with another header, and the right checksum."""
    first = f"{array_file._first_line(kind)} {zlib.crc32(body):08x}\n".encode()
    return (first + body).ljust(4095) + b"\n" + data[4096:]


DAMAGES: dict[str, Callable[[bytes, str], bytes]] = {
    "empty": lambda data, kind: b"",
    "random": lambda data, kind: random.Random(1).randbytes(len(data)),
    "short": lambda data, kind: data[:50],
    "header only": lambda data, kind: data[:4096],
    "truncated": lambda data, kind: data[:-8],
    "longer": lambda data, kind: data + bytes(8),
    "zeros": lambda data, kind: data[:4096] + bytes(len(data) - 4096),
    "bits": lambda data, kind: flipped(data, 2),
    "header {}": lambda data, kind: with_header(data, kind, b"{}"),
    "header []": lambda data, kind: with_header(data, kind, b"[]"),
    "header null": lambda data, kind: with_header(data, kind, b"null"),
    "header deep": lambda data, kind: with_header(data, kind, b"[" * 3900),
    "header long number": lambda data, kind: with_header(data, kind, b"9" * 3900),
    "header not UTF-8": lambda data, kind: with_header(data, kind, b'{"about": "\xff"}'),
    "no arrays": lambda data, kind: with_header(data, kind, b'{"about": {}, "arrays": {}}')[:4096],
    "odd arrays": lambda data, kind: with_header(
        data, kind, b'{"about": {}, "arrays": {"ids": [["<i8"], [-1], 0]}}'
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", FILES)
def test_damaged_bytes(store: SqliteStore, kind: str, damage: str) -> None:
    file = FILES[kind](store.path)
    before = answers(store.path)
    store.close()
    damaged = DAMAGES[damage](file.read_bytes(), kind)
    file.write_bytes(damaged)
    assert answers(store.path) == before
    file.write_bytes(damaged)
    assert faults(store.path, kind) == ["error", "ok"]
    assert answers(store.path) == before


# --- forged files ---------------------------------------------------------------------------------


def forge(file: Path, kind: str, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Change the metadata and the arrays of a file, and write it with the right checksums."""
    content = array_file.read(file, kind, lambda each: each)
    assert content is not None
    about = json.loads(json.dumps(dict(content.about)))
    arrays = {name: np.array(each) for name, each in content.arrays.items()}
    change(about, arrays)
    file.unlink()
    assert array_file.write(file, kind, Content(about, arrays), like=file.parent / "kb.sqlite")


VALUES = [None, 7, "x", [], ["a", "b"], {"a": 1}, [2**70, 1], [-(2**70), 1], [1, 2, 3], [0.5, 1]]


@pytest.mark.parametrize("kind", FILES)
def test_forged_metadata(store: SqliteStore, kind: str) -> None:
    file = FILES[kind](store.path)
    before, whole = answers(store.path), file.read_bytes()
    store.close()
    for name in ABOUT[kind]:
        for value in VALUES:
            if (name, value) == ("bounds", None):  # the file of a store with few vectors
                continue
            file.write_bytes(whole)
            forge(file, kind, lambda about, _, n=name, v=value: about.update({n: v}))  # type: ignore[misc]
            assert answers(store.path) == before, (name, value)
        file.write_bytes(whole)
        forge(file, kind, lambda about, _, n=name: about.pop(n))  # type: ignore[misc]
        assert answers(store.path) == before, name


def extreme(array: Any, place: int) -> Any:
    changed = array.copy()
    changed.flat[place] = np.iinfo(array.dtype).max
    return changed


def far(array: Any) -> Any:
    return array.dtype.type(min(1_000_000, np.iinfo(array.dtype).max // 2))


FORGERIES: dict[str, Callable[[Any], Any]] = {
    "missing": lambda array: None,
    "short": lambda array: array[:-1],
    "empty": lambda array: array[:0],
    "flat": lambda array: array.reshape(-1)[: len(array) // 2],
    "deep": lambda array: array.reshape(*array.shape, 1),
    "wide": lambda array: array.astype("f8"),
    "swapped": lambda array: array.astype(array.dtype.newbyteorder()),
    "signed": lambda array: array.astype("i2"),
}
POINTERS = {
    "first": lambda array: extreme(array, 0),
    "middle": lambda array: extreme(array, len(array) // 2),
    "last": lambda array: extreme(array, -1),
    "negative": lambda array: array - far(array),
    "beyond": lambda array: array + far(array),
    "constant": lambda array: array * array.dtype.type(0),
    "backward": lambda array: array[::-1].copy(),
}


@pytest.mark.parametrize("kind", FILES)
def test_forged_types_and_shapes(store: SqliteStore, kind: str) -> None:
    _forge_arrays(store, kind, dict.fromkeys(ARRAYS[kind], FORGERIES))


@pytest.mark.parametrize("name", ["term_ends", "starts", "pair_ends"])
def test_numbers_that_point_outside(store: SqliteStore, name: str) -> None:
    _forge_arrays(store, "words", {name: POINTERS})


def test_places_that_point_outside(store: SqliteStore) -> None:
    outside = {each: POINTERS[each] for each in ("first", "middle", "last", "negative", "beyond")}
    _forge_arrays(store, "words", {"places": outside})


def _forge_arrays(
    store: SqliteStore, kind: str, forgeries: dict[str, dict[str, Callable[[Any], Any]]]
) -> None:
    file = FILES[kind](store.path)
    before, whole = answers(store.path), file.read_bytes()
    store.close()
    for name, changes in forgeries.items():
        for change in changes.values():
            file.write_bytes(whole)

            def replace(_: Any, arrays: dict[str, Any], name: str = name, by: Any = change) -> None:
                made = by(arrays.pop(name))
                if made is not None:
                    arrays[name] = made

            forge(file, kind, replace)
            assert answers(store.path) == before, (name, change)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("words", "ids"), ("words", "places"), ("words", "lengths"), ("vectors", "ids"),
     ("vectors", "codes"), ("vectors", "scales")],
)  # fmt: skip
def test_numbers_that_are_only_wrong_are_found_by_doctor(
    store: SqliteStore, kind: str, name: str
) -> None:
    file = FILES[kind](store.path)
    before = answers(store.path)
    store.close()

    def change(_: Any, arrays: dict[str, Any]) -> None:
        array = arrays[name]
        if name == "places":
            array[:] = 0
        else:
            arrays[name] = array + array.dtype.type(100)

    forge(file, kind, change)
    answers(store.path)  # the results may be wrong, but there is no error
    assert faults(store.path, kind) == ["error", "ok"]
    assert answers(store.path) == before


@pytest.mark.parametrize("kind", FILES)
def test_the_file_of_another_store(store: SqliteStore, tmp_path: Path, kind: str) -> None:
    other = make(tmp_path / "other" / "kb.sqlite", seed=2)
    other.close()
    before = answers(store.path)
    store.close()
    for source in FILES.values():  # of the same kind, and of the other one
        FILES[kind](store.path).write_bytes(source(other.path).read_bytes())
        assert answers(store.path) == before


def test_a_file_of_an_earlier_version_loses_its_vectors(store: SqliteStore) -> None:
    """Earlier versions wrote the vectors beside their codes."""
    file = matrix_file.path_of(store.path)
    before, short = answers(store.path), file.stat().st_size
    vectors = store.vectors.dense_vectors(1, range(1, 61))
    store.close()

    def add_rows(_: Any, arrays: dict[str, Any]) -> None:
        arrays["rows"] = np.array([vectors[one] for one in arrays["ids"].tolist()], np.float32)

    forge(file, "vectors", add_rows)
    long = file.read_bytes()
    read_only = SqliteStore(store.path, read_only=True)
    assert ask(read_only, QUERY, "numpy", 9) == before[-1]
    read_only.close()
    assert file.read_bytes() == long
    assert faults(store.path, "vectors") == ["ok", "ok"]
    assert answers(store.path) == before
    assert file.stat().st_size == short


def test_the_names_of_all_arrays(store: SqliteStore) -> None:
    """Fails if an array is added that the tests here do not forge."""
    for kind, path_of in FILES.items():
        content = array_file.read(path_of(store.path), kind, lambda each: each)
        assert content is not None
        assert list(content.arrays) == ARRAYS[kind]
        assert list(content.about) == ABOUT[kind]
