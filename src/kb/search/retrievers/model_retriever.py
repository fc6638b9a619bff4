"""The base class of retrievers that compare a query's encoding with the vectors of the store.

A failure here never stops a search: it is reported, and the other retrievers still respond.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from kb.degradation import GUESSES
from kb.errors import InvalidRequest, Stopped, StoreError
from kb.processes import machine_is_busy
from kb.search.context import SearchContext
from kb.search.query.analysis import Analysis
from kb.search.query.query_encoder import QueryEncoding
from kb.search.retrievers.availability import RetrieverStatus, exam_verdict
from kb.search.retrievers.base import Candidates, RetrievalRequest, failure
from kb.search.retrievers.readability import suggest_reader, unread_language
from kb.text.function_words import NAMES as LANGUAGE_NAMES
from kb.text.scripts import unsupported_scripts
from kb.types import Degraded, VectorMatches

if TYPE_CHECKING:
    from kb.types import StoredModel

# With this many vectors, threads save more time than they cost, if a core is idle. On a busy
# machine they only cost.
SLOW_FROM = 50_000


class ModelRetriever(ABC):
    """Finds chunks by the model output with the same name as the retriever."""

    name: str

    def __init__(self, context: SearchContext) -> None:
        self._context = context
        self._store = context.store
        self._standalone = context.standalone
        status = self._model_status()
        self._status = status.required() if self._standalone else status

    def __repr__(self) -> str:
        model = self._status.model
        return f"{self.name}({model.name if model is not None else 'no vectors'})"

    @property
    def is_slow(self) -> bool:
        """Whether a server encodes the query, or there are many vectors and cores to spare."""
        status = self._status
        many = status.model is not None and status.model.ready >= SLOW_FROM
        return status.usable and (self._encodes_remotely() or (many and not machine_is_busy()))

    def search(self, request: RetrievalRequest) -> Candidates:
        """Encode the query and look up the nearest chunks."""
        analysis = request.analysis
        if request.limit < 1 or not self._applies(analysis):
            return Candidates(ran=False)
        self._check_syntax(request)
        model = self._status.model
        if not self._status.usable or model is None:
            return Candidates(ran=False, degraded=self._status.degraded)
        unreadable = self._unreadable(analysis)
        if unreadable and not self._standalone:
            return Candidates(ran=False, degraded=unreadable)
        began = time.perf_counter()
        try:
            encoding = self._encode(analysis)
            encoding_ms = (time.perf_counter() - began) * 1000
            matches = self._lookup(model, encoding, request)
        except Stopped:
            raise
        except Exception as error:  # by a model or a library: use the other retrievers
            if isinstance(error, InvalidRequest) or self._is_caller_error(error):
                raise
            return Candidates(ran=False, degraded=(failure(self.name, error),))
        return Candidates(
            tuple(matches.chunks),
            degraded=(
                *self._status.degraded,
                *(unreadable or self._other_language(analysis)),
                *self._truncation(encoding.truncated),
                *self._fallback(matches),
            ),
            partial=bool(self._status.pending or model.failed),
            backend=matches.backend,
            model=model.name,
            encoding_ms=encoding_ms,
        )

    @abstractmethod
    def scores(self, analysis: Analysis, chunk_ids: Iterable[int]) -> dict[int, float] | None: ...

    def missing(self, chunk_ids: Iterable[int]) -> set[int]:
        """The chunks that have no vector of this kind."""
        model = self._status.model
        if model is None:
            return set(chunk_ids)
        if not (self._status.pending or model.failed or model.lacks(self.name)):
            return set()
        wanted = set(chunk_ids)
        return wanted - self._store.vectors.chunks_with(model.model_id, self.name, wanted)

    @abstractmethod
    def _lookup(
        self, model: StoredModel, encoding: QueryEncoding, request: RetrievalRequest
    ) -> VectorMatches:
        """The chunks that are nearest to the encoded query."""

    def _model_status(self) -> RetrieverStatus:
        return self._context.model.status(self.name)

    def _encodes_remotely(self) -> bool:
        return self._status.is_remote

    def _encode(self, analysis: Analysis) -> QueryEncoding:
        return self._context.encode(analysis.expression or analysis.text, need={self.name})

    def _applies(self, analysis: Analysis) -> bool:
        """Whether the query can be encoded. An FTS5 expression is left to the lexical retriever, if
        that runs."""
        return not analysis.empty and (analysis.expression is None or self._standalone)

    def _check_syntax(self, request: RetrievalRequest) -> None:
        """Raise for a malformed FTS5 expression, even if only its encoding is used."""
        if request.analysis.expression is not None:
            with suppress(StoreError):  # an unusable index cannot check the expression
                self._store.fulltext.match_expression(
                    request.analysis.expression,
                    filters=request.filters,
                    now=request.now,
                    limit=1,
                )

    def _unreadable(self, analysis: Analysis) -> tuple[Degraded, ...]:
        """Why the model cannot read the query's script. Its vectors would be noise in the fused
        list; they are used only if no lexical retriever runs."""
        status = self._status
        if unsupported_scripts(analysis.text, status.scripts):
            reason = "language"
            detail = f"{status.encoder} reads {' and '.join(status.scripts)} script"
        elif verdict := exam_verdict(status.model, self.name, analysis.text):
            reason, detail = "unfit", verdict
        else:
            return ()
        if self._standalone:
            detail += GUESSES
        if reason == "language":
            detail += suggest_reader(analysis.text)
        return (Degraded(self.name, reason, detail),)

    def _other_language(self, analysis: Analysis) -> tuple[Degraded, ...]:
        """A note if the model does not read the query's language. It still ranks passages in
        languages that it reads better than lexical retrieval does, by names and words that the
        languages share. `kb.search.retrievers.readability` removes passages in the query's language
        from its list."""
        language = unread_language(analysis.text, self._status.languages)
        if language is None:
            return ()
        reads = " and ".join(LANGUAGE_NAMES.get(each, each) for each in self._status.languages)
        detail = f"the query seems to be in {LANGUAGE_NAMES[language]}; {self._status.encoder} "
        detail += f"reads {reads}{suggest_reader(analysis.text, language)}"
        return (Degraded(self.name, "query_language", detail),)

    def _truncation(self, tokens: int) -> tuple[Degraded, ...]:
        if not tokens:
            return ()
        count = "1 token" if tokens == 1 else f"{tokens} tokens"
        return (Degraded(self.name, "truncated", f"{count} of the query left out"),)

    def _fallback(self, matches: VectorMatches) -> tuple[Degraded, ...]:  # noqa: ARG002  # for subclasses
        """A note if a backend other than the configured one ran."""
        return ()

    def _is_caller_error(self, error: Exception) -> bool:  # noqa: ARG002  # for subclasses
        """Whether the error is about a value that the caller supplied."""
        return False
