"""The word index: BM25 over arrays that are mapped from files beside the store.

It returns what FTS5 returns, to the last bit, in a fraction of the time. So a search uses it where
it can, and FTS5 otherwise: before numpy is loaded, for queries that need the positions of words,
and until the files exist (see `word_files`). `text_changes` records what has changed since the last
one was written; those chunks are read from the store.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from kb.deadline import pause_deadline
from kb.store.sqlite import word_files
from kb.store.sqlite.dense import numpy_is_there
from kb.store.sqlite.fulltext import MIN_INDEXED_CHUNKS
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.snapshot_cache import once, store_state
from kb.store.sqlite.visibility import FilterCache, visible
from kb.store.sqlite.word_files import NOTHING, Chain, Layer, Mark
from kb.text.tokenize import split_words, stem_word, stems_of
from kb.types import Filters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.index.bm25 import Phrase, WordRanking
    from kb.index.word_postings import Postings
    from kb.store.sqlite.connection import Database

_MAX_CHANGED = 1000  # chunks that are read from the store; after more, a file is written
_MAX_LAYERS = 8  # layers of small changes, before they are merged
_MAX_STATES = 3  # cached rankings: readers may still use an earlier state
_ROWS = "SELECT chunk_id, heading, text, parts FROM chunks"


class PhraseCandidates(NamedTuple):
    """The chunks that contain a phrase, and those whose text has to be read to find out."""

    certain: set[int]
    possible: set[int]


class State(NamedTuple):
    """One state of the store: the files, the layers of later changes, oldest first, and the ranking
    over both."""

    files: Chain
    layers: tuple[Layer, ...]
    ranking: WordRanking

    @property
    def mark(self) -> Mark:
        return self.layers[-1].mark if self.layers else self.files.mark


class WordIndex:
    """Ranks chunks of one store by words. Threads may share it."""

    def __init__(self, database: Database, filters: FilterCache) -> None:
        self._database = database
        self._filters = filters
        self._building = threading.Lock()
        self._files: object = None  # the identity of the files of `_states`
        self._states: dict[Mark, State | None] = {}

    def forget(self) -> None:
        """Clear the cache."""
        with self._building:
            self._files, self._states = None, {}

    def chunk_counts(
        self, connection: apsw.Connection, terms: Sequence[str]
    ) -> dict[str, int] | None:
        """How many chunks contain each term; None if the index cannot be used."""
        state = self._state(connection)
        return None if state is None else state.ranking.chunk_counts(terms)

    def phrase_candidates(
        self, connection: apsw.Connection, phrases: Iterable[Phrase]
    ) -> PhraseCandidates | None:
        """The chunks that contain, or may contain, one of the phrases; None if there are too many
        to read, or the index cannot be used."""
        if (state := self._state(connection)) is None:
            return None
        from kb.index.bm25 import MAX_CANDIDATES

        certain: set[int] = set()
        possible: set[int] = set()
        for phrase in phrases:
            (certain if len(phrase) == 1 else possible).update(state.ranking.may_contain(phrase))
            if len(possible) > MAX_CANDIDATES:
                return None
        return PhraseCandidates(certain, possible - certain)

    def rank(
        self,
        connection: apsw.Connection,
        groups: Sequence[Sequence[Phrase]],
        *,
        every: bool,
        filters: Filters,
        now: str,
        limit: int,
    ) -> list[tuple[int, float]] | None:
        """The best chunks with any phrase, or, with `every`, with a phrase of each group, and their
        BM25 as FTS5 returns it, where lower is better. None if the index cannot be used."""
        state = self._state(connection)
        if state is None:
            return None
        seen = visible(connection, filters, now)
        allowed = None if seen.select is None else self._filters.chunk_ids(connection, seen)
        ranked = state.ranking.rank(
            groups,
            every=every,
            allowed=allowed,
            hidden=seen.hidden,
            limit=limit,
            count_phrase=partial(_count_phrase, connection),
        )
        return None if ranked is None else [(chunk_id, -score) for chunk_id, score in ranked]

    # --- states -----------------------------------------------------------------------------------

    def _state(self, connection: apsw.Connection) -> State | None:
        """The state that `connection` sees; None if there is no file for it, or too much has
        changed since it was written."""
        mark = read_mark(connection)
        files = word_files.identity(self._database.path)
        if files == self._files and mark in self._states:
            return self._states[mark]
        with pause_deadline(), self._building:  # one thread builds the state for all
            if files != self._files:
                self._files, self._states = files, {}
            if mark not in self._states:
                made = self._load(connection, mark)
                kept = list(self._states.items())[1 - _MAX_STATES :]
                self._states = {**dict(kept), mark: made}
            return self._states[mark]

    def _load(self, connection: apsw.Connection, mark: Mark) -> State | None:
        """Derive the state from the newest one that precedes it, or from the files."""
        known = [state for state in self._states.values() if state is not None]
        for state in sorted(known, key=lambda one: one.mark.change, reverse=True):
            if _precedes(connection, state.mark, mark):
                return _derive(connection, state.files, state.layers, mark)
        files = self._read_files(connection)
        if files is None or not _precedes(connection, files.mark, mark):
            return None
        return _derive(connection, files, (), mark)

    def _read_files(self, connection: apsw.Connection) -> Chain | None:
        return word_files.read(self._database.path, _store_id(connection))

    # --- the files --------------------------------------------------------------------------------

    def build(self) -> None:
        """Write what has changed since the last file, if the store is large and many chunks have
        changed. Blocks neither readers nor writers of the store."""
        if self._database.read_only or not numpy_is_there():
            return
        with self._database.reading() as connection:
            if store_state(connection).chunks < MIN_INDEXED_CHUNKS:
                return
            files = self._read_files(connection)
            if files is None or not _precedes(connection, files.mark, read_mark(connection)):
                self.write_all(connection)
                return
            changed = _changed_chunks(connection, files.mark)
            if len(changed) > _MAX_CHANGED // 2:
                self._write_changes(connection, files, changed)

    def _write_changes(
        self, connection: apsw.Connection, files: Chain, changed: Sequence[int]
    ) -> bool:
        """Write the changed chunks, together with those of the newer files if these are small."""
        import numpy as np

        number = word_files.level(files, len(changed))
        if number == 0:
            return self.write_all(connection)
        merged = [np.array(changed, np.int64), *(one.changed for one in files.layers[number:])]
        every = np.unique(np.concatenate(merged))
        mark = read_mark(connection)
        with pause_deadline():
            postings = _build(_rows(connection, every.tolist()))
        layer = Layer(files.layers[number - 1].mark, mark, every, postings)
        return word_files.write(self._database.path, _store_id(connection), number, layer)

    def write_all(self, connection: apsw.Connection) -> bool:
        """Write all chunks into one file. Returns False if that is not possible."""
        import numpy as np

        mark = read_mark(connection)
        with pause_deadline():
            postings = _build(connection.execute(f"{_ROWS} ORDER BY chunk_id"))
        layer = Layer(NOTHING, mark, np.empty(0, np.int64), postings)
        return word_files.write(self._database.path, _store_id(connection), 0, layer)

    def has_file(self) -> bool:
        return word_files.paths(self._database.path)[0].exists()

    def is_unused_file(self) -> bool:
        """Whether the file is intact and belongs to another store, so that no search reads it."""
        if not numpy_is_there():
            return False
        owner = word_files.owner(self._database.path)
        with self._database.reading() as connection:
            return owner is not None and owner != _store_id(connection)

    def file_fault(self) -> str | None:
        """How the files differ from the store; None if they do not, or cannot be checked."""
        if not numpy_is_there():
            return None
        import numpy as np

        with self._database.reading() as connection:
            files = self._read_files(connection)
            if files is None:
                return "it is damaged"
            if files.mark != read_mark(connection):
                return None  # a search compares them with the log of changes
            live = [_live(layer, gone) for layer, gone in zip(*files, strict=True)]
            ids = np.sort(np.concatenate([each.ids for each in live]))
            rows = connection.execute("SELECT chunk_id FROM chunks ORDER BY 1")
            if ids.tolist() != [chunk_id for (chunk_id,) in rows]:
                return "its chunks differ"
            same = all(_is_built_from(connection, each) for each in live)
        return None if same else "its numbers differ"

    def remove_file(self) -> None:
        """Remove the files, and rebuild them if the store is large."""
        word_files.remove(self._database.path)
        self.forget()
        self.build()


def _live(layer: Layer, gone: NDArray[np.bool_] | None) -> Postings:
    from kb.index.word_postings import without

    return layer.postings if gone is None else without(layer.postings, gone)


def _is_built_from(connection: apsw.Connection, postings: Postings) -> bool:
    """Whether the postings equal those built from the current text of their chunks."""
    import numpy as np

    made = _build(_rows(connection, postings.ids.tolist())).arrays()
    return all(np.array_equal(array, made[name]) for name, array in postings.arrays().items())


# --- changes --------------------------------------------------------------------------------------


def read_mark(connection: apsw.Connection) -> Mark:
    return once(connection, "text mark", _read_mark)


def _read_mark(connection: apsw.Connection) -> Mark:
    sql = "SELECT change, stamp FROM text_changes ORDER BY change DESC LIMIT 1"
    row = connection.execute(sql).fetchone()
    return Mark(*row) if row else Mark(0, 0)


def _precedes(connection: apsw.Connection, earlier: Mark, mark: Mark) -> bool:
    """Whether all changes from `earlier` to `mark` are still recorded."""
    if not 0 < earlier.change <= mark.change:
        return False
    sql = "SELECT stamp FROM text_changes WHERE change = ?"
    return bool(scalar(connection, sql, (earlier.change,)) == earlier.stamp)


def _changed_chunks(connection: apsw.Connection, since: Mark) -> tuple[int, ...]:
    rows = connection.execute(
        "SELECT DISTINCT chunk_id FROM text_changes WHERE change > ? ORDER BY 1", (since.change,)
    )
    return tuple(chunk_id for (chunk_id,) in rows)


def _derive(
    connection: apsw.Connection, files: Chain, layers: tuple[Layer, ...], mark: Mark
) -> State | None:
    """The state at `mark`, from the layers of an earlier one; None if too many chunks changed."""
    earlier = layers[-1].mark if layers else files.mark
    if earlier != mark:
        if len(layers) >= _MAX_LAYERS:
            layers, earlier = (), files.mark
            if not _precedes(connection, earlier, mark):
                return None
        changed = _changed_chunks(connection, earlier)
        if len(changed) + sum(len(layer.changed) for layer in layers) > _MAX_CHANGED:
            return None
        layers = (*layers, _layer(connection, changed, earlier, mark))
    return State(files, layers, _ranking(files, layers))


def _layer(connection: apsw.Connection, changed: tuple[int, ...], since: Mark, mark: Mark) -> Layer:
    import numpy as np

    return Layer(since, mark, np.array(changed, np.int64), _build(_rows(connection, changed)))


def _rows(connection: apsw.Connection, chunk_ids: Sequence[int]) -> Iterable[Any]:
    return connection.execute(
        f"{_ROWS} WHERE chunk_id IN (SELECT value FROM json_each(?)) ORDER BY chunk_id",
        (json.dumps(chunk_ids),),
    )


def _count_phrase(
    connection: apsw.Connection, phrase: Phrase, chunk_ids: list[int]
) -> dict[int, int]:
    from kb.index.bm25 import count_phrase
    from kb.index.word_postings import HEADING, PART, TEXT

    counts = dict.fromkeys(chunk_ids, 0)
    for chunk_id, *texts in _rows(connection, chunk_ids):
        columns = zip((HEADING, TEXT, PART), map(stems_of, texts), strict=True)
        counts[chunk_id] = count_phrase(phrase, columns)
    return counts


def _build(rows: Iterable[Any]) -> Postings:
    from kb.index.word_postings import build

    return build(rows, split=split_words, stem=stem_word)


def _ranking(files: Chain, layers: Sequence[Layer]) -> WordRanking:
    """The ranking over the files and the layers. A chunk counts in the last one that has it."""
    import numpy as np

    from kb.index.bm25 import Part, WordRanking

    parts, later = [], np.empty(0, np.int64)
    for layer in reversed(layers):
        parts.append(Part(layer.postings, word_files.mask_gone(layer.postings.ids, later)))
        later = np.union1d(later, layer.changed)
    for layer, gone in zip(reversed(files.layers), reversed(files.gone), strict=True):
        ids = layer.postings.ids
        parts.append(Part(layer.postings, word_files.mask_gone(ids, later, gone)))
    return WordRanking(parts[::-1])


def _store_id(connection: apsw.Connection) -> str:
    return str(scalar(connection, "SELECT store_id FROM state"))
