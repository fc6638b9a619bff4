"""The cross-encoder reranker: a judge reads the query and each passage together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kb import deadline
from kb.errors import ModelBroken
from kb.ports import traits_of
from kb.search.rerank.stage import Scores
from kb.search.results.hits import CandidateCache
from kb.text.headings import heading_text
from kb.types import Chunk

if TYPE_CHECKING:
    from kb.ports import Judge

_BATCH = 16  # passages between two checks of the deadline


class CrossEncoder:
    """Passes each passage to the judge as the encoder gets it: headings, then text."""

    name = "cross-encoder"

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.model = judge.spec.name
        self.scripts = judge.spec.scripts

    def unfit(self, text: str) -> str:  # noqa: ARG002  # judges have no exam
        return ""

    def load(self) -> None:
        """Load the judge's model."""
        traits_of(self._judge).load()

    def prepare(self, text: str) -> None:
        """Do nothing: the judge reads the query with each passage."""

    def scores(self, text: str, chunk_ids: Sequence[int], cache: CandidateCache) -> Scores:
        cache.fetch_chunks(chunk_ids)
        passages = [_passage(cache.document(one).title, cache.chunks[one]) for one in chunk_ids]
        scores: list[float] = []
        for start in range(0, len(passages), _BATCH):
            deadline.check()
            scores += self._judge.scores(text, passages[start : start + _BATCH])
        if len(scores) != len(chunk_ids):
            raise ModelBroken(
                f"{self.model} returned {len(scores)} scores for {len(chunk_ids)} passages",
                "see: kb models verify",
            )
        return dict(zip(chunk_ids, scores, strict=True))


def _passage(title: str, chunk: Chunk) -> str:
    heading = heading_text(title, chunk.heading_path)
    return (
        chunk.text if not heading or chunk.text.startswith(heading) else f"{heading}\n{chunk.text}"
    )
