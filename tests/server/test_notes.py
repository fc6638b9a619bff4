"""Editing notes over HTTP: what an edit changes, and conflicts."""

from __future__ import annotations

from typing import Any

import pytest

from kb.errors import EditConflict, Forbidden
from kb.ingest.indexer import Indexer
from kb.library.limited import LimitedKnowledgeBase
from kb.types import Limits
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
    indexer = Indexer(filled.kb._store, filled.kb.config)
    with pytest.raises(EditConflict):
        indexer.note("The heron hunts.", replaces=stale)
    assert filled.kb.get(name).text == "The heron flies."


@pytest.mark.parametrize("change", ["tags", "title", "kind"])
def test_every_change_between_the_check_and_the_write_is_noticed(
    filled: Running, note: dict[str, Any], change: str
) -> None:
    """Not only another text: an edit would undo it."""
    name = note["doc_path"]
    stale = filled.kb.document(name)
    if change == "tags":
        filled.kb.tag(name, add=["new"])
    else:
        filled.kb.edit(name, note["text"], **{"tags": note["tags"], "kind": "lesson",
                                              change: "decision"})  # fmt: skip
    changed = filled.kb.document(name)
    indexer = Indexer(filled.kb._store, filled.kb.config)
    with pytest.raises(EditConflict):
        indexer.note(note["text"], replaces=stale)
    assert filled.kb.document(name) == changed


def test_an_edit_keeps_the_tags_of_its_front_matter(filled: Running, note: dict[str, Any]) -> None:
    text = "---\ntags: [heron]\n---\nThe heron hunts."
    edited = put(filled, note, text=text, tags=["birds"])
    assert edited.json()["tags"] == ["birds", "heron"]
    assert put(filled, edited.json(), tags=[]).json()["tags"] == ["heron"]


def test_a_refused_edit_changes_nothing(filled: Running, note: dict[str, Any]) -> None:
    """The text was written before the tags, which a limited token may not write."""
    base = filled.kb
    visible = LimitedKnowledgeBase(base, Limits(tags=("birds", "heron")))
    before = base.document(note["doc_path"])
    for text in ("no front matter", "---\ntags: [fish]\n---\nother front matter"):
        with pytest.raises(Forbidden):
            visible.edit(note["doc_path"], text, tags=["pond"])
        assert base.document(note["doc_path"]) == before
    edited = visible.edit(note["doc_path"], "---\ntags: [heron]\n---\nThe heron hunts.")
    assert edited.tags == ("heron",)
    again = visible.edit(note["doc_path"], "---\ntags: [heron]\n---\nThe heron rests.")
    assert again.tags == ("heron",)
    assert base.get(note["doc_path"]).text.endswith("rests.")


def test_a_file_is_not_a_note(filled: Running) -> None:
    (path,) = [each.doc_path for each in filled.kb.documents() if each.path.endswith("retry.md")]
    assert filled.client.get(f"/notes/{path}").status_code == 422
    body = {"text": "x", "version": "1"}
    assert filled.client.put(f"/notes/{path}", json=body).status_code == 422
