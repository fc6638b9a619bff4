"""Routes that tell how things stand: status, jobs, health, metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from kb import wire
from kb.library.knowledge_base import KnowledgeBase
from kb.server.context import AtDesk, Desk, told
from kb.server.openapi import says

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_HEALTH = {
    "type": "object",
    "properties": {"status": {"const": "ok"}},
    "required": ["status"],
}


def router() -> APIRouter:
    routes = APIRouter(tags=["standing"])

    @routes.get("/status", summary="What the store holds", openapi_extra=says("status.v1"))
    async def status(request: Request, desk: AtDesk) -> Response:
        return told(await desk.read(request, desk.kb.status))

    @routes.get(
        "/jobs",
        summary="What there is to embed, who is at it, what went wrong",
        openapi_extra=says("jobs.v1"),
    )
    async def jobs(request: Request, desk: AtDesk) -> Response:
        return told(wire.jobs(await desk.read(request, desk.kb.jobs)))

    @routes.get(
        "/health",
        summary="200 when searches can be answered",
        openapi_extra=says(_HEALTH, example={"status": "ok"}),
    )
    async def health(request: Request, desk: AtDesk) -> Response:
        await desk.check_health(request, lambda: desk.kb.search("health", mode="lexical", top=1))
        return told({"status": "ok"})

    @routes.get(
        "/metrics",
        summary="Counts and times, as Prometheus reads them",
        openapi_extra=says({"type": "string"}, media_type="text/plain"),
        response_class=PlainTextResponse,
    )
    async def metrics(request: Request, desk: AtDesk) -> PlainTextResponse:
        gauges = await desk.read(request, lambda: _gauges(desk.kb)) | _lanes(desk)
        return PlainTextResponse(desk.figures.text(gauges), media_type=_PROMETHEUS)

    return routes


def _gauges(kb: KnowledgeBase) -> dict[str, float]:
    status = kb.status()
    models = status["vectors"]["models"]
    return {
        "kb_documents": status["documents"],
        "kb_chunks": status["chunks"],
        "kb_chunks_pending": status["vectors"]["pending"],
        "kb_chunks_failed": sum(model["failed"] for model in models[:1]),
        "kb_store_bytes": status["size_bytes"],
    }


def _lanes(desk: Desk) -> dict[str, float]:
    return {
        "kb_passages_taken": desk.passages.taken,
        "kb_reads_taken": desk.reads.taken,
        "kb_searches_taken": desk.searches.taken,
        "kb_writes_taken": desk.writes.taken,
    }
