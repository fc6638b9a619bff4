"""MaxScore: the positions that may have the highest sums of weights, without summing all of them.

Terms are added in the order of how much they can contribute. Once a position without any of the
terms so far can no longer be among the best, the other terms are looked up only for the positions
that still can. Sums are in float32, with a margin for their rounding: the caller computes the exact
scores of the few positions that are left, in its own order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Weigh = Callable[["Term", NDArray[Any], NDArray[Any]], NDArray[np.float32]]

_RANGE = 1 << 18  # positions compared at a time
_BLOCK = 64  # positions; the best of each block form a sample, from which a lower bound is computed
_STEPS = 4  # a binary search costs as much as this many steps of a scan, for each bit
_MARGIN = 1e-5  # more than the relative errors of float32 sums


class Term(NamedTuple):
    """The postings of a term: positions, ascending, and a value for each. A value is worth at most
    `bound`; `scale` is for the function that computes its weight."""

    places: NDArray[Any]
    values: NDArray[Any]
    scale: float
    bound: float


def look_up(
    places: NDArray[Any], values: NDArray[Any], wanted: Places, count: int, first: int = 0
) -> NDArray[Any]:
    """The value of each wanted position, 0 if it has none. `wanted` ascends. The postings are those
    of `count` positions from `first` on."""
    import numpy as np

    if not len(places) or not len(wanted):
        return np.zeros(len(wanted), values.dtype)
    if len(wanted) * _STEPS * len(places).bit_length() > len(places) + count // 8:
        every = np.zeros(count, values.dtype)
        every[_from(places, first)] = values
        return every[wanted - first if first else wanted]
    at = np.searchsorted(places, wanted.astype(places.dtype))
    at[at == len(places)] = 0
    return np.where(places[at] == wanted, values[at], values.dtype.type(0))


def candidates(
    terms: Sequence[Term],
    weigh: Weigh,
    count: int,
    *,
    excluded: Places | None,
    limit: int,
    least: float,
) -> Places:
    """The positions below `count` whose sum may be at least `least` and among the `limit` highest,
    in ascending order. `weigh` computes the weights of a term's values at positions. `excluded` are
    positions to leave out. Ranges of positions are examined one after another: the best sums so far
    prune the next range."""
    import numpy as np

    ordered = sorted(terms, key=lambda term: -term.bound)
    bounds = [term.bound for term in reversed(ordered)]
    rest = np.append(np.cumsum(bounds)[::-1], 0.0)  # what the terms from each one on can add
    margin = _MARGIN * float(rest[0])
    places, scores = [np.empty(0, np.int64)], np.empty(0, np.float32)
    for low in range(0, count, _RANGE):
        high = min(low + _RANGE, count)
        out = excluded
        if out is not None:
            out = out[np.searchsorted(out, low) : np.searchsorted(out, high)] - low
        inside = [_between(term, low, high) for term in ordered]
        more = _in_range(inside, weigh, rest, (low, high), out, limit, least, margin)
        places.append(more[0])
        scores = np.append(scores, more[1])
        if len(scores) >= limit:
            at = len(scores) - limit
            least = max(least, float(np.partition(scores, at)[at]) - margin)
    return np.concatenate(places)[scores >= least - margin]


def _in_range(
    terms: Sequence[Term],
    weigh: Weigh,
    rest: NDArray[np.float64],
    ends: tuple[int, int],
    excluded: Places | None,
    limit: int,
    least: float,
    margin: float,
) -> tuple[Places, NDArray[np.float32]]:
    """The positions of a range that may be among the best, and their sums except for rounding."""
    import numpy as np

    first, count = ends[0], ends[1] - ends[0]
    scores = np.zeros(count, np.float32)
    last = least
    added = 0
    for at, term in enumerate(terms):
        if not least and added >= limit and 2 * len(term.places) > added:
            if excluded is not None:
                scores[excluded] = 0.0
            last = max(last, _kth(scores, limit))
        if last - margin > rest[at]:
            break
        scores[_from(term.places, first)] += weigh(term, term.values, term.places)
        added += len(term.places)
    else:
        at = len(terms)
    if excluded is not None:
        scores[excluded] = 0.0
    near = np.flatnonzero(scores >= max(last - margin - rest[at], np.finfo(np.float32).tiny))
    partial = scores[near]
    near += first
    for after, term in enumerate(terms[at:], start=at):
        if len(near) > limit:
            last = max(last, float(np.partition(partial, -limit)[-limit]))
        kept = partial >= last - margin - rest[after]
        near, partial = near[kept], partial[kept]
        partial += weigh(term, look_up(term.places, term.values, near, count, first), near)
    return near, partial


def _between(term: Term, low: int, high: int) -> Term:
    """The postings of the positions from `low` to `high`."""
    import numpy as np

    places = term.places
    if not len(places) or (not low and int(places[-1]) < high):
        return term
    kind = places.dtype.type  # another type would make `searchsorted` copy all places
    most = int(np.iinfo(kind).max)
    first = len(places) if low > most else int(np.searchsorted(places, kind(low)))
    last = len(places) if high > most else int(np.searchsorted(places, kind(high)))
    return term._replace(places=places[first:last], values=term.values[first:last])


def _from(places: NDArray[Any], first: int) -> NDArray[Any]:
    """Positions from `first` on."""
    return places - places.dtype.type(first) if first else places


def _kth(scores: NDArray[np.float32], limit: int) -> float:
    """A lower bound for the `limit`-th best score: the `limit`-th highest of the blocks' maxima, if
    there are enough blocks."""
    import numpy as np

    best = scores
    blocks = len(scores) // _BLOCK
    if blocks >= 2 * limit:
        # The positions of a block are far apart, so that numpy compares whole rows.
        best = scores[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(axis=0)
    best = best[best > 0.0]  # `partition` is slow if many numbers are equal
    if len(best) < limit:
        return 0.0
    return float(np.partition(best, len(best) - limit)[len(best) - limit])
