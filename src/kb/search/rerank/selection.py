"""Which reranker a search gets, and why it gets none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kb.errors import KbError
from kb.search.profiles import Profile
from kb.search.query.query_encoder import QueryEncoder
from kb.search.rerank.result import PART
from kb.search.retrievers.availability import EncoderSource, retriever_status
from kb.types import Degraded

if TYPE_CHECKING:
    from kb.ports import Judge, Store
    from kb.search.rerank.stage import Reranker, RerankStage

# The judge, made ready when it is first asked for. None where it is switched off; a `ModelError`
# where it cannot be had.
JudgeSource = Callable[[], "Judge | None"]

# Why there is none, where that is nobody's fault: switched off by the user, or not what the chosen
# model gives.
_OFF, _LACKING = "off", "lacking"


def no_judge() -> None:
    """The source of a search that has no judge."""


class RerankerSelector:
    """Token vectors may be switched off for what is embedded from now on (`keeps_tokens`)."""

    def __init__(
        self,
        store: Store,
        query_encoder: QueryEncoder,
        encoder: EncoderSource,
        judge: JudgeSource,
        *,
        keeps_tokens: bool = True,
    ) -> None:
        self._keeps_tokens = keeps_tokens
        self._store = store
        self._query_encoder = query_encoder
        self._encoder = encoder
        self._judge = judge

    def stage(
        self, profile: Profile, *, asked: bool, named: bool, budget_ms: int | None
    ) -> RerankStage | None:
        """The stage that the profile wants. What it needs may be switched off, or be what the
        chosen model does not give: then there is none. A search that has `asked` for a reranker is
        told so; one that has `named` the profile, what the model does not give."""
        if profile.rerank == "none":
            return None
        from kb.search.rerank.stage import RerankStage

        found = self._colbert() if profile.rerank == "colbert" else self._cross_encoder()
        if isinstance(found, Degraded) and found.reason in (_OFF, _LACKING):
            if not asked and not (named and found.reason == _LACKING):
                return None
            found = replace(found, reason="no_model")
        return RerankStage(
            profile.rerank,
            profile.rerank_candidates,
            profile.blend(),
            reranker=None if isinstance(found, Degraded) else found,
            why=(found,) if isinstance(found, Degraded) else (),
            budget_ms=budget_ms,
            tells="lexical" not in profile.retrievers,
        )

    def _cross_encoder(self) -> Reranker | Degraded:
        """Or why there is none."""
        from kb.search.rerank.cross_encoder import CrossEncoder

        try:
            judge = self._judge()
        except KbError as error:
            return Degraded(PART, "no_model", error.message)
        if judge is None:
            return Degraded(PART, _OFF, "the judge is switched off")
        return CrossEncoder(judge)

    def _colbert(self) -> Reranker | Degraded:
        """Or why there is none."""
        from kb.search.rerank.late_interaction import Colbert

        status = retriever_status(self._store, self._encoder)
        model = status.model
        if status.off:
            return Degraded(PART, _OFF, "the encoder is switched off")
        if status.gives and "tokens" not in status.gives:  # nor will it, once all is embedded
            return Degraded(PART, _LACKING, f"{status.encoder} gives no token vectors")
        if not status.usable or model is None:
            told = status.degraded[0] if status.degraded else Degraded(PART, "pending", 0)
            return replace(told, part=PART)
        if not self._keeps_tokens and not model.tokens:
            return Degraded(PART, _OFF, "token vectors are switched off")
        return Colbert(
            self._store,
            self._query_encoder,
            model,
            status.scripts,
            kept=self._keeps_tokens,
        )
