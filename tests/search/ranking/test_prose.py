"""Passages with sentences before lists of the same words."""

from __future__ import annotations

from kb.search.ranking.prose import is_prose, put_prose_first
from kb.types import ScoredChunk

SYNOPSIS = """## SYNOPSIS

boat moor [--quay=<number>] [-q | --quiet] [<rope>...]
boat moor clear
boat moor list [<options>]"""
DESCRIPTION = "Use `boat moor` when you want to leave the boat in the harbour and go ashore."


def ranked(*chunk_ids: int) -> list[ScoredChunk]:
    return [ScoredChunk(chunk, 1.0 / place, place) for place, chunk in enumerate(chunk_ids, 1)]


def ids(chunks: list[ScoredChunk]) -> list[int]:
    return [one.chunk_id for one in chunks]


def test_sentences_are_told_from_lists() -> None:
    assert is_prose(DESCRIPTION)
    assert not is_prose(SYNOPSIS)
    assert not is_prose("")
    assert not is_prose("boat-moor(1), boat-row(1)")


def test_the_explanation_comes_before_the_list_of_its_document() -> None:
    documents = {1: 10, 2: 20, 3: 10, 4: 10}
    prose = {1: False, 2: False, 3: True, 4: True}
    assert ids(put_prose_first(ranked(1, 2, 3, 4), documents, prose)) == [3, 2, 4, 1]


def test_other_passages_keep_their_places() -> None:
    documents = {1: 10, 2: 10, 3: 10}
    assert ids(put_prose_first(ranked(1, 2, 3), documents, {})) == [1, 2, 3]
    assert ids(put_prose_first(ranked(1, 2, 3), documents, {1: False, 3: False})) == [1, 2, 3]
    assert ids(put_prose_first(ranked(1, 2, 3), documents, {1: False, 3: True})) == [3, 2, 1]
    assert ids(put_prose_first(ranked(1, 2, 3), documents, {1: True, 3: True})) == [1, 2, 3]
