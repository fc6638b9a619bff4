"""The sparse index: searches the inverted index that `segments` writes.

The scores are the exact dot products in the state that the caller's transaction sees. The positions
of the chunks and the postings of recent terms are cached between searches.
"""

from __future__ import annotations

import heapq
import json
import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import apsw

from kb.deadline import pause_deadline
from kb.errors import StoreUnusable, check_choice
from kb.index import cosine, sparse_blocks, sparse_weights
from kb.index.selection import best_chunks
from kb.index.sparse_blocks import Block, Row, TermPostings, chain, invert, join
from kb.store.sqlite import dense as dense_index
from kb.store.sqlite import embeddings, vector_pieces
from kb.store.sqlite.embeddings import Mark
from kb.store.sqlite.snapshot_cache import store_state
from kb.store.sqlite.visibility import FilterCache, Visible, chunk_ids, visible
from kb.types import Filters, ScoredChunk, StoredModel, VectorMatches, rank_chunks

if TYPE_CHECKING:
    from kb.store.sqlite.matrix import Ids

BACKENDS = ("auto", "numpy", "python")
_FEW_ALLOWED = 8  # if at most one chunk in this many is allowed, only those are scored
_MAX_POSTINGS = 4 << 20  # cached at most, of 8 bytes each
_STATES = 3  # cached states: readers may still use an earlier one
_POSTINGS = """
SELECT t.term, s.value, p.block
FROM sparse_terms t
  CROSS JOIN json_each(?2) s
  CROSS JOIN sparse_postings p ON p.posting = (s.value << 32 | t.term_id)
WHERE t.term IN (SELECT value FROM json_each(?1))
"""
Terms = list[tuple[str, float]]


class Key(NamedTuple):
    """What identifies a state. Segments may be rewritten without a change to the vectors."""

    model_id: int
    mark: Mark
    segments: tuple[tuple[int, int], ...]  # with their stamps


@dataclass(frozen=True, eq=False)
class State:
    """The position of each chunk in one state of the store: the chunks of every segment, one
    segment after another, then those that are in no segment yet. Immutable."""

    ids: array[int]
    starts: Mapping[int, int]  # of each segment
    gone: array[int]  # positions of deleted chunks
    pending_at: int
    pending: Mapping[str, Block]

    @cached_property
    def sorted_ids(self) -> tuple[Ids, Ids]:
        """The chunks in ascending order, and the position of each."""
        import numpy as np

        ids = np.frombuffer(self.ids, np.int64)
        order = np.argsort(ids, kind="stable")
        return ids[order], order


@dataclass(slots=True)
class TermCache:
    """The postings of recent terms in the segments with these stamps."""

    segments: tuple[tuple[int, int], ...]
    known: dict[str, TermPostings] = field(default_factory=dict)
    size: int = 0  # in postings


class SparseIndex:
    """Searches the sparse vectors of one store. Threads may share it."""

    def __init__(self, filters: FilterCache) -> None:
        self._filters = filters
        self._building = threading.Lock()
        self._states: dict[Key, State] = {}
        self._terms = TermCache(())

    def forget(self) -> None:
        with self._building:
            self._states, self._terms = {}, TermCache(())

    def nearest(
        self,
        connection: apsw.Connection,
        model: StoredModel,
        query: Mapping[str, float],
        *,
        filters: Filters,
        now: str,
        limit: int,
        backend: str,
    ) -> VectorMatches:
        """Search in the caller's transaction."""
        terms = sparse_weights.query_terms(query)
        chosen = _backend(model, check_choice("backend", backend, BACKENDS))
        seen = visible(connection, filters, now)
        if limit < 1 or not terms or not model.ready:
            return VectorMatches([], chosen)
        key = _key(connection, model.model_id)
        state = self._current(connection, key)
        try:
            if chosen == "python":
                rows = list(_rows(connection, state, terms))
                found = _by_python(connection, state, rows, seen, limit)
            else:
                allowed = None if seen.select is None else self._filters.chunk_ids(connection, seen)
                postings = self._postings(connection, key, state, terms)
                found = _by_numpy(state, postings, allowed, seen.hidden, limit)
            return VectorMatches(found, chosen)
        except (IndexError, ValueError) as error:  # invalid positions, truncated numbers
            raise StoreUnusable(
                f"the sparse index is damaged ({error})",
                "repair it with: kb doctor --fix",
            ) from error

    def _postings(
        self, connection: apsw.Connection, key: Key, state: State, terms: Terms
    ) -> list[tuple[TermPostings, float]]:
        """The postings of the terms, with their weights in the query."""
        cache = self._terms
        if cache.segments != key.segments or cache.size > _MAX_POSTINGS:
            cache = self._terms = TermCache(key.segments)
        if missing := [term for term, _ in terms if term not in cache.known]:
            stored = _read_blocks(connection, state, missing)
            for term in missing:
                cache.known[term] = join(stored.get(term, ()))
                cache.size += len(cache.known[term].places)
        return [(_with_pending(state, term, cache.known[term]), weight) for term, weight in terms]

    def _current(self, connection: apsw.Connection, key: Key) -> State:
        if (known := self._states.get(key)) is not None:
            return known
        with pause_deadline(), self._building:  # one thread builds the state for all
            if (known := self._states.get(key)) is None:
                known = _load_state(connection, key)
                kept = list(self._states.items())[1 - _STATES :]
                self._states = {**dict(kept), key: known}
            return known


def _backend(model: StoredModel, configured: str) -> str:
    """Return `numpy`, or `python` if numpy is missing or importing it would take longer than a
    search in Python."""
    if configured == "auto":
        return dense_index.by_arrays(model)
    return "numpy" if configured == "numpy" and dense_index.numpy_is_there() else "python"


# --- a state --------------------------------------------------------------------------------------


def _key(connection: apsw.Connection, model_id: int) -> Key:
    segments = json.loads(store_state(connection).segments)
    own = sorted((segment, stamp) for model, segment, stamp in segments if model == model_id)
    return Key(model_id, embeddings.mark(connection), tuple(own))


def _load_state(connection: apsw.Connection, key: Key) -> State:
    ids: array[int] = array("q")
    starts: dict[int, int] = {}
    rows = connection.execute(
        "SELECT segment, chunk_ids FROM sparse_segments WHERE model_id = ? ORDER BY 1",
        (key.model_id,),
    )
    for segment, data in rows:
        starts[segment] = len(ids)
        ids.extend(sparse_weights.unpack("q", data))
    gone = array("q", _deleted_positions(connection, key.model_id, ids, starts))
    waiting = _waiting(connection, key.model_id)
    pending_at = len(ids)
    ids.extend(waiting)
    blocks = invert(sparse_weights.from_text_or_empty(text) for text in waiting.values())
    return State(ids, starts, gone, pending_at, blocks)


def _deleted_positions(
    connection: apsw.Connection, model_id: int, ids: array[int], starts: Mapping[int, int]
) -> Iterator[int]:
    """The positions of deleted chunks. The chunk ids of a segment are ascending."""
    ends = dict(zip(starts, [*starts.values(), len(ids)][1:], strict=True))
    rows = connection.execute(
        "SELECT g.segment, g.chunk_id FROM sparse_segments s JOIN sparse_gone g USING (segment) "
        "WHERE s.model_id = ?",
        (model_id,),
    )
    for segment, chunk_id in rows:
        yield bisect_left(ids, chunk_id, starts[segment], ends[segment])


def _waiting(connection: apsw.Connection, model_id: int) -> dict[int, sparse_weights.Stored]:
    sql = "SELECT chunk_id FROM sparse_pending WHERE model_id = ?"
    ids = [int(str(chunk_id)) for (chunk_id,) in connection.execute(sql, (model_id,))]
    return vector_pieces.read(connection, "sparse", model_id, ids)


# --- searching ------------------------------------------------------------------------------------


def _rows(connection: apsw.Connection, state: State, terms: Terms) -> Iterator[Row]:
    """The postings of all terms, in the order in which the scores of each chunk are summed."""
    stored = _read_blocks(connection, state, [term for term, _ in terms])
    for term, weight in terms:
        for data, start in stored.get(term, ()):
            yield Row(data, weight, start)
        if term in state.pending:
            yield Row(state.pending[term].to_bytes(), weight, state.pending_at)


def _read_blocks(
    connection: apsw.Connection, state: State, terms: Sequence[str]
) -> dict[str, list[tuple[bytes, int]]]:
    """The blocks of each term, and the first positions of their segments, in ascending order."""
    stored: dict[str, list[tuple[bytes, int]]] = {}
    rows = connection.execute(_POSTINGS, (
        json.dumps(terms, ensure_ascii=False), json.dumps(list(state.starts)),
    ))  # fmt: skip
    for term, segment, data in rows:
        block = sparse_blocks.expand(data)
        stored.setdefault(term, []).append((block, state.starts[segment]))
    for blocks in stored.values():
        blocks.sort(key=itemgetter(1))
    return stored


def _with_pending(state: State, term: str, postings: TermPostings) -> TermPostings:
    """The postings of a term with those of the chunks that are in no segment yet."""
    if term not in state.pending:
        return postings
    return chain(postings, join([(state.pending[term].to_bytes(), state.pending_at)]))


def _by_python(
    connection: apsw.Connection, state: State, rows: Sequence[Row], seen: Visible, limit: int
) -> list[ScoredChunk]:
    scores: dict[int, float] = {}
    for row in rows:
        count = len(row.data) // 6
        weights = cosine.from_bytes(row.data[: 4 * count])
        places = sparse_weights.unpack("H", row.data[4 * count :])
        for weight, place in zip(weights, places, strict=True):
            at = place + row.start
            scores[at] = scores.get(at, 0.0) + weight * row.weight
    for place in state.gone:
        scores.pop(place, None)
    hidden = set(seen.hidden)
    allowed = None if seen.select is None else set(chunk_ids(connection, seen))
    scored = ((-score, state.ids[place]) for place, score in scores.items() if score > 0)
    left = (one for one in scored
            if one[1] not in hidden and (allowed is None or one[1] in allowed))  # fmt: skip
    return _rank([(chunk_id, -score) for score, chunk_id in heapq.nsmallest(limit, left)])


def _by_numpy(
    state: State,
    terms: Sequence[tuple[TermPostings, float]],
    allowed: Ids | None,
    hidden: Sequence[int],
    limit: int,
) -> list[ScoredChunk]:
    import numpy as np

    ids = np.frombuffer(state.ids, np.int64)
    gone = np.frombuffer(state.gone, np.int64)
    if allowed is not None and len(allowed) * _FEW_ALLOWED <= len(ids):
        in_order, positions = state.sorted_ids
        places = np.setdiff1d(positions[_places(in_order, allowed)], gone)
        scores, ids, allowed = sparse_blocks.scores_of(terms, places, len(ids)), ids[places], None
    else:
        scores = sparse_blocks.scores(terms, len(ids))
        scores[gone] = 0.0
    return _rank(best_chunks(scores, ids, allowed=allowed, hidden=hidden, limit=limit))


def _places(ids: Ids, wanted: Ids) -> Ids:
    """The last position of each of the wanted ids in `ids`, which ascend. A chunk occurs again if
    its vector was replaced; its earlier positions are marked as deleted."""
    import numpy as np

    if not len(ids):
        return ids[:0]
    at: Ids = np.searchsorted(ids, wanted, "right") - 1
    there: Ids = at[ids[np.maximum(at, 0)] == wanted]
    return there


def _rank(scored: Sequence[tuple[int, float]]) -> list[ScoredChunk]:
    return rank_chunks([chunk_id for chunk_id, _ in scored], [score for _, score in scored])
