"""Agreement: what each list counts, by whether the others bear it out. Pure.

Three lists about one query have some of their first hits in common, each for reasons of its own. A
list that shares next to none with the others is noise here: of a model that does not know the
language of the notes, say. By its weight alone it would spoil the sum.

    weight * min(1, (shared + 0.1) / 2) ^ 2

where `shared` is how many of its first 20 a list has in common with another, on average. From two
on, a list counts in full: agreement is no vote, and the best list may well be alone with what it
has found below the first. With fewer than three lists nobody can tell which is the odd one.

Words and learned term weights are siblings: where one of them did not answer, the other counts as
much as the larger of the two would.

In Chinese, Japanese and Korean words and meaning change places. Two characters there say more than
a word, so that words alone find most; and a model of many languages knows each less well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import fsum

from kb.search.ranking.adaptive import QueryWeights

FIRST = 20
ENOUGH = 2.0
_LITTLE = 0.1  # so that a list without any company still counts next to nothing, and not nothing
_SIBLING = {"lexical": "sparse", "sparse": "lexical"}


def weigh_by_agreement(
    weights: Mapping[str, float], lists: Mapping[str, Sequence[int]], *, cjk: bool = False
) -> QueryWeights:
    """The weights of the lists that answered; each is of chunk ids, best first. `cjk` says that the
    query is Chinese, Japanese or Korean."""
    own = {name: weights.get(name, 1.0) for name in lists}
    for name, sibling in _SIBLING.items():
        if name in own and sibling in weights and sibling not in lists:
            own[name] = max(own[name], weights[sibling])
    if cjk and {"lexical", "dense"} <= own.keys():
        own["lexical"], own["dense"] = sorted((own["lexical"], own["dense"]), reverse=True)
    told = {name: found for name, found in lists.items() if found}
    if len(told) < 3:
        return QueryWeights(own)
    shared = mean_overlap(told)
    share = {name: min(1.0, (count + _LITTLE) / ENOUGH) ** 2 for name, count in shared.items()}
    rules = tuple(
        f"{name} shares {shared[name]:g} of its first {FIRST} with others"
        for name in told
        if share[name] != 1.0
    )
    return QueryWeights({name: own[name] * share.get(name, 1.0) for name in own}, rules)


def mean_overlap(lists: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """How many of its first hits each list shares with another one, on average."""
    firsts = {name: frozenset(found[:FIRST]) for name, found in lists.items()}
    shared: dict[str, list[int]] = {name: [] for name in firsts}
    for one, other in combinations(firsts, 2):
        count = len(firsts[one] & firsts[other])
        shared[one].append(count)
        shared[other].append(count)
    return {name: fsum(counts) / len(counts) for name, counts in shared.items()}
