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
from kb.search.retrievers.availability import Standing, unfit
from kb.search.retrievers.base import Found, failure
from kb.text.scripts import unread
from kb.types import Degraded, Filters, Nearest

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.types import StoredModel


class Encode(Protocol):
    """A query with the parts that its search asks for, and for certain those that are needed."""

    def __call__(self, text: str, /, *, need: Set[str]) -> QueryEncoding: ...


class Sought(NamedTuple):
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
        self, store: Store, standing: Standing, encode: Encode, *, alone: bool = False
    ) -> None:
        self._store = store
        self._standing = standing
        self._encode = encode
        self._alone = alone

    def __repr__(self) -> str:
        model = self._standing.model
        return f"{self.name}({model.name if model is not None else 'no vectors'})"

    def is_large(self, count: int) -> bool:
        """Whether there are so many vectors that a search takes its time."""
        model = self._standing.model
        return self._standing.usable and model is not None and model.ready >= count

    @property
    def is_remote(self) -> bool:
        """Whether a server is asked to encode the query."""
        return self._standing.usable and self._standing.remote and not self.ready_made

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
        began = time.perf_counter()
        try:
            query = self._query(analysis)
            encoding_ms = (time.perf_counter() - began) * 1000
            found = self._nearest(model, Sought(query, filters, now, limit))
        except Stopped:
            raise
        except Exception as error:  # of a model or a library: the others still answer
            if isinstance(error, InvalidRequest) or self._is_misfit(error):
                raise
            return Found(ran=False, degraded=(failure(self.name, error),))
        told = (*self._standing.degraded, *foreign, *self._truncation(query.truncated))
        return Found(
            tuple(found.found),
            degraded=(*told, *self._fallback(found)),
            partial=bool(self._standing.pending or model.failed),
            backend=found.backend,
            model=model.name,
            encoding_ms=encoding_ms,
        )

    @abstractmethod
    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> dict[int, float] | None: ...

    @abstractmethod
    def _nearest(self, model: StoredModel, sought: Sought) -> Nearest: ...

    def _query(self, analysis: Analysis) -> QueryEncoding:
        return self._encode(analysis.expression or analysis.text, need={self.name})

    def _asks(self, analysis: Analysis) -> bool:
        """Whether there is something to look for. A query without words means nothing, and one that
        is an FTS5 expression asks for just what it says, unless there is no one else to ask."""
        return not analysis.empty and (analysis.expression is None or self._alone)

    def _check_syntax(self, analysis: Analysis, filters: Filters, now: str) -> None:
        """A malformed expression is the same mistake here, where only its meaning is asked for."""
        if analysis.expression is not None:
            with suppress(StoreError):  # no index to ask: then there is nothing to be said
                self._store.match_expression(analysis.expression, filters=filters, now=now, limit=1)

    def _foreign(self, analysis: Analysis) -> tuple[Degraded, ...]:
        """A query in a script that the model does not read: what it makes of it would be noise, and
        drag the words' list down. It is only asked for where it is all that was asked for."""
        standing = self._standing
        if unread(analysis.text, standing.scripts):
            reason = "language"
            detail = f"{standing.encoder} reads {' and '.join(standing.scripts)} script"
        elif verdict := unfit(standing.model, self.name, analysis.text):
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

    def _fallback(self, found: Nearest) -> tuple[Degraded, ...]:  # noqa: ARG002  # for those that can
        """Another backend than the one that was chosen."""
        return ()

    def _is_misfit(self, error: Exception) -> bool:  # noqa: ARG002  # for those that can tell
        """Whether what failed is what the caller brought."""
        return False
