"""Searcher: a request, filled in from profile and settings, sent through its pipeline."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kb.config import Config
from kb.errors import InvalidRequest, QuerySyntax, choose, text_of, whole_number
from kb.ports import Clock, Store
from kb.search.analyse import analyse
from kb.search.pipeline import Pipeline
from kb.search.profiles import resolve, restrict
from kb.search.snippet import marks, ranges
from kb.types import MATCHES, Filters, Query, Response


class Searcher:
    def __init__(self, store: Store, config: Config, clock: Clock) -> None:
        self._store = store
        self._config = config
        self._clock = clock

    def search(
        self,
        text: str,
        *,
        top: int | None = None,
        profile: str | None = None,
        mode: str | None = None,
        match: str | None = None,
        filters: Filters | None = None,
        threshold: float | None = None,
        explain: bool = False,
        malformed: str = "raise",
        settings: Mapping[str, Any] | None = None,
        snippets: bool = True,
    ) -> Response:
        """See `KnowledgeBase.search`. Without `snippets`, those stay empty: to time the ranking."""
        choose("malformed", malformed, ("raise", "empty"))
        text_of("a query", text)
        if filters is not None and not isinstance(filters, Filters):
            raise InvalidRequest(f"filters is a {type(filters).__name__}", "give kb.Filters(...)")
        if threshold is not None and not isinstance(threshold, int | float):
            raise InvalidRequest(f"threshold cannot be {threshold!r}", "threshold is a number")
        defaults = self._config.search
        name = profile or defaults.profile
        chosen = restrict(resolve(name, self._config.profiles, settings), mode)
        query = Query(
            text=text,
            top=whole_number("top", first_given(top, chosen.top, defaults.default_top), least=1),
            profile=chosen.name,
            mode=chosen.mode,
            match=choose("match", match or chosen.match, MATCHES),
            filters=filters or Filters(),
            threshold=chosen.threshold if threshold is None else threshold,
            explain=explain,
        )
        pipeline = Pipeline.build(
            query,
            self._store,
            snippet_chars=self._config.search.snippet_chars if snippets else 0,
            slow_ms=self._config.search.slow_ms,
        )
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
        try:
            return pipeline.run(query, now)
        except QuerySyntax:
            if malformed == "raise":
                raise
            return pipeline.run(replace(query, text=""), now)

    def highlights(self, query: str, text: str) -> list[tuple[int, int]]:
        """See `KnowledgeBase.highlights`."""
        with self._store.reading():
            return ranges(marks(text, analyse(query, self._store.tokenise), self._store.tokenise))


def first_given(*values: int | None) -> int:
    return next(value for value in values if value is not None)
