"""The indexes follow every write of documents."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kb.store.sqlite.store import SqliteStore
from kb.types import Filters
from tests.store.builders import check_integrity, put

vocabulary = ["git", "数据库", "targetHost", "naïve", "ภาษาไทย", "\x00", "“x”", "한국어"]
words = st.lists(st.sampled_from(vocabulary))
texts = st.lists(words.map(" ".join), max_size=4)


class AnySequence(RuleBasedStateMachine):
    """Adds, changes, removals and tags in any order leave every index equal to the chunks."""

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
