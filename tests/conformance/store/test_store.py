"""The store itself: creation, locations, and snapshots under concurrent writes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kb.errors import StoreMissing, StoreReadOnly
from kb.ports import Store
from kb.store import local_path, open_store
from kb.types import Filters, LexicalQuery
from tests.conformance.store.conftest import Stores
from tests.conformance.store.samples import EVERYTHING, NOW, embed, put


def paths(store: Store) -> list[str]:
    return [document.doc_path for document in store.catalog.documents(Filters(), NOW)]


def test_opening_creates_nothing(stores: Stores) -> None:
    store = stores.open()
    assert not store.exists()
    assert store.catalog.roots() == []
    with pytest.raises(StoreMissing):
        store.catalog.version()
    assert not store.exists()


def test_create_and_the_first_write_create(stores: Stores) -> None:
    stores.open("created").create()
    assert stores.open("created").exists()
    put(stores.open("written"), "a", "text")
    assert paths(stores.open("written")) == ["a"]


def test_create_keeps_what_is_there(store: Store) -> None:
    put(store, "a", "text")
    store.create()
    assert paths(store) == ["a"]


def test_location_and_path_identify_the_store(stores: Stores) -> None:
    one, same, other = stores.open(), stores.open(), stores.open("other")
    assert one.location == same.location != other.location
    assert one.path == same.path != other.path
    assert one.path.is_absolute()


def test_a_store_keeps_its_id(stores: Stores) -> None:
    one, same, other = stores.open(), stores.open(), stores.open("other")
    put(one, "a", "text")
    put(other, "a", "text")
    first = one.store_id()
    put(same, "b", "text")
    assert first == same.store_id() != other.store_id()


def test_a_read_only_store_can_be_read(stores: Stores) -> None:
    put(stores.open(), "a", "text")
    reader = stores.open(read_only=True)
    assert paths(reader) == ["a"]
    with pytest.raises(StoreReadOnly):
        put(reader, "b", "text")


def test_a_closed_store_can_be_used_again(store: Store) -> None:
    put(store, "a", "text")
    store.close()
    assert paths(store) == ["a"]


def test_a_snapshot_does_not_see_later_writes(stores: Stores) -> None:
    store, writer = stores.open(), stores.open()
    put(store, "a", "word")
    query = LexicalQuery((("word",),))
    with store.snapshot():
        before = (paths(store), store.catalog.version(), store.catalog.counts())
        put(writer, "b", "word")
        writer.catalog.delete_documents([1])
        embed(writer)
        with store.snapshot():  # a nested snapshot is the outer one
            assert (paths(store), store.catalog.version(), store.catalog.counts()) == before
        assert len(store.fulltext.match(query, every=False, **EVERYTHING).chunks) == 1
        assert store.vectors.models() == []
    assert paths(store) == ["b"]
    assert len(store.vectors.models()) == 1


def test_each_thread_has_its_own_snapshot(store: Store) -> None:
    put(store, "a", "text")
    entered, written = threading.Event(), threading.Event()

    def read() -> tuple[list[str], list[str]]:
        with store.snapshot():
            before = paths(store)
            entered.set()
            assert written.wait(30)
            return before, paths(store)

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        assert entered.wait(30)
        put(store, "b", "text")
        assert paths(store) == ["a", "b"]
        written.set()
        assert reading.result(30) == (["a"], ["a"])


def test_readers_see_whole_documents_while_others_write(stores: Stores) -> None:
    """Every state that a reader sees was committed by one write."""
    store, done = stores.open(), threading.Event()
    doc_id = put(store, "a", *["0"] * 5)

    def write() -> None:
        for number in range(1, 40):
            put(writer, "a", *[str(number)] * 5)
        done.set()

    writer, seen = stores.open(), set()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not done.is_set():
            with store.snapshot():
                texts = [chunk.text for chunk in store.catalog.chunks(doc_id)]
                (count,) = {store.catalog.chunk_count(), store.catalog.counts().chunks}
            assert len(set(texts)) == 1
            assert len(texts) == count == 5
            seen.add(texts[0])
        writing.result(30)


def test_urls(stores: Stores) -> None:
    """The path of a store is known without opening it: settings are found beside it."""
    store = stores.open()
    again = open_store(store.location)
    assert again.path == store.path == local_path(store.location)
    again.close()
