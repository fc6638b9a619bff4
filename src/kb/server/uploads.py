"""Route: uploads."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from kb import wire
from kb.server import request_bodies, upload_folder
from kb.server.context import Context, ServerContext
from kb.server.openapi import operation

_UPLOAD_BODY = {
    "required": True,
    "content": {"application/octet-stream": {"schema": {"type": "string"}}},
}
_WRITE_BYTES = 256 * 1024


def router() -> APIRouter:
    routes = APIRouter(tags=["ingest"])

    @routes.put(
        "/uploads/{name}",
        summary="Store a file and ingest it",
        description="The body is the file. It replaces an earlier upload of this name. The status "
        "is 409 if a file of this name was not uploaded, or was edited since.",
        status_code=201,
        openapi_extra=operation("ingest_report.v1", status=201) | {"requestBody": _UPLOAD_BODY},
    )
    async def upload(request: Request, context: Context, name: str) -> Response:
        upload_folder.check_name(name)
        with context.upload_slots.acquire():
            upload = upload_folder.Upload(context.kb, name)
            try:
                await _receive(request, upload, context)
                response = await context.upload(
                    request, lambda: wire.ingest_report(upload.commit())
                )
            finally:
                upload.close()
        context.worker.wake()
        return response

    return routes


async def _receive(request: Request, upload: upload_folder.Upload, context: ServerContext) -> None:
    """Write the body to disk as it arrives."""
    pending = bytearray()
    async for part in request_bodies.parts(request, limit_bytes=context.limits.max_upload_bytes):
        pending += part
        if len(pending) >= _WRITE_BYTES:
            await asyncio.to_thread(upload.write, bytes(pending))
            pending.clear()
    await asyncio.to_thread(upload.write, bytes(pending))
