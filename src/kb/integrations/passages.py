"""The passages of a search, with the metadata that a program needs to cite and open them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kb.library.knowledge_base import KnowledgeBase
from kb.types import Filters, Hit


def search(
    kb: KnowledgeBase, query: str, top: int, profile: str | None, filters: Filters | None
) -> Iterator[Hit]:
    """Yield the best passages, each with its whole text."""
    response = kb.search(
        query, top=top, profile=profile, filters=filters, include_text=True, malformed="empty"
    )
    yield from response.hits


def metadata_of(hit: Hit) -> dict[str, Any]:
    """The metadata of a passage, without empty values. `source` is its citation, which `kb get`
    opens."""
    citation = hit.citation
    values: dict[str, Any] = {
        "source": citation.uri,
        "file": citation.file,
        "line": citation.line,
        "page": citation.page,
        "link": citation.link,
        "title": hit.title,
        "headings": list(hit.heading_path),
        "type": hit.type,
        "tags": list(hit.tags),
        "score": hit.score,
        "relevance": hit.relevance,
        "chunk_id": hit.chunk_id,
    }
    return {key: value for key, value in values.items() if value not in (None, [])}
