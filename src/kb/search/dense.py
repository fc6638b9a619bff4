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
from contextlib import suppress
from math import inf, sqrt
from operator import mul
from typing import NamedTuple

from kb.errors import (
    InvalidRequest,
    KbError,
    ModelBroken,
    ModelMismatch,
    ModelMissing,
    StoreError,
)
from kb.ports import Encoder, Nearest, Store
from kb.search.analyse import Analysis
from kb.search.found import Found
from kb.search.scripts import is_foreign
from kb.search.standing import EncoderSource, Standing
from kb.types import Degraded, Filters, Vector

_KEPT = 256  # vectors of queries: a person types on, an agent asks again


class QueryVector(NamedTuple):
    """At length 1; `truncated` tells how many tokens of the query the model did not see."""

    vector: Vector[float]
    truncated: int = 0


class QueryVectors:
    """Vectors of queries, made when they are asked for. Shared between threads."""

    def __init__(self, source: EncoderSource) -> None:
        self._source = source
        self._kept: OrderedDict[tuple[str, str, str], QueryVector] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, text: str) -> QueryVector:
        encoder = self._source()
        if encoder is None:
            raise ModelMissing("the encoder is switched off", "set models.encoder")
        key = (encoder.spec.name, encoder.spec.version, text)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = _encoded(encoder, text)
        with self._lock:
            self._kept[key] = made
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made


def _encoded(encoder: Encoder, text: str) -> QueryVector:
    encoding = encoder.encode([text], as_query=True)[0]
    try:
        return QueryVector(normalize(encoding.dense or ()), encoding.truncated)
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
        self._check_syntax(analysis, filters, now)
        model = self._standing.model
        if not self._standing.usable or model is None:
            return Found(ran=False, degraded=self._standing.degraded)
        foreign = self._foreign(analysis)
        if foreign and not self._alone:
            return Found(ran=False, degraded=foreign)
        try:
            query = self._query(analysis)
            found = self._store.nearest(
                model.model_id,
                query.vector,
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
            degraded=(
                *self._standing.degraded,
                *foreign,
                *_truncation(query.truncated),
                *self._fallback(found),
            ),
            partial=bool(self._standing.pending or model.failed),
            backend=found.backend,
            model=model.name,
        )

    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> dict[int, float] | None:
        model = self._standing.model
        if model is None or not self._asks(analysis):
            return None
        query = self._query(analysis)
        return cosines(self._store.vectors_of(model.model_id, chunk_ids), query.vector)

    def _foreign(self, analysis: Analysis) -> tuple[Degraded, ...]:
        """A query in a script that the model does not read: its vector would be noise, and drag the
        words' list down. It is only asked for where it is all that was asked for."""
        scripts = self._standing.scripts
        if self._vector is not None or not is_foreign(analysis.text, scripts):
            return ()
        detail = f"{self._standing.encoder} reads {' and '.join(scripts)} script"
        return (Degraded("dense", "language", detail),)

    def _check_syntax(self, analysis: Analysis, filters: Filters, now: str) -> None:
        """A malformed expression is the same mistake here, where only its meaning is asked for."""
        if analysis.expression is None or self._vector is not None:
            return
        with suppress(StoreError):  # no index to ask: then there is nothing to be said
            self._store.match_expression(analysis.expression, filters=filters, now=now, limit=1)

    def _fallback(self, found: Nearest) -> tuple[Degraded, ...]:
        """Another backend than the one that was chosen: as good, but maybe not as fast."""
        if self._backend in ("auto", found.backend):
            return ()
        why = found.why or f"{self._backend} is not there"
        return (Degraded("dense", "fallback", f"{why}: by {found.backend}"),)

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

    def _query(self, analysis: Analysis) -> QueryVector:
        if self._vector is not None:
            return QueryVector(self._vector)
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
    check_list(vector)
    try:
        given = array("d", vector)
    except (TypeError, ValueError):
        raise _no_list() from None
    except OverflowError:
        given = array("d", [inf])
    length = sqrt(sum(map(mul, given, given)))
    if not 0.0 < length < inf:  # nor is a NaN
        raise InvalidRequest(
            "an embedding is zero or not finite", "it has no direction; encode the text again"
        )
    return array("f", [value / length for value in given])


def _no_list() -> InvalidRequest:
    return InvalidRequest("an embedding is not a list of numbers", "give numbers")


def check_list(vector: object) -> None:
    """Refuses what is no list at all. Bytes would be read as the memory of numbers."""
    listed = hasattr(vector, "__len__") and hasattr(vector, "__getitem__")
    if not listed or isinstance(vector, str | bytes | bytearray | Mapping):
        raise _no_list()


def _truncation(tokens: int) -> tuple[Degraded, ...]:
    if not tokens:
        return ()
    told = "1 token" if tokens == 1 else f"{tokens} tokens"
    return (Degraded("dense", "truncated", f"{told} of the query left out"),)


def _failure(error: Exception) -> Degraded:
    message = error.message if isinstance(error, KbError) else f"{type(error).__name__}: {error}"
    return Degraded("dense", "failed", message)
