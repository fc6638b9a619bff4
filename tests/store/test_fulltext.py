"""Matching in the store: filters are exact, pruning changes nothing, any expression is safe."""

from __future__ import annotations

import random

import pytest

from kb.errors import InvalidRequest, QuerySyntax
from kb.store.sqlite import fulltext
from kb.store.sqlite.store import SqliteStore
from kb.text import globs
from kb.types import KINDS, TRUSTS, TYPES, Filters, LexicalQuery, TextMatches
from tests.store.builders import put

NOW = "2026-05-28T00:00:00Z"


def words(*each: str) -> LexicalQuery:
    return LexicalQuery(tuple((word,) for word in each))


def match(store: SqliteStore, query: LexicalQuery, **options: object) -> TextMatches:
    asked: dict[str, object] = {"every": False, "filters": Filters(), "now": NOW, "limit": 10}
    return store.fulltext.match(query, **(asked | options))  # type: ignore[arg-type]  # keywords by name


def test_a_term_in_over_half_of_the_chunks_is_left_out_when_others_fill_the_list(
    store: SqliteStore,
) -> None:
    put(store, "a", *(f"the {'rare ' * (n % 3 == 0)}thing {n}" for n in range(60)))
    found = match(store, words("the", "rare"))
    assert found.dropped_terms == ("the",)
    assert len(found.chunks) == 10


def test_leaving_it_out_does_not_shorten_the_list(store: SqliteStore) -> None:
    """Few chunks hold the rare word: those with only the common one are returned as well [000]."""
    put(store, "a", "install git", "git is here", "git is there", "other", "words")
    found = match(store, words("install", "git"))
    assert [hit.chunk_id for hit in found.chunks] == [1, 2, 3]


def test_pruned_and_unpruned_agree(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    vocabulary = [f"w{n}" for n in range(30)]
    weights = [1 / (n + 1) for n in range(30)]
    put(store, "a", *(" ".join(chance.choices(vocabulary, weights, k=20)) for _ in range(300)))
    queries = [words(*dict.fromkeys(chance.choices(vocabulary, weights, k=4))) for _ in range(50)]
    pruned = [match(store, query) for query in queries]
    monkeypatch.setattr(fulltext, "_COMMON", 1.0)
    full = [match(store, query) for query in queries]
    assert any(one.dropped_terms for one in pruned)
    for one, other in zip(pruned, full, strict=True):
        ours = [round(hit.score, 3) for hit in one.chunks]
        assert ours == [round(hit.score, 3) for hit in other.chunks]


def test_filters_equal_brute_force(store: SqliteStore) -> None:
    chance = random.Random(3)
    said: dict[int, dict[str, object]] = {}
    for number in range(200):
        attributes: dict[str, object] = {
            "kind": chance.choice([None, *KINDS]),
            "scope": chance.choice(["global", "project"]),
            "trust": chance.choice(TRUSTS),
            "lang": chance.choice(["en", "de", None]),
            "date": f"2026-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}",
            "tags": tuple(sorted(chance.sample(["a", "b", "c"], chance.randint(0, 3)))),
            "expires_at": chance.choice(
                [None, None, "2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z"]
            ),
        }
        path = f"{chance.choice(['x', 'y'])}/{chance.choice(['p', 'p/q'])}/{number}.md"
        kind = chance.choice(TYPES)
        doc_id = put(store, path, "word one", "word two", type=kind, **attributes)
        said[doc_id] = attributes | {"path": path, "type": kind}

    def passes(filters: Filters, one: dict[str, object]) -> bool:
        tags = set(one["tags"])  # type: ignore[call-overload]  # a tuple of texts, made above
        return (
            (one["expires_at"] is None or str(one["expires_at"]) > NOW)
            and set(filters.tags) <= tags
            and (not filters.tags_any or bool(set(filters.tags_any) & tags))
            and (not filters.type or one["type"] in filters.type)
            and (not filters.kind or one["kind"] in filters.kind)
            and (filters.scope is None or one["scope"] == filters.scope)
            and (filters.lang is None or one["lang"] == filters.lang)
            and (filters.after is None or str(one["date"]) >= filters.after)
            and (filters.before is None or str(one["date"]) < filters.before)
            and (
                filters.trust_min is None
                or TRUSTS.index(str(one["trust"])) >= TRUSTS.index(filters.trust_min)
            )
            and (filters.path_glob is None or globs.matches(filters.path_glob, str(one["path"])))
        )

    for _ in range(300):
        filters = Filters(
            tags=tuple(chance.sample(["a", "b", "c"], chance.choice([0, 0, 1, 2]))),
            tags_any=tuple(chance.sample(["a", "b", "zz"], chance.choice([0, 0, 1, 2]))),
            type=tuple(chance.sample(TYPES, chance.choice([0, 0, 1, 3]))),
            kind=tuple(chance.sample(KINDS, chance.choice([0, 0, 1, 3]))),
            scope=chance.choice([None, None, "global", "project"]),
            lang=chance.choice([None, None, "en", "xx"]),
            path_glob=chance.choice([None, None, "x/**", "x/*/*.md", "**/1?.md", "y/"]),
            trust_min=chance.choice([None, *TRUSTS]),
            after=chance.choice([None, "2026-06-01"]),
            before=chance.choice([None, "2026-09-15"]),
        )
        expected = {doc_id for doc_id, one in said.items() if passes(filters, one)}
        found = match(store, words("word"), filters=filters, limit=1000).chunks
        chunks = store.catalog.chunks_by_id(hit.chunk_id for hit in found)
        assert {chunk.doc_id for chunk in chunks.values()} == expected
        assert len(found) == 2 * len(expected)
        listed = store.catalog.documents(filters, NOW)
        assert {document.doc_id for document in listed} == expected


@pytest.mark.parametrize(
    "filters",
    [
        Filters(type=("exe",)),
        Filters(kind=("idea",)),
        Filters(scope="galaxy"),
        Filters(trust_min="x"),
    ],
)
def test_an_unknown_value_of_a_closed_set_lists_the_valid_ones(
    store: SqliteStore, filters: Filters
) -> None:
    put(store, "a", "word")
    with pytest.raises(InvalidRequest) as error:
        match(store, words("word"), filters=filters)
    assert "valid values" in error.value.hint


def test_a_type_that_a_plug_in_brought_can_be_asked_for(store: SqliteStore) -> None:
    put(store, "a", "word", type="drawing")
    put(store, "b", "word")
    assert len(match(store, words("word"), filters=Filters(type=("drawing",))).chunks) == 1


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-02-31", ""])
def test_a_date_that_is_none_is_an_error(store: SqliteStore, text: str) -> None:
    put(store, "a", "word")
    with pytest.raises(InvalidRequest, match="after"):
        match(store, words("word"), filters=Filters(after=text))


@pytest.mark.parametrize(
    "expression", ['"', "AND", "a AND", "(", "x:", "nosuch: a", "^", "*", "NEAR("]
)
def test_a_malformed_expression_is_an_error_with_a_hint(
    store: SqliteStore, expression: str
) -> None:
    put(store, "a", "word")
    with pytest.raises(QuerySyntax) as error:
        store.fulltext.match_expression(expression, filters=Filters(), now=NOW, limit=3)
    assert "single quotes" in error.value.hint


def test_equal_scores_are_ordered_by_chunk_id(store: SqliteStore) -> None:
    put(store, "a", "same words", "same words", "same words")
    assert [hit.chunk_id for hit in match(store, words("same")).chunks] == [1, 2, 3]
