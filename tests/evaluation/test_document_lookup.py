"""Names of documents in judgments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.errors import EvalDataError
from kb.evaluation.document_lookup import resolve_documents
from kb.evaluation.qrels import Collection
from kb.store.sqlite.store import SqliteStore

FILES = ("guides/power budget.md", "guides/index.md", "notes/index.md", "notes/café.md", "a.md")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    for name in FILES:
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n\nabout it\n", encoding="utf-8")
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        kb.ingest(tmp_path / "lib")
        kb.add("a note")
    found = SqliteStore(tmp_path / "kb.sqlite", read_only=True)
    yield found
    found.close()


def judged(*names: str) -> Collection:
    return Collection("mine", "all", {"q": "q"}, {"q": dict.fromkeys((*names, "lib/a.md"), 1)})


def meant(store: SqliteStore, name: str) -> list[str]:
    found, unknown = resolve_documents(judged(name), store, exact=False)
    assert not unknown
    return [path for path in found.qrels["q"] if path != "lib/a.md"]


@pytest.mark.parametrize(
    "name",
    [
        "lib/guides/power budget.md",
        "lib/guides/power%20budget.md",
        "lib/guides/power%20budget.md#L1-L3",
        "./lib/guides/power budget.md",
        "lib\\guides\\power budget.md",
        "/home/ada/lib/guides/power budget.md",
        "guides/power budget.md",
        "power budget.md",
        "power%20budget.md#L1",
    ],
)
def test_ways_to_name_a_document(store: SqliteStore, name: str) -> None:
    assert meant(store, name) == ["lib/guides/power budget.md"]


def test_other_spellings(store: SqliteStore) -> None:
    assert meant(store, "lib/notes/cafe\u0301.md") == ["lib/notes/café.md"]
    [note] = meant(store, "note:6")
    assert note == "note:6"


def test_an_ambiguous_name_is_reported(store: SqliteStore) -> None:
    with pytest.raises(EvalDataError) as caught:
        resolve_documents(judged("index.md"), store, exact=False)
    assert "matches 2 documents: lib/guides/index.md, lib/notes/index.md" in caught.value.message
    assert "more of the path" in caught.value.hint
    assert meant(store, "notes/index.md") == ["lib/notes/index.md"]


@pytest.mark.parametrize("name", ["6", "budget.md", "b.md", "lib", "lib/a.md#section", "é" * 5_000])
def test_names_without_a_document(store: SqliteStore, name: str) -> None:
    """A number is not a name: it is an id of another collection, and would match any document."""
    found, unknown = resolve_documents(judged(name), store, exact=False)
    assert unknown == {name}
    assert name in found.qrels["q"]


def test_ids_of_a_corpus_are_exact(store: SqliteStore) -> None:
    _, unknown = resolve_documents(judged("power budget.md", "lib/a.md#L1"), store, exact=True)
    assert unknown == {"power budget.md", "lib/a.md#L1"}


def test_two_names_of_one_document(store: SqliteStore) -> None:
    same = judged("a.md")
    assert resolve_documents(same, store, exact=False)[0].qrels == {"q": {"lib/a.md": 1}}
    with pytest.raises(EvalDataError, match=r"two grades for 'lib/a\.md'"):
        resolve_documents(
            replace(same, qrels={"q": {"a.md": 2, "lib/a.md": 1}}), store, exact=False
        )


def test_the_wrong_store(store: SqliteStore) -> None:
    wrong = Collection("mine", "all", {"q": "q"}, {"q": {"else.md": 1, "other.md": 0}})
    with pytest.raises(EvalDataError, match=r"none of the 2 judged documents.* 'else\.md'"):
        resolve_documents(wrong, store, exact=False)
