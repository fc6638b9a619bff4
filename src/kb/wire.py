"""The versioned JSON shapes, shared by all interfaces. Their schemas are in `kb/schemas`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from kb.errors import InvalidRequest, short_repr
from kb.types import (
    PARTS,
    Chunk,
    Citation,
    Document,
    Filters,
    Hit,
    JsonDict,
    Response,
    SearchRequest,
)
from kb.values import TYPE_CHECKING, Any, asdict, fields

if TYPE_CHECKING:
    from kb.types import (
        Answer,
        AnswerSentence,
        Compared,
        Comparison,
        CopyReport,
        Diagnosis,
        EmbedReport,
        Encoding,
        ImportReport,
        IngestReport,
        Jobs,
        LibraryMap,
        ModelInfo,
        ModelSpec,
        Passage,
        Rendering,
        Retrieval,
        Work,
        WrittenSentence,
    )

_LISTS = ("tags", "tags_any", "type", "kind")
_REQUEST = {
    "query": str,
    "top": int,
    "profile": str,
    "mode": str,
    "match": str,
    "filters": dict,
    "threshold": float,
    "min_relevance": float,
    "rerank": str,
    "budget_ms": int,
    "explain": bool,
    "collapse": bool,
    "include_text": bool,
    "exact": bool,
}


def schema(name: str) -> JsonDict:
    """The JSON Schema of a shape: `schema("search_hit.v1")`."""
    from importlib import resources

    text = (resources.files("kb") / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]  # kb's own file; a test checks that it is an object


# --- writing --------------------------------------------------------------------------------------


def response(value: Response) -> JsonDict:
    shape: JsonDict = {
        "schema_version": "search_response.v1",
        "query": value.query,
        "profile": value.profile,
        "mode": value.mode,
        "returned": value.returned,
        "hits": [hit(one) for one in value.hits],
        "degraded": [asdict(part) for part in value.degraded],
        "timing_ms": dict(value.timing_ms),
        "index_version": value.index_version,
    }
    return shape if value.explain is None else shape | {"explain": dict(value.explain)}


def hit(value: Hit) -> JsonDict:
    shape: JsonDict = {"schema_version": "search_hit.v1"}
    shape |= {item.name: getattr(value, item.name) for item in fields(value)}
    lists = ("heading_path", "sources", "tags", "duplicate_uris")
    shape |= {name: list(shape[name]) for name in lists}
    return shape | {
        "citation": citation(value.citation),
        "retrieval": _retrieval(value.retrieval),
    }


def _retrieval(value: Retrieval) -> JsonDict:
    shape: JsonDict = {
        "method": value.method,
        "fusion_score": value.fusion_score,
        "rerank_score": value.rerank_score,
    }
    for mode, chunk in value.retrievers.items():
        shape[f"{mode}_score"] = None if chunk is None else chunk.score
        shape[f"{mode}_rank"] = None if chunk is None else chunk.rank
    return shape


def answer(value: Answer, written: Iterable[WrittenSentence] | None = None) -> JsonDict:
    """An answer as `answer.v1`. `written` are the sentences of a language model, if one is used."""
    return {
        "schema_version": "answer.v1",
        "question": value.question,
        "answered": value.answered,
        "sentences": [_answer_sentence(each) for each in value.sentences],
        "written": None if written is None else [written_sentence(each) for each in written],
        "closest": [citation(each) for each in value.closest],
        "degraded": [asdict(part) for part in value.degraded],
        "timing_ms": dict(value.timing_ms),
    }


def written_sentence(value: WrittenSentence) -> JsonDict:
    """A sentence of a language model, as `written` in `answer.v1`."""
    citations = [citation(each) for each in value.citations]
    return {"text": value.text, "citations": citations, "state": value.state}


def _answer_sentence(value: AnswerSentence) -> JsonDict:
    shape = {item.name: getattr(value, item.name) for item in fields(value)}
    return shape | {
        "heading_path": list(value.heading_path),
        "citation": citation(value.citation),
    }


def comparison(value: Comparison) -> JsonDict:
    return {
        "schema_version": "compare.v1",
        "query": value.query,
        "top": value.top,
        "methods": {name: _method_result(each) for name, each in value.methods.items()},
        "overlap": [asdict(pair) for pair in value.overlap],
        "shared_ms": value.shared_ms,
        "wall_ms": value.wall_ms,
    }


def _method_result(value: Compared) -> JsonDict:
    if value.error is not None:
        return {"error": dict(value.error)}
    return {
        "hits": [hit(one) for one in value.hits],
        "count": len(value.hits),
        "latency_ms": value.latency_ms,
        "degraded": [asdict(part) for part in value.degraded],
    }


def citation(value: Citation) -> JsonDict:
    return {
        "schema_version": "citation.v1",
        "path": value.path,
        "uri": value.uri,
        "section": value.section,
        "file": value.file,
        "line": value.line,
        "page": value.page,
        "link": value.link,
    } | value.span.to_dict()


def document(value: Document) -> JsonDict:
    shape: JsonDict = {"schema_version": "document.v1"}
    shape |= {item.name: getattr(value, item.name) for item in fields(value)}
    return shape | {"tags": list(value.tags), "metadata": dict(value.metadata)}


def documents(values: Iterable[Document], next_offset: int | None) -> JsonDict:
    listed = [document(value) for value in values]
    return {"schema_version": "documents.v1", "documents": listed, "next_offset": next_offset}


def chunk(value: Chunk) -> JsonDict:
    shape: JsonDict = {"schema_version": "chunk.v1"}
    shape |= {item.name: getattr(value, item.name) for item in fields(value)}
    spans = [span.to_dict() for span in value.spans]
    return shape | {"heading_path": list(value.heading_path), "spans": spans}


def chunks(doc_path: str, values: Iterable[Chunk], next_offset: int | None) -> JsonDict:
    return {
        "schema_version": "chunks.v1",
        "doc_path": doc_path,
        "chunks": [chunk(value) for value in values],
        "next_offset": next_offset,
    }


def passage(value: Passage) -> JsonDict:
    return {
        "schema_version": "passage.v1",
        "doc_path": value.document.doc_path,
        "title": value.document.title,
        "citation": citation(value.citation),
        "state": value.state,
        "reason": value.reason,
        "text": value.text,
    }


def rendering(cited: Passage, whole: Passage, value: Rendering) -> JsonDict:
    """A whole document as `rendering.v1`, with the passage that was cited."""
    found = whole.document
    outline = [{"level": level, "id": name, "text": text} for level, name, text in value.outline]
    return {
        "schema_version": "rendering.v1",
        "doc_path": found.doc_path,
        "title": found.title,
        "type": found.type,
        "tags": list(found.tags),
        "date": found.date,
        "has_file": whole.citation.file is not None,
        "citation": citation(cited.citation),
        "state": cited.state,
        "reason": cited.reason,
        "kind": value.kind,
        "text": whole.text if value.kind == "lines" else "",
        "nodes": list(value.nodes),
        "outline": outline,
    }


def ingest_report(value: IngestReport) -> JsonDict:
    listed: JsonDict = json.loads(json.dumps(asdict(value)))  # through JSON: tuples become lists
    return {"schema_version": "ingest_report.v1"} | listed


def import_report(value: ImportReport) -> JsonDict:
    return {"schema_version": "import_report.v1"} | asdict(value)


def copy_report(value: CopyReport) -> JsonDict:
    return {"schema_version": "copy.v1"} | asdict(value)


def embed_report(value: EmbedReport) -> JsonDict:
    report = {"schema_version": "embed_report.v1"} | asdict(value)
    del report["held"]  # only reported by a reindex
    return report


def jobs(value: Jobs) -> JsonDict:
    names = {work.model.model_id: work.model.name for work in value.work}
    return {
        "schema_version": "jobs.v1",
        "work": [_work(work) for work in value.work],
        "jobs": [
            {
                "job_id": job.job_id,
                "state": "lost" if job.lost else "running",
                "model": names.get(job.model_id),
                "place": job.place,
                "pid": job.pid,
                "seconds": round(job.seconds, 1),
                "done": job.done,
                "leased": job.leased,
            }
            for job in value.jobs
        ],
        "failures": [asdict(failure) for failure in value.failures],
    }


def _work(value: Work) -> JsonDict:
    left = value.seconds_left
    return {
        "model": value.model.name,
        "version": value.model.version,
        "role": value.model.role,
        "ready": value.model.ready,
        "pending": value.model.pending,
        "failed": value.model.failed,
        "lacking": value.lacking,
        "workers": value.workers,
        "per_second": round(value.per_second, 2),
        "seconds_left": None if left is None else round(left),
    }


def retry_report(retried: int) -> JsonDict:
    return {"schema_version": "retry_report.v1", "retried": retried}


def reindex_report(value: EmbedReport, switched: bool) -> JsonDict:
    report = embed_report(value)
    return {
        "schema_version": "reindex_report.v1",
        "switched": switched,
        "held": value.held,
        "report": report,
    }


def embedding(spec: ModelSpec, side: str, value: Encoding) -> JsonDict:
    """An encoding as `embedding.v1`. `side` is `query` or `passage`; a part that the model does not
    compute is null."""
    tokens = value.tokens
    width = tokens.dimension if tokens is not None else 1
    return {
        "schema_version": "embedding.v1",
        "model": spec.name,
        "model_version": spec.version,
        "as": side,
        "truncated": value.truncated,
        "dense": None if value.dense is None else _numbers(value.dense),
        "sparse": None
        if value.sparse is None
        else dict(zip(value.sparse, _numbers(value.sparse.values()), strict=True)),
        "tokens": None
        if tokens is None
        else [_numbers(tokens.data[at : at + width]) for at in range(0, len(tokens.data), width)],
    }


def _numbers(values: Iterable[float]) -> list[float]:
    """Round to nine digits, which identify a 32-bit float: reading them back gives the same
    bits."""
    return [float(f"{value:.9g}") for value in values]


def models(values: Iterable[ModelInfo]) -> JsonDict:
    return {"schema_version": "models.v1", "models": [_model(value) for value in values]}


def _model(value: ModelInfo) -> JsonDict:
    spec = value.spec
    shape = asdict(value)
    del shape["spec"]
    return shape | {
        "marks": None if value.marks is None else [mark._asdict() for mark in value.marks],
        "missing": list(value.missing),
        "version": spec and spec.version,
        "gives": spec and [part for part in (*PARTS, "score") if part in spec.gives],
        "dimension": (spec and spec.dimension) or None,
        "token_dimension": spec and spec.token_dimension,
        "max_tokens": (spec and spec.max_tokens) or None,
        "query_prefix": spec and spec.query_prefix,
        "passage_prefix": spec and spec.passage_prefix,
    }


def library_map(value: LibraryMap) -> JsonDict:
    points = [asdict(point) for point in value.points]
    return {
        "schema_version": "map.v1",
        "points": points,
        "topics": list(value.topics),
        "left_out": value.left_out,
    }


def diagnosis(value: Diagnosis) -> JsonDict:
    return {
        "schema_version": "doctor.v1",
        "store": value.store,
        "healthy": value.healthy,
        "findings": [asdict(finding) for finding in value.findings],
    }


# --- reading --------------------------------------------------------------------------------------


def read_request(data: Mapping[str, Any]) -> SearchRequest:
    """Read a `search_request.v1`."""
    switch = {"rerank": bool} if isinstance(data.get("rerank"), bool) else {}  # or a name
    known = _check_fields(data, _REQUEST | switch, "search_request.v1")
    if "query" not in known:
        raise InvalidRequest("search_request.v1 has no query", "send `query` as a string")
    if "filters" in known:
        known["filters"] = read_filters(known["filters"])
    return SearchRequest(**known)


def read_filters(data: Mapping[str, Any]) -> Filters:
    """Read the `filters` of a `search_request.v1`. A list of one value may be given as that
    value."""
    shapes = {item.name: (list if item.name in _LISTS else str) for item in fields(Filters)
              if item.name != "limits"}  # fmt: skip
    single = {key: [value] if isinstance(value, str) and key in _LISTS else value
              for key, value in data.items()}  # fmt: skip
    checked = _check_fields(single, shapes, "filters")
    for key in set(checked) & set(_LISTS):
        if not all(isinstance(value, str) for value in checked[key]):
            raise InvalidRequest(
                f"filters.{key} contains a value that is not a string", "use strings"
            )
        checked[key] = tuple(checked[key])
    return Filters(**checked)


def _check_fields(data: Mapping[str, Any], shapes: Mapping[str, type], name: str) -> JsonDict:
    """Return `data` without its nulls. Raises `InvalidRequest` for unknown fields and wrong
    types."""
    for key, value in data.items():
        if key not in shapes:
            raise InvalidRequest(
                f"{name} has no field {short_repr(key)}", f"fields of {name}: {', '.join(shapes)}"
            )
        wanted = shapes[key]
        fits = isinstance(value, wanted) or (wanted is float and isinstance(value, int))
        if value is not None and (not fits or (isinstance(value, bool) and wanted is not bool)):
            raise InvalidRequest(
                f"{name}.{key} cannot be {short_repr(value)}", f"{key} is a {wanted.__name__}"
            )
    return {key: value for key, value in data.items() if value is not None}
