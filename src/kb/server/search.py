"""Routes that find: search, compare, evaluate, similar, highlights, profiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from kb import wire
from kb.atomic import scratch_folder
from kb.deadline import Deadline
from kb.errors import InvalidRequest, ModelError, short_repr
from kb.library.knowledge_base import KnowledgeBase
from kb.ports import Encoder
from kb.server.context import AtDesk, Desk, told
from kb.server.documents import Filtered
from kb.server.openapi import says
from kb.server.request_bodies import fields_of
from kb.types import JsonDict

_ASKED = {"query": "retry storm", "top": 5, "mode": "hybrid", "filters": {"type": ["markdown"]}}
_MOST_TEXTS = 2_000
_TEXTS = {"type": "array", "items": {"type": "string"}}
_HIGHLIGHT = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "texts": _TEXTS | {"maxItems": _MOST_TEXTS}},
    "required": ["query", "texts"],
    "additionalProperties": False,
}
_JUDGED = {
    "type": "object",
    "description": "Queries by id; for each the documents of the store, by path, that answer it, "
    "with a grade above 0; and what is to be compared.",
    "properties": {
        "queries": {"type": "object", "additionalProperties": {"type": "string"}},
        "qrels": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 1000},
            },
        },
        "methods": _TEXTS,
        "measures": _TEXTS,
        "gain": {"enum": ["linear", "exp"]},
        "baseline": {"type": "string"},
    },
    "required": ["queries", "qrels"],
    "additionalProperties": False,
}
_EVALUATED = {
    "queries": {"q1": "retry storm"},
    "qrels": {"q1": {"library/notes/gateway-runbook.md": 1}},
    "methods": ["default", "lexical"],
}
_MOST_QUERIES = 500
_MOST_METHODS = 20

Text = Annotated[str, Query(description="Any text.", examples=["retry storm"])]
Top = Annotated[int | None, Query(ge=1, description="How many hits.")]


def router() -> APIRouter:
    routes = APIRouter(tags=["search"])

    @routes.post(
        "/search",
        summary="Find passages",
        openapi_extra=says("search_response.v1", takes="search_request.v1", asks=_ASKED),
    )
    async def search(request: Request, desk: AtDesk) -> Response:
        wanted = wire.read_request(await desk.body(request))
        desk.check_query(wanted.query)
        desk.check_top(wanted.top)
        response = await desk.search(request, lambda: desk.kb.execute(wanted))
        desk.figures.search(response)
        return told(wire.response(response))

    @routes.get(
        "/search/compare-methods",
        summary="The same query by six methods, side by side",
        openapi_extra=says("compare.v1"),
    )
    async def compare(
        request: Request, desk: AtDesk, filters: Filtered, q: Text, top: Top = None
    ) -> Response:
        desk.check_query(q)
        desk.check_top(top)
        compared = await desk.search(request, lambda: desk.kb.compare(q, top=top, filters=filters))
        return told(wire.comparison(compared))

    @routes.post(
        "/search/evaluate",
        summary="Measure methods on judged queries about this store",
        openapi_extra=says("eval_report.v1", takes=_JUDGED, asks=_EVALUATED),
    )
    async def evaluate(request: Request, desk: AtDesk) -> Response:
        judged = _judged(await desk.body(request), desk)
        return told(
            await desk.evaluate(request, lambda deadline: _evaluated(desk, judged, deadline))
        )

    @routes.post(
        "/search/highlights",
        summary="Where the terms of a query stand in texts",
        openapi_extra=says("highlights.v1", takes=_HIGHLIGHT,
                           asks={"query": "retry", "texts": ["It retries."]}),
    )  # fmt: skip
    async def highlights(request: Request, desk: AtDesk) -> Response:
        shapes = {"query": str, "texts": list}
        asked = fields_of(await desk.body(request), shapes, needed=shapes)
        desk.check_query(asked["query"])
        if len(asked["texts"]) > _MOST_TEXTS:
            raise InvalidRequest("there are too many texts", f"send at most {_MOST_TEXTS:,}")
        ranges = await desk.read(request, lambda: desk.kb.highlights_in(**asked))
        return told({"schema_version": "highlights.v1", "ranges": ranges})

    @routes.get(
        "/similar",
        summary="What is like a passage, or like a document",
        openapi_extra=says("search_response.v1"),
    )
    async def similar(
        request: Request, desk: AtDesk, filters: Filtered, to: Annotated[str, Query(
            description="A citation, a document's path, or the number of a chunk.",
            examples=["library/notes/gateway-runbook.md"])],
        top: Top = None,
        explain: bool = False,
    ) -> Response:  # fmt: skip
        desk.check_query(to)
        desk.check_top(top)
        response = await desk.search(
            request, lambda: desk.kb.similar(to, top=top, filters=filters, explain=explain)
        )
        return told(wire.response(response))

    @routes.get(
        "/profiles",
        summary="Every profile with its settings",
        openapi_extra=says({"type": "object", "additionalProperties": {"type": "object"}}),
    )
    async def profiles(request: Request, desk: AtDesk) -> Response:
        return told(await desk.read(request, desk.kb.profiles))

    return routes


# --- evaluation -----------------------------------------------------------------------------------


def _judged(data: JsonDict, desk: Desk) -> JsonDict:
    shapes = {"queries": dict, "qrels": dict, "methods": list, "measures": list, "gain": str,
              "baseline": str}  # fmt: skip
    judged = fields_of(data, shapes, needed=("queries", "qrels"))
    if len(judged["queries"]) > _MOST_QUERIES:
        raise InvalidRequest("there are too many queries", f"send at most {_MOST_QUERIES}")
    for name in ("methods", "measures"):
        if len(judged.get(name, ())) > _MOST_METHODS:
            raise InvalidRequest(f"there are too many {name}", f"send at most {_MOST_METHODS}")
    for text in judged["queries"].values():
        if not isinstance(text, str):
            raise InvalidRequest(f"a query cannot be {short_repr(text)}", "it is a text")
        desk.check_query(text)
    for grades in judged["qrels"].values():
        _check_grades(grades)
    return judged


def _check_grades(grades: Any) -> None:
    if not isinstance(grades, dict):
        raise InvalidRequest(
            f"judgments cannot be {short_repr(grades)}", "give a grade by document"
        )
    for grade in grades.values():
        if not isinstance(grade, int) or isinstance(grade, bool) or not 0 <= grade <= 1000:
            raise InvalidRequest(
                f"a grade cannot be {short_repr(grade)}", "it is a number up to 1000"
            )


def _evaluated(desk: Desk, judged: JsonDict, deadline: Deadline) -> JsonDict:
    """As `kb eval run` does it, with the data in a folder that nobody else sees."""
    from kb.evaluation.experiment import run_trial
    from kb.evaluation.report import to_dict

    names = ("methods", "measures", "gain", "baseline")
    options = {name: judged[name] for name in names if name in judged}
    with scratch_folder("judged") as folder:
        _write_judged(folder, judged)
        report = run_trial(
            folder,
            config=desk.kb.config,
            store=desk.kb.path,
            encoder=_encoder(desk.kb),
            judge=desk.kb.judge,
            on_progress=lambda *_: deadline.check(),
            **options,
        )
    return to_dict(report) | {"data": "request"}


def _encoder(kb: KnowledgeBase) -> Encoder | None:
    """None where it cannot be had: words are measured then, and the report says so."""
    try:
        return kb.encoder()
    except ModelError:
        return None


def _write_judged(folder: Path, judged: JsonDict) -> None:
    (folder / "qrels").mkdir()
    with (folder / "queries.jsonl").open("w", encoding="utf-8") as file:
        for query_id, text in judged["queries"].items():
            file.write(json.dumps({"_id": query_id, "text": text}) + "\n")
    with (folder / "qrels" / "test.tsv").open("w", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        for query_id, grades in judged["qrels"].items():
            for path, grade in grades.items():
                if any(char in query_id + path for char in "\t\r\n"):
                    raise InvalidRequest("an id holds a tab or a line break", "give it another")
                file.write(f"{query_id}\t{path}\t{grade}\n")
