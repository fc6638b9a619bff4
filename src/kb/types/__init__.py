"""The values that pass between packages, from a file to a hit.

    citations   spans and citations: the location of a passage in its source
    ingest      blocks, chunk drafts and document drafts; the recorded state of roots and files
    documents   documents and chunks as a store returns them
    models      model specifications and the encodings that models produce
    jobs        embedding jobs: outcomes, progress, failures
    search      queries, filters, candidates, hits and the response
    comparison  the results of several search methods for one query
    maps        the library as points
    answers     the sentences that answer a question
    passages    a passage opened by its citation
    access      what a token may do, and which documents it may see
    reports     the results of ingest, embed, import and doctor

Import from here: `from kb.types import Hit`. A name's module is loaded when the name is first used
(PEP 562): creating a frozen dataclass takes half a millisecond, and a lexical search needs only a
third of them.

All values are frozen. Nothing here does I/O or imports numpy, apsw or another package of kb.
"""

from __future__ import annotations

from kb.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.types.access import NOTES_ROOT, RIGHTS, Identity, Limits
    from kb.types.answers import Answer, AnswerSentence, WrittenSentence
    from kb.types.citations import Citation, Span
    from kb.types.comparison import COMPARED, Compared, Comparison, Overlap
    from kb.types.documents import (
        BoostFields,
        Chunk,
        ChunkChanges,
        ChunkText,
        Document,
        FileLocation,
        PendingChunk,
    )
    from kb.types.ingest import (
        Attributes,
        Block,
        ChunkDraft,
        DocumentDraft,
        DocumentWrite,
        FileState,
        Root,
    )
    from kb.types.jobs import EmbedCounts, Failure, Job, Jobs, Outcome, Work
    from kb.types.maps import LibraryMap, MapPoint
    from kb.types.models import (
        Encoding,
        ExamMark,
        ModelInfo,
        ModelSpec,
        StoredModel,
        TokenVectors,
        Vector,
    )
    from kb.types.passages import Node, Passage, Rendering
    from kb.types.reports import (
        CopyReport,
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
        TermFrequencies,
        TextMatches,
        VectorMatches,
        rank_chunks,
    )

# Closed vocabularies. A value outside them is an error that lists the valid ones.
TYPES = (
    "pdf", "markdown", "code", "note",
    "html", "docx", "epub", "notebook", "rst", "asciidoc", "org", "table", "email",
    "pptx", "xlsx", "opendocument", "canvas", "reference", "conversation",
    "rtf", "man", "subtitles", "transcript", "bookmarks", "evernote", "archive", "image", "zotero",
)  # fmt: skip
# Formats whose line numbers are those of the file; other formats count lines in the extracted text.
LINE_TYPES = ("markdown", "code", "note", "rst", "asciidoc", "org", "table", "reference",
              "transcript")  # fmt: skip
KINDS = ("decision", "lesson", "summary", "temp_note")
SCOPES = ("global", "project")
TRUSTS = ("generated", "secondary", "primary")  # lowest first
MATCHES = ("any", "all", "auto")
RERANKERS = ("none", "colbert", "cross-encoder")
LINK_FORMS = (
    "file", "obsidian", "vscode", "vscode-insiders", "vscodium", "cursor", "windsurf", "zed",
    "idea", "textmate", "none",
)  # fmt: skip
PARTS = ("dense", "sparse", "tokens")  # the outputs that an encoder may have

JsonDict = dict[str, Any]

_MODULES = {
    "citations": "Span Citation",
    "documents": "Document BoostFields Chunk ChunkChanges ChunkText FileLocation PendingChunk",
    "ingest": "Block ChunkDraft Attributes DocumentDraft DocumentWrite Root FileState",
    "models": "ModelSpec ExamMark StoredModel TokenVectors Encoding ModelInfo Vector",
    "search": "Filters SearchRequest Query LexicalQuery ScoredChunk TermFrequencies TextMatches "
    "VectorMatches Retrieval Degraded Hit Response rank_chunks",
    "comparison": "Compared Overlap Comparison COMPARED",
    "passages": "Passage Rendering Node",
    "maps": "LibraryMap MapPoint",
    "answers": "AnswerSentence WrittenSentence Answer",
    "access": "RIGHTS NOTES_ROOT Limits Identity",
    "jobs": "Outcome EmbedCounts Job Failure Work Jobs",
    "reports": (
        "FileNote Renamed IngestReport EmbedReport ImportReport CopyReport Finding Diagnosis "
        "Counts DiskUsage"
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "COMPARED",
    "KINDS",
    "LINE_TYPES",
    "LINK_FORMS",
    "MATCHES",
    "NOTES_ROOT",
    "PARTS",
    "RERANKERS",
    "RIGHTS",
    "SCOPES",
    "TRUSTS",
    "TYPES",
    "Answer",
    "AnswerSentence",
    "Attributes",
    "Block",
    "BoostFields",
    "Chunk",
    "ChunkChanges",
    "ChunkDraft",
    "ChunkText",
    "Citation",
    "Compared",
    "Comparison",
    "CopyReport",
    "Counts",
    "Degraded",
    "Diagnosis",
    "DiskUsage",
    "Document",
    "DocumentDraft",
    "DocumentWrite",
    "EmbedCounts",
    "EmbedReport",
    "Encoding",
    "ExamMark",
    "Failure",
    "FileLocation",
    "FileNote",
    "FileState",
    "Filters",
    "Finding",
    "Hit",
    "Identity",
    "ImportReport",
    "IngestReport",
    "Job",
    "Jobs",
    "JsonDict",
    "LexicalQuery",
    "LibraryMap",
    "Limits",
    "MapPoint",
    "ModelInfo",
    "ModelSpec",
    "Node",
    "Outcome",
    "Overlap",
    "Passage",
    "PendingChunk",
    "Query",
    "Renamed",
    "Rendering",
    "Response",
    "Retrieval",
    "Root",
    "ScoredChunk",
    "SearchRequest",
    "Span",
    "StoredModel",
    "TermFrequencies",
    "TextMatches",
    "TokenVectors",
    "Vector",
    "VectorMatches",
    "Work",
    "WrittenSentence",
    "rank_chunks",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        from importlib import import_module

        value = getattr(import_module(f"kb.types.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'kb.types' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
