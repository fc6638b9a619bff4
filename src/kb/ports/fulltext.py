"""The full-text port: retrieval by words and substrings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kb.types import Filters, LexicalQuery, TextMatches


class Fulltext(Protocol):
    """Finds chunks by their text. Results are ordered by score, ties by chunk id. Chunks of
    documents that have expired by `now` are never returned.

    A missing or damaged index raises `IndexUnusable`; `scan_substrings` works without an index.
    """

    def match(
        self, query: LexicalQuery, *, every: bool, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        """The best chunks for any of the query's terms; with `every`, for all of them."""
        ...

    def match_expression(
        self, expression: str, *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        """The best chunks for an FTS5 expression. This is the one place where a query reaches the
        store as text in a query language. Raises `QuerySyntax` for a malformed expression."""
        ...

    def match_phrases(
        self,
        phrases: Sequence[str],
        *,
        prefer: Iterable[int],
        filters: Filters,
        now: str,
        limit: int,
    ) -> dict[int, str]:
        """The chunks that contain any of the phrases, each with its headings and text. The words of
        a phrase are adjacent and in its order, in any inflection; runs of unspaced scripts must
        occur completely. If there are more than `limit`, those in `prefer` come first, then the
        oldest."""
        ...

    def match_substrings(
        self, terms: Sequence[str], *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        """Chunks that contain any of the terms as a substring; those with the most terms first."""
        ...

    def scan_substrings(
        self, terms: Sequence[str], *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        """The same as `match_substrings`, by reading every chunk instead of the index."""
        ...

    def build_index(self) -> None:
        """Update the indexes that make searches faster, if much has changed. Without them, searches
        return the same results."""
        ...
