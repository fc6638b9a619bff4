"""Ranking by words and by n-grams of unspaced scripts, over segments.

The scores are those of the SQLite store, because tokens, statistics and scorer are the same: see
`kb.index.bm25`. The chunks of the segments are cached for each state of the store, and the
blocks of terms by `block_cache`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.deadline import pause_deadline
from kb.errors import IndexUnusable
from kb.store.postgres import segments
from kb.store.postgres.segments import StoredSegment
from kb.text.tokenize import stems_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.index.bm25 import Phrase, WordRanking
    from kb.index.word_pairs import Signatures
    from kb.index.word_pruning import PhrasePostings
    from kb.store.postgres.block_cache import BlockCache
    from kb.store.postgres.session import Session

_MAX_STATES = 3  # cached states: readers may still use an earlier one
_MAX_COUNTS = 100_000  # cached counts of phrases in chunks
NO_LIMIT = 1 << 62  # phrases are always counted: there is no other index for common ones

Key = tuple[str, int]  # the store, and its counter of texts


class State(NamedTuple):
    """The segments of one state of the store, and the ranking over them and the pending chunks."""

    stored: tuple[StoredSegment, ...]
    ranking: WordRanking


class SegmentView:
    """A segment with the blocks of one query."""

    def __init__(self, stored: StoredSegment, found: Mapping[str, PhrasePostings]) -> None:
        self._stored = stored
        self._found = found
        self.ids: NDArray[np.int64] = stored.ids
        self.lengths: NDArray[np.uint32] = stored.lengths

    @property
    def signatures(self) -> Signatures:
        return self._stored.signatures

    def of(self, term: str) -> PhrasePostings:
        if (found := self._found.get(term)) is not None:
            return found
        import numpy as np

        from kb.index.word_pruning import PhrasePostings

        none = np.empty(0, np.uint16)
        return PhrasePostings(none, none)


class WordIndex:
    """Ranks the chunks of one store by words (`word`) or by n-grams (`ngram`). Threads may share
    it."""

    def __init__(self, kind: str, blocks: BlockCache) -> None:
        self._kind = kind
        self._blocks = blocks
        self._building = threading.Lock()
        self._states: dict[Key, State] = {}
        self._segments: dict[int, StoredSegment] = {}
        self._counts: dict[tuple[Phrase, int], int] = {}

    def forget(self) -> None:
        """Clear the caches."""
        with self._building:
            self._states, self._segments, self._counts = {}, {}, {}

    def ranking(self, session: Session, phrases: Iterable[Phrase]) -> WordRanking:
        """The ranking of this state, with the blocks that these phrases need."""
        from kb.index import word_blocks

        wanted = list(phrases)
        state = self._state(session)
        terms = dict.fromkeys(term for phrase in wanted for term in phrase)
        blocks = self._blocks.read(session, [one.segment for one in state.stored], terms)
        found: dict[int, dict[str, PhrasePostings]] = {}
        try:
            for (segment, term), data in blocks.items():
                found.setdefault(segment, {})[term] = word_blocks.decode(data)
        except ValueError as error:
            raise IndexUnusable(
                f"the word index is damaged: {error}", "repair it with: kb doctor --fix"
            ) from error
        if any(len(phrase) > 1 for phrase in wanted):
            for stored in state.stored:
                stored.load_signatures(session)
        views = [SegmentView(one, found.get(one.segment, {})) for one in state.stored]
        *_, tail = state.ranking.parts
        return state.ranking.over([*views, tail.postings])

    def count_phrase(
        self, session: Session, phrase: Phrase, chunk_ids: Sequence[int]
    ) -> dict[int, int]:
        """The weighted count of a phrase in each of the chunks, from their texts. The text of a
        chunk never changes, so counts are cached."""
        from kb.index.bm25 import count_phrase
        from kb.index.word_postings import HEADING, PART, TEXT

        counts = {one: self._counts.get((phrase, one)) for one in chunk_ids}
        missing = [one for one, count in counts.items() if count is None]
        rows = session.stream(
            "SELECT chunk_id, heading, text, parts FROM chunks WHERE chunk_id = ANY (%s)",
            (missing,),
        )
        for chunk_id, *texts in rows if missing else ():
            columns = zip((HEADING, TEXT, PART), map(stems_of, texts), strict=True)
            counts[chunk_id] = count_phrase(phrase, columns)
        if len(self._counts) > _MAX_COUNTS:
            self._counts = {}
        self._counts.update({(phrase, one): counts[one] or 0 for one in missing})
        return {one: count or 0 for one, count in counts.items()}

    def pending_terms(self, session: Session, prefix: str) -> set[str]:
        """The terms with this prefix in chunks that are in no segment yet."""
        tail: Any = self._state(session).ranking.parts[-1].postings
        return {term for term in tail.terms() if term.startswith(prefix)}

    # --- states -----------------------------------------------------------------------------------

    def _state(self, session: Session) -> State:
        key = (session.state.store_id, session.state.texts)
        if (known := self._states.get(key)) is not None:
            return known
        with pause_deadline(), self._building:  # one thread builds the state for all
            if (known := self._states.get(key)) is None:
                known = self._load(session)
                kept = list(self._states.items())[1 - _MAX_STATES :]
                self._states = {**dict(kept), key: known}
                used = {one for state in self._states.values() for one in state.stored}
                self._segments = {one.segment: one for one in used}
            return known

    def _load(self, session: Session) -> State:
        from kb.index.bm25 import Part, WordRanking

        present = segments.numbers(session, self._kind, 0)
        new = [number for number in present if number not in self._segments]
        read = {one.segment: one for one in segments.read_segments(session, new)} if new else {}
        stored = tuple((self._segments | read)[number] for number in present)
        gone = segments.read_deleted(session, present)
        pending = segments.read_pending(session, self._kind, 0)
        tail = segments.read_postings(session, self._kind, pending)
        parts = [Part(one, segments.gone_mask(one.ids, gone[one.segment])) for one in stored]
        return State(stored, WordRanking([*parts, Part(tail)], session.state.chunks))
