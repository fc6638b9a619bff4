"""Query analysis, the first stage of a search: text -> terms. Pure.

A query may be any text. It becomes words, which the store quotes, and runs of scripts without
spaces. No character is syntax, unless the whole query is in single quotes.
"""

from __future__ import annotations

from collections.abc import Sequence

from kb.config import MAX_QUERY_CHARS
from kb.errors import InvalidRequest
from kb.text.normalize import (
    STOP_WORDS,
    bigrams,
    nfc,
    split_identifier,
    unspaced_runs,
    without_unspaced_runs,
)
from kb.text.patterns import compile_later
from kb.text.plain_words import plain_query
from kb.text.tokenize import tokenize
from kb.types import Degraded, LexicalQuery
from kb.values import dataclass

MAX_TERMS = 256  # distinct terms; `degraded` reports how many more there are
MAX_RUN_CHARS = 4_096  # of scripts without spaces, where each pair of letters is a lookup
MAX_EXPRESSION_CHARS = 8_000  # FTS5 parses an expression without a deadline
_OPERATORS = frozenset(("AND", "OR", "NOT", "NEAR"))

_FTS5_SYNTAX = compile_later(r'[(){}\[\]^"~*?:\\]')


@dataclass(frozen=True, slots=True)
class Analysis:
    """The terms of a query. `stems` and `fragments` are highlighted in the text of a hit."""

    text: str
    lexical: LexicalQuery
    content: LexicalQuery  # without function words, unless there are only those
    expression: str | None
    stems: frozenset[str]
    fragments: tuple[str, ...]
    degraded: tuple[Degraded, ...]

    @property
    def empty(self) -> bool:
        """Whether the query has no terms."""
        return self.expression is None and not (self.lexical.words or self.lexical.runs)

    def substrings(self) -> tuple[str, ...]:
        """The terms of the last tier [003]: runs, and words of at least three letters."""
        return (*self.lexical.runs, *self.long_words())

    def long_words(self) -> tuple[str, ...]:
        """The words of at least three letters."""
        return tuple(word[0] for word in self.lexical.words if len(word[0]) >= 3)


def analyze(text: str) -> Analysis:
    """Split a query into terms. Raises `InvalidRequest` if it is too long."""
    if len(text) > MAX_QUERY_CHARS:
        raise InvalidRequest(
            f"the query is longer than {MAX_QUERY_CHARS:,} characters", "shorten it"
        )
    text = plain_query(nfc(text)).strip()
    if (expression := _expression(text)) is not None:
        stems = _expression_stems(expression)
        fragments = tuple(unspaced_runs(expression))
        nothing = LexicalQuery()
        return Analysis(text, nothing, nothing, expression, stems, fragments, ())
    runs = list(dict.fromkeys(unspaced_runs(text)))
    words: dict[str, tuple[str, ...]] = {}
    spaced = without_unspaced_runs(text)
    for start, end, stem in tokenize(spaced):
        word = spaced[start:end]
        parts = split_identifier(word)
        words.setdefault(stem, (word, " ".join(parts)) if parts else (word,))
    count = len(words) + len(runs)
    kept_runs = _first_chars(runs[:MAX_TERMS], MAX_RUN_CHARS)
    kept_words = list(words.values())[: MAX_TERMS - len(kept_runs)]
    lexical = LexicalQuery(tuple(kept_words), tuple(kept_runs))
    content = _content(lexical)
    shown = " ".join(alternative for word in content.words for alternative in word)
    return Analysis(
        text,
        lexical,
        content,
        None,
        frozenset(stem for _, _, stem in tokenize(shown)),
        tuple(dict.fromkeys(piece for run in kept_runs for piece in (run, *bigrams(run)))),
        (*_truncation(count), *_run_truncation(runs, kept_runs)),
    )


def sanitize(text: str) -> str:
    """Remove FTS5's special characters [004]: `test (query) *special*` -> `test query special`.
    Searches of kb do not need this, because they quote every term."""
    return " ".join(_FTS5_SYNTAX.sub(" ", text).split())


def _expression(text: str) -> str | None:
    """The FTS5 expression, if the query is one: a text in single quotes [001]."""
    wrapped = len(text) > 2 and text[0] == "'" == text[-1]
    return text[1:-1].replace("\0", " ") if wrapped and text[1:-1].strip() else None


def _expression_stems(expression: str) -> frozenset[str]:
    """The stems of the expression's terms. Raises if there are too many, because FTS5 looks up all
    of them, and a prefix such as `a*` stands for many words."""
    hint = "without the single quotes, a long query is shortened to its first terms"
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise InvalidRequest(
            f"the expression is longer than {MAX_EXPRESSION_CHARS:,} characters", hint
        )
    tokens = tokenize(expression)
    terms = sum(expression[start:end] not in _OPERATORS for start, end, _ in tokens)
    if terms > MAX_TERMS:
        raise InvalidRequest(
            f"the expression has {terms} terms; at most {MAX_TERMS} are allowed", hint
        )
    return frozenset(stem for _, _, stem in tokens)


def _content(query: LexicalQuery) -> LexicalQuery:
    words = tuple(word for word in query.words if word[0].lower() not in STOP_WORDS)
    return query._replace(words=words) if words or query.runs else query


def _first_chars(runs: Sequence[str], limit: int) -> list[str]:
    """The runs up to `limit` characters in total; the last one may be cut."""
    kept = []
    for run in runs:
        if limit <= 0:
            break
        kept.append(run[:limit])
        limit -= len(run)
    return kept


def _run_truncation(runs: Sequence[str], kept: Sequence[str]) -> tuple[Degraded, ...]:
    count, used = sum(map(len, runs)), sum(map(len, kept))
    if count <= MAX_RUN_CHARS:
        return ()
    detail = f"only the first {used:,} of {count:,} characters without spaces are used"
    return (Degraded("query", "truncated", detail),)


def _truncation(count: int) -> tuple[Degraded, ...]:
    if count <= MAX_TERMS:
        return ()
    detail = f"{count - MAX_TERMS} of {count} terms left out; only the first {MAX_TERMS} are used"
    return (Degraded("query", "truncated", detail),)
