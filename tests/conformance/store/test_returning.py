"""Documents that are removed and come back: their tags, accesses and roots."""

from __future__ import annotations

from typing import Any

import pytest

from kb.ports import Store
from tests.conformance.store.samples import chunks, draft, put


def _put_file(store: Store, path: str, root: str = "/lib", *, whole: bool = True) -> int:
    made = store.catalog.ensure_root(root, whole=whole)
    return put(store, path, "one", root_id=made.root_id, doc_path=f"{made.name}/{path}")


def _put_and_tag(store: Store, path: str, *tags: str, **fields: Any) -> int:
    doc_id = _put_file(store, path, **fields)
    store.catalog.tag(doc_id, tags, [])
    return doc_id


def test_a_document_that_returns_gets_its_tags_and_accesses_back(store: Store) -> None:
    doc_id = _put_and_tag(store, "p/a.md", "mine", "Wichtig")
    _put_and_tag(store, "b.md", "other")
    store.catalog.record_access(doc_id)
    store.catalog.record_access(doc_id)
    assert store.catalog.delete_documents([doc_id], restorable=True) == 1
    assert store.catalog.tags() == {"other": 1}
    back = _put_file(store, "p/a.md")
    assert back != doc_id
    assert store.catalog.tag_sources(back) == {"mine": "user", "Wichtig": "user"}
    assert store.catalog.documents_by_id([back])[back].access_count == 2
    store.catalog.tag(back, [], ["mine"])
    store.catalog.delete_documents([back], restorable=True)
    again = _put_file(store, "p/a.md")
    assert store.catalog.tag_sources(again) == {"Wichtig": "user"}


def test_a_document_returns_to_its_own_path_and_root_only(store: Store) -> None:
    doc_id = _put_and_tag(store, "a.md", "mine")
    store.catalog.delete_documents([doc_id], restorable=True)
    for path, root in (("b.md", "/lib"), ("a.md", "/other"), ("A.md", "/lib")):
        assert store.catalog.tag_sources(_put_file(store, path, root)) == {}
    assert store.catalog.tag_sources(put(store, "", "a note", body="a note")) == {}
    assert store.catalog.tag_sources(_put_file(store, "a.md")) == {"mine": "user"}


def test_tags_of_the_file_come_from_the_file_when_it_returns(store: Store) -> None:
    root = store.catalog.ensure_root("/lib", whole=True)
    fields: dict[str, Any] = {"root_id": root.root_id, "doc_path": "lib/a.md"}
    doc_id = put(store, "a.md", "one", tags=("draft",), **fields)
    store.catalog.tag(doc_id, ["mine", "both"], [])
    store.catalog.delete_documents([doc_id], restorable=True)
    back = put(store, "a.md", "one", tags=("both",), **fields)
    assert store.catalog.tag_sources(back) == {"mine": "user", "both": "file"}


def test_a_single_file_returns_although_its_root_was_dropped(store: Store) -> None:
    doc_id = _put_and_tag(store, "a.md", "mine", whole=False)
    store.catalog.delete_documents([doc_id], restorable=True)
    assert store.catalog.roots() == []
    back = _put_file(store, "a.md", whole=False)
    assert store.catalog.tag_sources(back) == {"mine": "user"}


def test_a_file_that_moves_to_the_path_gets_the_tags_too(store: Store) -> None:
    doc_id = _put_and_tag(store, "a.md", "mine")
    other = _put_and_tag(store, "b.md", "other")
    store.catalog.delete_documents([doc_id], restorable=True)
    root = store.catalog.ensure_root("/lib", whole=True)
    moved = draft("a.md", root_id=root.root_id, doc_path="lib/a.md")
    store.catalog.write_document(moved, chunks("one"), moved_from=other)
    assert store.catalog.tag_sources(other) == {"mine": "user", "other": "user"}


@pytest.mark.parametrize("name", ["lib", "lib/p", "lib/p/a.md"])
def test_a_document_that_the_user_removes_is_forgotten(store: Store, name: str) -> None:
    doc_id = _put_and_tag(store, "p/a.md", "mine")
    store.catalog.delete_documents([doc_id])
    back = _put_file(store, "p/a.md")
    assert store.catalog.tag_sources(back) == {}
    store.catalog.tag(back, ["mine"], [])
    store.catalog.delete_documents([back], restorable=True)
    store.catalog.delete_documents([], roots=[name])
    assert store.catalog.tag_sources(_put_file(store, "p/a.md")) == {}


@pytest.mark.parametrize("name", ["li", "library", "lib/p/a", "lib/p/a.md.txt", "p", "lib/%"])
def test_other_names_forget_nothing(store: Store, name: str) -> None:
    doc_id = _put_and_tag(store, "p/a.md", "mine")
    store.catalog.delete_documents([doc_id], restorable=True)
    store.catalog.delete_documents([], roots=[name])
    assert store.catalog.tag_sources(_put_file(store, "p/a.md")) == {"mine": "user"}


def test_removed_documents_follow_their_root_to_another_folder(store: Store) -> None:
    first = _put_and_tag(store, "a.md", "there", root="/mnt/lib", whole=False)
    store.catalog.delete_documents([first], restorable=True)
    second = _put_and_tag(store, "a.md", "here")
    store.catalog.delete_documents([second], restorable=True)
    root = store.catalog.ensure_root("/lib", whole=True)
    store.catalog.attach_root(root.root_id, "/mnt/lib")
    back = _put_file(store, "a.md", root="/mnt/lib")
    assert store.catalog.tag_sources(back) == {"here": "user", "there": "user"}
