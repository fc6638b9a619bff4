"""Word match: words count more for a query that a passage matches well. Pure.

For one question, the first passage by words contains almost all of its words; for another, such as
a question about code in plain words, only one or two. So the weights of words and weighted terms
depend on the share of the highest possible BM25 score that the first passage reaches:

    at most 35 %    0.7 times their weight
    50 % or more    1.5 times their weight
    between         in proportion

No passage contains all words of a long question, so a low share is weak evidence. For a query of
more than six words, the factors are 1 and 1.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum

from kb.search.ranking.adaptive import QueryWeights

FEW_WORDS = 6  # function words are not counted
LOW_SHARE, HIGH_SHARE = 0.35, 0.5
FACTORS, LONG_FACTORS = (0.7, 1.5), (1.0, 1.3)  # minimum and maximum
_MOST_BM25 = 2.2  # times the IDF: the limit for a term that fills its passage (k1 + 1)
_BY_WORDS = ("lexical", "sparse")


def matched_share(bm25: float, idf: Mapping[str, float]) -> float | None:
    """The share of the highest BM25 score that a passage reaches, given the inverse document
    frequencies of the query's words. None for a query without words."""
    total = fsum(idf.values())
    return bm25 / (_MOST_BM25 * total) if total > 0.0 else None


def weigh_by_word_match(
    weights: Mapping[str, float], share: float | None, words: int
) -> QueryWeights:
    """The weights of the retrievers, and the rule that changed them. `share` is the `matched_share`
    of the first passage by words, and `words` the number of words in the query."""
    if share is None:
        return QueryWeights(weights)
    least, most = FACTORS if words <= FEW_WORDS else LONG_FACTORS
    position = min(1.0, max(0.0, (share - LOW_SHARE) / (HIGH_SHARE - LOW_SHARE)))
    factor = least + (most - least) * position
    if factor == 1.0:
        return QueryWeights(weights)
    weighted = {
        name: weight * factor if name in _BY_WORDS else weight for name, weight in weights.items()
    }
    rule = f"the first passage by words matches {share:.0%}: words times {factor:.2g}"
    return QueryWeights(weighted, (rule,))
