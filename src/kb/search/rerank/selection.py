"""Selection of the reranker for a search, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable

from kb.errors import KbError
from kb.search.profiles import Profile
from kb.search.query.query_encoder import QueryEncoder
from kb.search.rerank.blend import PART
from kb.search.retrievers.availability import ActiveModel
from kb.search.retrievers.registry import LEXICAL
from kb.types import Degraded
from kb.values import TYPE_CHECKING, replace

if TYPE_CHECKING:
    from kb.ports import Judge
    from kb.search.rerank.stage import Reranker, RerankStage

# Returns the judge, which loads its model on first use; None if it is disabled. Raises `ModelError`
# if the judge cannot be used.
JudgeSource = Callable[[], "Judge | None"]

# Reasons that are not failures: disabled by the user, or not supported by the chosen model.
_OFF, _LACKING = "off", "lacking"


def no_judge() -> None:
    """A judge source without a judge."""


class RerankerSelector:
    """Creates rerank stages. Without `keeps_tokens`, new chunks get no token vectors."""

    def __init__(
        self,
        query_encoder: QueryEncoder,
        judge: JudgeSource,
        *,
        keeps_tokens: bool = True,
    ) -> None:
        self._keeps_tokens = keeps_tokens
        self._query_encoder = query_encoder
        self._judge = judge

    def stage(
        self,
        profile: Profile,
        model: ActiveModel,
        *,
        explicit: bool,
        profile_named: bool,
        budget_ms: int | None,
    ) -> RerankStage | None:
        """Create the rerank stage of the profile. Returns None if the user disabled its model, or
        if the chosen model does not support it; but a search with an `explicit` reranker, or, for
        missing model outputs, with an explicit profile, gets a stage that reports the problem."""
        if profile.rerank == "none":
            return None
        from kb.search.rerank.stage import RerankStage

        reranker = self._colbert(model) if profile.rerank == "colbert" else self._cross_encoder()
        if isinstance(reranker, Degraded) and reranker.reason in (_OFF, _LACKING):
            if not explicit and not (profile_named and reranker.reason == _LACKING):
                return None
            reranker = replace(reranker, reason="no_model")
        return RerankStage(
            profile.rerank,
            profile.rerank_candidates,
            profile.rerank_blend,
            reranker=None if isinstance(reranker, Degraded) else reranker,
            degraded=(reranker,) if isinstance(reranker, Degraded) else (),
            budget_ms=budget_ms,
            warns_of_expression=LEXICAL not in profile.retrievers,
        )

    def _cross_encoder(self) -> Reranker | Degraded:
        """The cross-encoder, or the reason why there is none."""
        from kb.search.rerank.cross_encoder import CrossEncoder

        try:
            judge = self._judge()
        except KbError as error:
            return Degraded(PART, "no_model", error.message)
        if judge is None:
            return Degraded(PART, _OFF, "the judge is disabled")
        return CrossEncoder(judge)

    def _colbert(self, model: ActiveModel) -> Reranker | Degraded:
        """The late-interaction reranker, or the reason why there is none."""
        from kb.search.rerank.late_interaction import Colbert

        status, stored = model.status("dense"), model.stored
        if status.is_off:
            return Degraded(PART, _OFF, "the encoder is disabled")
        if status.outputs and "tokens" not in status.outputs:
            return Degraded(PART, _LACKING, f"{status.encoder} does not produce token vectors")
        if not status.usable or stored is None:
            reason = status.degraded[0] if status.degraded else Degraded(PART, "pending", 0)
            return replace(reason, part=PART)
        if not self._keeps_tokens and not stored.tokens:
            return Degraded(PART, _OFF, "token vectors are disabled")
        return Colbert(
            self._query_encoder,
            stored,
            model.encoder,
            status.scripts,
            kept=self._keeps_tokens,
        )
