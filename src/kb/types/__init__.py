"""The values that walk through kb, from a file to a hit.

    places      where a passage stands in its source
    ingest      Block -> ChunkDraft, with its DocumentDraft
    documents   Document, Chunk: as a store holds them
    models      encoders, and what they make of texts
    work        who gives passages their vectors, and how far that is
    search      Query (+ Filters) -> Scored -> Hit -> Response
    answers     those to other questions: a comparison, a passage opened
    reports     what a command has done, or found

Import them from here: `from kb.types import Hit`. A name's module is loaded when the name is first
used (PEP 562): to make a frozen class takes Python half a millisecond, and a search by words, which
takes a hundred, needs a third of them.

All are frozen. Nothing here does I/O, and nothing here imports numpy, apsw or another room of the
house, so every other module may import this one.
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
        Diagnosis,
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
        Matched,
        Nearest,
        Query,
        Response,
        Retrieval,
        Scored,
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
MODES = ("lexical", "vector", "sparse", "hybrid")
RERANKERS = ("none", "colbert", "cross-encoder")
PARTS = ("dense", "sparse", "tokens")  # what an encoder may give

JsonDict = dict[str, Any]

_HOMES = {
    "places": "Span Citation",
    "documents": "Document Chunk Written ToEmbed",
    "ingest": "Block ChunkDraft Attributes DocumentDraft Root FilePlace FileState",
    "models": "ModelSpec ExamMark StoredModel TokenVectors Encoding ModelInfo Vector",
    "search": "Filters Query LexicalQuery Scored Matched Nearest Retrieval Degraded Hit Response",
    "answers": "Compared Overlap Comparison Passage COMPARED",
    "work": "Outcome Embedded Job Failure Work Jobs",
    "reports": "FileNote Renamed IngestReport EmbedReport ImportReport Finding Diagnosis",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "COMPARED",
    "KINDS",
    "LINE_TYPES",
    "MATCHES",
    "MODES",
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
    "Degraded",
    "Diagnosis",
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
    "Matched",
    "ModelInfo",
    "ModelSpec",
    "Nearest",
    "Outcome",
    "Overlap",
    "Passage",
    "Query",
    "Renamed",
    "Response",
    "Retrieval",
    "Root",
    "Scored",
    "Span",
    "StoredModel",
    "ToEmbed",
    "TokenVectors",
    "Vector",
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
