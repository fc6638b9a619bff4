"""Late interaction: every token of the query looks for its nearest token in a passage (spec 8).

    MaxSim = mean over the query's tokens of the highest cosine to a token of the passage

The passages' token vectors were stored at ingest, compressed, so that only the query is encoded
now. Passages that have none yet cannot be told, and are left out; those without a single token have
nothing to compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from operator import mul
from typing import TYPE_CHECKING

from kb.errors import ModelBroken
from kb.search.query.query_encoder import QueryEncoder
from kb.search.rerank.stage import Scores
from kb.search.results.hits import CandidateCache
from kb.search.retrievers.availability import exam_verdict
from kb.types import StoredModel, TokenVectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.ports import Store

    Rows = NDArray[np.float32]

TOKENS = frozenset({"tokens"})


class Colbert:
    """Compares the query's token vectors with those that the store has of `stored`. Passages
    without any will get them later, if they are `kept`."""

    name = "colbert"

    def __init__(
        self,
        store: Store,
        query_encoder: QueryEncoder,
        stored: StoredModel,
        scripts: tuple[str, ...] = (),
        *,
        kept: bool = True,
    ) -> None:
        self._store = store
        self._query_encoder = query_encoder
        self._stored = stored
        self.model = stored.name
        self.scripts = scripts
        self._entries = kept

    def unfit(self, text: str) -> str:
        """Token vectors sit no exam of their own: who cannot read by one does not by the other."""
        return exam_verdict(self._stored, "dense", text)

    def load(self) -> None:
        self._query_encoder.load()

    def prepare(self, text: str) -> None:
        self._query(text)

    def scores(self, text: str, chunk_ids: Sequence[int], cache: CandidateCache) -> Scores:  # noqa: ARG002  # no text is read
        query = self._query(text)
        found = self._store.tokens_of(self._stored.model_id, chunk_ids)
        for vectors in found.values():
            if vectors.dimension != query.dimension:
                raise ModelBroken(
                    f"token vectors of {vectors.dimension} dimensions, and a query of "
                    f"{query.dimension}",
                    "make them anew with: kb embed --anew",
                )
        told: Scores = dict.fromkeys(found if self._entries else chunk_ids)
        told.update(maxsim(query, {chunk: each for chunk, each in found.items() if len(each)}))
        return told

    def _query(self, text: str) -> TokenVectors:
        tokens = self._query_encoder.of(text, TOKENS).tokens
        if tokens is None or not len(tokens):
            raise ModelBroken(f"{self.model} gave no token vectors of the query", "see: kb models")
        return tokens


def maxsim(query: TokenVectors, passages: Mapping[int, TokenVectors]) -> dict[int, float]:
    """Of vectors at length 1; every passage has one at least."""
    if not passages:
        return {}
    try:
        import numpy  # noqa: F401  # whether it is there
    except ImportError:
        return {chunk: _maxsim(query, vectors) for chunk, vectors in passages.items()}
    return _maxsim_of_all(query, passages)


def _maxsim_of_all(query: TokenVectors, passages: Mapping[int, TokenVectors]) -> dict[int, float]:
    """All passages as one matrix: 100 of 190 tokens take 3 ms, where nobody else computes."""
    import numpy as np

    width = query.dimension
    rows = np.frombuffer(b"".join(one.data for one in passages.values()), np.float32)
    asked = np.frombuffer(query.data, np.float32).reshape(-1, width)
    # Not by `@`: that wakes the threads of BLAS, and takes longer than this does in one.
    cosines: Rows = np.einsum("ij,kj->ik", asked, rows.reshape(-1, width))
    lengths = [len(one) for one in passages.values()]
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    best = np.maximum.reduceat(cosines, starts, axis=1)
    return dict(zip(passages, best.mean(axis=0, dtype=np.float64).tolist(), strict=True))


def _maxsim(query: TokenVectors, passage: TokenVectors) -> float:
    """Without numpy: the same, and slow."""
    rows = _rows(passage)
    return fsum(max(sum(map(mul, token, row)) for row in rows) for token in _rows(query)) / len(
        query
    )


def _rows(vectors: TokenVectors) -> list[Sequence[float]]:
    width = vectors.dimension
    return [vectors.data[at : at + width] for at in range(0, len(vectors.data), width)]
