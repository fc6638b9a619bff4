"""Routes: status, map, statistics, jobs, health, metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from kb import wire
from kb.errors import StoreError
from kb.library.knowledge_base import KnowledgeBase
from kb.logs import logger
from kb.server.context import Context, ServerContext, json_response
from kb.server.documents import FilterParameters
from kb.server.openapi import operation
from kb.types import JsonDict

log = logger("kb.server")

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_HEALTH = {
    "type": "object",
    "properties": {"status": {"const": "ok"}},
    "required": ["status"],
}


def router() -> APIRouter:
    routes = APIRouter(tags=["status"])

    @routes.get("/status", summary="Describe the store", openapi_extra=operation("status.v1"))
    async def status(request: Request, context: Context) -> Response:
        return await context.read(request, context.view(request).status)

    @routes.get(
        "/map",
        summary="Place every document on a map, near to similar ones",
        openapi_extra=operation("map.v1"),
    )
    async def library_map(
        request: Request, context: Context, filters: FilterParameters
    ) -> Response:
        kb = context.view(request)
        return await context.search(request, lambda: wire.library_map(kb.map(filters)))

    @routes.get(
        "/statistics",
        summary="Count documents by month, kind and language, and list those that deserve a look",
        openapi_extra=operation("statistics.v1"),
    )
    async def statistics(request: Request, context: Context) -> Response:
        return await context.search(request, context.view(request).statistics)

    @routes.get(
        "/jobs",
        summary="List pending, running and failed embedding jobs",
        openapi_extra=operation("jobs.v1"),
    )
    async def jobs(request: Request, context: Context) -> Response:
        return await context.read(request, lambda: wire.jobs(context.view(request).jobs()))

    @routes.get(
        "/health",
        summary="Check that the server can answer searches",
        openapi_extra=operation(_HEALTH, example={"status": "ok"}),
    )
    async def health(request: Request, context: Context) -> Response:
        def work() -> JsonDict:
            try:
                context.kb.search("health", mode="lexical", top=1)
            except StoreError as error:
                # The message names the store, but this route needs no token.
                log.warning("the health check failed: %s", error.message)
                hint = "the server's log has the reason"
                raise type(error)("the store cannot be searched", hint) from None
            return {"status": "ok"}

        return await context.check_health(request, work)

    @routes.get(
        "/healthz",
        summary="Check that the process responds",
        description="Does not use the store. For a supervisor that restarts a hung process.",
        openapi_extra=operation(_HEALTH, example={"status": "ok"}),
    )
    async def alive() -> Response:
        return json_response({"status": "ok"})

    @routes.get(
        "/readyz",
        summary="Check that the server can answer searches, for a load balancer",
        description="The status is 503 while the store cannot be reached.",
        openapi_extra=operation(_HEALTH, example={"status": "ok"}),
    )
    async def is_ready(request: Request, context: Context) -> Response:
        return await health(request, context)

    @routes.get(
        "/metrics",
        summary="Counters and latencies in Prometheus format",
        openapi_extra=operation({"type": "string"}, media_type="text/plain"),
        response_class=PlainTextResponse,
    )
    async def metrics(request: Request, context: Context) -> Response:
        def work() -> Response:
            text = context.metrics.text(_store_gauges(context.kb) | _pool_gauges(context))
            return PlainTextResponse(text, media_type=_PROMETHEUS)

        return await context.read(request, work)

    return routes


def _store_gauges(kb: KnowledgeBase) -> dict[str, float]:
    status = kb.status()
    models = status["vectors"]["models"]
    return {
        "kb_documents": status["documents"],
        "kb_chunks": status["chunks"],
        "kb_chunks_pending": status["vectors"]["pending"],
        "kb_chunks_failed": sum(model["failed"] for model in models[:1]),
        "kb_store_bytes": status["size_bytes"],
    }


def _pool_gauges(context: ServerContext) -> dict[str, float]:
    searches = (context.searches, context.local_searches)
    writes = (context.writes, context.ingests, context.uploads)
    return {
        "kb_passages_taken": context.passages.task_count,
        "kb_reads_taken": context.reads.task_count,
        "kb_searches_taken": sum(pool.task_count for pool in searches),
        "kb_writes_taken": sum(pool.task_count for pool in writes),
    }
