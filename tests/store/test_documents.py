"""Documents and chunks as rows: identity, tags, and indexes that stay in step."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kb.store.sqlite.store import SqliteStore
from kb.types import Filters
from tests.store.builders import check_integrity, put


def ids(store: SqliteStore, doc_id: int) -> dict[str, int]:
    return {chunk.text: chunk.chunk_id for chunk in store.catalog.chunks(doc_id)}


def test_unchanged_chunks_keep_their_ids(store: SqliteStore) -> None:
    doc_id = put(store, "a", "one", "two", "three")
    before = ids(store, doc_id)
    assert put(store, "a", "zero", "one", "three") == doc_id
    after = ids(store, doc_id)
    assert {text: after[text] for text in ("one", "three")} == {
        text: before[text] for text in ("one", "three")
    }
    assert [chunk.text for chunk in store.catalog.chunks(doc_id)] == ["zero", "one", "three"]


def test_ids_are_never_used_twice(store: SqliteStore) -> None:
    first = put(store, "a", "one")
    chunk = ids(store, first)["one"]
    store.catalog.delete_documents([first])
    second = put(store, "a", "one")
    assert second > first
    assert ids(store, second)["one"] > chunk


def test_repeated_text_in_one_document_keeps_each_id(store: SqliteStore) -> None:
    doc_id = put(store, "a", "same", "same", "other")
    before = [chunk.chunk_id for chunk in store.catalog.chunks(doc_id)]
    put(store, "a", "same", "same", "other")
    assert [chunk.chunk_id for chunk in store.catalog.chunks(doc_id)] == before


def test_tags_of_the_file_are_replaced_and_tags_of_the_user_stay(store: SqliteStore) -> None:
    doc_id = put(store, "a", "one", tags=("draft", "ops"))
    store.catalog.tag(doc_id, ["mine"], [])
    put(store, "a", "one", tags=("ops", "final"))
    assert store.catalog.documents_by_id([doc_id])[doc_id].tags == ("final", "mine", "ops")


def test_metadata_survives(store: SqliteStore) -> None:
    said = {"owner": "Ada", "n": [1, {"deep": None}], "ключ": "значение"}
    doc_id = put(store, "a", "one", metadata=said)
    assert store.catalog.documents_by_id([doc_id])[doc_id].metadata == said


def test_deleting_what_is_not_there_counts_nothing(store: SqliteStore) -> None:
    put(store, "a", "one")
    assert store.catalog.delete_documents([99]) == 0


vocabulary = ["git", "数据库", "targetHost", "naïve", "ภาษาไทย", "\x00", "“x”", "한국어"]
words = st.lists(st.sampled_from(vocabulary))
texts = st.lists(words.map(" ".join), max_size=4)


class AnySequence(RuleBasedStateMachine):
    """Adds, changes, removals and tags in any order leave every index equal to its content."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = SqliteStore(Path(self.folder.name) / "kb.sqlite")
        self.store.create()
        self.expected: dict[str, list[str]] = {}

    @rule(path=st.sampled_from("abc"), chunks=texts)
    def write(self, path: str, chunks: list[str]) -> None:
        put(self.store, path, *chunks)
        self.expected[path] = chunks

    @rule(path=st.sampled_from("abc"))
    def remove(self, path: str) -> None:
        document = self.store.catalog.document_by_path(path)
        assert (document is not None) == (path in self.expected)
        if document is not None:
            self.store.catalog.delete_documents([document.doc_id])
            del self.expected[path]

    @invariant()
    def the_store_holds_what_was_written(self) -> None:
        found = {
            document.doc_path: [chunk.text for chunk in self.store.catalog.chunks(document.doc_id)]
            for document in self.store.catalog.documents(Filters(), None)
        }
        assert found == self.expected

    @invariant()
    def the_indexes_equal_their_content(self) -> None:
        check_integrity(self.store)

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


AnySequence.TestCase.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
TestAnySequence = AnySequence.TestCase
