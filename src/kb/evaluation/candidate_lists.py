"""What every retriever found for every judged query: retrieved once, to be fused many times.

Between the searcher and `tuning`. Fusing here follows the pipeline: the same lists, the same
functions, the best chunk of each document. It leaves out what comes behind (boosts, reranking), so
it is good for fitting only; what was fitted is measured by real searches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kb.errors import InvalidRequest, QuerySyntax
from kb.evaluation.corpus_store import OnProgress
from kb.evaluation.metrics import distinct
from kb.evaluation.qrels import Judged
from kb.search.pipeline import FusionStage
from kb.search.profiles import Profile
from kb.search.retrievers import registry
from kb.search.retrievers.base import Candidates
from kb.search.searcher import Searcher
from kb.types import Response, ScoredChunk, SearchRequest

# As each retriever finds it: nothing cut, raised or joined.
_BARE = {"boosts": "none", "threshold": "none", "group": False, "min_score": "none"}
_STILL_RAN = ("truncated", "pending", "fallback", "failed")  # where there are hits all the same


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The lists of one query. `full` are those that would have gone on."""

    text: str
    found: Mapping[str, Candidates]
    full: frozenset[str]
    owners: Mapping[int, str]  # chunk -> document path

    def fused(self, profile: Profile) -> list[str]:
        """The documents in the order that the profile's fusion gives."""
        fusion_stage = FusionStage(
            profile.as_fusion(),
            {name: profile.weight(name) for name in profile.retrievers},
            adaptive=profile.adaptive,
            agreement=profile.agreement,
        )
        weights = fusion_stage.query_weights(self.text, self.found).weights
        ranked = fusion_stage.fusion(fusion_stage.lists(self.found, self.full, weights))
        return distinct(self.owners[one.chunk_id] for one in ranked)


def retrieve_all(
    searcher: Searcher, judged: Judged, profile: Profile, depth: int, on_progress: OnProgress
) -> dict[str, Retrieved]:
    """By query id. `depth` is how many documents are looked at in the end."""
    if len(profile.retrievers) < 2:
        raise InvalidRequest(
            f"profile {profile.name} asks one retriever, and fuses nothing",
            "tune a profile of several, such as default",
        )
    limit = profile.candidates_for(depth)
    retrieved = {}
    for done, query_id in enumerate(judged.qrels, start=1):
        text = judged.queries[query_id]
        retrieved[query_id] = _retrieve(searcher, text, profile, limit)
        on_progress("retrieve", done, len(judged.qrels))
    return retrieved


def _retrieve(searcher: Searcher, text: str, profile: Profile, limit: int) -> Retrieved:
    found: dict[str, Candidates] = {}
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
        except QuerySyntax:  # a query in single quotes finds nothing in a trial either
            found[name] = Candidates()
            continue
        found[name] = _found(name, response)
        owners |= {hit.chunk_id: hit.doc_path for hit in response.hits}
    full = frozenset(name for name, each in found.items() if len(each.ranked) >= limit)
    return Retrieved(text, found, full, owners)


def _found(name: str, response: Response) -> Candidates:
    """A retriever that answers only because it was asked alone (a script that the model does not
    read) would not have answered among others."""
    reasons = {part.reason for part in response.degraded if part.part == name}
    ran = reasons <= set(_STILL_RAN) if response.hits else reasons <= {"truncated"}
    if not ran:
        return Candidates(ran=False)
    return Candidates(
        tuple(ScoredChunk(hit.chunk_id, hit.score, hit.rank) for hit in response.hits)
    )
