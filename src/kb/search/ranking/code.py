"""Code: weighted terms are ignored if the nearest passages are code. Pure.

A question in words and the code that answers it share few words. The terms that the model predicts
for code are parts of names and keywords, which most functions have. So for a query whose nearest
passages by meaning are code, weighted terms are ignored, and words keep their weight.

A query that contains a name from code, such as `Promise.prototype.catch()`, is not a question in
words: its terms are names that the passage contains. For such queries, weighted terms keep their
weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kb.search.ranking.adaptive import QueryWeights, technical_marks

_ENOUGH = 0.7  # the share of them that is code
_READ_CHARS = 600
_MARKS = "(){}[]=<>;_"
_MARKS_SHARE = 0.04  # of all characters; in nine of ten functions more, and in one of 50 texts

_NAMES = frozenset({"call", "snake_case", "camelCase", "dotted.name", "quoted code"})  # of `MARKS`


def has_code_name(query: str) -> bool:
    """Whether a query contains a name from code: `open()`, `max_size`, `os.path`, `<div>`. A
    programming language, such as C++, is a word."""
    return not _NAMES.isdisjoint(technical_marks(query))


def is_code(text: str) -> bool:
    """Whether a text is code: at least 4 % of the characters at its beginning, not counting white
    space, are punctuation that is typical of code."""
    dense = "".join(text[:_READ_CHARS].split())
    marks = sum(map(dense.count, _MARKS))
    return marks > 0 and marks >= _MARKS_SHARE * len(dense)


def are_code(texts: Iterable[str]) -> bool:
    """Whether most of the nearest passages are code."""
    found = [is_code(text) for text in texts]
    return bool(found) and sum(found) >= _ENOUGH * len(found)


def weigh_for_code(weights: Mapping[str, float]) -> QueryWeights:
    """The weights of the retrievers if the nearest passages are code, with an explanation."""
    rule = "the nearest passages are code: weighted terms are ignored"
    return QueryWeights({**weights, "sparse": 0.0}, (rule,))
