"""Routes of the document page: a rendered document, pages of a PDF, images, and original files.

Images are sent as base64 in JSON, because an `img` element cannot send the server's token.
"""

from __future__ import annotations

import base64
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from kb import wire
from kb.errors import InvalidRequest, NotFound
from kb.ingest.page_image import page_image
from kb.library.images import MAX_IMAGE_BYTES
from kb.library.rendering_process import render_within_limits
from kb.server.context import Context
from kb.server.documents import ENCODING_COPIES, Uri, reserve_document
from kb.server.memory import RequestMemory
from kb.server.openapi import operation
from kb.text.citations import parse_uri
from kb.types import JsonDict

_COPIES = 24  # for a text: its elements take many times its size
_BINARY = {"type": "string", "format": "binary"}

Name = Annotated[str, Query(description="A document's path.", examples=["lib/paper.pdf"])]


def router() -> APIRouter:
    routes = APIRouter(tags=["documents"])

    @routes.get(
        "/renderings",
        summary="Read a whole document, rendered for the document page",
        description="The cited lines are in `citation`. Counts as an access.",
        openapi_extra=operation("rendering.v1"),
    )
    async def rendering(request: Request, context: Context, uri: Uri) -> Response:
        def work(memory: RequestMemory) -> JsonDict:
            reserve_document(context.view(request), uri, memory, text_copies=_COPIES)
            cited = context.view(request).get(uri)
            whole = context.view(request).get(cited.document.doc_path, count=False)
            memory.reserve_response(_COPIES * len(whole.text))
            rendered = render_within_limits(
                whole.document.doc_path, whole.document.type, whole.text
            )
            return wire.rendering(cited, whole, rendered)

        return await context.read_large(request, work)

    @routes.get(
        "/page-images",
        summary="Show a page of a PDF as an image",
        description="`boxes` are the positions of the passage, as fractions of the page: left, "
        "top, width, height.",
        openapi_extra=operation("image.v1"),
    )
    async def page(
        request: Request,
        context: Context,
        document: Name,
        page: Annotated[int, Query(ge=1, le=100_000)],
        chunk: Annotated[
            int | None, Query(description="The id of the passage to highlight.")
        ] = None,
    ) -> Response:
        def work(memory: RequestMemory) -> JsonDict:
            found = context.view(request).document(document)
            if found.type != "pdf":
                raise InvalidRequest(f"{found.doc_path} has no pages", "read it as a document")
            memory.reserve_response(2 * found.size_bytes + MAX_IMAGE_BYTES)
            passage = "" if chunk is None else context.view(request).chunk(chunk).text
            image = page_image(context.view(request).original(found.doc_path), page, passage)
            return {"schema_version": "image.v1", "media_type": "image/png", **image}

        return await context.read_large(request, work)

    @routes.get(
        "/images",
        summary="Read an image that a document shows",
        openapi_extra=operation("image.v1"),
    )
    async def image(
        request: Request,
        context: Context,
        document: Name,
        path: Annotated[str, Query(description="The path, relative to the document.")],
    ) -> Response:
        def work(memory: RequestMemory) -> JsonDict:
            view = context.view(request)
            reserve_document(view, document, memory, least=ENCODING_COPIES * MAX_IMAGE_BYTES)
            media_type, data = view.image(document, path)
            return {
                "schema_version": "image.v1",
                "media_type": media_type,
                "image": base64.b64encode(data).decode(),
                "width": None,
                "height": None,
                "pages": None,
                "boxes": [],
            }

        return await context.read_large(request, work)

    @routes.get(
        "/originals/{doc_path:document_path}",
        summary="Download the file of a document",
        openapi_extra=operation(_BINARY, media_type="application/octet-stream"),
    )
    async def original(request: Request, context: Context, doc_path: str) -> Response:
        def work(memory: RequestMemory) -> Response:
            found = context.view(request).document(doc_path)
            memory.reserve_response(2 * found.size_bytes)
            data = context.view(request).original(doc_path)
            headers = {"Content-Disposition": "attachment"}
            return Response(data, media_type="application/octet-stream", headers=headers)

        if parse_uri(doc_path or "/").path == "/":
            raise NotFound("the path of the document is missing", "see: GET /documents")
        return await context.read_large(request, work)

    return routes
