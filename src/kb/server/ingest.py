"""Routes that put in: folders and files by path, files by upload, vectors, and their progress."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from kb import wire
from kb.deadline import Deadline
from kb.errors import InvalidRequest, PathRefused, short_repr
from kb.ingest.plan import contains
from kb.server import request_bodies, uploads
from kb.server.context import AtDesk, Desk, told
from kb.server.events import progress
from kb.server.openapi import says
from kb.server.request_bodies import fields_of
from kb.types import IngestReport, JsonDict

if TYPE_CHECKING:
    from kb.ingest.progress import Progress

_MOST_PATHS = 1_000
_PATHS = {
    "type": "object",
    "description": "Without paths, everything that was ingested before is looked at again.",
    "properties": {
        "paths": {"type": "array", "items": {"type": "string"}, "maxItems": _MOST_PATHS},
        "force": {"type": "boolean"},
        "dry_run": {"type": "boolean"},
    },
    "additionalProperties": False,
}
_RETRY = {
    "type": "object",
    "properties": {"retry": {"description": "Also what was given up.", "type": "boolean"}},
    "additionalProperties": False,
}
_EVENTS = {
    "type": "string",
    "description": "Events `embedding`, `ingest` and `model`, their data JSON.",
}
_WRITE_BYTES = 256 * 1024


def router() -> APIRouter:
    routes = APIRouter(tags=["ingest"])

    @routes.post(
        "/ingest",
        summary="Read files and folders of the server's machine",
        description="Those that were ingested before, those inside them, and those inside the "
        "folders that the server was told to allow. Stops between two files when the client goes.",
        openapi_extra=says("ingest_report.v1", takes=_PATHS, asks={"paths": ["~/notes"]}),
    )
    async def ingest(request: Request, desk: AtDesk) -> Response:
        asked = fields_of(await desk.body(request), {"paths": list, "force": bool, "dry_run": bool})
        _check_paths(asked.get("paths", []))
        report = await desk.write(request, lambda deadline: _ingested(desk, asked, deadline))
        desk.worker.wake()
        return told(wire.ingest_report(report))

    @routes.put(
        "/uploads/{name}",
        summary="Store a file and ingest it",
        description="The body is the file; an earlier upload of this name is replaced. A file that "
        "was not uploaded, or was changed since, is not: the answer is 409.",
        status_code=201,
        openapi_extra=says("ingest_report.v1", status=201) | {
            "requestBody": {
                "required": True,
                "content": {"application/octet-stream": {"schema": {"type": "string"}}},
            }
        },
    )  # fmt: skip
    async def upload(request: Request, desk: AtDesk, name: str) -> Response:
        uploads.name_of(name)
        with desk.uploads.take():
            upload = uploads.Upload(desk.kb, name)
            try:
                await _receive(request, upload, desk)
                report = await desk.write(request, lambda _: upload.keep())
            finally:
                upload.close()
        desk.worker.wake()
        return told(wire.ingest_report(report), 201)

    @routes.post(
        "/embed",
        summary="Make the vectors that are missing, now",
        description="They are made without being asked for; this is for what was given up.",
        status_code=202,
        openapi_extra=says("progress.v1", takes=_RETRY, asks={"retry": True}, status=202),
    )
    async def embed(request: Request, desk: AtDesk) -> Response:
        asked = fields_of(await desk.body(request), {"retry": bool})
        desk.worker.wake(retry=asked.get("retry", False))
        return told(progress(desk.worker.state), 202)

    @routes.get(
        "/events",
        summary="Progress, as server-sent events",
        openapi_extra=says(_EVENTS, media_type="text/event-stream"),
        response_class=StreamingResponse,
    )
    async def events(desk: AtDesk) -> StreamingResponse:
        lines = desk.events.stream(desk.events.join())
        return StreamingResponse(lines, media_type="text/event-stream")

    return routes


async def _receive(request: Request, upload: uploads.Upload, desk: Desk) -> None:
    """Write the body to the disk as it arrives."""
    pending = bytearray()
    async for part in request_bodies.parts(request, limit_bytes=desk.limits.max_upload_bytes):
        pending += part
        if len(pending) >= _WRITE_BYTES:
            await asyncio.to_thread(upload.write, bytes(pending))
            pending.clear()
    await asyncio.to_thread(upload.write, bytes(pending))


def _ingested(desk: Desk, asked: JsonDict, deadline: Deadline) -> IngestReport:
    paths = _allowed(asked.get("paths", ()), desk, deadline)

    def tell(now: Progress) -> None:
        deadline.check()
        told = {"stage": now.stage, "done": now.done, "total": now.total, "path": now.path}
        desk.events.tell("ingest", told)

    try:
        return desk.kb.ingest(
            *paths,
            force=asked.get("force", False),
            dry_run=asked.get("dry_run", False),
            resolve_links=False,  # `_allowed` has; a link that has come since may lead elsewhere
            on_progress=tell,
        )
    finally:
        desk.events.tell("ingest", {"stage": "done", "done": 0, "total": 0, "path": ""})


def _check_paths(paths: list[str]) -> None:
    if len(paths) > _MOST_PATHS:
        raise InvalidRequest(
            f"there are {len(paths):,} paths, more than {_MOST_PATHS:,}",
            "name the folder that they lie in, or send several requests",
        )
    for path in paths:
        if not path.strip() or "\0" in path:
            raise InvalidRequest(f"a path cannot be {short_repr(path)}", "name a file or a folder")


def _allowed(paths: Iterable[str], desk: Desk, deadline: Deadline) -> list[str]:
    """The paths without links, each once, if clients may name them all. What lies elsewhere is not
    even looked at."""
    roots = [root.path for root in desk.kb.roots() if not root.detached]  # without links, too
    folders = [*roots, *(os.path.realpath(folder) for folder in desk.folders)]
    allowed: dict[str, None] = {}
    for given in dict.fromkeys(paths):
        deadline.check()
        path = os.path.realpath(os.path.expanduser(given))
        if not any(contains(folder, path) for folder in folders):
            raise PathRefused(
                f"{given} lies in no folder that may be ingested from here",
                "start the server with --ingest-from FOLDER, or use: kb ingest",
            )
        allowed[path] = None
    return list(allowed)
