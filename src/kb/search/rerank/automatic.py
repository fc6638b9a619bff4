"""The automatic blend: the share of the reranker in the final score depends on the query. Pure.

    colbert          reranks queries of at most four words, unless two retrievers have the same
                     first hit as the fused list: then words and meaning agree, and a third opinion
                     is more often wrong than right. In a longer query, most tokens matter little
    cross-encoder    reranks questions in prose: it was trained on those, and loses on keywords,
                     claims and code

Measured in docs/decisions/0037-rerank-and-snippets.md and 0045-relevance-refit.md. A profile that
sets `rerank_blend` always reranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kb.search.ranking.adaptive import question_word, technical_marks, word_count

BLENDS = {"colbert": 0.2, "cross-encoder": 0.3}
FEW_WORDS = 4
_AGREE = 2  # retrievers


class AutomaticBlend(NamedTuple):
    """The share of the reranker for a query, and the reason if it is 0."""

    blend: float
    reason: str = ""


def automatic_blend(
    reranker: str, text: str, first: int, first_by_retriever: Iterable[int | None]
) -> AutomaticBlend:
    """The blend for the query `text`. `first` is the first chunk of the fused list, and
    `first_by_retriever` has the first one of each retriever."""
    if reranker == "cross-encoder":
        if question_word(text) is None:
            return AutomaticBlend(0.0, "the query is not a question")
        if marks := technical_marks(text):
            return AutomaticBlend(0.0, f"the query is technical ({', '.join(marks)})")
    elif sum(one == first for one in first_by_retriever) >= _AGREE:
        return AutomaticBlend(0.0, "retrievers agree on the first hit")
    elif word_count(text) > FEW_WORDS:
        return AutomaticBlend(0.0, f"the query has more than {FEW_WORDS} words")
    return AutomaticBlend(BLENDS.get(reranker, 1.0))
