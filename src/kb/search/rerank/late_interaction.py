"""Late interaction: compares every token of the query with every token of a passage.

    MaxSim = mean over the query's tokens of the highest cosine to a token of the passage

The store has compressed token vectors of the passages, so that only the query is encoded. Passages
without token vectors yet are left out; passages without any token get no score.
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

    from kb.ports import Encoder

    Rows = NDArray[np.float32]

TOKENS = frozenset({"tokens"})


class Colbert:
    """Compares the query's token vectors with those of the model `stored`. `kept` is whether
    passages without token vectors will get them later."""

    name = "colbert"

    def __init__(
        self,
        query_encoder: QueryEncoder,
        stored: StoredModel,
        encoder: Encoder | None = None,
        scripts: tuple[str, ...] = (),
        *,
        kept: bool = True,
    ) -> None:
        self._query_encoder = query_encoder
        self._stored = stored
        self._encoder = encoder
        self.model = stored.name
        self.scripts = scripts
        self._kept = kept

    def unfit(self, text: str) -> str:
        """The exam verdict on dense vectors, because token vectors have no separate exam."""
        return exam_verdict(self._stored, "dense", text)

    def load(self) -> None:
        self._query_encoder.load()

    def prepare(self, text: str) -> None:
        self._query(text)

    def scores(self, text: str, chunk_ids: Sequence[int], cache: CandidateCache) -> Scores:
        query = self._query(text)
        stored = cache.token_vectors(self._stored.model_id, chunk_ids)
        for vectors in stored.values():
            if vectors.dimension != query.dimension:
                raise ModelBroken(
                    f"token vectors of {vectors.dimension} dimensions, and a query of "
                    f"{query.dimension}",
                    "create them again with: kb embed --anew",
                )
        scores: Scores = dict.fromkeys(stored if self._kept else chunk_ids)
        scores.update(maxsim(query, {chunk: each for chunk, each in stored.items() if len(each)}))
        return scores

    def _query(self, text: str) -> TokenVectors:
        tokens = self._query_encoder.encode(text, TOKENS, self._encoder).tokens
        if tokens is None or not len(tokens):
            raise ModelBroken(
                f"{self.model} returned no token vectors for the query", "see: kb models"
            )
        return tokens


def maxsim(query: TokenVectors, passages: Mapping[int, TokenVectors]) -> dict[int, float]:
    """The scores of passages with normalized vectors; each passage has at least one."""
    if not passages:
        return {}
    try:
        import numpy  # noqa: F401  # only checks that it is installed
    except ImportError:
        return {chunk: _maxsim(query, vectors) for chunk, vectors in passages.items()}
    return _maxsim_of_all(query, passages)


def _maxsim_of_all(query: TokenVectors, passages: Mapping[int, TokenVectors]) -> dict[int, float]:
    """Scores of all passages by one matrix product: 100 passages of 190 tokens take 3 ms."""
    import numpy as np

    width = query.dimension
    rows = np.frombuffer(b"".join(one.data for one in passages.values()), np.float32)
    tokens = np.frombuffer(query.data, np.float32).reshape(-1, width)
    # `@` would start BLAS threads and take longer.
    cosines: Rows = np.einsum("ij,kj->ik", tokens, rows.reshape(-1, width))
    lengths = [len(one) for one in passages.values()]
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    best = np.maximum.reduceat(cosines, starts, axis=1)
    return dict(zip(passages, best.mean(axis=0, dtype=np.float64).tolist(), strict=True))


def _maxsim(query: TokenVectors, passage: TokenVectors) -> float:
    """MaxSim without numpy, which is slow."""
    rows = _rows(passage)
    return fsum(max(sum(map(mul, token, row)) for row in rows) for token in _rows(query)) / len(
        query
    )


def _rows(vectors: TokenVectors) -> list[Sequence[float]]:
    width = vectors.dimension
    return [vectors.data[at : at + width] for at in range(0, len(vectors.data), width)]
