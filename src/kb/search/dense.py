"""The dense retriever: by meaning, as a model sees it (spec 5).

The query's vector is made once, kept for the next search with the same words, and compared with
every ready vector of the store. Whatever goes wrong here is told, and never stops a search: words
still answer.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from math import inf, sqrt
from operator import mul

from kb.errors import InvalidRequest, KbError, ModelBroken, ModelMismatch, ModelMissing
from kb.ports import Encoder, Store
from kb.search.analyse import Analysis
from kb.search.found import Found
from kb.search.standing import EncoderSource, Standing
from kb.types import Degraded, Filters, Vector

_KEPT = 256  # vectors of queries: a person types on, an agent asks again


class QueryVectors:
    """Vectors of queries, made when they are asked for. Shared between threads."""

    def __init__(self, source: EncoderSource) -> None:
        self._source = source
        self._kept: OrderedDict[tuple[str, str, str], Vector[float]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, text: str) -> Vector[float]:
        encoder = self._source()
        if encoder is None:
            raise ModelMissing("the encoder is switched off", "set models.encoder")
        key = (encoder.spec.name, encoder.spec.version, text)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        vector = _encoded(encoder, text)
        with self._lock:
            self._kept[key] = vector
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return vector


def _encoded(encoder: Encoder, text: str) -> Vector[float]:
    dense = encoder.encode([text], as_query=True)[0].dense
    try:
        return normalize(dense or ())
    except InvalidRequest as error:
        raise ModelBroken(
            f"{encoder.spec.name} gave no usable dense vector", "see: kb models verify"
        ) from error


class DenseRetriever:
    """Finds chunks by their vectors. `vector` is a ready-made one of the query, at length 1."""

    name = "dense"

    def __init__(
        self,
        store: Store,
        standing: Standing,
        vectors: QueryVectors,
        *,
        vector: Vector[float] | None = None,
        backend: str = "auto",
        alone: bool = False,
    ) -> None:
        self._store = store
        self._standing = standing
        self._vectors = vectors
        self._vector = vector
        self._backend = backend
        self._alone = alone

    def __repr__(self) -> str:
        model = self._standing.model
        return f"dense({model.name if model is not None else 'no vectors'})"

    def is_large(self, count: int) -> bool:
        """Whether there are so many vectors that a search takes its time."""
        return self._standing.usable and self._ready() >= count

    def index_version(self) -> str:
        return self._store.vector_version()

    def search(self, analysis: Analysis, filters: Filters, now: str, limit: int) -> Found:
        if limit < 1 or not self._asks(analysis):
            return Found(ran=False)
        model = self._standing.model
        if not self._standing.usable or model is None:
            return Found(ran=False, degraded=self._standing.degraded)
        try:
            found = self._store.nearest(
                model.model_id,
                self._query(analysis),
                filters=filters,
                now=now,
                limit=limit,
                backend=self._backend,
            )
        except Exception as error:  # of a model or a library: words still answer
            if isinstance(error, InvalidRequest) or self._is_misfit(error):
                raise
            return Found(ran=False, degraded=(_failure(error),))
        return Found(
            tuple(found.found),
            degraded=(*self._standing.degraded, *self._fallback(found.backend)),
            partial=bool(self._standing.pending or model.failed),
            backend=found.backend,
            model=model.name,
        )

    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> dict[int, float] | None:
        model = self._standing.model
        if model is None or not self._asks(analysis):
            return None
        query = self._query(analysis)
        return cosines(self._store.vectors_of(model.model_id, chunk_ids), query)

    def _fallback(self, used: str) -> tuple[Degraded, ...]:
        """Another backend than the one that was chosen: as good, but maybe not as fast."""
        if self._backend in ("auto", used):
            return ()
        return (Degraded("dense", "fallback", f"{self._backend} is not there: by {used}"),)

    def _asks(self, analysis: Analysis) -> bool:
        """Whether there is something to look for. A query without words means nothing, and one that
        is an FTS5 expression asks for just what it says, unless there is no one else to ask."""
        if self._vector is not None:
            return True
        return not analysis.empty and (analysis.expression is None or self._alone)

    def _is_misfit(self, error: Exception) -> bool:
        """A ready-made vector that does not fit the store is its caller's mistake."""
        return self._vector is not None and isinstance(error, ModelMismatch)

    def _ready(self) -> int:
        return self._standing.model.ready if self._standing.model is not None else 0

    def _query(self, analysis: Analysis) -> Vector[float]:
        if self._vector is not None:
            return self._vector
        return self._vectors.of(analysis.expression or analysis.text)


def cosines(vectors: Mapping[int, Vector[float]], query: Vector[float]) -> dict[int, float]:
    """Of vectors at length 1. By numpy, where it is loaded already: it is ten times faster."""
    if not vectors or "numpy" not in sys.modules:
        return {chunk_id: sum(map(mul, vector, query)) for chunk_id, vector in vectors.items()}
    import numpy as np

    rows = np.frombuffer(b"".join(vectors.values()), np.float32).reshape(len(vectors), -1)
    # Not by `@`: that wakes the threads of BLAS, which go on to compete with the encoder's.
    found = np.einsum("ij,j->i", rows, np.frombuffer(query, np.float32))
    return dict(zip(vectors, found.tolist(), strict=True))


def normalize(vector: Sequence[float]) -> Vector[float]:
    """The vector at length 1 [004]. One that has no direction cannot be used."""
    try:
        given = array("d", vector)
    except TypeError:
        raise InvalidRequest("an embedding is not a list of numbers", "give numbers") from None
    length = sqrt(sum(map(mul, given, given)))
    if not 0.0 < length < inf:  # nor is a NaN
        raise InvalidRequest(
            "an embedding is zero or not finite", "it has no direction; encode the text again"
        )
    return array("f", [value / length for value in given])


def _failure(error: Exception) -> Degraded:
    message = error.message if isinstance(error, KbError) else f"{type(error).__name__}: {error}"
    return Degraded("dense", "failed", message)
