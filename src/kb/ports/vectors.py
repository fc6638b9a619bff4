"""The vectors port: embedding models, the vectors they compute, and retrieval by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kb.types import (
        ExamMark,
        Filters,
        JsonDict,
        ModelSpec,
        StoredModel,
        TokenVectors,
        Vector,
        VectorMatches,
    )


class Vectors(Protocol):
    """Reads vectors and manages the models they belong to. `Queue.finish` writes vectors.

    A model has a role: `search` (searches use its vectors), `next` (its vectors are being built to
    replace those), `gone` (its vectors are being dropped), or None (its vectors are kept, but not
    used).
    """

    def version(self) -> str:
        """Changes with every write that can change the results of a search by vectors."""
        ...

    # --- models -----------------------------------------------------------------------------------

    def models(self) -> list[StoredModel]:
        """The models of the store; the one that searches use comes first."""
        ...

    def models_within(self, filters: Filters) -> list[StoredModel]:
        """The models, with the counts of the chunks whose documents match `filters` and have not
        expired."""
        ...

    def model_counts(self) -> list[JsonDict]:
        """How many chunks are ready, pending or failed for each model, in the form of
        `status.v1`."""
        ...

    def use_model(self, spec: ModelSpec, source: str | None = None) -> StoredModel:
        """Return the record of the model that searches use, and create it if needed. `source` is
        the name that the encoder is loaded by, if it differs from the configured one. Raises
        `ModelMismatch` if the store has vectors of another model."""
        ...

    def set_exam_marks(self, model_id: int, marks: Sequence[ExamMark] | None) -> None:
        """Store the results of a model's exam; None removes them."""
        ...

    # --- switching models -------------------------------------------------------------------------

    def begin_switch(
        self, spec: ModelSpec, source: str | None, *, keep_old: bool = False
    ) -> StoredModel:
        """Register a model as `next`, or resume an earlier switch to it. If the store has no
        vectors yet, searches use the model at once. A switch to any other model is abandoned.
        `keep_old` keeps the vectors of the old model after the switch."""
        ...

    def can_switch(self, model_id: int) -> bool:
        """Whether `switch` would succeed without `force`: no chunk is pending, and the model has
        not failed on any chunk that the current model has a vector for."""
        ...

    def switch(self, model_id: int, *, force: bool = False) -> bool:
        """Make searches use the model, if `can_switch` allows it. `force` ignores chunks that the
        model failed on. Returns whether searches use the model now."""
        ...

    def drop_retired(self, limit: int = 500) -> bool:
        """Drop up to `limit` vectors of a model that was replaced. Returns whether any are left."""
        ...

    def drop_all(self) -> int:
        """Drop all vectors and models. Returns how many vectors were dropped."""
        ...

    def count_missing_part(self, model_id: int, part: str, filters: Filters | None = None) -> int:
        """How many chunks, of documents that match `filters`, have vectors without this part, after
        the last attempt to add it."""
        ...

    # --- retrieval --------------------------------------------------------------------------------

    def nearest_dense(
        self,
        model_id: int,
        vector: Sequence[float],
        *,
        filters: Filters,
        now: str,
        limit: int,
        exact: bool = False,
    ) -> VectorMatches:
        """The chunks with the highest cosine similarity to `vector`, as brute force over the chunks
        that `filters` allow would find them; ties by chunk id. Unless `exact`, a very large index
        may miss a few."""
        ...

    def nearest_sparse(
        self, model_id: int, query: Mapping[str, float], *, filters: Filters, now: str, limit: int
    ) -> VectorMatches:
        """The chunks with the highest dot product of their term weights and the query's, summed in
        the order of the terms; exact under `filters`, ties by chunk id. Chunks that share no term
        with the query are not returned."""
        ...

    def dense_vectors(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, Vector[float]]:
        """The dense vectors of these chunks, normalized; chunks without one are left out."""
        ...

    def sparse_vectors(
        self, model_id: int, chunk_ids: Iterable[int]
    ) -> dict[int, dict[str, float]]:
        """The term weights of these chunks; chunks without any are left out."""
        ...

    def chunks_with(self, model_id: int, part: str, chunk_ids: Iterable[int]) -> set[int]:
        """Which of these chunks have a vector with this part: `dense`, `sparse` or `tokens`."""
        ...

    def token_vectors(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, TokenVectors]:
        """The token vectors of these chunks, normalized; chunks without any are left out."""
        ...

    def build_index(self, model_id: int) -> None:
        """Update the indexes over a model's vectors now, so that the next search need not. Worth a
        call after many writes."""
        ...
