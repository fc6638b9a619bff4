"""The word index: the same results as FTS5, whatever has been written since its file was."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.store.sqlite import fulltext, word_files, words
from kb.store.sqlite.store import SqliteStore
from kb.types import Filters, LexicalQuery, TextMatches
from tests.store.builders import put

assert "numpy" in sys.modules  # the index is used only if it is loaded
assert np
NOW = "2026-06-01T00:00:00Z"
QUERY = LexicalQuery((("boat",), ("red",), ("runs",)))


@pytest.fixture(autouse=True)
def small_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fulltext, "MIN_INDEXED_CHUNKS", 1)
    monkeypatch.setattr(words, "MIN_INDEXED_CHUNKS", 1)


def match(store: SqliteStore, query: LexicalQuery = QUERY, **options: object) -> TextMatches:
    said: dict[str, object] = {"every": False, "filters": Filters(), "now": NOW, "limit": 50}
    return store.fulltext.match(query, **said | options)  # type: ignore[arg-type]


def by_fts5(store: SqliteStore, query: LexicalQuery = QUERY, **options: object) -> TextMatches:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fulltext, "MIN_INDEXED_CHUNKS", sys.maxsize)
        return match(store, query, **options)


def uses_index(store: SqliteStore) -> bool:
    with store._database.reading() as connection:
        return store.fulltext.words.chunk_counts(connection, ["boat"]) is not None


def path_of(store: SqliteStore) -> Path:
    return word_files.paths(store.path)[0]


def fill(store: SqliteStore, count: int = 40) -> None:
    for number in range(count):
        put(store, f"d{number}", f"boat {'red ' * (number % 4)}", f"run {number}", title="run")


def test_without_a_file_fts5_answers(store: SqliteStore) -> None:
    fill(store)
    assert not uses_index(store)
    assert match(store).chunks


def test_the_file_is_used_and_changes_nothing(store: SqliteStore) -> None:
    fill(store)
    before = match(store)
    store.fulltext.build_index()
    assert uses_index(store)
    assert match(store) == before == by_fts5(store)
    assert match(store, every=True) == by_fts5(store, every=True)
    filters = Filters(path_glob="d1*")
    assert match(store, filters=filters, limit=3) == by_fts5(store, filters=filters, limit=3)


def test_a_new_process_maps_the_file(store: SqliteStore) -> None:
    fill(store)
    store.fulltext.build_index()
    other = SqliteStore(store.path)
    assert uses_index(other)
    assert match(other) == by_fts5(store)
    other.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(data=st.data())
def test_any_writes_after_the_file(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = SqliteStore(tmp_path_factory.mktemp("words") / "kb.sqlite")
    fill(store, 6)
    store.fulltext.build_index()
    text = st.lists(st.sampled_from(["boat", "red", "runs", "other"]), max_size=6).map(" ".join)
    for _ in range(data.draw(st.integers(1, 14))):
        step = data.draw(st.sampled_from(["put", "remove", "build", "rebuild", "open"]))
        name = f"d{data.draw(st.integers(0, 9))}"
        if step == "put":
            put(store, name, *data.draw(st.lists(text, min_size=1, max_size=3)))
        elif step == "remove":
            found = [one.doc_id for one in store.catalog.documents(Filters(), None)
                     if one.doc_path == name]  # fmt: skip
            store.catalog.delete_documents(found)
        elif step == "build":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(words, "_MAX_CHANGED", 0)
                store.fulltext.build_index()
            assert store.fulltext.words.file_fault() is None
        elif step == "rebuild":
            with store._database.reading() as connection:
                store.fulltext.words.write_all(connection)
        else:
            store.close()
            store = SqliteStore(store.path)
        assert uses_index(store)
        assert match(store) == by_fts5(store)
    store.close()


def test_many_changes_are_left_to_fts5_until_the_file_is_written_again(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_MAX_CHANGED", 10)
    fill(store)
    store.fulltext.build_index()
    for number in range(6):  # two chunks each
        put(store, f"new{number}", "red boat", "runs")
        assert match(store) == by_fts5(store)
    assert not uses_index(store)
    store.fulltext.build_index()
    assert uses_index(store)
    assert match(store) == by_fts5(store)


def files_of(store: SqliteStore) -> list[str]:
    return [path.name for path in word_files.paths(store.path) if path.exists()]


def sizes(store: SqliteStore) -> list[int]:
    """The number of chunks in each file of the chain."""
    with store._database.reading() as connection:
        chain = store.fulltext.words._read_files(connection)
    return [] if chain is None else [len(layer.postings.ids) for layer in chain.layers]


def test_changes_are_written_to_small_files_and_merged(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_MAX_CHANGED", 0)
    fill(store)  # two chunks each
    store.fulltext.build_index()
    seen = [sizes(store)]
    for number in range(9):
        put(store, f"new{number}", "red boat", f"runs {number}")
        store.fulltext.build_index()
        assert match(store) == by_fts5(store)
        assert store.fulltext.words.file_fault() is None
        seen.append(sizes(store))
    assert seen == [[80], [80, 2], [80, 4], [80, 6], [80, 8], [80, 10], [80, 10, 2], [80, 14],
                    [80, 14, 2], [80, 18]]  # fmt: skip
    put(store, "large", *(f"red boat {number}" for number in range(9)))
    store.fulltext.build_index()
    assert sizes(store) == [107]
    assert files_of(store) == ["kb.sqlite-words"]
    assert match(store) == by_fts5(store)


def test_removed_and_replaced_documents_are_gone_from_all_files(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_MAX_CHANGED", 0)
    fill(store)
    store.fulltext.build_index()
    put(store, "d3", "red red red boat")
    store.fulltext.build_index()
    (doc_id,) = (one.doc_id for one in store.catalog.documents(Filters(), None)
                 if one.doc_path == "d3")  # fmt: skip
    store.catalog.delete_documents([doc_id])
    store.fulltext.build_index()
    assert len(sizes(store)) > 1
    assert match(store) == by_fts5(store)
    assert store.fulltext.words.file_fault() is None


@pytest.mark.parametrize("left", ["replaced", "newer", "damaged"])
def test_files_that_do_not_continue_the_chain_are_ignored(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    """A process that is killed leaves the files that its own file replaces."""
    fill(store)
    store.fulltext.build_index()
    monkeypatch.setattr(words, "_MAX_CHANGED", 0)
    put(store, "one", "red boat")
    store.fulltext.build_index()
    second = word_files.paths(store.path)[1]
    data = second.read_bytes()
    put(store, "two", "red boats")
    if left == "replaced":
        with store._database.reading() as connection:
            store.fulltext.words.write_all(connection)
        second.write_bytes(data)
    elif left == "newer":
        store.fulltext.build_index()
        shutil.copy(second, word_files.paths(store.path)[2])
        second.write_bytes(data)
    else:
        second.write_bytes(data[:-1])
    monkeypatch.setattr(words, "_MAX_CHANGED", 1000)
    other = SqliteStore(store.path)
    assert len(sizes(other)) == {"replaced": 1, "newer": 2, "damaged": 1}[left]
    assert uses_index(other)
    assert match(other) == by_fts5(store)
    other.close()


def test_a_recent_file_is_not_written_again(store: SqliteStore) -> None:
    fill(store)
    store.fulltext.build_index()
    written = path_of(store).stat().st_mtime_ns
    put(store, "new", "red boat")
    store.fulltext.build_index()
    assert path_of(store).stat().st_mtime_ns == written


def test_a_reader_keeps_its_state(store: SqliteStore) -> None:
    fill(store)
    store.fulltext.build_index()
    other = SqliteStore(store.path)
    with store.snapshot():
        before = match(store)
        put(other, "new", "red red boat boat")
        assert match(store) == before
    assert match(store) == by_fts5(store) != before
    other.close()


def test_a_restored_copy_does_not_use_the_file_of_later_writes(
    store: SqliteStore, tmp_path: Path
) -> None:
    fill(store)
    copy = tmp_path / "copy.sqlite"
    store.maintenance.backup(copy, overwrite=False, on_progress=lambda *_: None)
    put(store, "later", "red boat")
    store.fulltext.build_index()
    store.close()
    shutil.copy(copy, store.path)
    restored = SqliteStore(store.path)
    put(restored, "other", "red red red boat")  # the same number of changes
    assert not uses_index(restored)
    assert match(restored) == by_fts5(restored)
    restored.close()


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "folder", "other store"])
def test_a_damaged_file_is_ignored_and_repaired(
    store: SqliteStore, tmp_path: Path, damage: str
) -> None:
    fill(store)
    store.fulltext.build_index()
    path = path_of(store)
    data = bytearray(path.read_bytes())
    path.unlink()
    if damage == "truncated":
        path.write_bytes(data[:-9])
    elif damage == "flipped":
        data[-20] ^= 1
        path.write_bytes(data)
    elif damage == "empty":
        path.touch()
    elif damage == "folder":
        path.mkdir()
    else:
        other = SqliteStore(tmp_path / "other.sqlite")
        fill(other)
        other.fulltext.build_index()
        shutil.copy(path_of(other), path)
        other.close()
    assert not uses_index(store)
    assert match(store) == by_fts5(store)
    checks = {check.part: check for check in store.maintenance.checks(lambda _: None)}
    finding = checks["words"].run()
    assert finding.state == ("warning" if damage == "other store" else "error")
    assert ("another store" in finding.what) == (damage == "other store")
    if damage != "folder":
        assert checks["words"].repair is not None
        checks["words"].repair()
        assert checks["words"].run().state == "ok"
        assert uses_index(store)
        assert match(store) == by_fts5(store)


def test_doctor_compares_the_file_with_the_texts(store: SqliteStore) -> None:
    fill(store)
    store.fulltext.build_index()
    with store._database.writing() as connection:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        connection.execute("UPDATE chunks SET text = 'boat boat boat' WHERE chunk_id = 5")
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)
    (check,) = (one for one in store.maintenance.checks(lambda _: None) if one.part == "words")
    assert "differ" in check.run().what


@pytest.mark.parametrize(
    "query",
    [
        LexicalQuery((("red-boat",),)),
        LexicalQuery((("redBoat", "red boat"), ("run",))),
        LexicalQuery((("run run", "boat"),)),
        LexicalQuery((), ("東京",)),
        LexicalQuery((("...",), ("boat",))),
    ],
)
def test_phrases_unspaced_scripts_and_punctuation(store: SqliteStore, query: LexicalQuery) -> None:
    fill(store)
    put(store, "more", "a red boat in 東京", "a boat red")
    store.fulltext.build_index()
    assert uses_index(store)
    found = match(store, query)
    assert found.chunks
    assert found == by_fts5(store, query)


def test_a_store_that_cannot_be_written_builds_no_file(store: SqliteStore) -> None:
    fill(store)
    store.close()
    reader = SqliteStore(store.path, read_only=True)
    reader.fulltext.build_index()
    assert match(reader) == by_fts5(reader)
    assert not path_of(store).exists()
    reader.close()


def test_phrases_are_found_with_and_without_the_index(store: SqliteStore) -> None:
    fill(store)
    put(store, "more", "a red boat runs", "a boat red run", "boats; red. Running 東京")
    store.fulltext.build_index()
    put(store, "later", "red boat runs again")
    said: dict[str, Any] = {"prefer": (), "filters": Filters(), "now": NOW, "limit": 50}
    phrases = ["red boat", "boat red running", "red runs boat", "zzz red", "東京", ""]
    for chosen in (phrases, *([each] for each in phrases)):
        found = store.fulltext.match_phrases(chosen, **said)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fulltext, "MIN_INDEXED_CHUNKS", sys.maxsize)
            assert store.fulltext.match_phrases(chosen, **said) == found
    assert uses_index(store)


def test_a_limit_keeps_preferred_chunks_and_then_the_first(store: SqliteStore) -> None:
    fill(store)
    put(store, "more", *(f"a red boat {n}" if n % 3 else f"boats, red {n}" for n in range(40)))
    put(store, "other", "the red boats", "red boat", tags=("other",))
    store.fulltext.build_index()
    assert uses_index(store)
    chunk_ids = [one for (one,) in store._database._reader().execute("SELECT chunk_id FROM chunks")]
    for phrases in (["red boat"], ["boat"], ["red boat", "boat red", "boat"], ["zzz boat"]):
        for limit, prefer in ((1, ()), (5, chunk_ids[-9:]), (7, chunk_ids[::5]), (500, ())):
            for filters in (Filters(), Filters(tags=("other",))):
                said: dict[str, Any] = {"prefer": prefer, "filters": filters, "now": NOW}
                said["limit"] = limit
                found = store.fulltext.match_phrases(phrases, **said)
                assert len(found) <= limit
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(fulltext, "MIN_INDEXED_CHUNKS", sys.maxsize)
                    assert store.fulltext.match_phrases(phrases, **said) == found


def test_an_import_writes_the_file(store: SqliteStore, tmp_path: Path) -> None:
    fill(store)
    archive = io.BytesIO(b"".join(store.maintenance.export()))
    with KnowledgeBase(tmp_path / "copy.sqlite") as copy:
        copy.import_(archive)
        assert word_files.paths(copy.path)[0].exists()
        assert [hit.title for hit in copy.search("red boat", mode="lexical").hits]


REPEATED = """
import sys
from pathlib import Path
from kb.store.sqlite import fulltext
from kb.store.sqlite.store import SqliteStore
from kb.types import Filters, LexicalQuery

fulltext.MIN_INDEXED_CHUNKS, fulltext._WORTH_NUMPY = 1, 200
store = SqliteStore(Path(sys.argv[1]))
for _ in range(3):
    query = LexicalQuery((("boat",),))
    store.fulltext.match(query, every=False, filters=Filters(), now="", limit=1)
    print("numpy" in sys.modules)
"""


def test_repeated_searches_are_worth_loading_numpy(store: SqliteStore) -> None:
    fill(store)
    store.fulltext.build_index()
    path = store._database.path
    done = subprocess.run(
        [sys.executable, "-c", REPEATED, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False", "True"]  # 80 chunks a search
