"""Coverage: vectors count less while most candidates have none. Pure.

While vectors are being computed, the vector lists hold only passages that have one already. If
those are about something else, the nearest of them are still far from the query, but they rank
first in their lists. So the weight of such a list depends on how many of the first 50 passages by
words can be found in it:

    at most 30 %       0: the order is that of words alone
    at least 80 %      full weight: a new note without a vector is ranked by its words
    between            in proportion; words have the rest

The share of the whole store would not help: with half of it embedded, the passages about one topic
may have all of their vectors, and those about another none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from kb.search.ranking.fusion import RankedList
from kb.search.retrievers.registry import LEXICAL
from kb.values import replace

FIRST = 50
LEAST, ENOUGH = 0.3, 0.8  # shares of the first candidates by words


def weigh_by_coverage(
    lists: Sequence[RankedList], base: Mapping[str, float]
) -> tuple[list[RankedList], tuple[str, ...]]:
    """The lists with their new weights, and the rules that changed them. `base` holds the weights
    before agreement: lists that lack most passages cannot agree with words."""
    words = next((one for one in lists if one.name == LEXICAL and one.ran and one.ranked), None)
    if words is None or not any(one.unknown for one in lists):
        return list(lists), ()
    first = [one.chunk_id for one in words.ranked[:FIRST]]
    known = {one.name: _known_share(one, first) for one in lists if one.ran}
    factors = {name: _factor(share) for name, share in known.items()}
    if all(factor == 1.0 for factor in factors.values()):
        return list(lists), ()
    moved = fsum(base.get(name, 1.0) * (1.0 - factor) for name, factor in factors.items())
    weighted = [
        replace(one, weight=max(one.weight, base.get(LEXICAL, 1.0)) + moved)
        if one is words
        else replace(one, weight=one.weight * factors.get(one.name, 1.0))
        for one in lists
    ]
    rules = (
        f"{name} has {known[name]:.0%} of the first passages by words: times {factor:.2g}"
        for name, factor in factors.items()
        if factor != 1.0
    )
    return weighted, tuple(rules)


def _known_share(ranked_list: RankedList, chunk_ids: Sequence[int]) -> float:
    return 1.0 - sum(chunk in ranked_list.unknown for chunk in chunk_ids) / len(chunk_ids)


def _factor(share: float) -> float:
    return min(1.0, max(0.0, (share - LEAST) / (ENOUGH - LEAST)))
