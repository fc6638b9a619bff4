"""One query, run with six methods: each returns what a search would, and failures are reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import Filters, KnowledgeBase, wire
from kb.errors import InvalidRequest, QuerySyntax, StoreMissing
from kb.search import compare as comparing
from kb.search.compare import METHODS, overlaps
from kb.types import COMPARED, Compared, Comparison
from tests.models.weightless import unexamined
from tests.schemas import validate
from tests.search.conftest import Failing


@pytest.fixture
def shelf(tmp_path: Path, encoder: Failing) -> Iterator[KnowledgeBase]:
    """A store that is reranked with token vectors, which the encoder of these tests returns too."""
    config = unexamined({"research": {"rerank": "colbert"}})
    with KnowledgeBase(tmp_path / "shelf.sqlite", config=config, encoder=encoder) as kb:
        for number in range(12):
            tags = ["even"] if number % 2 == 0 else []
            kb.add(f"harbour {'keys ' * (number % 3)}boat{number % 4}", tags=tags)
        kb.add("flour water salt")
        kb.embed()
        yield kb


def ids(found: object) -> list[int]:
    return [hit.chunk_id for hit in found]  # type: ignore[attr-defined]


def test_every_method_is_a_search(shelf: KnowledgeBase) -> None:
    found = shelf.compare("harbour keys", top=5)
    validate(wire.comparison(found))
    assert tuple(found.methods) == COMPARED == tuple(METHODS)
    assert all(method.error is None and method.degraded == () for method in found.methods.values())
    searches = {
        "fts5_only": shelf.search("harbour keys", mode="lexical", top=5),
        "dense_only": shelf.search("harbour keys", mode="vector", top=5),
        "sparse_only": shelf.search("harbour keys", mode="sparse", top=5),
        "two_way_hybrid": shelf.search(
            "harbour keys", profile="notes", settings={"candidates": 100}, top=5
        ),
        "three_way_hybrid": shelf.search("harbour keys", profile="research", rerank=False, top=5),
        "three_way_reranked": shelf.search("harbour keys", profile="research", rerank=True, top=5),
    }  # fmt: skip
    for name, search in searches.items():
        assert found.methods[name].hits == search.hits
        assert len(search.hits) == 5
    assert found.wall_ms >= found.shared_ms + sum(
        method.latency_ms for method in found.methods.values()
    )


def test_the_query_is_encoded_before(shelf: KnowledgeBase, encoder: Failing) -> None:
    encoder.calls.clear()
    shelf.compare("harbour keys")
    assert encoder.calls == [("warm",), ("harbour keys",)]


def test_filters_and_top(shelf: KnowledgeBase) -> None:
    found = shelf.compare("harbour", top=3, filters=Filters(tags=("even",)))
    assert found.top == 3
    for method in found.methods.values():
        assert len(method.hits) == 3
        assert all("even" in hit.tags for hit in method.hits)
    assert len(shelf.compare("harbour").methods["dense_only"].hits) == 10


def test_words_only(kb: KnowledgeBase) -> None:
    """Methods that need a model report that there is none; the others run."""
    kb.add("harbour keys")
    found = kb.compare("harbour")
    validate(wire.comparison(found))
    codes = {name: method.error and method.error["code"] for name, method in found.methods.items()}
    assert {name for name, code in codes.items() if code == "no_model"} == {
        "dense_only", "sparse_only", "three_way_reranked",
    }  # fmt: skip
    assert ids(found.methods["two_way_hybrid"].hits) == ids(found.methods["fts5_only"].hits)
    assert {pair.first for pair in found.overlap} | {pair.second for pair in found.overlap} == {
        name for name, code in codes.items() if code is None
    }


def test_vectors_that_are_pending(hybrid: KnowledgeBase) -> None:
    hybrid.add("harbour keys")
    found = hybrid.compare("harbour")
    validate(wire.comparison(found))
    assert found.methods["dense_only"].error == {
        "code": "pending",
        "message": "1 passage has no dense vectors yet",
        "hint": "to create them, run: kb embed",
    }
    told = [(part.part, part.reason) for part in found.methods["three_way_hybrid"].degraded]
    assert told == [("dense", "pending"), ("sparse", "pending")]


def test_one_that_fails_leaves_the_others(shelf: KnowledgeBase) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("bang")

    shelf._store.vectors.nearest_sparse = fails  # type: ignore[assignment,method-assign]
    found = shelf.compare("harbour keys")
    validate(wire.comparison(found))
    assert found.methods["sparse_only"].error is not None
    assert "bang" in found.methods["sparse_only"].error["message"]
    assert found.methods["three_way_hybrid"].hits
    assert [one.part for one in found.methods["three_way_hybrid"].degraded] == ["sparse"]
    assert found.methods["two_way_hybrid"].degraded == ()


@pytest.mark.parametrize("query", ["", "?!", "nosuchword"])
def test_queries_that_find_little(shelf: KnowledgeBase, query: str) -> None:
    found = shelf.compare(query)
    validate(wire.comparison(found))
    assert found.methods["fts5_only"].hits == ()


def test_an_error_for_all_methods_is_raised(shelf: KnowledgeBase, tmp_path: Path) -> None:
    with pytest.raises(QuerySyntax):
        shelf.compare("'harbour AND'")
    for top in (0, -1, "x", True):
        with pytest.raises(InvalidRequest):
            shelf.compare("harbour", top=top)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        shelf.compare("harbour", filters=Filters(kind=("film",)))
    with KnowledgeBase(tmp_path / "none.sqlite") as none, pytest.raises(StoreMissing):
        none.compare("harbour")


def test_an_expression(shelf: KnowledgeBase) -> None:
    found = shelf.compare("'harbour NOT keys'")
    validate(wire.comparison(found))
    words = ids(found.methods["fts5_only"].hits)
    assert words
    assert ids(found.methods["three_way_hybrid"].hits) == words
    told = {name: [part.reason for part in each.degraded] for name, each in found.methods.items()}
    alone = ["fts5_only", "dense_only", "sparse_only"]
    assert told == {name: [] if name in alone else ["expression"] for name in COMPARED}


@pytest.mark.parametrize("query", ["超级碗在哪里", "'harbour NOT keys'", "?!"])
def test_the_model_is_loaded_before_the_time_is_taken(
    tmp_path: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for queries that the search before it does not encode."""
    encoder = Failing()
    encoder.spec = replace(encoder.spec, scripts=("Latin",))
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=encoder) as kb:
        kb.add("harbour 超级碗")
        kb.embed()
        encoder.calls.clear()
        before: list[int] = []
        real = comparing._method

        def counted(*asked: Any, **more: Any) -> Compared:
            before.append(len(encoder.calls))
            return real(*asked, **more)

        monkeypatch.setattr(comparing, "_method", counted)
        kb.compare(query)
        assert before[0] >= 1


def test_nothing_found_is_not_an_error_while_vectors_are_pending(shelf: KnowledgeBase) -> None:
    shelf.add("a passage that has no vectors yet")
    found = shelf.compare("harbour", filters=Filters(tags=("nosuchtag",)))
    validate(wire.comparison(found))
    assert [one.error for one in found.methods.values()] == [None] * len(COMPARED)
    assert all(one.hits == () for one in found.methods.values())
    for name in ("dense_only", "sparse_only"):
        assert [part.reason for part in found.methods[name].degraded] == ["pending"]


# --- overlap --------------------------------------------------------------------------------------


class _Hit:
    def __init__(self, chunk_id: int) -> None:
        self.chunk_id = chunk_id


def compared(*chunk_ids: int) -> Compared:
    return Compared(hits=tuple(_Hit(each) for each in chunk_ids))  # type: ignore[misc]


def test_overlap() -> None:
    methods = {
        "a": compared(1, 2, 3), "b": compared(2, 3, 4, 5), "c": compared(),
        "d": Compared(error={"code": "x", "message": "x", "hint": ""}),
    }  # fmt: skip
    pairs = {(one.first, one.second): (one.shared, one.jaccard) for one in overlaps(methods)}
    assert pairs == {("a", "b"): (2, 0.4), ("a", "c"): (0, 0.0), ("b", "c"): (0, 0.0)}
    found = Comparison("q", 5, methods, (), 0.0, 0.0)
    assert [found.sharing(chunk_id) for chunk_id in (1, 2, 5, 9)] == [1, 2, 1, 0]


@given(st.lists(st.sets(st.integers(1, 9)), min_size=2, max_size=6))
def test_overlap_is_of_sets(found: list[set[int]]) -> None:
    methods = {str(at): compared(*sorted(each)) for at, each in enumerate(found)}
    pairs = overlaps(methods)
    assert len(pairs) == len(found) * (len(found) - 1) // 2
    for pair in pairs:
        one, other = found[int(pair.first)], found[int(pair.second)]
        assert pair.shared == len(one & other)
        assert pair.jaccard == (len(one & other) / len(one | other) if one | other else 0.0)
