"""Raw FTS5 expressions. PostgreSQL has no FTS5, so SQLite evaluates them: the chunks that may match
are copied into a table in memory. Scores use the statistics of the whole store, so that they equal
those of the SQLite store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from math import log
from typing import TYPE_CHECKING, Any

import apsw
import apsw.fts5query as fts5

from kb.errors import QuerySyntax
from kb.store.postgres.segments import term_key
from kb.text.tokenize import split_words, stem_word, stems_of

if TYPE_CHECKING:
    from kb.store.lexical_terms import Ranked
    from kb.store.postgres.filters import Visible
    from kb.store.postgres.session import Session
    from kb.store.postgres.words import WordIndex

_TABLE = """
CREATE VIRTUAL TABLE chunks_fts USING fts5 (
  chunk_id UNINDEXED, doc_id UNINDEXED, heading, text, parts,
  tokenize = 'porter unicode61 remove_diacritics 2'
)
"""
_WEIGHTS = (0.0, 0.0, 2.0, 1.0, 0.5)  # of the columns, as in the SQLite store
_K1, _B, _LEAST_IDF = 1.2, 0.75, 1e-6
_RANKED = (
    "SELECT rowid, kb_bm25(chunks_fts) AS bm25 FROM chunks_fts WHERE chunks_fts MATCH ? "
    "ORDER BY bm25, rowid"
)


def rank_expression(
    session: Session, words: WordIndex, expression: str, visible: Visible, limit: int
) -> Ranked:
    """The best chunks for an expression, and their BM25, where lower is better. Raises
    `QuerySyntax`."""
    memory = apsw.Connection(":memory:")
    try:
        memory.execute(_TABLE)
        try:
            for _ in memory.execute(
                "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?", (expression,)
            ):
                pass
            parsed = fts5.parse_query_string(expression)
        except (apsw.SQLError, fts5.ParseError) as error:
            raise QuerySyntax(
                f"invalid FTS5 expression: {error}",
                "without the single quotes, every character is taken literally",
            ) from error
        candidates = _candidates(session, words, parsed)
        rows = session.stream(
            "SELECT chunk_id, chunk_id, doc_id, heading, text, parts FROM chunks "
            "WHERE chunk_id = ANY (%s)",
            (sorted(candidates),),
        )
        with memory:
            memory.executemany(
                "INSERT INTO chunks_fts (rowid, chunk_id, doc_id, heading, text, parts) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
        ranking = words.ranking(session, [])
        memory.register_fts5_function(
            "kb_bm25", partial(_bm25, {}, ranking.chunks, ranking.average)
        )
        allowed = None if visible.allowed is None else set(visible.allowed.tolist())
        hidden = set(visible.hidden)
        found: list[Any] = memory.execute(_RANKED, (expression,)).fetchall()
    finally:
        memory.close()
    return [
        (chunk_id, bm25)
        for chunk_id, bm25 in found
        if chunk_id not in hidden and (allowed is None or chunk_id in allowed)
    ][: max(0, limit)]


def _bm25(
    known: dict[int, float], chunks: int, average: float, api: apsw.FTS5ExtensionApi, *_: Any
) -> float:
    """BM25 as FTS5 computes it, but with the number and average length of all chunks in the store.
    The candidates include every chunk with one of the phrases, so FTS5 counts the phrases
    correctly."""
    if not known:
        known.update({phrase: _idf(api, phrase, chunks) for phrase in range(api.phrase_count)})
    norm = _K1 * (1 - _B + _B * api.column_size() / average)
    score = 0.0
    for phrase, idf in known.items():
        count = sum(
            _WEIGHTS[column] * len(api.phrase_column_offsets(phrase, column))
            for column in api.phrase_columns(phrase)
        )
        score += idf * (count * (_K1 + 1.0) / (count + norm))
    return -score


def _idf(api: apsw.FTS5ExtensionApi, phrase: int, chunks: int) -> float:
    rows: list[int] = []

    def count(found: apsw.FTS5ExtensionApi, hits: list[int]) -> None:
        hits.append(found.rowid)

    api.query_phrase(phrase, count, rows)
    value = log((chunks - len(rows) + 0.5) / (len(rows) + 0.5))
    return value if value > 0.0 else _LEAST_IDF


# --- candidates -----------------------------------------------------------------------------------


def _candidates(session: Session, words: WordIndex, parsed: Any) -> set[int]:
    """The chunks that contain the words of any phrase."""
    phrases, prefixes = [], []
    for phrase in _phrases(parsed):
        whole, prefix = _stems(phrase)
        if whole:
            phrases.append(whole)
        elif prefix:
            prefixes.append(prefix)
    ranking = words.ranking(session, phrases)
    found = {one for phrase in phrases for one in ranking.may_contain(phrase)}
    for prefix in prefixes:
        terms = [(term,) for term in _terms_with(session, words, prefix)]
        ranking = words.ranking(session, terms)
        found.update(one for term in terms for one in ranking.may_contain(term))
    return found


def _phrases(node: Any) -> Iterator[Any]:
    """The phrases of a parsed expression."""
    if isinstance(node, fts5.PHRASE):
        yield node
        return
    for name in ("queries", "phrases", "match", "no_match", "query"):
        below = getattr(node, name, None)
        for each in below if isinstance(below, list | tuple) else (below,):
            if each is not None:
                yield from _phrases(each)


def _stems(phrase: Any) -> tuple[tuple[str, ...], str]:
    """The stems of the complete words of a phrase, and its last word if that is a prefix, else an
    empty string."""
    texts, each, is_prefix = [], phrase, False
    while each is not None:
        texts.append(each.phrase or "")
        is_prefix = each.prefix
        each = each.plus
    if not is_prefix:
        return tuple(stem for text in texts for stem in stems_of(text)), ""
    words = [word for text in texts for word in split_words(text)]
    if not words:
        return (), ""
    return tuple(map(stem_word, words[:-1])), stem_word(words[-1])


def _terms_with(session: Session, words: WordIndex, prefix: str) -> Iterable[str]:
    """The terms that begin with a prefix."""
    rows = session.execute(
        "SELECT DISTINCT b.term FROM blocks b JOIN segments s USING (segment) "
        "WHERE s.kind = 'word' AND b.term >= %s AND b.term < %s",
        (term_key(prefix), term_key(prefix) + "\U0010ffff"),
    )
    return {term for (term,) in rows} | words.pending_terms(session, prefix)
