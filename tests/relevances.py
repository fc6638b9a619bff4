"""Hits with given relevances, for tests of the interfaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, repeat

import pytest

from kb import KnowledgeBase
from kb.types import Response, SearchRequest


def set_relevances(monkeypatch: pytest.MonkeyPatch, values: Sequence[float | None]) -> None:
    """Give the hits of every search these relevances in turn; the last value is for the rest."""
    execute = KnowledgeBase.execute

    def patched(kb: KnowledgeBase, request: SearchRequest) -> Response:
        response = execute(kb, replace(request, min_relevance=None))
        least = request.min_relevance or 0.0
        every = chain(values, repeat(values[-1]))
        hits = (replace(hit, relevance=each) for hit, each in zip(response.hits, every))  # noqa: B905
        kept = (hit for hit in hits if hit.relevance is None or hit.relevance >= least)
        return replace(response, hits=tuple(kept))

    monkeypatch.setattr(KnowledgeBase, "execute", patched)
