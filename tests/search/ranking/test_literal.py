"""Passages that contain the query literally: what counts as evidence, and what it changes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.search.ranking.literal import (
    EVERY_WORD,
    NONE,
    RARE,
    VERBATIM,
    WORDS,
    Evidence,
    add_runs,
    evidence,
    literal_query,
    put_first,
)
from kb.types import ScoredChunk

RARE_WORDS = {"ttl": 6.0, "stash": 6.0, "filesystem": 5.0, "locked": 5.0, "caching": 5.0}


def level(query: str, text: str) -> int:
    return evidence(literal_query(query, RARE_WORDS), text).level


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("database is locked", "Error: database is locked (5)", VERBATIM),
        ("Database is  locked?", "the database\nis locked.", VERBATIM),
        ("database is locked", "database (is) locked", WORDS),
        ("database is locked", "the database was locked", NONE),
        ("database is locked", "is the database open", NONE),
        ("ttl", "the TTL of a row", VERBATIM),
        ("ttl", "max_ttl = 5", WORDS),
        ("ttl", "cattle", NONE),
        ("caching", "it caches pages", RARE),
        ("caching", "pages and caching", VERBATIM),
        ("--force", "git push --force", VERBATIM),
        ("--force", "by force", WORDS),
        ("os.path.join", "call os.path.join(a, b)", VERBATIM),
        ("os.path.join", "os path join", WORDS),
        ("C++", "written in C++ and Rust", VERBATIM),
        ("naïve approach", "a naive approach", WORDS),
        ("stash filesystem", "a filesystem, and later a stash", RARE),
        ("stash filesystem", "a filesystem alone", NONE),
        ("日本の首都", "東京は日本の首都です", VERBATIM),
        ("日本の首都", "日本には首都がある", NONE),
    ],
)
def test_how_literally_a_passage_holds_the_query(query: str, text: str, expected: int) -> None:
    assert level(query, text) == expected


@pytest.mark.parametrize(
    ("query", "text", "run"),
    [
        (
            "tables of a happy network filesystem",
            "A filesystem: networks, happier table",
            EVERY_WORD,
        ),
        ("tables of a happy network filesystem", "filesystem, networks, happier", 0.0),
        ("tables of a happy network filesystem", "filesystem, internetwork, happy table", 0.0),
        ("happy network filesystem", "A filesystem: networks, happier", 0.0),  # too few words
    ],
)
def test_every_word_of_a_longer_query(query: str, text: str, run: float) -> None:
    assert evidence(literal_query(query, {}), text) == Evidence(NONE, run)


def test_a_run_may_count_more_than_every_word() -> None:
    query = literal_query("why is the whole database file locked now", RARE_WORDS)
    assert evidence(query, "now the whole database file locked the door").run > EVERY_WORD


@pytest.mark.parametrize(
    ("text", "has_run"),
    [
        ("it says that the database file is locked now", True),  # the whole part
        ("it says that the database is locked now", True),  # one word lost
        ("it says that the database connection is locked now", True),  # one word changed
        ("the database file", False),
        ("locked is the file of a database", False),
    ],
)
def test_a_part_of_a_longer_question(text: str, has_run: bool) -> None:
    query = literal_query("why do I read the database file is locked", RARE_WORDS)
    found = evidence(query, text)
    assert found.level == NONE
    assert (found.run > 0.0) == has_run


def test_the_phrases_to_look_up() -> None:
    assert literal_query("TTL", RARE_WORDS).phrases() == ["ttl"]
    assert literal_query("stash the thing", RARE_WORDS).phrases() == ["stash the thing"]
    assert literal_query("stash or ttl", RARE_WORDS).phrases() == ["stash or ttl", "stash", "ttl"]
    assert literal_query("日本 首都", {}).phrases() == ["日本 首都"]
    assert literal_query("...", {}).phrases() == []
    assert literal_query("word " * 100, {}).phrases() == []
    question = literal_query("is the filesystem locked by somebody", RARE_WORDS)
    assert question.phrases() == [
        "is the filesystem locked by somebody",
        "the filesystem locked",
        "filesystem locked by",
        "locked by somebody",
    ]


# --- ranking --------------------------------------------------------------------------------------

SCORES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12)
LEVELS = st.dictionaries(
    st.integers(0, 14),
    st.builds(Evidence, st.sampled_from([NONE, RARE, WORDS, VERBATIM]), st.floats(0.0, 1.0)),
)


def ranked(scores: list[float]) -> list[ScoredChunk]:
    order = sorted(scores, reverse=True)
    return [ScoredChunk(number, score, number + 1) for number, score in enumerate(order)]


@given(SCORES, LEVELS)
def test_literal_matches_come_first(scores: list[float], found: dict[int, Evidence]) -> None:
    before = ranked(scores)
    after = put_first(add_runs(before, found), found)
    assert {one.chunk_id for one in after} == {one.chunk_id for one in before} | found.keys()
    assert [one.rank for one in after] == list(range(1, len(after) + 1))
    levels = [found.get(one.chunk_id, Evidence(NONE)).level for one in after]
    assert levels == sorted(levels, reverse=True)
    assert all(one.score >= other.score for one, other in pairwise(after))
    assert all(0.0 <= one.score <= 1.0 for one in after)


@given(SCORES)
def test_without_evidence_nothing_changes(scores: list[float]) -> None:
    assert put_first(add_runs(ranked(scores), {}), {}) == ranked(scores)


@given(SCORES, LEVELS)
def test_it_can_be_repeated(scores: list[float], found: dict[int, Evidence]) -> None:
    once = put_first(add_runs(ranked(scores), found), found)
    assert put_first(once, found) == once


def test_a_run_raises_a_passage() -> None:
    before = ranked([0.9, 0.8, 0.7])
    after = add_runs(before, {2: Evidence(NONE, 0.9), 1: Evidence(NONE, 0.01)})
    assert [one.chunk_id for one in after] == [2, 0, 1]
