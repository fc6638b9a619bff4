"""Pruning leaves out no chunk that is among the best, and changes no score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.index import pruning, word_pruning
from kb.index.bm25 import Part, WordRanking
from kb.index.selection import best_chunks
from kb.index.word_postings import Postings, Row, build
from kb.text.tokenize import split_words, stem_word

WORDS = [f"w{letter}" for letter in "abcdefghijkl"]


def rows(count: int, seed: int) -> list[Row]:
    """Texts with words of very different frequencies."""
    chance = np.random.default_rng(seed)
    odds = 1.0 / np.arange(1, len(WORDS) + 1) ** 2
    drawn = chance.choice(WORDS, (count, 12), p=odds / odds.sum())
    lengths = chance.integers(0, 13, count)
    return [
        (5 * number + 2, "", " ".join(words[:length]), "")
        for number, (words, length) in enumerate(zip(drawn, lengths, strict=True))
    ]


def make(rows: list[Row]) -> Postings:
    return build(rows, split=split_words, stem=stem_word)


def parts_of(rows: list[Row], cuts: list[int], seed: int) -> list[Part]:
    """The postings of the rows in several parts, of which one chunk in nine is gone."""
    chance, parts = np.random.default_rng(seed), []
    for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        if low < high:
            gone = chance.random(high - low) < 1 / 9
            parts.append(Part(make(rows[low:high]), gone if gone.any() else None))
    return parts


def no_phrases(*_: Any) -> dict[int, int]:
    raise AssertionError("no phrase has several words")


@settings(deadline=None)
@given(
    count=st.integers(1, 900),
    seed=st.integers(0, 99),
    words=st.lists(st.sampled_from([*WORDS, "absent"]), min_size=1, max_size=9),
    limit=st.integers(1, 20),
    share=st.sampled_from([None, 0.01, 0.1, 0.5, 1.0]),
    hidden=st.sets(st.integers(0, 900), max_size=3),
    cuts=st.lists(st.integers(0, 900), max_size=3).map(sorted),
    size=st.sampled_from([100, 1 << 18]),
)
def test_the_best_are_those_of_all_scores(
    count: int,
    seed: int,
    words: list[str],
    limit: int,
    share: float | None,
    hidden: set[int],
    cuts: list[int],
    size: int,
) -> None:
    written = rows(count, seed)
    ranking = WordRanking(parts_of(written, [min(cut, count) for cut in cuts], seed))
    chance = np.random.default_rng(seed)
    ids = np.array([row[0] for row in written])
    allowed = None if share is None else ids[chance.random(count) < share]
    out = [5 * number + 2 for number in sorted(hidden)]
    groups = [[(word,)] for word in words]
    scores = ranking.scores(groups, count_phrase=no_phrases, max_candidates=0)
    assert scores is not None
    expected = best_chunks(
        np.concatenate([np.empty(0), *scores]),
        ranking.ids,
        allowed=allowed,
        hidden=out,
        limit=limit,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruning, "_RANGE", size)
        found = ranking.rank(
            groups, every=False, allowed=allowed, hidden=out, limit=limit, count_phrase=no_phrases
        )
    assert found == expected


def test_parts_whose_chunks_are_in_any_order() -> None:
    written = rows(400, 1)
    order = np.random.default_rng(2).permutation(400)
    part = make([written[number] for number in order])
    ids = np.array([row[0] for row in written])
    for allowed in (ids[::50], ids[::2]):
        said: dict[str, Any] = {"every": False, "hidden": (), "limit": 9}
        groups = [[("wa",)], [("wd",)], [("wg",)]]
        found = WordRanking([Part(part)]).rank(
            groups, allowed=allowed, count_phrase=no_phrases, **said
        )
        assert found
        assert found == WordRanking([Part(make(written))]).rank(
            groups, allowed=allowed, count_phrase=no_phrases, **said
        )


def test_a_common_word_is_looked_up_for_few_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Row] = [
        (n, "", f"common {'rare ' * (n % 50 == 0)}{n}", "") for n in range(1, 20_001)
    ]
    sizes: list[int] = []
    look_up = pruning.look_up

    def counted(places: Any, values: Any, wanted: Any, *more: int) -> Any:
        sizes.append(len(wanted))
        return look_up(places, values, wanted, *more)

    ranking = WordRanking([Part(make(written))])
    monkeypatch.setattr(pruning, "look_up", counted)
    monkeypatch.setattr(word_pruning, "_weights", _of_few(word_pruning._weights))
    found = ranking.rank(
        [[("common",)], [("rare",)]],
        every=False,
        allowed=None,
        hidden=(),
        limit=10,
        count_phrase=no_phrases,
    )
    assert found is not None
    assert [one for one, _ in found] == [50 * n for n in range(1, 11)]
    assert max(sizes) == 400


def _of_few(weights: Any) -> Any:
    def checked(scale: float, counts: Any, norms: Any) -> Any:
        assert len(counts) <= 400
        return weights(scale, counts, norms)

    return checked
