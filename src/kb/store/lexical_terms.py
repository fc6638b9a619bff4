"""The terms of a lexical query, and which of them a search uses. Pure; shared by all stores.

A store counts terms and ranks chunks; `match` decides which terms it ranks by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, log

from kb.text.normalize import bigrams
from kb.text.tokenize import split_ngrams, stems_of
from kb.types import LexicalQuery, ScoredChunk, TermFrequencies, TextMatches, rank_chunks
from kb.values import NamedTuple, Protocol

# A term in a larger share of the chunks has almost no IDF, and takes most of the time.
_COMMON = 0.5

Ranked = list[tuple[int, float]]  # chunk ids and BM25, where lower is better


class Term(NamedTuple):
    """One term of a table: its FTS5 expression, the stem to look up its frequency by, and the stems
    of each alternative, several if it is a phrase."""

    expression: str
    stem: str | None
    alternatives: tuple[tuple[str, ...], ...] = ()


class LexicalSearch(Protocol):
    """A search in one state of a store. `words` are in the word index, `parts` are pieces of
    unspaced script in the n-gram index."""

    @property
    def chunks(self) -> int:
        """How many chunks the store has."""

    def counts(self, words: Sequence[Term], parts: Sequence[Term]) -> dict[Term, int]:
        """How many chunks contain each term that has a stem."""

    def any(self, words: Sequence[Term], parts: Sequence[Term]) -> Ranked:
        """Chunks with any of the terms, ranked by the sum of BM25."""

    def every(self, query: LexicalQuery, words: Sequence[Term], parts: Sequence[Term]) -> Ranked:
        """Chunks with all terms, ranked by the sum of BM25."""


def match(search: LexicalSearch, query: LexicalQuery, *, every: bool, limit: int) -> TextMatches:
    """The best chunks for any term, or, with `every`, those with all terms."""
    words = _word_terms(query.words)
    parts = _piece_terms(query.runs)
    counts = search.counts(words, parts)
    idf = _idf(query.words, words, counts, search.chunks)
    frequencies = TermFrequencies(
        {term.stem: count for term, count in counts.items() if term.stem is not None},
        search.chunks,
    )
    if every:
        rows = search.every(query, words, parts)
        return TextMatches(to_scores(rows), (), idf, frequencies)
    if not _most_matches(words, parts, counts):
        return TextMatches([], (), idf, frequencies)
    most = _COMMON * search.chunks
    rare_words, rare_parts, dropped = _without_common(words, parts, counts, most)
    if dropped and _most_matches(rare_words, rare_parts, counts) >= limit:
        rows = search.any(rare_words, rare_parts)
        if len(rows) == limit:
            return TextMatches(to_scores(rows), dropped, idf, frequencies)
    rows = search.any(words, parts)
    return TextMatches(to_scores(rows), (), idf, frequencies)


def to_scores(rows: Sequence[tuple[int, float]]) -> list[ScoredChunk]:
    """Map BM25 of FTS5, where lower is better, to [0, 1), where higher is better [001]."""
    scores = [abs(bm25) / (1.0 + abs(bm25)) for _, bm25 in rows]
    return rank_chunks([chunk_id for chunk_id, _ in rows], scores)


def _word_terms(words: Iterable[tuple[str, ...]]) -> list[Term]:
    """The terms of words. A word with alternatives (an identifier and its parts) has no stem: it is
    never dropped as too common."""
    terms = []
    for word in words:
        alternatives = tuple(tuple(stems_of(each)) for each in word)
        if len(word) == 1:
            (stems,) = alternatives
            terms.append(Term(quote(word[0]), stems[0] if len(stems) == 1 else None, (stems,)))
        else:
            terms.append(Term(f"({' OR '.join(map(quote, word))})", None, alternatives))
    return terms


def _piece_terms(runs: Iterable[str]) -> list[Term]:
    distinct = dict.fromkeys(piece for run in runs for piece in bigrams(run))
    return [Term(quote(piece), piece, (tuple(split_ngrams(piece)),)) for piece in distinct]


def _idf(
    words: Sequence[tuple[str, ...]],
    terms: Sequence[Term],
    counts: Mapping[Term, int],
    chunks: int,
) -> dict[str, float]:
    """The inverse document frequency of every word that was counted. A word that no chunk contains
    counts as if one did."""
    return {
        word[0]: log(max(1.0, chunks / max(1, counts[term])))
        for word, term in zip(words, terms, strict=True)
        if term in counts
    }


def _without_common(
    words: Sequence[Term], parts: Sequence[Term], counts: Mapping[Term, int], most: float
) -> tuple[list[Term], list[Term], tuple[str, ...]]:
    """The terms that occur in at most `most` chunks, and the names of the dropped ones. If all
    terms are common, none is dropped."""
    rare_words = [term for term in words if counts.get(term, 0) <= most]
    rare_parts = [term for term in parts if counts.get(term, 0) <= most]
    kept = {*rare_words, *rare_parts}
    if not kept:
        return list(words), list(parts), ()
    common = [term.expression.strip('"') for term in (*words, *parts) if term not in kept]
    return rare_words, rare_parts, tuple(common)


def _most_matches(
    words: Sequence[Term], parts: Sequence[Term], counts: Mapping[Term, int]
) -> float:
    """An upper bound for the number of chunks with any of the terms. There is none for scripts
    without spaces, because their n-grams are not counted in the form in which they are looked
    up."""
    return inf if parts else sum(counts.get(term, inf) for term in words)


def quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
