"""kb: a local-first knowledge base. Find the right passage again, with a citation that opens."""

from __future__ import annotations

TYPE_CHECKING = (
    False  # known by its name: to load `typing` takes longer than all of `kb.cli.socket_client`
)
if TYPE_CHECKING:
    from typing import Any

    from kb.deadline import Deadline
    from kb.errors import KbError
    from kb.library.knowledge_base import KnowledgeBase
    from kb.search.query.analysis import sanitize
    from kb.search.query.query_encoder import normalize
    from kb.search.ranking.boosts import TYPE_WEIGHTS
    from kb.types import (
        Chunk,
        Citation,
        Compared,
        Comparison,
        Degraded,
        Diagnosis,
        Document,
        FileNote,
        Filters,
        Finding,
        Hit,
        ImportReport,
        IngestReport,
        Overlap,
        Passage,
        Response,
        Retrieval,
        Span,
    )

__version__ = "0.1.0"

_HOMES = {
    "Chunk": "kb.types",
    "Citation": "kb.types",
    "Compared": "kb.types",
    "Comparison": "kb.types",
    "Deadline": "kb.deadline",
    "Degraded": "kb.types",
    "Diagnosis": "kb.types",
    "Document": "kb.types",
    "FileNote": "kb.types",
    "Filters": "kb.types",
    "Finding": "kb.types",
    "Hit": "kb.types",
    "ImportReport": "kb.types",
    "IngestReport": "kb.types",
    "KbError": "kb.errors",
    "KnowledgeBase": "kb.library.knowledge_base",
    "Overlap": "kb.types",
    "Passage": "kb.types",
    "Response": "kb.types",
    "Retrieval": "kb.types",
    "Span": "kb.types",
    "TYPE_WEIGHTS": "kb.search.ranking.boosts",
    "normalize": "kb.search.query.query_encoder",
    "sanitize": "kb.search.query.analysis",
}
__all__ = [
    "TYPE_WEIGHTS",
    "Chunk",
    "Citation",
    "Compared",
    "Comparison",
    "Deadline",
    "Degraded",
    "Diagnosis",
    "Document",
    "FileNote",
    "Filters",
    "Finding",
    "Hit",
    "ImportReport",
    "IngestReport",
    "KbError",
    "KnowledgeBase",
    "Overlap",
    "Passage",
    "Response",
    "Retrieval",
    "Span",
    "__version__",
    "normalize",
    "sanitize",
]


def __getattr__(name: str) -> Any:
    """Public names are loaded when they are first used (PEP 562): `import kb` costs nothing."""
    if name in _HOMES:
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'kb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
