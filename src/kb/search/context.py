"""The context of one search: values that are resolved once and shared by all stages."""

from __future__ import annotations

from kb.search.retrievers import registry
from kb.search.retrievers.registry import LEXICAL
from kb.types import Query, SearchRequest
from kb.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Set

    from kb.ports import Store
    from kb.search.profiles import Profile
    from kb.search.query.query_encoder import QueryEncoder, QueryEncoding
    from kb.search.retrievers.availability import ActiveModel


class SearchContext(NamedTuple):
    """A request with its profile, its model and the time. `profile` has only the retrievers that
    can run. `reranks` is whether a reranker will read the candidates."""

    store: Store
    request: SearchRequest
    query: Query
    profile: Profile
    model: ActiveModel
    query_encoder: Callable[[], QueryEncoder]
    now: str
    reranks: bool = False

    @property
    def standalone(self) -> bool:
        """Whether the search has no lexical retriever, so that the others must return their best
        guess."""
        return LEXICAL not in self.profile.retrievers

    @property
    def uses_meaning(self) -> bool:
        """Whether anything but the lexical retriever reads the query's text. A vector in the
        request replaces the text for dense retrieval."""
        others = (registry.get(name) for name in self.profile.retrievers if name != LEXICAL)
        has_vector = self.request.vector is not None
        return self.reranks or any(
            not has_vector or spec.model_output != "dense" for spec in others
        )

    @property
    def reads_tokens(self) -> bool:
        """Whether snippets are chosen by token vectors too: the query is encoded anyway, and the
        store has token vectors."""
        if not self.request.snippets or not self.uses_meaning:
            return False
        return self.model.stored is not None and self.model.stored.tokens > 0

    def encode(self, text: str, *, need: Set[str]) -> QueryEncoding:
        """Encode a query with all outputs that this search uses. Raises if an output in `need`
        cannot be computed."""
        outputs = self.profile.model_outputs()
        if self.reads_tokens:
            outputs |= {"tokens"}
        return self.query_encoder().encode(text, outputs, self.model.encoder, need=need)
