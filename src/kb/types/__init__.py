"""The values that pass between packages, from a file to a hit.

    places     spans and citations: where a passage is in its source
    ingest     blocks, chunk drafts and document drafts; the recorded state of roots and files
    documents  documents and chunks as a store returns them
    models     model specifications and the encodings that models produce
    work       embedding jobs: leases, progress, failures
    search     queries, filters, candidates, hits and the response
    answers    results of other calls: comparisons and opened passages
    reports    what ingest, embed, import and doctor did

Import from here: `from kb.types import Hit`. A name's module is loaded when the name is first used
(PEP 562): creating a frozen dataclass takes half a millisecond, and a lexical search needs only a
third of them.

All values are frozen. Nothing here does I/O or imports numpy, apsw or another package of kb.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.types.answers import COMPARED, Compared, Comparison, Overlap, Passage
    from kb.types.documents import Chunk, Document, ToEmbed, Written
    from kb.types.ingest import (
        Attributes,
        Block,
        ChunkDraft,
        DocumentDraft,
        FilePlace,
        FileState,
        Root,
    )
    from kb.types.models import (
        Encoding,
        ExamMark,
        ModelInfo,
        ModelSpec,
        StoredModel,
        TokenVectors,
        Vector,
    )
    from kb.types.places import Citation, Span
    from kb.types.reports import (
        Counts,
        Diagnosis,
        DiskUsage,
        EmbedReport,
        FileNote,
        Finding,
        ImportReport,
        IngestReport,
        Renamed,
    )
    from kb.types.search import (
        Degraded,
        Filters,
        Hit,
        LexicalQuery,
        Query,
        Response,
        Retrieval,
        ScoredChunk,
        SearchRequest,
        TextMatches,
        VectorMatches,
    )
    from kb.types.work import Embedded, Failure, Job, Jobs, Outcome, Work

# Closed vocabularies (spec 2, 10). A value outside of them is an error that lists the valid ones.
TYPES = (
    "pdf", "markdown", "code", "note",
    "html", "docx", "epub", "notebook", "rst", "asciidoc", "org", "table", "email",
)  # fmt: skip
# Those whose lines are the file's own; of the others, lines are counted in what was taken out.
LINE_TYPES = ("markdown", "code", "note", "rst", "asciidoc", "org", "table")
KINDS = ("decision", "lesson", "summary", "temp_note")
SCOPES = ("global", "project")
TRUSTS = ("generated", "secondary", "primary")  # rising
MATCHES = ("any", "all", "auto")
RERANKERS = ("none", "colbert", "cross-encoder")
PARTS = ("dense", "sparse", "tokens")  # what an encoder may give

JsonDict = dict[str, Any]

_HOMES = {
    "places": "Span Citation",
    "documents": "Document Chunk Written ToEmbed",
    "ingest": "Block ChunkDraft Attributes DocumentDraft Root FilePlace FileState",
    "models": "ModelSpec ExamMark StoredModel TokenVectors Encoding ModelInfo Vector",
    "search": "Filters SearchRequest Query LexicalQuery ScoredChunk TextMatches VectorMatches "
    "Retrieval Degraded Hit Response",
    "answers": "Compared Overlap Comparison Passage COMPARED",
    "work": "Outcome Embedded Job Failure Work Jobs",
    "reports": (
        "FileNote Renamed IngestReport EmbedReport ImportReport Finding Diagnosis Counts DiskUsage"
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "COMPARED",
    "KINDS",
    "LINE_TYPES",
    "MATCHES",
    "PARTS",
    "RERANKERS",
    "SCOPES",
    "TRUSTS",
    "TYPES",
    "Attributes",
    "Block",
    "Chunk",
    "ChunkDraft",
    "Citation",
    "Compared",
    "Comparison",
    "Counts",
    "Degraded",
    "Diagnosis",
    "DiskUsage",
    "Document",
    "DocumentDraft",
    "EmbedReport",
    "Embedded",
    "Encoding",
    "ExamMark",
    "Failure",
    "FileNote",
    "FilePlace",
    "FileState",
    "Filters",
    "Finding",
    "Hit",
    "ImportReport",
    "IngestReport",
    "Job",
    "Jobs",
    "JsonDict",
    "LexicalQuery",
    "ModelInfo",
    "ModelSpec",
    "Outcome",
    "Overlap",
    "Passage",
    "Query",
    "Renamed",
    "Response",
    "Retrieval",
    "Root",
    "ScoredChunk",
    "SearchRequest",
    "Span",
    "StoredModel",
    "TextMatches",
    "ToEmbed",
    "TokenVectors",
    "Vector",
    "VectorMatches",
    "Work",
    "Written",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        from importlib import import_module

        value = getattr(import_module(f"kb.types.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'kb.types' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
