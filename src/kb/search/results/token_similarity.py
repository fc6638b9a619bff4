"""How near each sentence of a passage is to the query, by token vectors.

The store keeps the vectors of a passage's tokens in order, without their places in the text.
Running the model's tokenizer again would take longer than the search. So the places are estimated:
a short word is one token, and a long one several. Near the border of two sentences a token may
count for the wrong one, which hardly changes the highest cosine of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, islice
from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from kb.errors import Stopped
from kb.logs import logger
from kb.search.context import SearchContext
from kb.search.results.hits import CandidateCache
from kb.search.results.layout import Layout
from kb.text.headings import heading_text
from kb.text.plain_words import not_ascii
from kb.types import TokenVectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_IS_LETTER = bytes(re.match(r"\w", chr(byte), re.ASCII) is not None for byte in range(256))
_SHORT_WORD = 8  # letters
_TOKENS_PER_LETTER = 0.35  # for each further letter
_MAX_REPLACE_CHARS = 32  # for more, regular expressions are faster than replacing each
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
            message = "token vectors failed, so snippets are chosen by words only: %s"
            logger("kb.search").warning(message, error)
            return {}

    def _compare(
        self, text: str, layouts: Mapping[int, Layout], cache: CandidateCache
    ) -> dict[int, Sequence[float]]:
        context, stored = self._context, self._context.model.stored
        query = context.encode(text, need=frozenset()).tokens
        if query is None or stored is None:
            return {}
        passages = {}
        for chunk_id, tokens in cache.token_vectors(stored.model_id, layouts).items():
            if tokens.dimension == query.dimension:
                chunk, title = cache.chunks[chunk_id], cache.document(chunk_id).title
                embedded = f"{heading_text(title, chunk.heading_path)}\n{chunk.text}"
                passages[chunk_id] = EmbeddedPassage(tokens, embedded, layouts[chunk_id])
        near = unit_similarities(query, list(passages.values()))
        return dict(zip(passages, near, strict=True))


class EmbeddedPassage(NamedTuple):
    """The token vectors of a passage, the text that the model encoded (headings and passage), and
    the layout of the passage."""

    tokens: TokenVectors
    embedded: str
    layout: Layout


def unit_similarities(
    query: TokenVectors, passages: Sequence[EmbeddedPassage]
) -> list[Sequence[float]]:
    """For each unit of each passage, the mean over the query's tokens of the highest cosine to one
    of its tokens. Empty if there are no vectors to compare, or numpy is missing."""
    try:
        import numpy as np
    except ImportError:
        return [()] * len(passages)
    tokens = np.frombuffer(query.data, np.float32).reshape(-1, query.dimension)
    similarities: list[Sequence[float]] = []
    for passage, starts in zip(passages, token_starts(passages), strict=True):
        if not len(query) or not len(passage.tokens) or len(starts) > _MOST_UNITS:
            similarities.append(())
            continue
        rows = np.frombuffer(passage.tokens.data, np.float32).reshape(-1, query.dimension)
        # `@` would start BLAS threads and take longer.
        cosines: NDArray[np.float32] = np.einsum("ij,kj->ik", tokens, rows)
        best = np.maximum.reduceat(cosines, starts, axis=1)
        similarities.append(best.mean(axis=0, dtype=np.float64).tolist())
    return similarities


def token_starts(passages: Sequence[EmbeddedPassage]) -> list[list[int]]:
    """The estimated position of each unit's first token among the tokens of its passage."""
    starts = []
    for passage, (*units, whole) in zip(passages, _token_counts(passages), strict=True):
        count = len(passage.tokens)
        before = max(0.0, whole - fsum(units))
        ends = list(accumulate(units, initial=before))
        scale = count / ends[-1] if ends[-1] else 1.0
        if scale < 0.7:  # the model read only the first part of the text
            scale = 1.0
        starts.append([min(count - 1, round(end * scale)) for end in ends[:-1]])
    return starts


def _token_counts(passages: Sequence[EmbeddedPassage]) -> list[list[float]]:
    """For each passage, the estimated number of tokens of each unit, followed by that of the
    embedded text. Only tokens of words have a vector. A word is never in two units, so that the
    words of all passages can be counted together."""
    import numpy as np

    texts, starts, end = [""], [], 0
    for passage in passages:
        texts += (passage.layout.text, passage.embedded)
        starts += [end + unit.start for unit in passage.layout.units]
        end += len(passage.layout.text) + 1
        starts.append(end)
        end += len(passage.embedded) + 1
    joined = _as_ascii("\n".join(texts))
    letters = np.frombuffer(joined.encode().translate(_IS_LETTER), np.bool_)
    words = np.flatnonzero(letters[1:] > letters[:-1])
    runs = letters[1:]  # where a run of so many letters begins, until that is a long word
    for step in (1, 2, 4, 1):
        runs = runs[step:] & runs[:-step]
    number, more_letters = (
        np.diff(np.searchsorted(places, starts), append=len(places)).tolist()
        for places in (words, np.flatnonzero(runs))
    )
    counts = iter(
        one + _TOKENS_PER_LETTER * more for one, more in zip(number, more_letters, strict=True)
    )
    return [list(islice(counts, len(passage.layout.units) + 1)) for passage in passages]


def _as_ascii(text: str) -> str:
    """The text with an ASCII letter or a space in place of every other character."""
    chars = set(not_ascii(text))
    if len(chars) > _MAX_REPLACE_CHARS:
        return re.sub(r"[^\x00-\x7f]", " ", re.sub(r"[^\x00-\x7f\W]", "a", text))
    for char in chars:
        text = text.replace(char, "a" if re.match(r"\w", char) else " ")
    return text
