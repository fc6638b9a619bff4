"""Editing notes over HTTP: what an edit changes, and conflicts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Running


@pytest.fixture
def note(filled: Running) -> dict[str, Any]:
    stored = filled.kb.add("The heron sleeps.", tags=["birds"], kind="lesson", scope="project",
                           ttl="7d", metadata={"source": "walk"})  # fmt: skip
    filled.kb.tag(stored.doc_path, add=["pond"])
    found: dict[str, Any] = filled.client.get(f"/notes/{stored.doc_path}").json()
    return found


def put(running: Running, note: dict[str, Any], **changes: Any) -> Any:
    names = ("text", "title", "tags", "kind", "version")
    body = {name: note[name] for name in names} | changes
    return running.client.put(f"/notes/{note['doc_path']}", json=body)


def test_a_note_is_edited(filled: Running, note: dict[str, Any]) -> None:
    assert (note["text"], note["title"]) == ("The heron sleeps.", None)
    assert note["tags"] == ["birds", "pond"]
    before = filled.kb.document(note["doc_path"])
    edited = put(filled, note, text="The heron hunts.", title="Heron", tags=["birds", "field"])
    assert edited.status_code == 200, edited.text
    assert edited.json()["tags"] == ["birds", "field"]
    after = filled.kb.document(note["doc_path"])
    assert (after.title, after.kind, after.scope) == ("Heron", "lesson", "project")
    assert (after.created_at, after.expires_at) == (before.created_at, before.expires_at)
    assert after.metadata == before.metadata
    assert [hit.doc_path for hit in filled.kb.search("hunts").hits] == [note["doc_path"]]
    assert not filled.kb.search("heron sleeps", mode="lexical").hits[0].snippet.endswith("sleeps.")


def test_a_lifetime_is_changed_or_kept(filled: Running, note: dict[str, Any]) -> None:
    edited = put(filled, note, ttl="never").json()
    assert edited["expires_at"] is None
    assert put(filled, edited, ttl="30d").json()["expires_at"] is not None


def test_an_edit_is_undone(filled: Running, note: dict[str, Any]) -> None:
    edited = put(filled, note, text="Other.", kind="decision").json()
    undone = put(filled, note | {"version": edited["version"]}).json()
    assert undone == note


@pytest.mark.parametrize("change", ["text", "tags", "removed"])
def test_a_conflict_changes_nothing(filled: Running, note: dict[str, Any], change: str) -> None:
    name = note["doc_path"]
    if change == "text":
        filled.kb.edit(name, "The heron flies.", tags=note["tags"], kind="lesson")
    elif change == "tags":
        filled.kb.tag(name, add=["new"])
    else:
        filled.kb.remove(name)
    answer = put(filled, note, text="The heron hunts.")
    expected = (404, "not_found") if change == "removed" else (409, "edit_conflict")
    assert (answer.status_code, answer.json()["code"]) == expected
    if change != "removed":
        assert "hunts" not in filled.kb.get(name).text


def test_a_change_between_the_check_and_the_write(filled: Running, note: dict[str, Any]) -> None:
    """Another process writes after the version was compared; the store compares once more."""
    name = note["doc_path"]
    stale = filled.kb.document(name)
    filled.kb.edit(name, "The heron flies.")
    from kb.errors import EditConflict
    from kb.ingest.indexer import Indexer

    indexer = Indexer(filled.kb._store, filled.kb.config)
    with pytest.raises(EditConflict):
        indexer.note("The heron hunts.", replaces=stale)
    assert filled.kb.get(name).text == "The heron flies."


def test_a_file_is_not_a_note(filled: Running) -> None:
    (path,) = [each.doc_path for each in filled.kb.documents() if each.path.endswith("retry.md")]
    assert filled.client.get(f"/notes/{path}").status_code == 422
    body = {"text": "x", "version": "1"}
    assert filled.client.put(f"/notes/{path}", json=body).status_code == 422
