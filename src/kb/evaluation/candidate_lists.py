"""The candidates of every retriever for every judged query, retrieved once and fused many times.

Used by `tuning`. The fusion is that of the pipeline, with the same lists, functions and grouping by
document, but without the later stages (boosts, reranking). So it is used for fitting only; the
fitted profile is measured with real searches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kb.errors import InvalidRequest, QuerySyntax
from kb.evaluation.corpus_store import OnProgress
from kb.evaluation.metrics import distinct
from kb.evaluation.qrels import Collection
from kb.search.pipeline import FusionStage
from kb.search.profiles import Profile
from kb.search.query.analysis import analyze
from kb.search.retrievers import registry
from kb.search.retrievers.base import Candidates
from kb.search.searcher import Searcher
from kb.types import Response, ScoredChunk, SearchRequest

# The plain output of a retriever.
_BARE = {"boosts": "none", "threshold": "none", "group": False, "min_score": "none"}
_STILL_RAN = ("truncated", "pending", "fallback", "failed")  # reasons that still give hits


@dataclass(frozen=True, slots=True)
class QueryCandidates:
    """The candidates of one query. `full` names the lists that were cut off at the limit."""

    text: str
    by_retriever: Mapping[str, Candidates]
    full: frozenset[str]
    owners: Mapping[int, str]  # chunk -> document path

    def fuse(self, profile: Profile) -> list[str]:
        """The documents in the order of the profile's fusion."""
        fusion_stage = FusionStage(
            profile.as_fusion(),
            {name: profile.weight(name) for name in profile.retrievers},
            adaptive=profile.adaptive,
            agreement=profile.agreement,
        )
        weights = fusion_stage.query_weights(analyze(self.text), self.by_retriever).weights
        ranked = fusion_stage.fusion(fusion_stage.lists(self.by_retriever, self.full, weights))
        return distinct(self.owners[one.chunk_id] for one in ranked)


def retrieve_all(
    searcher: Searcher,
    collection: Collection,
    profile: Profile,
    depth: int,
    on_progress: OnProgress,
) -> dict[str, QueryCandidates]:
    """Retrieve the candidates of each query, by query id, for measures that look at `depth`
    documents."""
    if len(profile.retrievers) < 2:
        raise InvalidRequest(
            f"profile {profile.name} has one retriever, so there is no fusion to tune",
            "choose a profile with several retrievers, such as default",
        )
    limit = profile.candidates_for(depth)
    retrieved = {}
    for done, query_id in enumerate(collection.qrels, start=1):
        text = collection.queries[query_id]
        retrieved[query_id] = _retrieve(searcher, text, profile, limit)
        on_progress("retrieve", done, len(collection.qrels))
    return retrieved


def _retrieve(searcher: Searcher, text: str, profile: Profile, limit: int) -> QueryCandidates:
    by_retriever: dict[str, Candidates] = {}
    owners: dict[int, str] = {}
    for name in profile.retrievers:
        try:
            response = searcher.search(
                SearchRequest(
                    text,
                    profile=profile.name,
                    mode=registry.get(name).mode,
                    top=limit,
                    settings=_BARE,
                    rerank=False,
                    snippets=False,
                )
            )
        except QuerySyntax:  # a query in single quotes; the experiment skips it too
            by_retriever[name] = Candidates()
            continue
        by_retriever[name] = _candidates(name, response)
        owners |= {hit.chunk_id: hit.doc_path for hit in response.hits}
    full = frozenset(name for name, each in by_retriever.items() if len(each.ranked) >= limit)
    return QueryCandidates(text, by_retriever, full, owners)


def _candidates(name: str, response: Response) -> Candidates:
    """The hits of a retriever, unless it would be skipped in a search with several retrievers, such
    as for a script that the model does not support."""
    reasons = {part.reason for part in response.degraded if part.part == name}
    ran = reasons <= set(_STILL_RAN) if response.hits else reasons <= {"truncated"}
    if not ran:
        return Candidates(ran=False)
    return Candidates(
        tuple(ScoredChunk(hit.chunk_id, hit.score, hit.rank) for hit in response.hits)
    )
