"""Routes: ingest, embed, progress."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from kb import wire
from kb.deadline import Deadline
from kb.errors import InvalidRequest, PathRefused, short_repr
from kb.ingest.plan import contains
from kb.library.ingestion import single_files
from kb.server.access import describe_write, is_still_allowed
from kb.server.context import Context, ServerContext, json_response
from kb.server.events import progress
from kb.server.openapi import operation
from kb.server.request_bodies import check_fields
from kb.types import IngestReport, JsonDict

if TYPE_CHECKING:
    from kb.ingest.progress import Progress

_MAX_PATHS = 1_000
_INGEST = {
    "type": "object",
    "description": "Without paths, everything in the store is refreshed.",
    "properties": {
        "paths": {"type": "array", "items": {"type": "string"}, "maxItems": _MAX_PATHS},
        "force": {"type": "boolean"},
        "dry_run": {"type": "boolean"},
    },
    "additionalProperties": False,
}
_INGEST_FIELDS = {"paths": list, "force": bool, "dry_run": bool}
_EMBED = {
    "type": "object",
    "properties": {
        "retry": {"description": "Also retry failed passages.", "type": "boolean"},
    },
    "additionalProperties": False,
}
_EVENTS = {
    "type": "string",
    "description": "The events `embedding`, `ingest` and `model`; their data is JSON.",
}


def router() -> APIRouter:
    routes = APIRouter(tags=["ingest"])

    @routes.post(
        "/ingest",
        summary="Ingest files and folders on the server's machine",
        description="Allowed paths are files and folders ingested before, those inside these "
        "folders, and those inside the folders given with `--ingest-from`. If the client "
        "disconnects, the ingest stops after the current file.",
        openapi_extra=operation(
            "ingest_report.v1", request=_INGEST, request_example={"paths": ["~/notes"]}
        ),
    )
    async def ingest(request: Request, context: Context) -> Response:
        fields = check_fields(await context.body(request), _INGEST_FIELDS)
        describe_write(request.scope, paths=fields.get("paths", []))
        _check_paths(fields.get("paths", []))
        response = await context.ingest(
            request, lambda deadline: wire.ingest_report(_ingest(context, fields, deadline))
        )
        context.worker.wake()
        return response

    @routes.post(
        "/embed",
        summary="Embed pending passages now",
        description="New passages are embedded automatically; use this to retry failed ones.",
        status_code=202,
        openapi_extra=operation(
            "progress.v1", request=_EMBED, request_example={"retry": True}, status=202
        ),
    )
    async def embed(request: Request, context: Context) -> Response:
        fields = check_fields(await context.body(request), {"retry": bool})
        context.worker.wake(retry=fields.get("retry", False))
        return json_response(progress(context.worker.state), 202)

    @routes.get(
        "/events",
        summary="Stream progress as server-sent events",
        openapi_extra=operation(_EVENTS, media_type="text/event-stream"),
        response_class=StreamingResponse,
    )
    async def events(request: Request, context: Context) -> StreamingResponse:
        subscriber = context.events.subscribe()
        lines = context.events.stream(subscriber, lambda: is_still_allowed(request.scope))
        return StreamingResponse(lines, media_type="text/event-stream")

    return routes


def _ingest(context: ServerContext, fields: JsonDict, deadline: Deadline) -> IngestReport:
    paths = _allowed_paths(fields.get("paths", ()), context, deadline)

    def publish(now: Progress) -> None:
        deadline.check()
        data = {"stage": now.stage, "done": now.done, "total": now.total, "path": now.path}
        context.events.publish("ingest", data)

    try:
        return context.kb.ingest(
            *paths,
            force=fields.get("force", False),
            dry_run=fields.get("dry_run", False),
            resolve_links=False,  # already resolved; a link created since then may lead elsewhere
            on_progress=publish,
        )
    finally:
        context.events.publish("ingest", {"stage": "done", "done": 0, "total": 0, "path": ""})


def _check_paths(paths: list[str]) -> None:
    if len(paths) > _MAX_PATHS:
        raise InvalidRequest(
            f"too many paths: {len(paths):,}; the limit is {_MAX_PATHS:,}",
            "send their folder, or several requests",
        )
    for path in paths:
        if not path.strip() or "\0" in path:
            raise InvalidRequest(f"{short_repr(path)} is not a path", "send a file or a folder")


def _allowed_paths(paths: Sequence[str], context: ServerContext, deadline: Deadline) -> list[str]:
    """Resolve links and drop duplicates. Raises `PathRefused` for a path outside the allowed
    folders, whether it exists or not."""
    roots = [root for root in context.kb.roots() if not root.detached]  # already resolved
    folders = [root.path for root in roots if root.whole]
    folders += [os.path.realpath(folder) for folder in context.folders]
    # The folder of a root that is not whole was never ingested, only files in it, such as uploads.
    files = single_files(context.kb) if paths else set()
    allowed: dict[str, None] = {}
    for given in dict.fromkeys(paths):
        deadline.check()
        path = os.path.realpath(os.path.expanduser(given))
        if path not in files and not any(contains(folder, path) for folder in folders):
            raise PathRefused(
                f"{given} is outside the folders that may be ingested over HTTP",
                "start the server with --ingest-from FOLDER, or use: kb ingest",
            )
        allowed[path] = None
    return list(allowed)
