"""The best chunks of a part by BM25, without scoring every chunk that has one of the words.

MaxScore: words are added in the order of how much they can contribute. Once a chunk without any of
the words so far cannot be among the best any more, the other words are looked up only for the
chunks that still can. Bounds are computed in float32 with a margin for its rounding; the scores of
the chunks that are left are then computed in float64, in the order of the query, as FTS5 does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]

K1, B = 1.2, 0.75
_RANGE = 1 << 18  # chunks compared at a time
_BLOCK = 64  # chunks; the best of each block are a sample in which the last place is looked for
_STEPS = 4  # a binary search costs as much as this many steps of a scan, for each bit
_MARGIN = 1e-5  # more than the relative errors of float32 sums


class PhrasePostings(NamedTuple):
    """The postings of a phrase in a part: positions of chunks, ascending, and weighted counts."""

    places: NDArray[np.unsignedinteger[Any]]
    counts: NDArray[np.unsignedinteger[Any]]


class Contribution(NamedTuple):
    """The postings of a phrase, its IDF, and how often the query has it."""

    postings: PhrasePostings
    idf: float
    times: int


class Lengths(NamedTuple):
    """The lengths of the chunks of a part, what BM25 adds to a count for them, and the least of
    that."""

    words: NDArray[np.uint32]
    norms: NDArray[np.float32]
    least: float
    average: float


class Best(NamedTuple):
    """Chunks with their scores, in the order of their positions."""

    places: Places
    scores: NDArray[np.float64]


def lengths(words: NDArray[np.uint32], average: float) -> Lengths:
    """What BM25 needs to know about the lengths of chunks."""
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
        only = _candidates(found, sizes, excluded, limit, least)
    scores = np.zeros(len(only))
    norms: NDArray[Any] = K1 * (1 - B + B * sizes.words[only] / sizes.average)
    parts = [_impact(each, only, norms, len(sizes.words)) for each in found]
    for number in query:
        scores += parts[number]
    return Best(only, scores)


def _impact(
    one: Contribution, candidates: Places, norms: NDArray[np.float64], chunks: int
) -> NDArray[np.float64]:
    """What a phrase adds to the score of each candidate: the formula of FTS5, in its order."""
    counts = look_up(one.postings, candidates, chunks) * 0.5
    impact: NDArray[Any] = one.idf * (counts * (K1 + 1.0) / (counts + norms))
    return impact


def look_up(
    postings: PhrasePostings, wanted: Places, chunks: int, first: int = 0
) -> NDArray[np.unsignedinteger[Any]]:
    """The count of each wanted chunk, 0 if it has none. `wanted` ascends. The postings are those of
    `chunks` chunks from the position `first` on."""
    import numpy as np

    places, counts = postings
    if not len(places) or not len(wanted):
        return np.zeros(len(wanted), counts.dtype)
    if len(wanted) * _STEPS * len(places).bit_length() > len(places) + chunks // 8:
        every = np.zeros(chunks, counts.dtype)
        every[_from(places, first)] = counts
        return every[wanted - first if first else wanted]
    at = np.searchsorted(places, wanted.astype(places.dtype))
    at[at == len(places)] = 0
    return np.where(places[at] == wanted, counts[at], 0)


# --- candidates -----------------------------------------------------------------------------------


def _candidates(
    found: Sequence[Contribution],
    sizes: Lengths,
    excluded: Places | None,
    limit: int,
    least: float,
) -> Places:
    """The chunks that may be among the best. They are compared in ranges, and what is known of the
    best of one range prunes the next."""
    import numpy as np

    bounds = [_bound(each, sizes) for each in found]
    order = sorted(range(len(found)), key=lambda number: -bounds[number])
    rest = np.append(np.cumsum([bounds[number] for number in reversed(order)])[::-1], 0.0)
    margin = _MARGIN * float(rest[0])
    places, scores = [np.empty(0, np.int64)], np.empty(0, np.float32)
    for low in range(0, len(sizes.words), _RANGE):
        high = min(low + _RANGE, len(sizes.words))
        terms = [_between(found[number], low, high) for number in order]
        out = excluded
        if out is not None:
            out = out[np.searchsorted(out, low) : np.searchsorted(out, high)] - low
        norms = sizes.norms[low:high]
        more = _in_range(terms, rest, norms, low, out, limit, least, margin)
        places.append(more[0])
        scores = np.append(scores, more[1])
        if len(scores) >= limit:
            at = len(scores) - limit
            least = max(least, float(np.partition(scores, at)[at]) - margin)
    return np.concatenate(places)[scores >= least - margin]


def _in_range(
    terms: Sequence[Contribution],
    rest: NDArray[np.float64],
    norms: NDArray[np.float32],
    first: int,
    excluded: Places | None,
    limit: int,
    least: float,
    margin: float,
) -> tuple[Places, NDArray[np.float32]]:
    """The chunks of a range that may be among the best, and their scores except for rounding.
    `rest` is what the terms from each one on can add, `first` the position of the first chunk."""
    import numpy as np

    scores = np.zeros(len(norms), np.float32)
    last = least
    added = 0
    for at, term in enumerate(terms):
        if not least and added >= limit and 2 * len(term.postings.places) > added:
            if excluded is not None:
                scores[excluded] = 0.0
            last = max(last, _kth(scores, limit))
        if last - margin > rest[at]:
            break
        places = _from(term.postings.places, first)
        scores[places] += _weights(term, term.postings.counts, norms[places])
        added += len(places)
    else:
        at = len(terms)
    if excluded is not None:
        scores[excluded] = 0.0
    near = np.flatnonzero(scores >= max(last - margin - rest[at], np.finfo(np.float32).tiny))
    partial, own = scores[near], norms[near]
    near += first
    for after, term in enumerate(terms[at:], start=at):
        if len(near) > limit:
            last = max(last, float(np.partition(partial, -limit)[-limit]))
        kept = partial >= last - margin - rest[after]
        near, partial, own = near[kept], partial[kept], own[kept]
        partial += _weights(term, look_up(term.postings, near, len(norms), first), own)
    return near, partial


def _between(one: Contribution, low: int, high: int) -> Contribution:
    """The postings of the chunks from `low` to `high`."""
    import numpy as np

    places, counts = one.postings
    if not len(places) or (not low and int(places[-1]) < high):
        return one
    kind = places.dtype.type  # another type would make `searchsorted` copy all places
    most = int(np.iinfo(kind).max)
    first = len(places) if low > most else int(np.searchsorted(places, kind(low)))
    last = len(places) if high > most else int(np.searchsorted(places, kind(high)))
    return one._replace(postings=PhrasePostings(places[first:last], counts[first:last]))


def _from(places: NDArray[np.unsignedinteger[Any]], first: int) -> NDArray[np.unsignedinteger[Any]]:
    """Positions from `first` on."""
    return places - places.dtype.type(first) if first else places


def _bound(one: Contribution, sizes: Lengths) -> float:
    """The most that a phrase can add to a score."""
    count = 0.5 * int(one.postings.counts.max(initial=0))
    return one.times * one.idf * (K1 + 1.0) * count / (count + sizes.least)


def _weights(
    one: Contribution, counts: NDArray[np.unsignedinteger[Any]], norms: NDArray[np.float32]
) -> NDArray[np.float32]:
    import numpy as np

    weights = counts.astype(np.float32)
    weights *= np.float32(0.5)
    norms = norms + weights
    weights *= np.float32(one.times * one.idf * (K1 + 1.0))
    weights /= norms
    return weights


def _kth(scores: NDArray[np.float32], limit: int) -> float:
    """A lower bound for the `limit`-th best score: that of the best of each block, if there are
    enough blocks."""
    import numpy as np

    best = scores
    blocks = len(scores) // _BLOCK
    if blocks >= 2 * limit:
        # The chunks of a block are far apart, so that numpy compares whole rows.
        best = scores[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(axis=0)
    if len(best) < limit:
        return 0.0
    return float(np.partition(best, len(best) - limit)[len(best) - limit])
