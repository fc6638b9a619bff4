"""Retrieval times by store size: words, dense and sparse vectors, at 10,000 and 100,000 passages
(`scale`) and at a million (`million`, which takes minutes and 6 GB of memory).

Postings and vectors are generated at the level of the index: words and terms by Zipf's law with
repetitions, vectors in topics of very different sizes. The reference is a scan of the same number
of float32 vectors, in the same run; `bench.bounds.SCALE` has the largest ratios to it. Times are
processor times of one thread, so that other work on the machine matters less.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.bounds import SCALE
from bench.timing import median_and_95th, table
from kb.index import int8_codes, vector_lists
from kb.index.selection import best_chunks
from kb.index.sparse_blocks import TermPostings, scores
from kb.index.word_pruning import Contribution, PhrasePostings, best_of, lengths

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

DIMENSION, TOPICS, THEMES = 384, 3_000, 60
VOCABULARY, WORDS, TERMS = 60_000, 110, 104  # words and sparse terms of a passage
QUERIES, TOP = 60, 100
_BATCH = 50_000


class Figure(NamedTuple):
    """The times of a search, and how much of the right result it returns."""

    what: str
    p50_ms: float
    p95_ms: float
    note: str = ""


# --- data -----------------------------------------------------------------------------------------


def vectors(count: int, seed: int = 1) -> Floats:
    """Normalized vectors in clusters (topics) of clusters (themes). Like the vectors of a model,
    they vary more in some directions than in others."""
    import numpy as np

    chance, fixed = np.random.default_rng(seed), np.random.default_rng(99)
    spectrum = (1 / np.sqrt(1 + np.arange(DIMENSION) / 20)).astype(np.float32)
    themes = fixed.standard_normal((THEMES, DIMENSION)).astype(np.float32)
    topics = themes[fixed.integers(0, THEMES, TOPICS)]
    topics = topics + fixed.standard_normal((TOPICS, DIMENSION)).astype(np.float32)
    odds = 1 / (np.arange(TOPICS) + 5.0)
    rows = np.empty((count, DIMENSION), np.float32)
    for start in range(0, count, _BATCH):
        size = min(_BATCH, count - start)
        part = topics[chance.choice(TOPICS, size, p=odds / odds.sum())]
        part = (part + chance.standard_normal((size, DIMENSION), dtype=np.float32)) * spectrum
        rows[start : start + size] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return rows


class Postings(NamedTuple):
    """Postings by term, the number of words in each passage, and the probability of each term."""

    starts: NDArray[np.int64]
    places: NDArray[np.uint32]
    counts: NDArray[np.uint16]
    words: NDArray[np.uint32]
    odds: NDArray[np.float64]

    def of(self, term: int) -> slice:
        return slice(int(self.starts[term]), int(self.starts[term + 1]))


def postings(count: int, words: int, seed: int = 3) -> Postings:
    """Words by Zipf's law. Three in ten words repeat a recent one."""
    import numpy as np

    chance = np.random.default_rng(seed)
    odds = 1 / (np.arange(VOCABULARY) + 3.0)
    cumulated = np.cumsum(odds / odds.sum())
    sizes, total = np.empty(count, np.uint32), np.zeros(VOCABULARY, np.int64)
    batches = []
    for start in range(0, count, _BATCH):
        number = min(_BATCH, count - start)
        own = chance.gamma(6.0, words / 6, number).astype(np.int64) + 5
        sizes[start : start + number] = own
        places = np.repeat(np.arange(start, start + number), own)
        terms = np.searchsorted(cumulated, chance.random(len(places)))
        before = np.maximum(np.arange(len(places)) - chance.integers(1, 20, len(places)), 0)
        again = (chance.random(len(places)) < 0.3) & (places[before] == places)
        terms[again] = terms[before[again]]
        keys, counts = np.unique(terms.astype(np.int64) << 32 | places, return_counts=True)
        batches.append((keys, (2 * counts).astype(np.uint16)))
        total += np.bincount(keys >> 32, minlength=VOCABULARY)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(total)])
    every = Postings(
        starts, np.empty(starts[-1], np.uint32), np.empty(starts[-1], np.uint16), sizes, odds
    )
    free = starts[:-1].copy()
    for keys, counts in batches:
        own = np.bincount(keys >> 32, minlength=VOCABULARY)
        to = np.repeat(free - (np.cumsum(own) - own), own) + np.arange(len(keys))
        every.places[to], every.counts[to] = keys & 0xFFFFFFFF, counts
        free += own
    return every


def _spread(search: Callable[[Any], object], queries: Sequence[Any]) -> tuple[float, float]:
    """Median and 95th percentile of the processor times, in ms."""
    times = []
    for query in (*queries[:10], *queries):
        started = time.process_time()
        search(query)
        times.append(1000 * (time.process_time() - started))
    return median_and_95th(times[10:])


# --- searches -------------------------------------------------------------------------------------


def _scan(rows: Floats) -> Callable[[Floats], object]:
    import numpy as np

    def search(query: Floats) -> object:
        cosines = np.einsum("ij,j->i", rows, query)
        best = np.argpartition(cosines, -TOP)[-TOP:]
        return best[np.argsort(-cosines[best])]

    return search


def _words(count: int) -> Iterator[Figure]:
    """Questions of five words and up to four common ones; words in over half of the passages are
    left out, as searches do."""
    import numpy as np

    made = postings(count, WORDS)
    sizes = lengths(made.words, float(made.words.mean()))
    chance = np.random.default_rng(7)
    own = made.odds.copy()
    own[:45] = 0

    def question() -> list[Contribution]:
        terms = [*chance.choice(VOCABULARY, 5, p=own / own.sum()), *chance.choice(45, 4, False)]
        found = []
        for term in dict.fromkeys(int(one) for one in terms):
            part = made.of(term)
            size = part.stop - part.start
            if 0 < size <= count / 2:
                each = PhrasePostings(made.places[part], made.counts[part])
                idf = max(1e-6, log((count - size + 0.5) / (size + 0.5)))
                found.append(Contribution(each, idf, 1))
        return found

    questions = [question() for _ in range(QUERIES)]

    def search(found: Sequence[Contribution], *, pruned: bool) -> object:
        return best_of(
            found,
            range(len(found)),
            sizes,
            only=None if pruned else np.arange(count),
            excluded=None,
            limit=TOP,
            least=0.0,
        )

    yield Figure("words", *_spread(partial(search, pruned=True), questions))
    yield Figure("words, without pruning", *_spread(partial(search, pruned=False), questions[:20]))


def _dense(rows: Floats, queries: Floats) -> Iterator[Figure]:
    import numpy as np

    scan = _scan(rows)
    right = [set(np.asarray(scan(query))[:10].tolist()) for query in queries]
    lists = vector_lists.build(rows) if len(rows) >= vector_lists.MIN_ROWS else None
    codes = int8_codes.encode(rows, lists)

    def search(query: Floats, *, exact: bool) -> NDArray[Any]:
        near = int8_codes.candidates(
            codes,
            query,
            TOP,
            None,
            lambda some: int8_codes.Candidates(some, rows[some]),
            exact=exact,
        )
        cosines = np.einsum("ij,j->i", near.rows, query)
        order: NDArray[Any] = near.places[np.argsort(-cosines)[:TOP]]
        return order

    yield Figure("dense, exact", *_spread(partial(search, exact=True), list(queries)))
    if lists is not None:
        found = [set(search(query, exact=False)[:10].tolist()) for query in queries]
        same = sum(len(one & other) for one, other in zip(found, right, strict=True))
        recall = f"recall@10 {same / (10 * len(queries)):.3f}"
        yield Figure("dense, lists", *_spread(partial(search, exact=False), list(queries)), recall)


def _sparse(count: int) -> Iterator[Figure]:
    """Eight terms of a query, as frequent as those of passages."""
    import numpy as np

    made = postings(count, TERMS, seed=5)
    chance = np.random.default_rng(6)
    weights = chance.gamma(2.0, 0.4, len(made.places)).astype(np.float32)
    ids = np.arange(count)

    def query() -> list[tuple[TermPostings, float]]:
        odds = made.odds / made.odds.sum()
        terms = sorted({int(one) for one in chance.choice(VOCABULARY, 8, p=odds)})
        return [
            (TermPostings(made.places[made.of(one)], weights[made.of(one)]), 0.5) for one in terms
        ]

    def search(terms: Sequence[tuple[TermPostings, float]]) -> object:
        return best_chunks(scores(terms, count), ids, allowed=None, hidden=(), limit=TOP)

    yield Figure("sparse", *_spread(search, [query() for _ in range(QUERIES)]))


def _figures(count: int) -> Iterator[Figure]:
    rows, queries = vectors(count), vectors(QUERIES, seed=2)
    yield Figure("float32 scan", *_spread(_scan(rows), list(queries)))
    yield from _dense(rows, queries)
    del rows
    yield from _words(count)
    yield from _sparse(count)


def scale(counts: Sequence[int]) -> tuple[str, list[str]]:
    """The table of all figures, and the bounds that are exceeded."""
    rows: list[tuple[object, ...]] = []
    faults = []
    for count in counts:
        figures = list(_figures(count))
        reference = figures[0].p50_ms
        for each in figures:
            ratio, most = each.p50_ms / reference, SCALE.get((each.what, count))
            limit = "" if most is None else f"{most:.2f}"
            times = (f"{each.p50_ms:.2f}", f"{each.p95_ms:.2f}")
            rows.append((f"{count:,}", each.what, *times, f"{ratio:.2f}", limit, each.note))
            if most is not None and ratio > most:
                faults.append(f"{each.what}, {count:,}: {ratio:.2f} of a scan, at most {most:.2f}")
    header = ("passages", "search", "p50 ms", "p95 ms", "x float32 scan", "at most", "")
    title = f"Retrieval by size: {QUERIES} queries, top {TOP}, warm, processor time"
    return table(title, header, rows), faults
