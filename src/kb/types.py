"""The values that walk through kb, from a file to a hit.

    ingest:  Block -> ChunkDraft -> Chunk          (with its DocumentDraft -> Document)
    search:  Query (+ Filters) -> Scored -> Hit -> Response

All are frozen. Nothing here does I/O, and nothing here imports numpy, apsw or another room of the
house, so every other module may import this one.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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

JsonDict = dict[str, Any]


# --- where a passage stands in its source -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a source. `kind` is `line`, `page` or `code`; a parser may bring others (a region,
    a time), whose fields travel in `extra` unchanged. Lines and pages count from 1, ends included.
    """

    kind: str
    start: int | None = None
    end: int | None = None
    page: int | None = None
    symbol: str | None = None
    lang: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> JsonDict:
        known = {
            "kind": self.kind,
            "start": self.start,
            "end": self.end,
            "page": self.page,
            "symbol": self.symbol,
            "lang": self.lang,
        }
        return {key: value for key, value in known.items() if value is not None} | dict(self.extra)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Span:
        known = {"kind", "start", "end", "page", "symbol", "lang"}
        fields = {key: value for key, value in data.items() if key in known}
        return cls(**fields, extra={key: data[key] for key in data if key not in known})


@dataclass(frozen=True, slots=True)
class Citation:
    """A span of a document, as a reader can open it: `uri` is what `kb get` takes."""

    kind: str
    path: str
    uri: str
    section: str | None
    span: Span


# --- ingest ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    """What a parser yields: a structural unit of the source, in reading order.

    `atomic` units (a code fence, a table) are never cut by the chunker. A block with another
    `heading_path` than its predecessor's, or with `boundary`, starts a new section.
    """

    text: str
    span: Span
    heading_path: tuple[str, ...] = ()
    atomic: bool = False
    boundary: bool = False


@dataclass(frozen=True, slots=True)
class ChunkDraft:
    """A passage before it has an id."""

    text: str
    heading_path: tuple[str, ...]
    section_label: str | None
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a front matter or `kb add` may say about a document; None means: not said."""

    title: str | None = None
    tags: tuple[str, ...] = ()
    kind: str | None = None
    scope: str | None = None
    trust: str | None = None
    lang: str | None = None
    date: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    expires_at: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """A document before it has an id. `root_id` is None for notes, which carry their `body`."""

    root_id: int | None
    path: str
    doc_path: str
    title: str
    type: str
    attributes: Attributes
    content_hash: str
    chunker_version: str
    size_bytes: int
    mtime_ns: int
    ctime_ns: int = 0
    device: int | None = None
    os_path: bytes | None = None  # the name on disk, where it is not `path` in UTF-8
    body: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A stored document (spec 2). Times are ISO 8601 in UTC."""

    doc_id: int
    root_id: int | None
    path: str
    doc_path: str
    title: str
    type: str
    kind: str | None
    scope: str
    lang: str | None
    trust: str
    tags: tuple[str, ...]
    date: str
    created_at: str
    updated_at: str
    expires_at: str | None
    indexed_at: str
    access_count: int
    content_hash: str
    size_bytes: int
    metadata: Mapping[str, Any]
    chunks: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stored passage."""

    chunk_id: int
    doc_id: int
    ordinal: int
    text: str
    heading_path: tuple[str, ...]
    section_label: str | None
    spans: tuple[Span, ...]
    chunker_version: str
    content_hash: str
    indexed_at: str


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that was ingested. `whole` is False when only single files of it were asked for."""

    root_id: int
    name: str
    path: str
    whole: bool


@dataclass(frozen=True, slots=True)
class FileState:
    """What the store remembers of a file, to tell an unchanged one by one stat."""

    doc_id: int
    path: str
    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    device: int | None
    os_path: bytes | None
    content_hash: str
    indexed_ns: int
    chunker_version: str


# --- models ---------------------------------------------------------------------------------------

Vector = array  # of type code "f"; a buffer, so that numpy and SQLite read it without a copy
PARTS = ("dense", "sparse", "tokens")  # what an encoder may give


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What there is to know of an encoder before it is loaded, or of a judge, which gives a
    `score` and has no dimension. `scripts` are those that it reads, as the names of their letters
    begin (`Latin`); none means: any. `max_tokens` is 0 where nobody knows, or there is no limit."""

    name: str
    version: str
    dimension: int
    gives: frozenset[str]  # of PARTS, or a score
    token_dimension: int | None = None
    max_tokens: int = 512
    query_prefix: str = ""
    passage_prefix: str = ""
    scripts: tuple[str, ...] = ()

    @property
    def is_judge(self) -> bool:
        return "score" in self.gives


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model whose vectors a store holds, and how many chunks stand where. `sparse` and `tokens`
    tell how many of the ready ones have those parts too. `role` is `search` for the one that
    answers, `next` for the one that is to do so, `gone` for one that is being dropped; `source` is
    the name its encoder is found by, where that is not the setting's."""

    model_id: int
    name: str
    version: str
    dimension: int
    ready: int
    pending: int
    failed: int
    sparse: int = 0
    tokens: int = 0
    role: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """A normalised vector for each token that counts, row after row in one buffer."""

    dimension: int
    data: Vector[float]

    def __len__(self) -> int:
        return len(self.data) // self.dimension


@dataclass(frozen=True, slots=True)
class Encoding:
    """What an encoder makes of one text; None where it was not asked for or cannot be given.
    `truncated` says how many tokens did not fit into the model."""

    dense: Vector[float] | None = None
    sparse: Mapping[str, float] | None = None  # token -> weight
    tokens: TokenVectors | None = None
    truncated: int = 0


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A line of `kb models list`. `origin` is `kb`, `pulled`, `folder`, `endpoint` or the package
    that brings the model;
    `problem` says why there is nothing more to know, or what is wrong with it."""

    name: str
    spec: ModelSpec | None = None
    origin: str | None = None
    path: str | None = None
    size_bytes: int | None = None
    licence: str | None = None
    summary: str | None = None
    in_use: bool = False
    problem: str | None = None


# --- search ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Filters:
    """What a hit's document must be (spec 10). Empty means: anything."""

    tags: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    scope: str | None = None
    lang: str | None = None
    path_glob: str | None = None
    trust_min: str | None = None
    after: str | None = None
    before: str | None = None

    def __bool__(self) -> bool:
        return self != _NO_FILTERS


_NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True)
class Query:
    """A search as asked: `search_request.v1` with every default filled in."""

    text: str
    top: int
    profile: str
    mode: str
    match: str
    filters: Filters = Filters()
    threshold: float | None = None
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Scored:
    """A chunk as one retriever found it. `score` is higher-is-better; `rank` starts at 1."""

    chunk_id: int
    score: float
    rank: int


@dataclass(frozen=True, slots=True)
class Retrieval:
    """How a hit was found; None where a retriever did not run or did not find it [001]."""

    method: str
    fusion_score: float | None = None
    rerank_score: float | None = None
    lexical_score: float | None = None
    lexical_rank: int | None = None
    vector_score: float | None = None
    vector_rank: int | None = None
    sparse_score: float | None = None
    sparse_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Degraded:
    """A part that did not do its work, and why. Nothing falls back silently."""

    part: str
    reason: str
    detail: str | int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found, with everything a reader needs to judge and to open it."""

    rank: int
    score: float
    score_kind: str
    chunk_id: int
    doc_id: int
    doc_path: str
    title: str
    heading_path: tuple[str, ...]
    section_label: str | None
    snippet: str
    citation: Citation
    retrieval: Retrieval
    sources: tuple[str, ...]
    tags: tuple[str, ...]
    type: str
    kind: str | None
    chunker_version: str
    embedding_model: str | None
    indexed_at: str


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a query."""

    query: str
    profile: str
    mode: str
    hits: tuple[Hit, ...]
    degraded: tuple[Degraded, ...]
    timing_ms: Mapping[str, float]
    index_version: str
    explain: Mapping[str, Any] | None = None

    @property
    def returned(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Any:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)


# The methods that a comparison sets side by side [002 R8].
COMPARED = (
    "fts5_only", "dense_only", "sparse_only",
    "two_way_hybrid", "three_way_hybrid", "three_way_reranked",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """What one method found, in which time; or the error (as `error.v1`) that kept it from it."""

    hits: tuple[Hit, ...] = ()
    latency_ms: float = 0.0
    degraded: tuple[Degraded, ...] = ()
    error: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many hits two methods share; `jaccard` is their part of all that either found."""

    first: str
    second: str
    shared: int
    jaccard: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One query by every method of `COMPARED`. `shared_ms` is what was done once before and counts
    for none of them: a model loaded, the query encoded, indexes read."""

    query: str
    top: int
    methods: Mapping[str, Compared]
    overlap: tuple[Overlap, ...]
    shared_ms: float
    wall_ms: float

    def sharing(self, chunk_id: int) -> int:
        """How many methods found this chunk."""
        found = (method.hits for method in self.methods.values())
        return sum(any(hit.chunk_id == chunk_id for hit in hits) for hits in found)


@dataclass(frozen=True, slots=True)
class Passage:
    """What a citation opens: the text there now, and whether it is still what was indexed.

    `state` is `exact`, `moved` (the indexed text stands elsewhere in the file, and `citation` says
    where) or `stale` (it is gone; `text` is what was indexed). A whole document is `stale` when its
    file has changed; `text` is then what the file says now, or, if it is gone, what was indexed.
    """

    document: Document
    citation: Citation
    text: str
    state: str


# --- reports --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileNote:
    """One file's line in an ingest report."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """A document whose file has moved: its path in the store before and now."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest run did, or, in a dry run, would have done."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0
    skipped: tuple[FileNote, ...] = ()
    failed: tuple[FileNote, ...] = ()
    warnings: tuple[FileNote, ...] = ()
    missing_roots: tuple[str, ...] = ()
    chunks_added: int = 0
    chunks_kept: int = 0
    chunks_removed: int = 0
    seconds: float = 0.0
    dry_run: bool = False
    notes: tuple[str, ...] = ()  # of the store as a whole: what its reader might want to do

    def with_seconds(self, seconds: float) -> IngestReport:
        return replace(self, seconds=seconds)


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """What a run that embeds did. `filled` are chunks whose vectors lacked a part and have it now;
    `failed` are chunks whose text the model could not take; `left` are those that are still without
    vectors and will be tried again, of which others are working on `elsewhere`; `lacking` those
    that still lack a part; `given_up` those that have failed so often that they are not tried
    again, in this run or before; `truncated` those of which the model saw no more than the
    beginning. `held` says why the vectors of a reindex do not answer yet, and what to do."""

    model: str
    version: str
    embedded: int = 0
    filled: int = 0
    failed: int = 0
    left: int = 0
    elsewhere: int = 0
    lacking: int = 0
    given_up: int = 0
    last_error: str | None = None
    truncated: int = 0
    seconds: float = 0.0
    held: str | None = None


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did. `kept` are documents of which the store had a newer state."""

    added: int
    replaced: int
    kept: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a diagnosis. `state` is `ok`, `warning` or `error`: what it was found in, also
    where it was then `fixed`."""

    part: str
    state: str
    what: str
    to_do: str = ""
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `doctor` found, in the order it looked."""

    store: str
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Warnings are allowed, and so is what was fixed."""
        return not any(one.state == "error" and not one.fixed for one in self.findings)
