"""How near each sentence of a passage is to the query, by token vectors.

The store keeps the vectors of a passage's tokens in order, without their places in the text.
Running the model's tokenizer again would take longer than the search. So the places are estimated:
a short word is one token, and a long one several. Near the border of two sentences a token may
count for the wrong one, which hardly changes the highest cosine of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import fsum
from typing import TYPE_CHECKING

from kb.errors import Stopped
from kb.logs import logger
from kb.search.context import SearchContext
from kb.search.results.hits import CandidateCache
from kb.search.results.layout import Layout
from kb.text.headings import heading_text
from kb.types import TokenVectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WORD = re.compile(r"\w+")
_SPACED = bytes(byte if re.match(r"\w", chr(byte), re.ASCII) else ord(" ") for byte in range(256))
_SHORT_WORD = 8  # letters
_TOKENS_PER_LETTER = 0.35  # of the letters beyond those
_MOST_UNITS = 400  # of huge tables, which have no token vectors beyond their first lines


class PassageSimilarity:
    """Compares the units of passages with the query of a search. A query that was not encoded with
    token vectors is not encoded again."""

    def __init__(self, context: SearchContext) -> None:
        self._context = context

    def __call__(
        self, text: str, layouts: Mapping[int, Layout], cache: CandidateCache
    ) -> dict[int, Sequence[float]]:
        """The similarities by chunk id; empty if there is nothing to compare. No failure stops a
        search: its snippets are then chosen by words."""
        try:
            return self._compare(text, layouts, cache)
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001  # of a model or a library
            logger("kb.search").warning("snippets are chosen by words: %s", error)
            return {}

    def _compare(
        self, text: str, layouts: Mapping[int, Layout], cache: CandidateCache
    ) -> dict[int, Sequence[float]]:
        context, stored = self._context, self._context.model.stored
        query = context.encode(text, need=frozenset()).tokens
        if query is None or stored is None:
            return {}
        vectors = context.store.vectors.token_vectors(stored.model_id, layouts)
        similarities = {}
        for chunk_id, tokens in vectors.items():
            chunk, title = cache.chunks[chunk_id], cache.document(chunk_id).title
            embedded = f"{heading_text(title, chunk.heading_path)}\n{chunk.text}"
            if tokens.dimension == query.dimension:
                near = unit_similarity(query, tokens, embedded, layouts[chunk_id])
                similarities[chunk_id] = near
        return similarities


def unit_similarity(
    query: TokenVectors, passage: TokenVectors, embedded: str, layout: Layout
) -> Sequence[float]:
    """For each unit, the mean over the query's tokens of the highest cosine to one of its tokens.
    `embedded` is the text that the model encoded: headings and passage. Empty if there are no
    vectors to compare, or numpy is missing."""
    if not len(query) or not len(passage) or len(layout.units) > _MOST_UNITS:
        return ()
    try:
        import numpy as np
    except ImportError:
        return ()
    starts = token_starts(embedded, layout, len(passage))
    rows = np.frombuffer(passage.data, np.float32).reshape(-1, passage.dimension)
    tokens = np.frombuffer(query.data, np.float32).reshape(-1, query.dimension)
    # Not by `@`, which starts BLAS threads and takes longer.
    cosines: NDArray[np.float32] = np.einsum("ij,kj->ik", tokens, rows)
    best = np.maximum.reduceat(cosines, starts, axis=1)
    means: list[float] = best.mean(axis=0, dtype=np.float64).tolist()
    return means


def token_starts(embedded: str, layout: Layout, count: int) -> list[int]:
    """The estimated position of each unit's first token among `count` tokens of the passage."""
    units = _tokens_by_unit(layout)
    before = max(0.0, _tokens(embedded) - fsum(units))
    ends = list(accumulate(units, initial=before))
    scale = count / ends[-1] if ends[-1] else 1.0
    if scale < 0.7:  # the model read only the first part of the text
        scale = 1.0
    return [min(count - 1, round(end * scale)) for end in ends[:-1]]


def _tokens_by_unit(layout: Layout) -> list[float]:
    text, units = layout.text, layout.units
    if not text.isascii():
        return [_count(_WORD.findall(text[unit.start : unit.end])) for unit in units]
    spaced = text.encode().translate(_SPACED)
    return [_count(spaced[unit.start : unit.end].split()) for unit in units]


def _tokens(text: str) -> float:
    """The estimated number of tokens that have a vector: those of words."""
    # Splitting bytes is four times faster than the pattern.
    ascii_text = text.isascii()
    return _count(text.encode().translate(_SPACED).split() if ascii_text else _WORD.findall(text))


def _count(words: Sequence[str | bytes]) -> float:
    long = [len(word) for word in words if len(word) > _SHORT_WORD]
    return len(words) + _TOKENS_PER_LETTER * (sum(long) - _SHORT_WORD * len(long))
