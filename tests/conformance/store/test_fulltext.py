"""Retrieval by words, substrings and expressions."""

from __future__ import annotations

from math import log
from typing import Any

import pytest

from kb.errors import QuerySyntax
from kb.ports import Store
from kb.types import LexicalQuery, ScoredChunk, TextMatches
from tests.conformance.store.samples import EVERYTHING, NOW, chunk_ids, put


def match(store: Store, *words: str, every: bool = False, **options: Any) -> TextMatches:
    query = LexicalQuery(tuple((word,) for word in words))
    return store.fulltext.match(query, every=every, **EVERYTHING | options)


def ids(matches: TextMatches) -> list[int]:
    return [one.chunk_id for one in matches.chunks]


def check_scores(chunks: list[ScoredChunk]) -> None:
    """Scores are in [0, 1) and fall with the rank, which starts at 1."""
    assert [one.rank for one in chunks] == list(range(1, len(chunks) + 1))
    scores = [one.score for one in chunks]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score < 1 for score in scores)


def test_any_and_every_term(store: Store) -> None:
    one, two, three = chunk_ids(store, put(store, "a", "red boat", "red car", "green tree"))
    assert ids(match(store, "red", "boat")) == [one, two]
    assert ids(match(store, "red", "boat", every=True)) == [one]
    assert ids(match(store, "TREES")) == [three]  # stemmed, and in any case
    assert ids(match(store, "blue")) == []
    check_scores(match(store, "red", "boat").chunks)


def test_a_word_with_alternatives(store: Store) -> None:
    one, two, _ = chunk_ids(store, put(store, "a", "targetHost", "target", "other"))
    query = LexicalQuery((("targetHost", "target"),))
    found = store.fulltext.match(query, every=True, **EVERYTHING)
    assert sorted(ids(found)) == [one, two]


def test_unspaced_scripts(store: Store) -> None:
    one, two = chunk_ids(store, put(store, "a", "東京は日本の首都です", "京都の古い町"))
    query = LexicalQuery((), ("東京",))
    assert ids(store.fulltext.match(query, every=True, **EVERYTHING)) == [one]
    query = LexicalQuery((), ("京都",))
    assert ids(store.fulltext.match(query, every=True, **EVERYTHING)) == [two]


def test_ties_are_ordered_by_chunk_id(store: Store) -> None:
    numbers = chunk_ids(store, put(store, "a", *["same words"] * 5))
    assert ids(match(store, "same")) == sorted(numbers)
    assert ids(match(store, "same", limit=2)) == sorted(numbers)[:2]
    options = EVERYTHING
    assert ids(store.fulltext.match_substrings(["ame wor"], **options)) == sorted(numbers)
    assert ids(store.fulltext.match_expression("same", **options)) == sorted(numbers)


def test_common_terms_are_dropped_if_others_fill_the_list(store: Store) -> None:
    put(store, "a", *(f"the {'rare ' * (number % 3 == 0)}thing {number}" for number in range(60)))
    found = match(store, "the", "rare")
    assert found.dropped_terms == ("the",)
    assert len(found.chunks) == 10


def test_common_terms_are_kept_if_the_list_would_be_short(store: Store) -> None:
    texts = ("install git", "git is here", "git is there", "other", "words")
    numbers = chunk_ids(store, put(store, "a", *texts))
    found = match(store, "install", "git")
    assert ids(found) == numbers[:3]
    assert found.dropped_terms == ()


def phrases(store: Store, *texts: str, **options: Any) -> list[int]:
    return sorted(store.fulltext.match_phrases(texts, **{"prefer": ()} | EVERYTHING | options))


def test_phrases(store: Store) -> None:
    """The words are adjacent and in order, in any inflection; any phrase is enough."""
    texts = ("The database is locked.", "is the database locked", "locked databases", "a boat")
    one, _, three, four = chunk_ids(store, put(store, "a", *texts))
    assert phrases(store, "database is locked") == [one]
    assert phrases(store, "Locked database") == [three]
    assert phrases(store, "database is locked", "boats") == [one, four]
    assert phrases(store, 'say "database') == []
    assert phrases(store) == []


def test_phrases_come_with_headings_and_text(store: Store) -> None:
    (one,) = chunk_ids(store, put(store, "a", "is locked", title="The database"))
    assert store.fulltext.match_phrases(["locked"], prefer=(), **EVERYTHING) == {
        one: "The database\nis locked"
    }


def test_phrases_of_unspaced_scripts(store: Store) -> None:
    one, two = chunk_ids(store, put(store, "a", "東京は日本の首都です", "京都の古い町と日本"))
    assert phrases(store, "日本の首都") == [one]
    assert phrases(store, "日本") == [one, two]
    assert phrases(store, "古い日本") == []
    assert phrases(store, "町 日本") == [two]


def test_preferred_chunks_are_kept_if_there_are_too_many(store: Store) -> None:
    numbers = chunk_ids(store, put(store, "a", *["same words"] * 5))
    assert phrases(store, "same words", limit=2) == numbers[:2]
    assert phrases(store, "same words", limit=2, prefer=[numbers[4]]) == [numbers[0], numbers[4]]


def test_inverse_document_frequencies(store: Store) -> None:
    put(store, "a", "red boat", "red car", "red tree", "green tree")
    idf = match(store, "red", "trees", "blue").idf
    assert idf == pytest.approx({"red": log(4 / 3), "trees": log(2), "blue": log(4)})


def test_expired_chunks_are_not_found(store: Store) -> None:
    kept = chunk_ids(store, put(store, "a", "word"))
    put(store, "b", "word", expires_at=NOW)
    assert ids(match(store, "word")) == kept
    assert ids(store.fulltext.match_expression("word", **EVERYTHING)) == kept
    assert ids(store.fulltext.match_substrings(["word"], **EVERYTHING)) == kept
    assert ids(store.fulltext.scan_substrings(["word"], **EVERYTHING)) == kept
    assert phrases(store, "word") == kept
    assert len(match(store, "word", now="2026-05-28T20:26:39Z").chunks) == 2


def test_changed_and_deleted_chunks_are_not_found(store: Store) -> None:
    doc_id = put(store, "a", "old words")
    put(store, "a", "new words")
    assert ids(match(store, "old")) == []
    assert ids(match(store, "new")) == chunk_ids(store, doc_id)
    store.catalog.delete_documents([doc_id])
    assert ids(match(store, "new")) == []


def test_expressions(store: Store) -> None:
    one, two = chunk_ids(store, put(store, "a", "red boat", "red car"))
    assert ids(store.fulltext.match_expression("red NOT car", **EVERYTHING)) == [one]
    assert ids(store.fulltext.match_expression('"red car"', **EVERYTHING)) == [two]
    check_scores(store.fulltext.match_expression("red", **EVERYTHING).chunks)


@pytest.mark.parametrize(
    "expression", ['"', "AND", "a AND", "(", "x:", "nosuch: a", "^", "*", "NEAR("]
)
def test_a_malformed_expression_is_an_error_with_a_hint(store: Store, expression: str) -> None:
    put(store, "a", "word")
    with pytest.raises(QuerySyntax) as error:
        store.fulltext.match_expression(expression, **EVERYTHING)
    assert "single quotes" in error.value.hint


def test_substrings_with_and_without_the_index(store: Store) -> None:
    """Most terms first; the scan returns what the index returns."""
    one, two, _ = chunk_ids(store, put(store, "a", "boathouse", "boathouse redo", "green"))
    for terms, expected in (
        (["oathou"], [one, two]),
        (["oathou", "edo"], [two, one]),
        (["OATHOU"], [one, two]),
        (["ouse redo"], [two]),
        (["ouse_redo"], []),
        (["oa%"], []),
        (["zzz"], []),
    ):
        found = store.fulltext.match_substrings(terms, **EVERYTHING)
        assert ids(found) == expected
        assert store.fulltext.scan_substrings(terms, **EVERYTHING) == found
        check_scores(found.chunks)


def test_building_the_index_changes_no_result(store: Store) -> None:
    put(store, "a", "red boat", "red car", "green tree")
    before = match(store, "red", "boat")
    store.fulltext.build_index()
    assert match(store, "red", "boat") == before
