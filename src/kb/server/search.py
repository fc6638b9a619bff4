"""Routes: search, compare, evaluate, similar, highlights, profiles."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from kb import wire
from kb.atomic import scratch_folder
from kb.deadline import Deadline
from kb.errors import InvalidRequest, ModelError, short_repr
from kb.library.knowledge_base import KnowledgeBase
from kb.ports import Encoder
from kb.relevance import is_weak
from kb.search.profiles import requested_profile
from kb.server.context import Context, ServerContext, request_memory
from kb.server.documents import ENCODING_COPIES, FilterParameters
from kb.server.memory import RequestMemory
from kb.server.openapi import operation
from kb.server.request_bodies import check_fields
from kb.types import JsonDict
from kb.types import Response as SearchResponse

_SEARCH_EXAMPLE = {
    "query": "retry storm",
    "top": 5,
    "mode": "hybrid",
    "filters": {"type": ["markdown"]},
}
_STRINGS = {"type": "array", "items": {"type": "string"}}
_MAX_TEXTS = 2_000
_MAX_TEXT_CHARS = 200_000  # for all texts together: a match may be one character long
_BYTES_PER_CHAR = 100  # for tokens and ranges, and for the ranges as JSON
_HIGHLIGHTS = {
    "type": "object",
    "description": f"At most {_MAX_TEXT_CHARS:,} characters in all texts together.",
    "properties": {"query": {"type": "string"}, "texts": _STRINGS | {"maxItems": _MAX_TEXTS}},
    "required": ["query", "texts"],
    "additionalProperties": False,
}
_HIGHLIGHTS_FIELDS = {"query": str, "texts": list}
_HIGHLIGHTS_EXAMPLE = {"query": "retry", "texts": ["It retries."]}
_EVALUATION = {
    "type": "object",
    "description": "Queries by id, the relevant documents of each query by path with a grade above "
    "0, and the methods to compare.",
    "properties": {
        "queries": {"type": "object", "additionalProperties": {"type": "string"}},
        "qrels": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 1000},
            },
        },
        "methods": _STRINGS | {"minItems": 1},
        "measures": _STRINGS | {"minItems": 1},
        "gain": {"enum": ["linear", "exp"]},
        "baseline": {"type": "string"},
    },
    "required": ["queries", "qrels"],
    "additionalProperties": False,
}
_EVALUATION_FIELDS = {"queries": dict, "qrels": dict, "methods": list, "measures": list,
                      "gain": str, "baseline": str}  # fmt: skip
_EVALUATION_EXAMPLE = {
    "queries": {"q1": "retry storm"},
    "qrels": {"q1": {"library/notes/gateway-runbook.md": 1}},
    "methods": ["default", "lexical"],
}
_MAX_QUERIES = 500
_MAX_METHODS = 20

QueryText = Annotated[str, Query(description="Any text.", examples=["retry storm"])]
IncludeText = Annotated[bool, Query(description="Whether hits contain their whole passages.")]
Top = Annotated[int | None, Query(ge=1, description="Number of hits.")]
SimilarTo = Annotated[
    str,
    Query(
        description="A citation, a document's path, or a chunk id.",
        examples=["library/notes/gateway-runbook.md"],
    ),
]


def router() -> APIRouter:
    routes = APIRouter(tags=["search"])

    @routes.post(
        "/search",
        summary="Find passages",
        openapi_extra=operation(
            "search_response.v1", request="search_request.v1", request_example=_SEARCH_EXAMPLE
        ),
    )
    async def search(request: Request, context: Context) -> Response:
        search_request = wire.read_request(await context.body(request))
        context.check_query(search_request.query)
        context.check_top(search_request.top)

        def work() -> JsonDict:
            response = context.view(request).execute(search_request)
            context.metrics.search(response)
            _reserve_texts(response, request)
            return wire.response(response)

        profile = requested_profile(context.kb.config, search_request)
        return await context.search(request, work, encodes_query=bool(profile.model_outputs()))

    @routes.get(
        "/search/compare-methods",
        summary="Compare six search methods on one query",
        openapi_extra=operation("compare.v1"),
    )
    async def compare(
        request: Request,
        context: Context,
        filters: FilterParameters,
        q: QueryText,
        top: Top = None,
    ) -> Response:
        context.check_query(q)
        context.check_top(top)
        return await context.search(
            request,
            lambda: wire.comparison(context.view(request).compare(q, top=top, filters=filters)),
        )

    @routes.post(
        "/search/evaluate",
        summary="Measure search methods with relevance judgments for this store",
        openapi_extra=operation(
            "eval_report.v1", request=_EVALUATION, request_example=_EVALUATION_EXAMPLE
        ),
    )
    async def evaluate(request: Request, context: Context) -> Response:
        fields = _check_evaluation(await context.body(request), context)
        return await context.evaluate(
            request, lambda deadline: _evaluate(context.view(request), fields, deadline)
        )

    @routes.post(
        "/search/facets",
        summary="Count the documents of a search by format, kind, scope and tag",
        description="Counts the documents of the best passages, at most `serve.max_page`.",
        openapi_extra=operation(
            "facets.v1", request="search_request.v1", request_example=_SEARCH_EXAMPLE
        ),
    )
    async def facets(request: Request, context: Context) -> Response:
        search_request = wire.read_request(await context.body(request))
        context.check_query(search_request.query)

        def work() -> JsonDict:
            wanted = replace(
                search_request, top=context.limits.max_page, snippets=False, collapse=False,
                explain=False, include_text=False, malformed="empty",
            )  # fmt: skip
            return _facets(context.view(request).execute(wanted), context.view(request))

        profile = requested_profile(context.kb.config, search_request)
        return await context.search(request, work, encodes_query=bool(profile.model_outputs()))

    @routes.post(
        "/search/highlights",
        summary="Find the terms of a query in texts",
        openapi_extra=operation(
            "highlights.v1", request=_HIGHLIGHTS, request_example=_HIGHLIGHTS_EXAMPLE
        ),
    )
    async def highlights(request: Request, context: Context) -> Response:
        fields = check_fields(
            await context.body(request), _HIGHLIGHTS_FIELDS, required=_HIGHLIGHTS_FIELDS
        )
        context.check_query(fields["query"])
        chars = _check_texts(fields["texts"])

        def work(memory: RequestMemory) -> JsonDict:
            memory.reserve_response(_BYTES_PER_CHAR * chars)
            ranges = context.kb.highlights_in(**fields)
            return {"schema_version": "highlights.v1", "ranges": ranges}

        return await context.read_large(request, work)

    @routes.get(
        "/similar",
        summary="Find passages similar to a passage or a document",
        openapi_extra=operation("search_response.v1"),
    )
    async def similar(
        request: Request,
        context: Context,
        filters: FilterParameters,
        to: SimilarTo,
        top: Top = None,
        explain: bool = False,
        include_text: IncludeText = False,
    ) -> Response:
        context.check_query(to)
        context.check_top(top)

        def work() -> JsonDict:
            response = context.view(request).similar(
                to, top=top, filters=filters, explain=explain, include_text=include_text
            )
            _reserve_texts(response, request)
            return wire.response(response)

        return await context.search(request, work, encodes_query=False)

    @routes.get(
        "/profiles",
        summary="List search profiles with their settings",
        openapi_extra=operation({"type": "object", "additionalProperties": {"type": "object"}}),
    )
    async def profiles(request: Request, context: Context) -> Response:
        return await context.read(request, context.kb.profiles)

    return routes


def _facets(response: SearchResponse, kb: KnowledgeBase) -> JsonDict:
    """Count the documents of the relevant hits by format, kind and tag; of all hits if none is
    relevant."""
    relevant = [hit for hit in response.hits if not is_weak(hit)] or response.hits
    documents = {hit.doc_id: hit for hit in relevant}.values()
    stored = kb._store.catalog.documents_by_id([hit.doc_id for hit in documents], metadata=False)
    return {
        "schema_version": "facets.v1",
        "documents": len(documents),
        "passages": len(relevant),
        "by_type": Counter(hit.type for hit in documents),
        "by_kind": Counter(hit.kind for hit in documents if hit.kind is not None),
        "by_scope": Counter(each.scope for each in stored.values()),
        "tags": Counter(tag for hit in documents for tag in hit.tags),
    }


def _reserve_texts(response: SearchResponse, request: Request) -> None:
    """Reserve the memory that the texts of the hits take in the response."""
    size_bytes = sum(sys.getsizeof(hit.text) for hit in response.hits if hit.text is not None)
    if size_bytes:
        request_memory(request).reserve_response(ENCODING_COPIES * size_bytes)


def _check_texts(texts: list[str]) -> int:
    """The number of characters in `texts`. Raises `InvalidRequest` if there are too many."""
    if len(texts) > _MAX_TEXTS:
        raise InvalidRequest("too many texts", f"send at most {_MAX_TEXTS:,}")
    chars = sum(map(len, texts))
    if chars > _MAX_TEXT_CHARS:
        raise InvalidRequest(
            f"the texts have {chars:,} characters", f"send at most {_MAX_TEXT_CHARS:,} at a time"
        )
    return chars


# --- evaluation -----------------------------------------------------------------------------------


def _check_evaluation(data: JsonDict, context: ServerContext) -> JsonDict:
    fields = check_fields(data, _EVALUATION_FIELDS, required=("queries", "qrels"))
    if len(fields["queries"]) > _MAX_QUERIES:
        raise InvalidRequest("too many queries", f"send at most {_MAX_QUERIES}")
    for name in ("methods", "measures"):
        if len(fields.get(name, ())) > _MAX_METHODS:
            raise InvalidRequest(f"too many {name}", f"send at most {_MAX_METHODS}")
    for text in fields["queries"].values():
        if not isinstance(text, str):
            raise InvalidRequest(f"a query cannot be {short_repr(text)}", "send a string")
        context.check_query(text)
    for grades in fields["qrels"].values():
        _check_grades(grades)
    return fields


def _check_grades(grades: Any) -> None:
    if not isinstance(grades, dict):
        raise InvalidRequest(
            f"judgments cannot be {short_repr(grades)}",
            "send an object that maps documents to grades",
        )
    for grade in grades.values():
        if not isinstance(grade, int) or isinstance(grade, bool) or not 0 <= grade <= 1000:
            raise InvalidRequest(
                f"a grade cannot be {short_repr(grade)}", "send an integer from 0 to 1000"
            )


def _evaluate(kb: KnowledgeBase, fields: JsonDict, deadline: Deadline) -> JsonDict:
    """Run `kb eval run` on data in a private temporary folder."""
    from kb.evaluation.experiment import run_experiment
    from kb.evaluation.report import to_dict

    names = ("methods", "measures", "gain", "baseline")
    options = {name: fields[name] for name in names if name in fields}
    with scratch_folder("judged") as folder:
        _write_judgments(folder, fields)
        report = run_experiment(
            folder,
            config=kb.config,
            store=kb._store,
            encoder=_encoder(kb),
            judge=kb.judge,
            on_progress=lambda *_: deadline.check(),
            **options,
        )
    return to_dict(report) | {"data": "request"}


def _encoder(kb: KnowledgeBase) -> Encoder | None:
    """The encoder; None if it is unavailable, which the report then states."""
    try:
        return kb.encoder()
    except ModelError:
        return None


def _write_judgments(folder: Path, fields: JsonDict) -> None:
    (folder / "qrels").mkdir()
    with (folder / "queries.jsonl").open("w", encoding="utf-8") as file:
        for query_id, text in fields["queries"].items():
            file.write(json.dumps({"_id": query_id, "text": text}) + "\n")
    with (folder / "qrels" / "test.tsv").open("w", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        for query_id, grades in fields["qrels"].items():
            for path, grade in grades.items():
                if any(char in query_id + path for char in "\t\r\n"):
                    raise InvalidRequest("an id contains a tab or a line break", "rename it")
                file.write(f"{query_id}\t{path}\t{grade}\n")
