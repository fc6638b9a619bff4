"""kb: a local-first knowledge base that finds the right passage, with a citation that you can open.

The public names are below; `docs/reference/python.md` describes them. The packages, from the ones
that users call to the ones that everything else imports:

    cli           the `kb` command
    integrations  retrievers and clients for other tools
    mcp           `kb mcp`: tools for agents
    watch         `kb watch`: keeps the store up to date while files change
    server        `kb serve`: the HTTP API and the web page
    library       `KnowledgeBase`: the API that all of the above call
    evaluation    search quality on judged queries, and tuning of profiles
    search        from a query to ranked hits
    ingest        from files to passages
    embedding     from passages to vectors
    models        encoders and judges: loading, downloading, checking
    store         documents, chunks, vectors and indexes; the only package that runs SQL
    wire          the versioned JSON shapes
    ports         protocols for stores, encoders, judges and parsers
    text          pure functions over text: normalizing, tokenizing, citations
    index         pure functions over vectors and postings: packing, scoring

And the modules that several of them share:

    config         settings: defaults, files, environment, flags
    trust          which settings files the user trusts
    types          the values that pass between packages
    values         frozen values that are quick to create
    errors         every error, with its code and exit status
    metadata       limits on metadata, tags and language
    deadline       time limits and cancellation
    degradation    messages about degraded responses
    relevance      which hits are weak matches
    shutdown       orderly shutdown of long-running commands
    snapshots      reads that are repeated if a standby ends them
    locations      the store and the user's folders, as paths that are checked
    paths          the same as text, without the checks
    atomic         files that appear complete or not at all
    regular_files  safe reading of a user's files
    open_stores    the stores that this process has open, whose files only SQLite reads
    processes      whether another process is still running
    logs           the loggers
"""

from __future__ import annotations

# Type checkers know the name. Importing `typing` would take longer than `kb.cli.socket_client`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kb.config import (
        AskConfig,
        ChunkConfig,
        Config,
        IgnoredSettings,
        IngestConfig,
        ModelsConfig,
        OpenConfig,
        SearchConfig,
        ServeConfig,
        StoreConfig,
    )
    from kb.deadline import Deadline
    from kb.embedding.embedder import EmbedProgress
    from kb.embedding.worker import Worker, WorkerState
    from kb.errors import KbError
    from kb.ingest.progress import Progress
    from kb.library.async_knowledge_base import AsyncKnowledgeBase
    from kb.library.conversation import Conversation, Delta, Sent
    from kb.library.knowledge_base import KnowledgeBase
    from kb.ports import Encoder, Judge, Store
    from kb.search.query.analysis import sanitize
    from kb.search.query.query_encoder import normalize
    from kb.search.ranking.boosts import TYPE_WEIGHTS
    from kb.types import (
        Answer,
        AnswerSentence,
        Chunk,
        Citation,
        Compared,
        Comparison,
        Degraded,
        Diagnosis,
        Document,
        EmbedReport,
        Encoding,
        ExamMark,
        Failure,
        FileNote,
        Filters,
        Finding,
        Hit,
        ImportReport,
        IngestReport,
        Job,
        Jobs,
        LibraryMap,
        Limits,
        MapPoint,
        ModelSpec,
        Overlap,
        Passage,
        Renamed,
        Response,
        Retrieval,
        Root,
        ScoredChunk,
        SearchRequest,
        Span,
        StoredModel,
        TokenVectors,
        Work,
        WrittenSentence,
    )

__version__ = "0.1.0"

_MODULES = {
    "Answer": "kb.types",
    "AnswerSentence": "kb.types",
    "AskConfig": "kb.config",
    "AsyncKnowledgeBase": "kb.library.async_knowledge_base",
    "Chunk": "kb.types",
    "ChunkConfig": "kb.config",
    "Citation": "kb.types",
    "Compared": "kb.types",
    "Comparison": "kb.types",
    "Config": "kb.config",
    "Conversation": "kb.library.conversation",
    "Delta": "kb.library.conversation",
    "Deadline": "kb.deadline",
    "Degraded": "kb.types",
    "Diagnosis": "kb.types",
    "Document": "kb.types",
    "EmbedProgress": "kb.embedding.embedder",
    "EmbedReport": "kb.types",
    "Encoder": "kb.ports",
    "Encoding": "kb.types",
    "ExamMark": "kb.types",
    "Failure": "kb.types",
    "FileNote": "kb.types",
    "Filters": "kb.types",
    "Finding": "kb.types",
    "Hit": "kb.types",
    "IgnoredSettings": "kb.config",
    "ImportReport": "kb.types",
    "IngestConfig": "kb.config",
    "IngestReport": "kb.types",
    "Job": "kb.types",
    "Jobs": "kb.types",
    "Judge": "kb.ports",
    "KbError": "kb.errors",
    "KnowledgeBase": "kb.library.knowledge_base",
    "LibraryMap": "kb.types",
    "Limits": "kb.types",
    "MapPoint": "kb.types",
    "ModelSpec": "kb.types",
    "ModelsConfig": "kb.config",
    "OpenConfig": "kb.config",
    "Overlap": "kb.types",
    "Passage": "kb.types",
    "Progress": "kb.ingest.progress",
    "Renamed": "kb.types",
    "Response": "kb.types",
    "Retrieval": "kb.types",
    "Root": "kb.types",
    "ScoredChunk": "kb.types",
    "SearchConfig": "kb.config",
    "Sent": "kb.library.conversation",
    "ServeConfig": "kb.config",
    "SearchRequest": "kb.types",
    "Span": "kb.types",
    "Store": "kb.ports",
    "StoreConfig": "kb.config",
    "StoredModel": "kb.types",
    "TYPE_WEIGHTS": "kb.search.ranking.boosts",
    "TokenVectors": "kb.types",
    "Work": "kb.types",
    "WrittenSentence": "kb.types",
    "Worker": "kb.embedding.worker",
    "WorkerState": "kb.embedding.worker",
    "normalize": "kb.search.query.query_encoder",
    "sanitize": "kb.search.query.analysis",
}
__all__ = [
    "TYPE_WEIGHTS",
    "Answer",
    "AnswerSentence",
    "AskConfig",
    "AsyncKnowledgeBase",
    "Chunk",
    "ChunkConfig",
    "Citation",
    "Compared",
    "Comparison",
    "Config",
    "Conversation",
    "Deadline",
    "Degraded",
    "Delta",
    "Diagnosis",
    "Document",
    "EmbedProgress",
    "EmbedReport",
    "Encoder",
    "Encoding",
    "ExamMark",
    "Failure",
    "FileNote",
    "Filters",
    "Finding",
    "Hit",
    "IgnoredSettings",
    "ImportReport",
    "IngestConfig",
    "IngestReport",
    "Job",
    "Jobs",
    "Judge",
    "KbError",
    "KnowledgeBase",
    "LibraryMap",
    "Limits",
    "MapPoint",
    "ModelSpec",
    "ModelsConfig",
    "OpenConfig",
    "Overlap",
    "Passage",
    "Progress",
    "Renamed",
    "Response",
    "Retrieval",
    "Root",
    "ScoredChunk",
    "SearchConfig",
    "SearchRequest",
    "Sent",
    "ServeConfig",
    "Span",
    "Store",
    "StoreConfig",
    "StoredModel",
    "TokenVectors",
    "Work",
    "Worker",
    "WorkerState",
    "WrittenSentence",
    "__version__",
    "normalize",
    "sanitize",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562), so that `import kb` stays fast."""
    if name in _MODULES:
        from importlib import import_module

        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'kb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
