"""Sparse retrieval over segments. The scores are exact dot products in the caller's snapshot."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kb.deadline import pause_deadline
from kb.errors import StoreUnusable
from kb.index import sparse_weights
from kb.index.selection import best_chunks
from kb.index.sparse_blocks import Block, Row, sums
from kb.store.postgres import segments
from kb.types import Filters, ScoredChunk, StoredModel, VectorMatches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.store.postgres.block_cache import BlockCache
    from kb.store.postgres.filters import FilterCache
    from kb.store.postgres.session import Session

_MAX_STATES = 3  # cached states; readers may still use an earlier one

Key = tuple[str, int, int]  # the store, its counter of the sparse index, and the model


class State(NamedTuple):
    """The position of each chunk in one state of the store: the chunks of every segment, one
    segment after another, then those that are in no segment yet."""

    ids: NDArray[np.int64]
    starts: Mapping[int, int]  # of each segment
    gone: NDArray[np.int64]  # positions of deleted chunks
    pending_at: int
    pending: Mapping[str, Block]


class SparseIndex:
    """Searches the sparse vectors of one store. Threads may share it."""

    def __init__(self, filters: FilterCache, blocks: BlockCache) -> None:
        self._filters = filters
        self._blocks = blocks
        self._building = threading.Lock()
        self._states: dict[Key, State] = {}

    def forget(self) -> None:
        """Clear the cache."""
        with self._building:
            self._states = {}

    def nearest(
        self,
        session: Session,
        model: StoredModel,
        query: Mapping[str, float],
        *,
        filters: Filters,
        now: str,
        limit: int,
    ) -> VectorMatches:
        """Search in the caller's snapshot."""
        terms = sparse_weights.query_terms(query)
        visible = self._filters.visible(session, filters, now)
        if limit < 1 or not terms or not model.ready:
            return VectorMatches([], "numpy")
        state = self._current(session, model.model_id)
        rows = list(self._rows(session, state, terms))
        if not rows:
            return VectorMatches([], "numpy")
        try:
            scores = sums(rows, len(state.ids))
        except ValueError as error:  # invalid positions, truncated numbers
            raise StoreUnusable(
                f"the sparse index is damaged ({error})",
                "repair it with: kb doctor --fix",
            ) from error
        scores[state.gone] = 0.0
        ranked = best_chunks(
            scores, state.ids, allowed=visible.allowed, hidden=visible.hidden, limit=limit
        )
        return VectorMatches(
            [ScoredChunk(one, score, rank) for rank, (one, score) in enumerate(ranked, start=1)],
            "numpy",
        )

    def _rows(
        self, session: Session, state: State, terms: Sequence[tuple[str, float]]
    ) -> Iterator[Row]:
        """The postings of all terms, in the order in which the scores of each chunk are summed."""
        blocks = self._blocks.read(session, list(state.starts), [term for term, _ in terms])
        for term, weight in terms:
            for segment, start in state.starts.items():
                if (data := blocks.get((segment, term))) is not None:
                    yield Row(data, weight, start)
            if term in state.pending:
                yield Row(state.pending[term].to_bytes(), weight, state.pending_at)

    def _current(self, session: Session, model_id: int) -> State:
        key = (session.state.store_id, session.state.sparse, model_id)
        if (known := self._states.get(key)) is not None:
            return known
        with pause_deadline(), self._building:  # one thread builds the state for all
            if (known := self._states.get(key)) is None:
                known = _load(session, model_id)
                kept = list(self._states.items())[1 - _MAX_STATES :]
                self._states = {**dict(kept), key: known}
            return known


def _load(session: Session, model_id: int) -> State:
    import numpy as np

    stored = list(segments.read_segments(session, segments.numbers(session, "sparse", model_id)))
    gone = segments.read_deleted(session, [one.segment for one in stored])
    starts, dead, before = {}, [np.empty(0, np.int64)], 0
    for one in stored:
        starts[one.segment] = before
        mask = segments.gone_mask(one.ids, gone[one.segment])
        if mask is not None:
            dead.append(np.flatnonzero(mask) + before)
        before += len(one.ids)
    pending = segments.read_pending(session, "sparse", model_id)
    tail = segments.invert(session, model_id, pending)
    ids = [*(one.ids for one in stored), np.array(tail.chunk_ids, np.int64)]
    return State(np.concatenate(ids), starts, np.concatenate(dead), before, tail.blocks)
