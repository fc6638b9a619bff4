"""The best chunks of a part by BM25, without scoring every chunk that has one of the words.

`kb.index.pruning` finds the chunks that may be among the best. Their scores are then computed in
float64, in the order of the query, as FTS5 does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.index import pruning

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]

K1, B = 1.2, 0.75
_MARGIN = 1e-5  # more than the rounding of float32


class PhrasePostings(NamedTuple):
    """The postings of a phrase in a part: positions of chunks, ascending, and weighted counts."""

    places: NDArray[np.unsignedinteger[Any]]
    counts: NDArray[np.unsignedinteger[Any]]


class Contribution(NamedTuple):
    """The postings of a phrase, its IDF, and how often it occurs in the query."""

    postings: PhrasePostings
    idf: float
    times: int


class Lengths(NamedTuple):
    """The lengths of the chunks in a part; `norms`, which BM25 adds to the count in the
    denominator; the least norm; and the average length."""

    words: NDArray[np.uint32]
    norms: NDArray[np.float32]
    least: float
    average: float


class Best(NamedTuple):
    """Chunks with their scores, in the order of their positions."""

    places: Places
    scores: NDArray[np.float64]


def lengths(words: NDArray[np.uint32], average: float) -> Lengths:
    """The values that BM25 derives from the lengths of chunks."""
    import numpy as np

    norms = words * np.float32(K1 * B / average)
    norms += np.float32(K1 * (1 - B))
    return Lengths(words, norms, float(norms.min(initial=np.inf)) * (1 - _MARGIN), average)


def best_of(
    found: Sequence[Contribution],
    query: Sequence[int],
    sizes: Lengths,
    *,
    only: Places | None,
    excluded: Places | None,
    limit: int,
    least: float,
) -> Best:
    """At least the `limit` best chunks with a score of `least` or more. `query` has the numbers of
    the phrases in `found` in the order of summation. `only` are the chunks to score, all if None;
    `excluded` are chunks that do not count."""
    import numpy as np

    if only is None:
        only = pruning.candidates(
            [_term(each, sizes) for each in found],
            lambda term, counts, places: _weights(term.scale, counts, sizes.norms[places]),
            len(sizes.words),
            excluded=excluded,
            limit=limit,
            least=least,
        )
    scores = np.zeros(len(only))
    norms: NDArray[Any] = K1 * (1 - B + B * sizes.words[only] / sizes.average)
    parts = [_impact(each, only, norms, len(sizes.words)) for each in found]
    for number in query:
        scores += parts[number]
    return Best(only, scores)


def _impact(
    one: Contribution, candidates: Places, norms: NDArray[np.float64], chunks: int
) -> NDArray[np.float64]:
    """What a phrase adds to the score of each candidate, by the formula of FTS5 with the same order
    of operations."""
    import numpy as np

    counts = look_up(one.postings, candidates, chunks).astype(np.float64) * 0.5
    impact: NDArray[Any] = one.idf * (counts * (K1 + 1.0) / (counts + norms))
    return impact


def look_up(
    postings: PhrasePostings, wanted: Places, chunks: int
) -> NDArray[np.unsignedinteger[Any]]:
    """The count of each wanted chunk, 0 if it has none. `wanted` ascends."""
    return pruning.look_up(*postings, wanted, chunks)


def _term(one: Contribution, sizes: Lengths) -> pruning.Term:
    count = 0.5 * int(one.postings.counts.max(initial=0))
    scale = one.times * one.idf * (K1 + 1.0)
    bound = scale * count / (count + sizes.least) if count else 0.0
    return pruning.Term(*one.postings, scale, bound)


def _weights(
    scale: float, counts: NDArray[np.unsignedinteger[Any]], norms: NDArray[np.float32]
) -> NDArray[np.float32]:
    """BM25 of counts in chunks of these lengths."""
    import numpy as np

    weights = counts.astype(np.float32)
    weights *= np.float32(0.5)
    norms = norms + weights
    weights *= np.float32(scale)
    weights /= norms
    return weights
