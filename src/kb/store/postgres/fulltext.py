"""The full-text port over PostgreSQL: ranking over segments, phrases, and parts of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from kb.store import lexical_terms
from kb.store.lexical_terms import Ranked, Term
from kb.store.postgres import filters as where
from kb.store.postgres import segments
from kb.store.postgres.block_cache import BlockCache
from kb.store.postgres.words import NO_LIMIT, WordIndex
from kb.text.normalize import bigrams, count_substrings, unspaced_runs
from kb.text.tokenize import has_phrase, split_ngrams, stems_of
from kb.types import Filters, LexicalQuery, ScoredChunk, TextMatches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.index.bm25 import Phrase, WordRanking
    from kb.store.postgres.connection import Database
    from kb.store.postgres.filters import FilterCache, Visible
    from kb.store.postgres.session import Session

_READ = 200  # texts read at a time
_MAX_LIKE = 8  # up to this many terms, LIKE is faster than reading all texts
_LIKE_ESCAPES = {ord(char): f"!{char}" for char in "%_!"}
_BECOME_ASCII = "\u0130\u212a"  # non-ASCII characters whose lower case contains an ASCII letter


class PostgresFulltext:
    """See `kb.ports.Fulltext`."""

    def __init__(self, database: Database, filters: FilterCache, blocks: BlockCache) -> None:
        self._database = database
        self._filters = filters
        self.words = WordIndex("word", blocks)
        self.ngrams = WordIndex("ngram", blocks)

    def close(self) -> None:
        """Clear the caches."""
        self.words.forget()
        self.ngrams.forget()

    def build_index(self) -> None:
        if not self._database.read_only and self._database.exists():
            segments.flush_words(self._database)

    def match(
        self, query: LexicalQuery, *, every: bool, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        with self._database.reading() as session:
            visible = self._filters.visible(session, filters, now)
            search = _Search(session, self.words, self.ngrams, visible, limit)
            return lexical_terms.match(search, query, every=every, limit=limit)

    def match_expression(
        self, expression: str, *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        from kb.store.postgres.expressions import rank_expression

        with self._database.reading() as session:
            visible = self._filters.visible(session, filters, now)
            rows = rank_expression(session, self.words, expression, visible, limit)
            return TextMatches(lexical_terms.to_scores(rows))

    def match_phrases(
        self,
        phrases: Sequence[str],
        *,
        prefer: Iterable[int],
        filters: Filters,
        now: str,
        limit: int,
    ) -> dict[int, str]:
        with self._database.reading() as session:
            runs = {phrase: unspaced_runs(phrase) for phrase in phrases}
            stems = [
                stems
                for phrase, found in runs.items()
                if not found and (stems := tuple(stems_of(phrase)))
            ]
            pieces = [_run_phrases(found) for found in runs.values() if found]
            candidates = self._phrase_candidates(session, stems, pieces)
            allowed = _keep_visible(session, candidates, filters, now)
            preferred = allowed.intersection(prefer)
            order = [*sorted(preferred), *sorted(allowed - preferred)]
            return _with_phrases(session, order, stems, pieces, limit)

    def _phrase_candidates(
        self, session: Session, stems: Sequence[Phrase], pieces: Sequence[Sequence[Phrase]]
    ) -> set[int]:
        """The chunks that may contain a phrase: those with all of its words or n-grams."""
        candidates: set[int] = set()
        if stems:
            ranking = self.words.ranking(session, stems)
            candidates.update(*(ranking.may_contain(phrase) for phrase in stems))
        if pieces:
            grams = [(gram,) for runs in pieces for run in runs for gram in run]
            ranking = self.ngrams.ranking(session, grams)
            for runs in pieces:
                candidates |= _with_all(ranking, [gram for run in runs for gram in run])
        return candidates

    def match_substrings(
        self, terms: Sequence[str], *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        """Chunks that contain any of the terms as substrings, those with the most terms first.
        Scans every text."""
        wanted = tuple(term.lower() for term in terms)
        with self._database.reading() as session:
            visible = where.visible_condition(session, filters, now)
            narrow, params = _may_contain(terms)
            sql = f"SELECT chunk_id, text FROM chunks WHERE {narrow}"
            if visible is not None:
                sql += f" AND chunk_id IN ({where.CHUNKS_OF}{visible.sql})"
                params = [*params, *visible.params]
            counts = (
                (-count_substrings(text, wanted), chunk_id)
                for chunk_id, text in session.stream(sql, params)
            )
            found = sorted(each for each in counts if each[0])[:limit]
        scores = ((chunk_id, -count / (1 + len(terms))) for count, chunk_id in found)
        return TextMatches([ScoredChunk(*row, rank) for rank, row in enumerate(scores, start=1)])

    def scan_substrings(
        self, terms: Sequence[str], *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        return self.match_substrings(terms, filters=filters, now=now, limit=limit)


# --- ranking --------------------------------------------------------------------------------------


class _Search:
    """A search in one state of the store. See `lexical_terms.LexicalSearch`."""

    def __init__(
        self, session: Session, words: WordIndex, ngrams: WordIndex, visible: Visible, limit: int
    ) -> None:
        self._session = session
        self._words = words
        self._ngrams = ngrams
        self._visible = visible
        self._limit = limit

    @property
    def chunks(self) -> int:
        return self._session.state.chunks

    def counts(self, words: Sequence[Term], parts: Sequence[Term]) -> dict[Term, int]:
        counts: dict[Term, int] = {}
        for index, terms in ((self._words, words), (self._ngrams, parts)):
            stems = {term: term.stem for term in terms if term.stem is not None}
            if stems:
                ranking = index.ranking(self._session, [(stem,) for stem in stems.values()])
                found = ranking.chunk_counts(stems.values())
                counts |= {term: found[stem] for term, stem in stems.items()}
        return counts

    def any(self, words: Sequence[Term], parts: Sequence[Term]) -> Ranked:
        if parts:
            return self._best(*self._sums(words, parts))
        return self._rank(words, every=False)

    def every(self, query: LexicalQuery, words: Sequence[Term], parts: Sequence[Term]) -> Ranked:
        """Chunks with all terms. Without unspaced scripts, the index finds all words; with them,
        runs and words must occur as substrings [003], and are ranked by their n-grams and words."""
        if not parts:
            return self._rank(words, every=True)
        import numpy as np

        long = [word[0] for word in query.words if len(word[0]) >= 3]
        within = self._containing_all(query.runs, long)
        scores, ids = self._sums(words, parts)
        scores[~np.isin(ids, np.array(sorted(within), np.int64))] = 0
        return self._best(scores, ids)

    def _containing_all(self, runs: Sequence[str], words: Sequence[str]) -> set[int]:
        """Chunks that contain each run and each word as a substring of their text or headings: the
        index finds the n-grams of the runs, and the texts are then checked."""
        terms = tuple(term.lower() for term in (*runs, *words))
        grams = [gram for run in runs for piece in bigrams(run) for gram in split_ngrams(piece)]
        ranking = self._ngrams.ranking(self._session, [(gram,) for gram in grams])
        rows = self._session.stream(
            "SELECT chunk_id, heading || chr(10) || text FROM chunks WHERE chunk_id = ANY (%s)",
            (sorted(_with_all(ranking, grams)),),
        )
        return {one for one, text in rows if count_substrings(text, terms) == len(terms)}

    def _sums(
        self, words: Sequence[Term], parts: Sequence[Term]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The sums of the scores by n-grams and by words, and the chunk of each."""
        import numpy as np

        scores, ids = self._scores(self._ngrams, parts)
        if words:
            also, also_ids = self._scores(self._words, words)
            ids, where_in = np.unique(np.concatenate([ids, also_ids]), return_inverse=True)
            both: Any = np.bincount(where_in, np.concatenate([scores, also]), len(ids))
            scores = both
        return scores, ids

    def _rank(self, terms: Sequence[Term], *, every: bool) -> Ranked:
        """The best chunks by words."""
        groups = _groups(terms)
        if not any(groups) or (every and not all(groups)):  # a word without letters or digits
            return []
        phrases = [phrase for group in groups for phrase in group]
        ranked = self._words.ranking(self._session, phrases).rank(
            groups,
            every=every,
            allowed=self._visible.allowed,
            hidden=self._visible.hidden,
            limit=self._limit,
            count_phrase=partial(self._words.count_phrase, self._session),
            max_candidates=NO_LIMIT,
        )
        assert ranked is not None, "the number of candidates has no limit"
        return [(chunk_id, -score) for chunk_id, score in ranked]

    def _scores(
        self, index: WordIndex, terms: Sequence[Term]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        import numpy as np

        groups = _groups(terms)
        if not any(groups):
            return np.empty(0), np.empty(0, np.int64)
        ranking = index.ranking(self._session, [phrase for group in groups for phrase in group])
        scores = ranking.scores(
            groups,
            count_phrase=partial(index.count_phrase, self._session),
            max_candidates=NO_LIMIT,
        )
        assert scores is not None, "the number of candidates has no limit"
        return np.concatenate(scores), ranking.ids

    def _best(self, scores: NDArray[np.float64], ids: NDArray[np.int64]) -> Ranked:
        from kb.index.selection import best_chunks

        ranked = best_chunks(
            scores,
            ids,
            allowed=self._visible.allowed,
            hidden=self._visible.hidden,
            limit=self._limit,
        )
        return [(chunk_id, -score) for chunk_id, score in ranked]


def _groups(terms: Sequence[Term]) -> list[list[Phrase]]:
    return [[each for each in term.alternatives if each] for term in terms]


def _with_all(ranking: WordRanking, terms: Iterable[str]) -> set[int]:
    """The chunks that contain every term."""
    found = [set(ranking.may_contain((term,))) for term in dict.fromkeys(terms)]
    return set.intersection(*found) if found else set()


# --- phrases --------------------------------------------------------------------------------------


def _run_phrases(runs: Iterable[str]) -> list[Phrase]:
    """The bigrams of a run follow each other in the index, so that they make a phrase."""
    return [tuple(gram for piece in bigrams(run) for gram in split_ngrams(piece)) for run in runs]


def _keep_visible(session: Session, chunk_ids: set[int], filters: Filters, now: str) -> set[int]:
    visible = where.visible_condition(session, filters, now)
    if visible is None or not chunk_ids:
        return chunk_ids
    rows = session.execute(
        f"{where.CHUNKS_OF}{visible.sql} AND c.chunk_id = ANY (%s)",
        (*visible.params, sorted(chunk_ids)),
    )
    return {chunk_id for (chunk_id,) in rows}


def _with_phrases(
    session: Session,
    order: Sequence[int],
    stems: Sequence[Phrase],
    pieces: Sequence[Sequence[Phrase]],
    limit: int,
) -> dict[int, str]:
    """The headings and texts of the first chunks that contain a phrase. Stops reading once there
    are enough."""
    texts: dict[int, str] = {}
    remaining = iter(order)
    while some := list(islice(remaining, _READ)):
        rows: dict[int, Any] = {
            row[0]: row
            for row in session.execute(
                "SELECT chunk_id, heading, text, parts, cjk FROM chunks WHERE chunk_id = ANY (%s)",
                (some,),
            )
        }
        for chunk_id in some:
            _, heading, text, parts, cjk = rows[chunk_id]
            if (stems and has_phrase((heading, text, parts), stems)) or _has_runs(cjk, pieces):
                texts[chunk_id] = f"{heading}\n{text}"
                if len(texts) == limit:
                    return texts
    return texts


def _has_runs(cjk: str, pieces: Sequence[Sequence[Phrase]]) -> bool:
    """Whether all runs of one of the phrases occur."""
    if not pieces or not cjk:
        return False
    grams = split_ngrams(cjk)
    return any(all(_contains(grams, run) for run in runs) for runs in pieces)


def _contains(grams: Sequence[str], run: Phrase) -> bool:
    return bool(run) and any(
        tuple(grams[at : at + len(run)]) == run for at, gram in enumerate(grams) if gram == run[0]
    )


# --- substrings -----------------------------------------------------------------------------------


def _may_contain(terms: Sequence[str]) -> tuple[str, list[str]]:
    """A condition that every text with one of the terms meets, and its parameters. ILIKE with the
    collation C ignores the case of ASCII letters only."""
    if not terms or len(terms) > _MAX_LIKE or not all(map(str.isascii, terms)):
        return "true", []
    letters = set("".join(terms).lower())
    pieces = [*terms, *(char for char in _BECOME_ASCII if letters.intersection(char.lower()))]
    patterns = [f"%{piece.translate(_LIKE_ESCAPES)}%" for piece in pieces]
    like = " OR ".join(["text ILIKE %s ESCAPE '!'"] * len(patterns))
    return f"({like})", patterns
