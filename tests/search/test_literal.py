"""Literal matches in a search: first, found in the whole index, and explained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kb import KnowledgeBase, wire
from tests.models.weightless import Weightless
from tests.schemas import validate


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as opened:
        for number in range(40):
            opened.add(f"locked database, database locked: is it? number {number}")
        opened.add("It failed: database is locked. Later it worked, after a long wait.", title="it")
        opened.add("The cache keeps pages.", title="stem")
        opened.add("We talk about caching and other long stories of a day.", title="form")
        opened.embed()
        yield opened


def titles(kb: KnowledgeBase, query: str, **asked: object) -> list[str]:
    return [hit.title for hit in kb.search(query, **asked)]  # type: ignore[arg-type]


def test_the_whole_query_comes_first(kb: KnowledgeBase) -> None:
    assert titles(kb, "database is locked")[0] == "it"
    assert titles(kb, "Database is LOCKED?")[0] == "it"
    assert titles(kb, "database is locked", settings={"literal": False})[0] != "it"
    assert titles(kb, "database is locked", mode="lexical")[0] != "it"


def test_it_is_found_beyond_the_candidates(kb: KnowledgeBase) -> None:
    found = kb.search("database is locked", settings={"candidates": "3"})
    assert found.hits[0].title == "it"
    assert found.hits[0].sources == ()
    validate(wire.response(found))


def test_the_form_of_a_word_beats_its_stem(kb: KnowledgeBase) -> None:
    assert titles(kb, "caching")[:2] == ["form", "stem"]
    assert titles(kb, "cache")[:2] == ["stem", "form"]


def test_a_longer_list_starts_with_the_shorter_one(kb: KnowledgeBase) -> None:
    longest = kb.search("database is locked", top=43, settings={"candidates": "5"}).hits
    scores = [hit.score for hit in longest]
    assert scores == sorted(scores, reverse=True)
    for top in (1, 3, 6, 20):
        shorter = kb.search("database is locked", top=top, settings={"candidates": "5"}).hits
        assert [hit.chunk_id for hit in shorter] == [hit.chunk_id for hit in longest[:top]]
        assert [hit.score for hit in shorter] == scores[:top]


def test_without_a_model(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=None) as kb:
        kb.add("git git git push, then force: push git force")
        kb.add("a word or two about `git push --force` and what it does to others", title="it")
        found = kb.search("git push --force", explain=True)
    assert found.hits[0].title == "it"


def test_it_is_explained(kb: KnowledgeBase) -> None:
    found = kb.search("database is locked", explain=True)
    validate(wire.response(found))
    assert found.explain is not None
    assert found.explain["hits"][0]["literal"] == "verbatim"
    assert "literal" not in found.explain["hits"][1]
    stage = next(one for one in found.explain["stages"] if one["stage"] == "literal")
    assert (stage["verbatim"], stage["words"]) == (1, 0)


def test_filters_hold(kb: KnowledgeBase) -> None:
    from kb.types import Filters

    assert "it" not in titles(kb, "database is locked", filters=Filters(kind=("decision",)))
