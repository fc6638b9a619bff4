"""Dense search over inverted lists: exact if that is asked for or filters apply, and up to date."""

from __future__ import annotations

from array import array as numbers
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb.index import int8_codes, vector_lists
from kb.store.sqlite import dense, matrix_file
from kb.store.sqlite.store import SqliteStore
from kb.types import Encoding, Filters
from tests.store.builders import put, write_vectors
from tests.store.dense_vectors import ALL, NOW, QUERY, brute_force, embed, some_vectors

np = pytest.importorskip("numpy")


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """300 chunks in 34 lists."""
    monkeypatch.setattr(int8_codes, "MIN_ROWS", 1)
    monkeypatch.setattr(vector_lists, "MIN_ROWS", 100)
    monkeypatch.setattr(dense, "SMALL", 10)
    monkeypatch.setattr(dense, "_MIN_FILE_ROWS", 10)
    store = SqliteStore(tmp_path / "kb.sqlite")
    for number in range(60):
        tags = ("even",) if number % 2 == 0 else ()
        put(store, f"{number}", *(f"{number} {line}" for line in range(5)), tags=tags)
    embed(store, some_vectors(300))
    store.vectors.build_index(1)
    yield store
    store.close()


def search(
    store: SqliteStore, *, exact: bool = False, filters: Filters = ALL, limit: int = 10
) -> list[int]:
    found = store.vectors.nearest_dense(
        1, QUERY, filters=filters, now=NOW, limit=limit, exact=exact, backend="numpy"
    )
    return [one.chunk_id for one in found.chunks]


def probe(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    monkeypatch.setattr(vector_lists.probe, "__defaults__", (share,))


def expected(store: SqliteStore, among: range = range(1, 301), limit: int = 10) -> list[int]:
    return brute_force(store, QUERY, limit, list(among))


def lists_of(store: SqliteStore) -> int:
    with store._database.reading() as connection:
        made = store.vectors.dense.current(connection, store.vectors.models()[0])
    lists = None if made.codes is None else made.codes.lists
    return 0 if lists is None else len(lists.ends)


def test_the_lists_are_in_the_file(listed: SqliteStore) -> None:
    assert lists_of(listed) == 34
    again = SqliteStore(listed.path)
    assert lists_of(again) == 34
    again.close()
    checks = {check.part: check for check in listed.maintenance.checks(lambda _: None)}
    assert checks["vectors"].run().state == "ok"


def test_all_lists_are_exact(listed: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    probe(monkeypatch, 1.0)
    assert search(listed) == expected(listed)


def test_one_list_misses_some_unless_the_search_is_exact_or_filtered(
    listed: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe(monkeypatch, 0.01)
    assert search(listed, limit=4) != expected(listed, limit=4)
    assert search(listed, exact=True) == expected(listed)
    even = search(listed, filters=Filters(tags=("even",)))
    assert even == brute_force(
        listed, QUERY, 10, [n for n in range(1, 301) if (n - 1) // 5 % 2 == 0]
    )


def test_changes_after_the_lists_are_seen(
    listed: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe(monkeypatch, 1.0)
    first, second, *_ = expected(listed)
    vectors = listed.vectors.dense_vectors(1, [first, second])
    far = [-value for value in vectors[first]]
    write_vectors(listed, 1, [(first, Encoding(dense=numbers("f", far)))])
    put(listed, "new", "a new passage")
    write_vectors(listed, 1, [(301, Encoding(dense=numbers("f", QUERY)))])
    found = search(listed)
    assert found[0] == 301
    assert first not in found
    assert found == expected(listed, range(1, 302))
    assert lists_of(listed) == 34


def test_more_results_than_the_lists_have(
    listed: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe(monkeypatch, 0.01)
    assert search(listed, limit=250) == expected(listed, limit=250)


@pytest.mark.parametrize("array", ["order", "ends"])
def test_numbers_outside_the_arrays_are_not_trusted(listed: SqliteStore, array: str) -> None:
    with listed._database.reading() as connection:
        owner = dense._owner(connection, listed.vectors.models()[0])
    stored = matrix_file.read(listed.path, owner)
    assert stored is not None
    assert stored.codes is not None
    assert stored.codes.lists is not None
    wrong = getattr(stored.codes.lists, array).copy()
    wrong[-1] = 9999
    lists = stored.codes.lists._replace(**{array: wrong})
    codes = stored.codes._replace(lists=lists)
    assert matrix_file.write(listed.path, owner, stored._replace(codes=codes))
    assert matrix_file.read(listed.path, owner) is None
    assert search(listed, exact=True) == expected(listed)
