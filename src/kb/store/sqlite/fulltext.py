"""The full-text port, over FTS5. The only module that handles raw BM25.

Words are in `chunks_fts`, runs of unspaced scripts in `chunks_cjk`. BM25 is a sum over terms, so a
query in both kinds of script is scored by the sum of both tables. Parts of words are found by
reading the texts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice

import apsw

from kb.errors import IndexUnusable, QuerySyntax, StoreError, StoreUnusable
from kb.store import lexical_terms
from kb.store.lexical_terms import Term, quote, to_scores
from kb.store.sqlite import filters as where
from kb.store.sqlite.functions import substring_terms
from kb.store.sqlite.snapshot_cache import once, store_state
from kb.text.normalize import bigrams, unspaced_runs
from kb.text.tokenize import has_phrase, stems_of
from kb.types import Filters, LexicalQuery, ScoredChunk, TextMatches
from kb.values import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kb.store.sqlite.connection import Database
    from kb.store.sqlite.visibility import FilterCache
    from kb.store.sqlite.words import PhraseCandidates, WordIndex

# chunk_id, doc_id, heading, text, parts. Fitted on the train and dev splits of four collections.
_BM25 = "bm25(chunks_fts, 0.0, 0.0, 2.0, 1.0, 0.5)"
MIN_INDEXED_CHUNKS = 5000  # FTS5 is fast enough for fewer
# Once all lookups together have read this many chunks, importing numpy would have been faster.
_WORTH_NUMPY = 400_000
_MAX_LIKE = 8  # up to this many terms, LIKE is faster than looking for all of them at once
_MAX_LIKE_CHARS = 1_000  # SQLite refuses patterns of more than 50,000 bytes
_LIKE_ESCAPES = {ord(char): f"!{char}" for char in "%_!"}
BECOME_ASCII = "\u0130\u212a"  # non-ASCII characters whose lower case contains an ASCII letter


# --- entry points ---------------------------------------------------------------------------------


def match(
    connection: apsw.Connection,
    query: LexicalQuery,
    *,
    every: bool,
    filters: Filters,
    now: str,
    limit: int,
    index: WordIndex | None = None,
) -> TextMatches:
    """The best chunks for any term, or, with `every`, those with all terms."""
    search = _Search(connection, filters, now, limit, index)
    return lexical_terms.match(search, query, every=every, limit=limit)


def match_expression(
    connection: apsw.Connection, expression: str, *, filters: Filters, now: str, limit: int
) -> TextMatches:
    """The best chunks for a user's FTS5 expression."""
    within = _within(connection, filters, now)
    try:
        rows = _ranked_words(connection, expression, within, limit)
    except apsw.SQLError as error:
        raise QuerySyntax(
            f"invalid FTS5 expression: {error}",
            "without the single quotes, every character is taken literally",
        ) from error
    return TextMatches(to_scores(rows))


def match_phrases(
    connection: apsw.Connection,
    phrases: Sequence[str],
    *,
    prefer: Iterable[int],
    filters: Filters,
    now: str,
    limit: int,
    index: WordIndex | None = None,
) -> dict[int, str]:
    """The headings and texts of chunks that contain any of the phrases."""
    runs = {phrase: unspaced_runs(phrase) for phrase in phrases}
    within = _within(connection, filters, now)
    if index is not None and not any(runs.values()):
        stems = [stems for phrase in phrases if (stems := tuple(stems_of(phrase)))]
        candidates = index.phrase_candidates(connection, stems)
        if candidates is not None:
            return _with_phrases(connection, stems, candidates, prefer, within, limit)
    expressions = {
        "chunks_fts": " OR ".join(quote(phrase) for phrase, found in runs.items() if not found),
        "chunks_cjk": " OR ".join(f"({_run_phrases(found)})" for found in runs.values() if found),
    }
    # With a plain rowid, SQLite looks the phrases up once for every chunk that the filter allows.
    lookups = [
        f"SELECT +rowid AS id FROM {table} WHERE {table} MATCH ?"
        for table, expression in expressions.items()
        if expression
    ]
    if not lookups:
        return {}
    rows = connection.execute(
        "SELECT chunk_id, heading || char(10) || text FROM chunks WHERE chunk_id IN "
        f"(SELECT id FROM ({' UNION '.join(lookups)}) WHERE {within.sql('id')} "
        "ORDER BY id IN (SELECT value FROM json_each(?)) DESC, id LIMIT ?)",
        (*filter(None, expressions.values()), *within.params, json.dumps(list(prefer)), limit),
    )
    return dict(rows)


def _with_phrases(
    connection: apsw.Connection,
    phrases: Sequence[tuple[str, ...]],
    candidates: PhraseCandidates,
    prefer: Iterable[int],
    within: Within,
    limit: int,
) -> dict[int, str]:
    """The headings and texts of the first candidates that contain a phrase. Stops reading once
    there are enough."""
    chunk_ids = candidates.certain | candidates.possible
    if within != Within():
        sql = "SELECT chunk_id FROM chunks WHERE chunk_id IN (SELECT value FROM json_each(?)) AND "
        params = (json.dumps(list(chunk_ids)), *within.params)
        chunk_ids = {one for (one,) in connection.execute(sql + within.sql("chunk_id"), params)}
    preferred = chunk_ids.intersection(prefer)
    order = [*sorted(preferred), *sorted(chunk_ids - preferred)][: limit + len(candidates.possible)]
    rows: Iterable[Any] = connection.execute(
        "SELECT chunk_id, heading, text, parts FROM chunks "
        "WHERE chunk_id IN (SELECT value FROM json_each(?))",
        (json.dumps(order),),
    )
    texts = {
        chunk_id: f"{heading}\n{text}"
        for chunk_id, heading, text, parts in rows
        if chunk_id in candidates.certain or has_phrase((heading, text, parts), phrases)
    }
    return {one: texts[one] for one in islice((each for each in order if each in texts), limit)}


def match_substrings(
    connection: apsw.Connection,
    terms: Sequence[str],
    *,
    filters: Filters,
    now: str,
    limit: int,
) -> TextMatches:
    """Chunks that contain any of the terms as substrings, those with the most terms first. Scans
    every text; for a single term, only until there are enough chunks, because nearly every
    keystroke in the first word of a query searches for a fragment of a word."""
    within = _within(connection, filters, now)
    narrow, params = _may_contain(terms)
    counted = substring_terms(terms)
    chunks = f"FROM chunks WHERE {narrow} AND {within.sql('chunk_id')}"
    if len(terms) == 1:
        rows = connection.execute(
            f"SELECT chunk_id, 1 {chunks} AND kb_substrings(text, ?) ORDER BY chunk_id LIMIT ?",
            (*params, *within.params, counted, limit),
        )
    else:
        rows = connection.execute(
            f"SELECT * FROM (SELECT chunk_id, kb_substrings(text, ?) AS matches {chunks}) "
            "WHERE matches > 0 ORDER BY matches DESC, chunk_id LIMIT ?",
            (counted, *params, *within.params, limit),
        )
    scores = ((chunk_id, matches / (1 + len(terms))) for chunk_id, matches in rows)
    return TextMatches([ScoredChunk(*row, rank) for rank, row in enumerate(scores, start=1)])


# --- ranking --------------------------------------------------------------------------------------


class _Search(NamedTuple):
    """A search in one state of the store, by the word index where that is possible, and otherwise
    by FTS5, with the same result."""

    connection: apsw.Connection
    filters: Filters
    now: str
    limit: int
    word_index: WordIndex | None

    @property
    def within(self) -> Within:
        return _within(self.connection, self.filters, self.now)

    @property
    def chunks(self) -> int:
        return store_state(self.connection).chunks

    def counts(self, words: Sequence[Term], parts: Sequence[Term]) -> dict[Term, int]:
        """How many chunks contain each term that has a stem."""
        return self._word_counts(words) | _chunk_counts(self.connection, "chunks_cjk", parts)

    def _word_counts(self, words: Sequence[Term]) -> dict[Term, int]:
        stems = {term: term.stem for term in words if term.stem is not None}
        counts = None
        if self.word_index is not None:
            counts = self.word_index.chunk_counts(self.connection, list(stems.values()))
        if counts is None:
            return _chunk_counts(self.connection, "chunks_fts", words)
        return {term: counts[stem] for term, stem in stems.items()}

    def any(self, words: Sequence[Term], parts: Sequence[Term]) -> list[tuple[int, float]]:
        """Chunks with any of the terms, ranked by the sum of BM25."""
        if parts:
            return self._pieces(words, parts, self.within)
        return self._words(words, every=False) if words else []

    def every(
        self, query: LexicalQuery, words: Sequence[Term], parts: Sequence[Term]
    ) -> list[tuple[int, float]]:
        """Chunks with all terms. Without unspaced scripts, the index finds all words; with them,
        runs and words must occur as substrings [003], and are ranked by their n-grams and words."""
        if not parts:
            return self._words(words, every=True) if words else []
        long = [word[0] for word in query.words if len(word[0]) >= 3]
        return self._pieces(words, parts, self.within.also(_containing_all(query.runs, long)))

    def _words(self, words: Sequence[Term], *, every: bool) -> list[tuple[int, float]]:
        rows = None
        phrases = [phrase for term in words for phrase in term.alternatives]
        if self.word_index is not None and all(phrases):
            rows = self.word_index.rank(
                self.connection,
                [term.alternatives for term in words],
                every=every,
                filters=self.filters,
                now=self.now,
                limit=self.limit,
            )
        if rows is None:
            expression = _and(words) if every else _or(words)
            rows = _ranked_words(self.connection, expression, self.within, self.limit)
        return rows

    def _pieces(
        self, words: Sequence[Term], parts: Sequence[Term], within: Within
    ) -> list[tuple[int, float]]:
        found = "SELECT rowid, bm25(chunks_cjk) FROM chunks_cjk WHERE chunks_cjk MATCH ?"
        params = [_or(parts)]
        if words:
            found += f" UNION ALL SELECT rowid, {_BM25} FROM chunks_fts WHERE chunks_fts MATCH ?"
            params.append(_or(words))
        # Materialized, because bm25() works only in the query that matches its table.
        rows = self.connection.execute(
            f"WITH found (id, bm25) AS MATERIALIZED ({found}) SELECT id, sum(bm25) FROM found "
            f"WHERE {within.sql('id')} GROUP BY id ORDER BY 2, 1 LIMIT ?",
            (*params, *within.params, self.limit),
        )
        return [(chunk_id, bm25) for chunk_id, bm25 in rows]


def _ranked_words(
    connection: apsw.Connection, expression: str, within: Within, limit: int
) -> list[tuple[int, float]]:
    # ORDER BY bm25(), because `rank` was measured to take 50 % longer.
    rows = connection.execute(
        f"SELECT rowid, {_BM25} AS bm25 FROM chunks_fts WHERE chunks_fts MATCH ? "
        f"AND {within.sql('+chunks_fts.rowid')} ORDER BY bm25, rowid LIMIT ?",
        (expression, *within.params, limit),
    )
    return [(chunk_id, bm25) for chunk_id, bm25 in rows]


# --- terms ----------------------------------------------------------------------------------------


def _chunk_counts(
    connection: apsw.Connection, table: str, terms: Sequence[Term]
) -> dict[Term, int]:
    """How many chunks contain each term that has a stem. A snapshot looks up each stem once."""
    known: dict[str, int] = once(connection, f"counts of {table}", lambda _: {})
    stems = [term.stem for term in terms if term.stem is not None]
    if missing := [stem for stem in stems if stem not in known]:
        sql = f"SELECT value, (SELECT doc FROM {table}_terms WHERE term = value) FROM json_each(?)"
        for stem, count in connection.execute(sql, (json.dumps(missing, ensure_ascii=False),)):
            known[stem] = count or 0
    return {term: known[term.stem] for term in terms if term.stem is not None}


def _run_phrases(runs: Iterable[str]) -> str:
    """The bigrams of a run follow each other in the index, so that they make a phrase."""
    return " AND ".join(quote(" ".join(bigrams(run))) for run in runs)


def _or(terms: Iterable[Term]) -> str:
    return " OR ".join(term.expression for term in terms)


def _and(terms: Iterable[Term]) -> str:
    return " AND ".join(term.expression for term in terms)


def _may_contain(terms: Sequence[str]) -> tuple[str, list[str]]:
    """A condition that every text with one of the terms meets, and its parameters. LIKE, which
    ignores the case of ASCII letters, is seven times as fast as `kb_substrings`."""
    size = sum(map(len, terms))
    if len(terms) > _MAX_LIKE or size > _MAX_LIKE_CHARS or not all(map(str.isascii, terms)):
        return "1", []
    letters = set("".join(terms).lower())
    pieces = [*terms, *(char for char in BECOME_ASCII if letters.intersection(char.lower()))]
    patterns = [f"%{piece.translate(_LIKE_ESCAPES)}%" for piece in pieces]
    return f"({' OR '.join(['text LIKE ? ESCAPE char(33)'] * len(patterns))})", patterns


def _containing_all(runs: Sequence[str], words: Sequence[str]) -> tuple[str, list[Any]]:
    """Chunks that contain each run and each word as a substring of their text or headings: the
    index finds the n-grams of the runs, and the texts are then checked."""
    terms = [*runs, *words]
    pieces_of_all = dict.fromkeys(piece for run in runs for piece in bigrams(run))
    return (
        "SELECT chunk_id FROM chunks WHERE chunk_id IN "
        "(SELECT rowid FROM chunks_cjk WHERE chunks_cjk MATCH ?) "
        "AND kb_substrings(heading || char(10) || text, ?) = ?",
        [" AND ".join(map(quote, pieces_of_all)), substring_terms(terms), len(terms)],
    )


# --- visible chunks -------------------------------------------------------------------------------


class Within(NamedTuple):
    """Subqueries of chunk ids: a chunk must be in all of `inside` and in none of `outside`."""

    inside: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    params: tuple[Any, ...] = ()

    def sql(self, column: str) -> str:
        tests = [f"{column} IN ({select})" for select in self.inside]
        tests += [f"{column} NOT IN ({select})" for select in self.outside]
        return " AND ".join(tests) or "1"

    def also(self, select: tuple[str, list[Any]]) -> Within:
        """Add a subquery in front, with its parameters."""
        sql, params = select
        return Within((sql, *self.inside), self.outside, (*params, *self.params))


def _within(connection: apsw.Connection, filters: Filters, now: str) -> Within:
    """The chunks that a search may return, decided for each document. Without filters, only the few
    expired documents are excluded, so that most searches need no join."""
    if filters:
        sql, params = where.condition(connection, filters, now)
        return Within(inside=(where.CHUNKS_OF + sql,), params=tuple(params))
    expired = "d.expires_at <= ?"
    if store_state(connection).has_expired(now):
        return Within(outside=(where.CHUNKS_OF + expired,), params=(now,))
    return Within()


# --- the port -------------------------------------------------------------------------------------


class SqliteFulltext:
    """See `kb.ports.Fulltext`."""

    def __init__(self, database: Database, filters: FilterCache) -> None:
        self._database = database
        self._filters = filters
        self._scanned = 0  # chunks read by all lookups

    @cached_property
    def words(self) -> WordIndex:
        """The word index, imported when a search or a build may use it."""
        from kb.store.sqlite.words import WordIndex

        return WordIndex(self._database, self._filters)

    def close(self) -> None:
        """Drop the cached index."""
        if "words" in self.__dict__:
            self.words.forget()

    def build_index(self) -> None:
        self.words.build()

    def match(
        self, query: LexicalQuery, *, every: bool, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        with _index_errors(), self._database.reading() as connection:
            return match(
                connection,
                query,
                every=every,
                filters=filters,
                now=now,
                limit=limit,
                index=self._index(connection),
            )

    def _index(self, connection: apsw.Connection) -> WordIndex | None:
        """The word index, if the store is large and numpy is loaded, or worth loading: a process
        that searches often soon saves more time than the import takes."""
        chunks = store_state(connection).chunks
        if chunks < MIN_INDEXED_CHUNKS:
            return None
        self._scanned += chunks
        if "numpy" not in sys.modules and self._scanned < _WORTH_NUMPY:
            return None
        return self.words

    def match_expression(
        self, expression: str, *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        with _index_errors(), self._database.reading() as connection:
            return match_expression(connection, expression, filters=filters, now=now, limit=limit)

    def match_phrases(
        self,
        phrases: Sequence[str],
        *,
        prefer: Iterable[int],
        filters: Filters,
        now: str,
        limit: int,
    ) -> dict[int, str]:
        with _index_errors(), self._database.reading() as connection:
            return match_phrases(
                connection,
                phrases,
                prefer=prefer,
                filters=filters,
                now=now,
                limit=limit,
                index=self._index(connection),
            )

    def match_substrings(
        self, terms: Sequence[str], *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        with _index_errors(), self._database.reading() as connection:
            return match_substrings(connection, terms, filters=filters, now=now, limit=limit)

    def scan_substrings(
        self, terms: Sequence[str], *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        with self._database.reading() as connection:
            return match_substrings(connection, terms, filters=filters, now=now, limit=limit)


@contextmanager
def _index_errors() -> Iterator[None]:
    """Turn errors about missing or damaged tables into `IndexUnusable`. Other errors, such as a
    lock that is not released, would also fail a scan of the chunks."""
    try:
        yield
    except StoreError as error:
        if type(error) not in (StoreError, StoreUnusable):
            raise
        raise IndexUnusable(error.message, error.hint) from error
