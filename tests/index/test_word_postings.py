"""BM25 over postings equals FTS5's, to the last bit."""

from __future__ import annotations

from itertools import islice, permutations

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.index.bm25 import MAX_CANDIDATES, CountPhrase, Part, WordRanking, count_phrase
from kb.index.word_postings import HEADING, PART, TEXT, Postings, Row, build
from kb.text.tokenize import split_words, stem_word, tokenize

WORDS = ["run", "running", "runs", "Tree", "über", "naïve", "a", "the", "x1", "東京", "ﬁt"]
texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=12).map(" ".join)
rows = st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=30).map(
    lambda each: [(3 * number + 1, *row) for number, row in enumerate(each)]
)
words = st.sampled_from(
    ["run", "tree", "über", "a", "the", "x1", "naive", "zzz", "run a", "the the", "tree runs a"]
)
queries = st.lists(st.lists(words, min_size=1, max_size=2, unique=True), min_size=1, max_size=4)


def make(rows: list[Row]) -> Postings:
    return build(rows, split=split_words, stem=stem_word)


def phrases(groups: list[list[str]]) -> list[list[tuple[str, ...]]]:
    return [[tuple(stem for *_, stem in tokenize(each)) for each in group] for group in groups]


def counter(rows: list[Row]) -> CountPhrase:
    by_id = {row[0]: row[1:] for row in rows}

    def count(phrase: tuple[str, ...], ids: list[int]) -> dict[int, int]:
        return {
            one: count_phrase(
                phrase,
                [
                    (weight, [stem for *_, stem in tokenize(text)])
                    for weight, text in zip((HEADING, TEXT, PART), by_id[one], strict=True)
                ],
            )
            for one in ids
        }

    return count


def by_fts5(rows: list[Row], groups: list[list[str]], *, every: bool) -> list[tuple[int, float]]:
    connection = apsw.Connection(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE t USING fts5 (heading, text, parts, "
        "tokenize = 'porter unicode61 remove_diacritics 2')"
    )
    connection.executemany("INSERT INTO t (rowid, heading, text, parts) VALUES (?, ?, ?, ?)", rows)
    alternatives = [" OR ".join(f'"{word}"' for word in group) for group in groups]
    expression = (" AND " if every else " OR ").join(f"({each})" for each in alternatives)
    found = connection.execute(
        "SELECT rowid, bm25(t, 2.0, 1.0, 0.5) AS score FROM t WHERE t MATCH ? ORDER BY 2, 1",
        (expression,),
    )
    return [(chunk_id, -score) for chunk_id, score in found]


def rank(
    ranking: WordRanking, rows: list[Row], groups: list[list[str]], *, every: bool
) -> list[tuple[int, float]]:
    ranked = ranking.rank(
        phrases(groups),
        every=every,
        allowed=None,
        hidden=(),
        limit=100,
        count_phrase=counter(rows),
    )
    assert ranked is not None
    return ranked


@given(rows, queries, st.booleans())
def test_scores_are_those_of_fts5(rows: list[Row], groups: list[list[str]], every: bool) -> None:
    found = rank(WordRanking([Part(make(rows))]), rows, groups, every=every)
    assert found == by_fts5(rows, groups, every=every)


@given(rows, queries, st.booleans(), st.integers(0, 30), st.sets(st.integers(0, 29)))
def test_parts_with_gone_chunks_equal_the_whole(
    rows: list[Row], groups: list[list[str]], every: bool, cut: int, removed: set[int]
) -> None:
    """The postings of a store in two parts, of which some chunks are gone."""
    parts = []
    for each in (rows[:cut], rows[cut:]):
        if each:
            gone = np.array([row[0] // 3 in removed for row in each])
            parts.append(Part(make(each), gone if gone.any() else None))
    left = [row for row in rows if row[0] // 3 not in removed]
    ranking = WordRanking(parts)
    assert ranking.chunks == len(left)
    assert rank(ranking, rows, groups, every=every) == by_fts5(left, groups, every=every)


@given(rows, st.sets(st.integers(0, 29)), st.sets(st.integers(0, 29)), st.integers(0, 5))
def test_filters_are_applied_before_the_cut(
    rows: list[Row], allowed: set[int], hidden: set[int], limit: int
) -> None:
    groups = [["run"], ["tree"], ["a"]]
    ids = {3 * number + 1 for number in allowed}
    out = [3 * number + 1 for number in hidden]
    found = WordRanking([Part(make(rows))]).rank(
        phrases(groups),
        every=False,
        allowed=np.array(sorted(ids), np.int64),
        hidden=out,
        limit=limit,
        count_phrase=counter(rows),
    )
    everything = by_fts5(rows, groups, every=False)
    assert found == [one for one in everything if one[0] in ids and one[0] not in out][:limit]


@given(rows)
def test_counts_of_chunks(rows: list[Row]) -> None:
    words = {stem for row in rows for text in row[1:] for *_, stem in tokenize(str(text))}
    counts = WordRanking([Part(make(rows))]).chunk_counts([*words, "zzz"])
    for word in words:
        texts = [" ".join(map(str, row[1:])) for row in rows]
        assert counts[word] == sum(word in {stem for *_, stem in tokenize(each)} for each in texts)
    assert counts["zzz"] == 0 or "zzz" in words


@pytest.mark.parametrize("limit", ["_BATCH", "_BATCH_CHARS"])
def test_more_chunks_than_a_batch(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    rows: list[Row] = [(n, "head", f"word{n % 7} common run", "") for n in range(1, 100)]
    whole = make(rows)
    monkeypatch.setattr(f"kb.index.word_postings.{limit}", 10)
    for name in Postings.__slots__:
        assert np.array_equal(getattr(make(rows), name), getattr(whole, name))


def test_a_word_that_a_chunk_repeats_very_often() -> None:
    rows: list[Row] = [(1, "", "often " * 40_000, ""), (2, "", "often", "")]
    found = rank(WordRanking([Part(make(rows))]), rows, [["often"]], every=False)
    assert found == by_fts5(rows, [["often"]], every=False)


@pytest.mark.parametrize(
    ("chunks", "times", "kinds"),
    [(256, 127, "u1 u1"), (257, 128, "u2 u2"), (65_536, 1, "u2 u1"), (65_537, 1, "u4 u1")],
)
def test_numbers_take_as_few_bytes_as_they_need(chunks: int, times: int, kinds: str) -> None:
    rows: list[Row] = [(number, "", "run", "") for number in range(1, chunks)]
    rows.append((chunks, "", "run tree " * times, ""))
    made = make(rows)
    assert f"{made.places.dtype.str[1:]} {made.counts.dtype.str[1:]}" == kinds
    assert made.of("tree").places.tolist() == [chunks - 1]
    assert made.of("tree").counts.tolist() == [TEXT * times]
    assert len(made.of("run").places) == chunks
    ranked = WordRanking([Part(made)]).rank(
        phrases([["tree"]]), every=False, allowed=None, hidden=(), limit=3, count_phrase=counter([])
    )
    assert ranked is not None
    assert [chunk_id for chunk_id, _ in ranked] == [chunks]


def test_no_chunks() -> None:
    ranking = WordRanking([Part(make([]))])
    assert rank(ranking, [], [["word"]], every=False) == []
    assert ranking.chunk_counts(["word"]) == {"word": 0}


def test_a_word_longer_than_fts5_indexes() -> None:
    rows: list[Row] = [(1, "", "a" * 40_000 + "b", "")]
    (found,) = rank(WordRanking([Part(make(rows))]), rows, [["a" * 32_768]], every=False)
    assert found[0] == 1


stems = st.sampled_from(["run", "tree", "a", "the", "zzz"])


@given(rows, st.lists(stems, min_size=1, max_size=3).map(tuple))
def test_chunks_that_may_contain_a_phrase(rows: list[Row], phrase: tuple[str, ...]) -> None:
    containing = set()
    for chunk_id, *columns in rows:
        stems = [[stem for *_, stem in tokenize(text)] for text in columns]
        if any(count_phrase(phrase, [(1, column)]) for column in stems):
            containing.add(chunk_id)
    found = WordRanking([Part(make(rows))]).may_contain(phrase)
    assert containing <= {*found}
    assert found == sorted(found)
    if len(phrase) == 1:
        assert {*found} == containing


def test_few_chunks_seem_to_contain_a_phrase() -> None:
    orders = permutations("red boats sail over deep green seas".split())
    texts = [" ".join(order) for order in islice(orders, 0, None, 7)]
    rows: list[Row] = [(n, "", f"{text} {n} of many", "") for n, text in enumerate(texts)]
    found = WordRanking([Part(make(rows))]).may_contain(("deep", "green", "red"))
    containing = [n for n, text in enumerate(texts) if "deep green red" in text]
    assert {*containing} <= {*found}
    assert len(containing) <= len(found) < len(containing) + len(texts) // 20


def test_a_phrase_with_many_candidates_is_left_to_fts5() -> None:
    rows: list[Row] = [(n, "", "red boat", "") for n in range(1, MAX_CANDIDATES + 2)]
    ranking = WordRanking([Part(make(rows))])
    found = ranking.rank(
        [[("red", "boat")]],
        every=False,
        allowed=None,
        hidden=(),
        limit=9,
        count_phrase=counter(rows),
    )
    assert found is None
