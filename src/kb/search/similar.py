"""What is like a passage, or like a whole document: a search whose query is a vector of the store.

Where there is none yet, or it is of a model that failed the exam, the words of the passage
are the query, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import fsum
from typing import TYPE_CHECKING, Any

from kb.search.query.query_encoder import normalize
from kb.search.retrievers.availability import exam_verdict
from kb.search.searcher import Searcher
from kb.types import Chunk, Degraded, Response, Vector

if TYPE_CHECKING:
    from kb.ports import Store

PROFILE = "similar"
_WORDS_FROM = 1500  # characters that stand for the passage, where there is no vector


def similar(
    searcher: Searcher, store: Store, label: str, chunks: Sequence[Chunk], **options: Any
) -> Response:
    """The nearest passages to the mean of `chunks`, without those themselves. `label` is what is
    shown as the query; `options` are those of `Searcher.search`."""
    ids = frozenset(chunk.chunk_id for chunk in chunks)
    text = " ".join(chunk.text for chunk in chunks)[:_WORDS_FROM]
    model = next(iter(store.models()), None)
    vectors = store.vectors_of(model.model_id, ids) if model is not None else {}
    verdict = exam_verdict(model, "dense", text) if vectors else ""
    if vectors and not verdict:
        middle = normalize(mean(vectors.values()))
        found = searcher.search(
            "", profile="notes", mode="vector", vector=middle, exclude=ids, rerank=False, **options
        )
    else:
        found = searcher.search(
            _plain(text), profile="lexical", exclude=ids, match="any", rerank=False, **options
        )
        why = Degraded("dense", "unfit", verdict) if verdict else _why(searcher, len(ids))
        found = replace(found, degraded=(*found.degraded, why))
    explain = found.explain and {**found.explain, "profile": PROFILE}
    return replace(found, query=label, profile=PROFILE, explain=explain)


def _why(searcher: Searcher, chunks: int) -> Degraded:
    """There is no vector yet; nor will there be, where there is no encoder to make it."""
    told = searcher.status().required().degraded
    pending = Degraded("dense", "pending", chunks)
    return next((part for part in told if part.reason == "no_model"), pending)


def mean(vectors: Iterable[Vector[float]]) -> list[float]:
    return [fsum(values) for values in zip(*vectors, strict=True)]


def _plain(text: str) -> str:
    """Not an FTS5 expression, whatever the text is wrapped in."""
    return text.strip().strip("'")
