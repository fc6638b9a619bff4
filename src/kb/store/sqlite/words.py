"""The word index: BM25 over arrays that are mapped from a file beside the store.

It returns what FTS5 returns, to the last bit, in a fraction of the time. So a search uses it where
it can, and FTS5 otherwise: before numpy is loaded, for queries that need the positions of words,
and until the file exists. `text_changes` records what has changed since the file was written; those
chunks are read from the store.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from kb.deadline import pause_deadline
from kb.store.sqlite import array_file
from kb.store.sqlite.array_file import Content
from kb.store.sqlite.dense import numpy_is_there
from kb.store.sqlite.fulltext import MIN_INDEXED_CHUNKS
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.snapshot_cache import once, store_state
from kb.store.sqlite.visibility import FilterCache, visible
from kb.text.tokenize import split_words, stem_word, stems_of
from kb.types import Filters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.index.word_postings import Phrase, Postings, WordRanking
    from kb.store.sqlite.connection import Database

_MAX_CHANGED = 1000  # chunks that are read from the store; after more, the file is written again
_MAX_LAYERS = 8  # layers of small changes, before they are merged
_MAX_STATES = 3  # cached rankings: readers may still use an earlier state
_KIND = "words"
_ROWS = "SELECT chunk_id, heading, text, parts FROM chunks"


class Mark(NamedTuple):
    """A state of all texts: the number of the last change, and its random stamp."""

    change: int
    stamp: int


class Layer(NamedTuple):
    """The postings of the chunks that changed up to `mark`; the first layer has all chunks."""

    mark: Mark
    changed: tuple[int, ...]
    postings: Postings


class PhraseCandidates(NamedTuple):
    """The chunks that contain a phrase, and those that have to be read to know."""

    certain: set[int]
    possible: set[int]


class State(NamedTuple):
    """The layers of one state of the store, oldest first, and the ranking over them."""

    layers: tuple[Layer, ...]
    ranking: WordRanking


def path_of(store: Path) -> Path:
    """The path of the file: `kb.sqlite-words` for `kb.sqlite`."""
    return store.with_name(f"{store.name}-{_KIND}")


class WordIndex:
    """Ranks chunks of one store by words. Threads may share it."""

    def __init__(self, database: Database, filters: FilterCache) -> None:
        self._database = database
        self._filters = filters
        self._building = threading.Lock()
        self._file: tuple[int, ...] | None = None  # the identity of the file of `_states`
        self._states: dict[Mark, State | None] = {}

    def forget(self) -> None:
        """Drop what is cached."""
        with self._building:
            self._file, self._states = None, {}

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
        from kb.index.word_postings import MAX_CANDIDATES

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
        file = array_file.identity(path_of(self._database.path))
        if file == self._file and mark in self._states:
            return self._states[mark]
        with pause_deadline(), self._building:  # one thread builds it for all
            if file != self._file:
                self._file, self._states = file, {}
            if mark not in self._states:
                made = self._load(connection, mark)
                kept = list(self._states.items())[1 - _MAX_STATES :]
                self._states = {**dict(kept), mark: made}
            return self._states[mark]

    def _load(self, connection: apsw.Connection, mark: Mark) -> State | None:
        """Derive the state from the newest one that precedes it, or from the file."""
        known = [state.layers for state in self._states.values() if state is not None]
        known.sort(key=lambda layers: layers[-1].mark.change, reverse=True)
        for layers in known:
            if _precedes(connection, layers[-1].mark, mark):
                return _derive(connection, layers, mark)
        base = self._read_file(connection)
        if base is None or not _precedes(connection, base.mark, mark):
            return None
        return _derive(connection, (base,), mark)

    def _read_file(self, connection: apsw.Connection) -> Layer | None:
        owned = array_file.read(path_of(self._database.path), _KIND, _parse)
        return None if owned is None or owned[0] != _store_id(connection) else owned[1]

    # --- the file ---------------------------------------------------------------------------------

    def build(self) -> None:
        """Write the file again if the store is large and much has changed since it was written.
        Readers and writers of the store need not wait."""
        if self._database.read_only or not numpy_is_there():
            return
        with self._database.reading() as connection:
            if store_state(connection).chunks >= MIN_INDEXED_CHUNKS and not self._is_recent(
                connection
            ):
                self.write_file(connection)

    def _is_recent(self, connection: apsw.Connection) -> bool:
        """Whether the changes since the file was written are at most half of those that a search
        may read."""
        base, mark = self._read_file(connection), read_mark(connection)
        if base is None or not _precedes(connection, base.mark, mark):
            return False
        return len(_changed(connection, base.mark)) <= _MAX_CHANGED // 2

    def write_file(self, connection: apsw.Connection) -> bool:
        """Write the file from the store. Returns False if that is not possible."""
        mark = read_mark(connection)
        with pause_deadline():
            postings = _build(connection.execute(f"{_ROWS} ORDER BY chunk_id"))
        about = {"store_id": _store_id(connection), "mark": mark}
        path = self._database.path
        return array_file.write(path_of(path), _KIND, Content(about, postings.arrays()), like=path)

    def has_file(self) -> bool:
        return path_of(self._database.path).exists()

    def is_unused_file(self) -> bool:
        """Whether the file is intact and belongs to another store, so that no search reads it."""
        if not numpy_is_there():
            return False
        owned = array_file.read(path_of(self._database.path), _KIND, _parse)
        with self._database.reading() as connection:
            return owned is not None and owned[0] != _store_id(connection)

    def file_fault(self) -> str | None:
        """How the file differs from the store; None if it does not, or cannot be checked."""
        if not numpy_is_there():
            return None
        import numpy as np

        with self._database.reading() as connection:
            base = self._read_file(connection)
            if base is None:
                return "it is damaged"
            if base.mark != read_mark(connection):
                return None  # a search compares it with the log of changes
            made = _build(connection.execute(f"{_ROWS} ORDER BY chunk_id"))
        stored = base.postings.arrays()
        same = all(np.array_equal(array, stored[name]) for name, array in made.arrays().items())
        return None if same else "its numbers differ"

    def remove_file(self) -> None:
        """Remove the file, and build it again if the store is large."""
        path_of(self._database.path).unlink(missing_ok=True)
        self.forget()
        self.build()


def _parse(content: Content) -> tuple[str, Layer]:
    """The id of the file's store, and its postings, none of which points outside the arrays."""
    from kb.index.word_postings import Postings

    def array(name: str, dtype: str, *shape: int) -> NDArray[Any]:
        return array_file.check_array(content, name, dtype, *shape)

    mark = Mark(*array_file.check_numbers(content.about["mark"], len(Mark._fields)))
    ids, term_ends = array("ids", "i8", -1), array("term_ends", "i8", -1)
    places = array("places", "u4", -1)
    kind = "u4" if content.arrays["counts"].dtype.itemsize == 4 else "u2"
    postings = Postings(
        ids=ids,
        lengths=array("lengths", "u4", len(ids)),
        term_bytes=array("term_bytes", "u1", -1),
        term_ends=term_ends,
        starts=array("starts", "i8", len(term_ends) + 1),
        places=places,
        counts=array("counts", kind, len(places)),
        pair_bits=array("pair_bits", "u1", -1),
        pair_ends=array("pair_ends", "i8", len(ids)),
    )
    array_file.check_ascending(ids)
    array_file.check_bounds(term_ends, first=0, last=len(postings.term_bytes))
    array_file.check_bounds(postings.starts, first=0, last=len(places))
    array_file.check_bounds(postings.pair_ends, first=1, last=len(postings.pair_bits))
    if len(places) and int(places.max()) >= len(ids):
        raise ValueError("places")
    return str(content.about["store_id"]), Layer(mark, (), postings)


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


def _changed(connection: apsw.Connection, since: Mark) -> tuple[int, ...]:
    rows = connection.execute(
        "SELECT DISTINCT chunk_id FROM text_changes WHERE change > ? ORDER BY 1", (since.change,)
    )
    return tuple(chunk_id for (chunk_id,) in rows)


def _derive(connection: apsw.Connection, layers: tuple[Layer, ...], mark: Mark) -> State | None:
    """The state at `mark`, from the layers of an earlier one; None if too many chunks changed."""
    if layers[-1].mark != mark:
        if len(layers) > _MAX_LAYERS:
            layers = layers[:1]
            if not _precedes(connection, layers[0].mark, mark):
                return None
        changed = _changed(connection, layers[-1].mark)
        if len(changed) + sum(len(layer.changed) for layer in layers) > _MAX_CHANGED:
            return None
        layers = (*layers, _layer(connection, changed, mark))
    return State(layers, _ranking(layers))


def _layer(connection: apsw.Connection, changed: tuple[int, ...], mark: Mark) -> Layer:
    return Layer(mark, changed, _build(_rows(connection, changed)))


def _rows(connection: apsw.Connection, chunk_ids: Sequence[int]) -> Iterable[Any]:
    return connection.execute(
        f"{_ROWS} WHERE chunk_id IN (SELECT value FROM json_each(?)) ORDER BY chunk_id",
        (json.dumps(chunk_ids),),
    )


def _count_phrase(
    connection: apsw.Connection, phrase: Phrase, chunk_ids: list[int]
) -> dict[int, int]:
    from kb.index.word_postings import HEADING, PART, TEXT, count_phrase

    counts = dict.fromkeys(chunk_ids, 0)
    for chunk_id, *texts in _rows(connection, chunk_ids):
        columns = zip((HEADING, TEXT, PART), map(stems_of, texts), strict=True)
        counts[chunk_id] = count_phrase(phrase, columns)
    return counts


def _build(rows: Iterable[Any]) -> Postings:
    from kb.index.word_postings import build

    return build(rows, split=split_words, stem=stem_word)


def _ranking(layers: Sequence[Layer]) -> WordRanking:
    """The ranking over the layers. A chunk counts in the last layer that has it."""
    from kb.index.word_postings import Part, WordRanking

    parts, later = [], set[int]()
    for layer in reversed(layers):
        parts.append(Part(layer.postings, _gone(layer.postings, later)))
        later.update(layer.changed)
    return WordRanking(parts[::-1])


def _gone(postings: Postings, changed: Iterable[int]) -> NDArray[np.bool_] | None:
    import numpy as np

    wanted = np.array(sorted(changed), np.int64)
    places = np.searchsorted(postings.ids, wanted)
    places = places[places < len(postings.ids)]
    places = places[np.isin(postings.ids[places], wanted)]
    if not len(places):
        return None
    gone = np.zeros(len(postings.ids), np.bool_)
    gone[places] = True
    return gone


def _store_id(connection: apsw.Connection) -> str:
    return str(scalar(connection, "SELECT store_id FROM state"))
