"""Agreement: a list that shares almost nothing with the others gets less weight. Pure.

Three lists for one query usually share some of their first hits, each for its own reasons. A list
that shares almost none is probably noise, for example from a model that does not know the language
of the notes. With its full weight, it would distort the sum.

    weight * min(1, (shared + 0.1) / 2) ^ 2

`shared` is the mean number of the first 20 hits that the list has in common with another list. Two
shared hits are enough: agreement is not a vote, and the best list may be the only one with its
later hits. With fewer than three lists, the outlier cannot be identified.

Lexical and sparse retrieval are siblings: if one of them did not run, the other gets the larger of
the two weights.

For Chinese, Japanese and Korean queries, lexical and dense retrieval swap their weights if dense
has more. Two characters carry more information than a word, so lexical retrieval finds most
relevant passages; and a multilingual model knows each language less well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import fsum

from kb.search.ranking.adaptive import QueryWeights

FIRST = 20
ENOUGH = 2.0
_LITTLE = 0.1  # so that a list that shares no hits keeps a weight above 0
_SIBLING = {"lexical": "sparse", "sparse": "lexical"}


def weigh_by_agreement(
    weights: Mapping[str, float], lists: Mapping[str, Sequence[int]], *, cjk: bool = False
) -> QueryWeights:
    """The weights of the retrievers that ran. `lists` has their chunk ids, best first; `cjk` is
    whether the query is Chinese, Japanese or Korean."""
    base = {name: weights.get(name, 1.0) for name in lists}
    for name, sibling in _SIBLING.items():
        if name in base and sibling in weights and sibling not in lists:
            base[name] = max(base[name], weights[sibling])
    if cjk and {"lexical", "dense"} <= base.keys():
        base["lexical"], base["dense"] = sorted((base["lexical"], base["dense"]), reverse=True)
    filled = {name: ids for name, ids in lists.items() if ids}
    if len(filled) < 3:
        return QueryWeights(base)
    shared = mean_overlap(filled)
    share = {name: min(1.0, (count + _LITTLE) / ENOUGH) ** 2 for name, count in shared.items()}
    rules = tuple(
        f"{name} shares {shared[name]:g} of its first {FIRST} hits with others"
        for name in filled
        if share[name] != 1.0
    )
    return QueryWeights({name: base[name] * share.get(name, 1.0) for name in base}, rules)


def mean_overlap(lists: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """For each list, how many of its first hits it shares with another list, on average."""
    firsts = {name: frozenset(ids[:FIRST]) for name, ids in lists.items()}
    shared: dict[str, list[int]] = {name: [] for name in firsts}
    for one, other in combinations(firsts, 2):
        count = len(firsts[one] & firsts[other])
        shared[one].append(count)
        shared[other].append(count)
    return {name: fsum(counts) / len(counts) for name, counts in shared.items()}
