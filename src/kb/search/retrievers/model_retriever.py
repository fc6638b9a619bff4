"""What dense and sparse search share: a store's vectors, asked with a query that a model encodes.

Whatever goes wrong here is told, and never stops a search: the others still answer.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Set
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kb.errors import InvalidRequest, Stopped, StoreError
from kb.search.query.analysis import Analysis
from kb.search.query.query_encoder import QueryEncoding
from kb.search.retrievers.availability import RetrieverStatus, exam_verdict
from kb.search.retrievers.base import Candidates, failure
from kb.text.scripts import unsupported_scripts
from kb.types import Degraded, Filters, VectorMatches

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.types import StoredModel


class Encode(Protocol):
    """A query with the parts that its search asks for, and for certain those that are needed."""

    def __call__(self, text: str, /, *, need: Set[str]) -> QueryEncoding: ...


class VectorQuery(NamedTuple):
    """What a retriever is asked, once there is something to ask for."""

    query: QueryEncoding
    filters: Filters
    now: str
    limit: int


class ModelRetriever(ABC):
    """Finds chunks by what a model made of them. `alone`: words are not asked, so that it must
    answer where it would rather leave it to them."""

    name: str
    ready_made = False  # whether the query needs no encoding

    def __init__(
        self, store: Store, status: RetrieverStatus, encode: Encode, *, alone: bool = False
    ) -> None:
        self._store = store
        self._status = status
        self._encode = encode
        self._alone = alone

    def __repr__(self) -> str:
        model = self._status.model
        return f"{self.name}({model.name if model is not None else 'no vectors'})"

    def is_large(self, count: int) -> bool:
        """Whether there are so many vectors that a search takes its time."""
        model = self._status.model
        return self._status.usable and model is not None and model.ready >= count

    @property
    def is_remote(self) -> bool:
        """Whether a server is asked to encode the query."""
        return self._status.usable and self._status.remote and not self.ready_made

    def index_version(self) -> str:
        return self._store.vector_version()

    def search(self, analysis: Analysis, filters: Filters, now: str, limit: int) -> Candidates:
        if limit < 1 or not self._applies(analysis):
            return Candidates(ran=False)
        self._check_syntax(analysis, filters, now)
        model = self._status.model
        if not self._status.usable or model is None:
            return Candidates(ran=False, degraded=self._status.degraded)
        foreign = self._unreadable(analysis)
        if foreign and not self._alone:
            return Candidates(ran=False, degraded=foreign)
        began = time.perf_counter()
        try:
            query = self._query(analysis)
            encoding_ms = (time.perf_counter() - began) * 1000
            found = self._lookup(model, VectorQuery(query, filters, now, limit))
        except Stopped:
            raise
        except Exception as error:  # of a model or a library: the others still answer
            if isinstance(error, InvalidRequest) or self._is_caller_error(error):
                raise
            return Candidates(ran=False, degraded=(failure(self.name, error),))
        told = (*self._status.degraded, *foreign, *self._truncation(query.truncated))
        return Candidates(
            tuple(found.chunks),
            degraded=(*told, *self._fallback(found)),
            partial=bool(self._status.pending or model.failed),
            backend=found.backend,
            model=model.name,
            encoding_ms=encoding_ms,
        )

    @abstractmethod
    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> dict[int, float] | None: ...

    @abstractmethod
    def _lookup(self, model: StoredModel, vector_query: VectorQuery) -> VectorMatches: ...

    def _query(self, analysis: Analysis) -> QueryEncoding:
        return self._encode(analysis.expression or analysis.text, need={self.name})

    def _applies(self, analysis: Analysis) -> bool:
        """Whether there is something to look for. A query without words means nothing, and one that
        is an FTS5 expression asks for just what it says, unless there is no one else to ask."""
        return not analysis.empty and (analysis.expression is None or self._alone)

    def _check_syntax(self, analysis: Analysis, filters: Filters, now: str) -> None:
        """A malformed expression is the same mistake here, where only its meaning is asked for."""
        if analysis.expression is not None:
            with suppress(StoreError):  # no index to ask: then there is nothing to be said
                self._store.match_expression(analysis.expression, filters=filters, now=now, limit=1)

    def _unreadable(self, analysis: Analysis) -> tuple[Degraded, ...]:
        """A query in a script that the model does not read: what it makes of it would be noise, and
        drag the words' list down. It is only asked for where it is all that was asked for."""
        status = self._status
        if unsupported_scripts(analysis.text, status.scripts):
            reason = "language"
            detail = f"{status.encoder} reads {' and '.join(status.scripts)} script"
        elif verdict := exam_verdict(status.model, self.name, analysis.text):
            reason, detail = "unfit", verdict
        else:
            return ()
        if self._alone:
            detail += "; what it finds here is a guess"
        return (Degraded(self.name, reason, detail),)

    def _truncation(self, tokens: int) -> tuple[Degraded, ...]:
        if not tokens:
            return ()
        told = "1 token" if tokens == 1 else f"{tokens} tokens"
        return (Degraded(self.name, "truncated", f"{told} of the query left out"),)

    def _fallback(self, found: VectorMatches) -> tuple[Degraded, ...]:  # noqa: ARG002  # for those that can
        """Another backend than the one that was chosen."""
        return ()

    def _is_caller_error(self, error: Exception) -> bool:  # noqa: ARG002  # for those that can tell
        """Whether what failed is what the caller brought."""
        return False
