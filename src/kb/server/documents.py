"""Routes about what is in the store: documents, passages, chunks, tags."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from kb import wire
from kb.errors import InvalidRequest
from kb.server import uploads
from kb.server.context import AtDesk, told
from kb.server.openapi import says
from kb.server.request_bodies import fields_of
from kb.types import KINDS, SCOPES, TRUSTS, Filters

_NOTE = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1},
        "title": {"type": ["string", "null"]},
        "tags": {"type": ["array", "null"], "items": {"type": "string"}},
        "kind": {"enum": [*KINDS, None]},
        "scope": {"enum": [*SCOPES, None]},
        "trust": {"enum": [*TRUSTS, None]},
        "lang": {"type": ["string", "null"]},
        "ttl": {"description": "7d, 12h, never.", "type": ["string", "null"]},
        "metadata": {"type": ["object", "null"]},
    },
    "required": ["text"],
    "additionalProperties": False,
}
_NOTE_FIELDS = {"text": str, "title": str, "tags": list, "kind": str, "scope": str, "trust": str,
                "lang": str, "ttl": str, "metadata": dict}  # fmt: skip
_A_NOTE = {"text": "The gateway retries with jitter.", "tags": ["gateway"], "kind": "lesson"}
_TAGGING = {
    "type": "object",
    "properties": {
        "document": {"type": "string"},
        "add": {"type": "array", "items": {"type": "string"}},
        "remove": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["document"],
    "additionalProperties": False,
}

_Texts = Annotated[list[str] | None, Query()]
_Text = Annotated[str | None, Query()]
Limit = Annotated[int, Query(ge=1, description="How many at most.")]
Offset = Annotated[int, Query(ge=0, le=1_000_000_000, description="How many to pass over.")]
Uri = Annotated[
    str, Query(description="A citation, or a document's path.", examples=["lib/a.md#L3-L9"])
]


async def _filters(
    tags: _Texts = None,
    tags_any: _Texts = None,
    type: _Texts = None,  # its name in the contract
    kind: _Texts = None,
    scope: _Text = None,
    lang: _Text = None,
    path_glob: _Text = None,
    trust_min: _Text = None,
    after: _Text = None,
    before: _Text = None,
) -> Filters:
    """The filters of a search, as parameters; those that take several may be repeated."""
    given = {"tags": tags, "tags_any": tags_any, "type": type, "kind": kind, "scope": scope,
             "lang": lang, "path_glob": path_glob, "trust_min": trust_min, "after": after,
             "before": before}  # fmt: skip
    return wire.read_filters(given)


Filtered = Annotated[Filters, Depends(_filters)]


def router() -> APIRouter:
    routes = APIRouter(tags=["documents"])

    @routes.get("/documents", summary="What there is, by path", openapi_extra=says("documents.v1"))
    async def listed(
        request: Request, desk: AtDesk, filters: Filtered, limit: Limit = 50, offset: Offset = 0
    ) -> Response:
        size = min(limit, desk.limits.max_page)
        found, next_offset = await desk.read(
            request, lambda: desk.kb.documents_page(filters, limit=size, offset=offset)
        )
        return told(wire.documents(found, next_offset))

    @routes.post(
        "/documents",
        summary="Store a note",
        status_code=201,
        openapi_extra=says("document.v1", takes=_NOTE, asks=_A_NOTE, status=201),
    )
    async def add(request: Request, desk: AtDesk) -> Response:
        note = fields_of(await desk.body(request), _NOTE_FIELDS, needed=("text",))
        document = await desk.write(request, lambda _: desk.kb.add(**note))
        desk.worker.wake()
        return told(wire.document(document), 201)

    @routes.get(
        "/documents/{doc_path:path}", summary="One document", openapi_extra=says("document.v1")
    )
    async def one(request: Request, desk: AtDesk, doc_path: str) -> Response:
        return told(wire.document(await desk.read(request, lambda: desk.kb.document(doc_path))))

    @routes.delete(
        "/documents/{doc_path:path}",
        summary="Remove a document",
        description="Its file stays where it is, unless it is still what was uploaded.",
        openapi_extra=says("removed.v1"),
    )
    async def remove(request: Request, desk: AtDesk, doc_path: str) -> Response:
        if doc_path.endswith("/"):
            raise InvalidRequest("a folder cannot be removed here", "use: kb rm FOLDER/")
        removed = await desk.write(request, lambda _: uploads.remove(desk.kb, doc_path))
        return told({"schema_version": "removed.v1", "removed": removed})

    @routes.get(
        "/passages",
        summary="Open a citation, or a whole document",
        description="Tells whether the text is still what was indexed. Counts as an access.",
        openapi_extra=says("passage.v1"),
    )
    async def passage(
        request: Request,
        desk: AtDesk,
        uri: Uri,
        quiet: Annotated[bool, Query(description="Does not count as an access.")] = False,
    ) -> Response:
        return await desk.open_passage(
            request, lambda: told(wire.passage(desk.kb.get(uri, count=not quiet)))
        )

    @routes.get(
        "/chunks",
        summary="The passages of a document, as they were indexed",
        openapi_extra=says("chunks.v1"),
    )
    async def chunks(
        request: Request,
        desk: AtDesk,
        document: Annotated[str, Query(description="A document's path.")],
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> Response:
        size = min(limit, desk.limits.max_page)
        found = await desk.read(request, lambda: desk.kb.chunks(document))
        more = offset + size if len(found) > offset + size else None
        return told(wire.chunks(document, found[offset : offset + size], more))

    @routes.get("/chunks/{chunk_id}", summary="One passage", openapi_extra=says("chunk.v1"))
    async def chunk(request: Request, desk: AtDesk, chunk_id: int) -> Response:
        return told(wire.chunk(await desk.read(request, lambda: desk.kb.chunk(chunk_id))))

    @routes.get("/tags", summary="Every tag, with its count", openapi_extra=says("tags.v1"))
    async def tags(request: Request, desk: AtDesk) -> Response:
        return told({"schema_version": "tags.v1", "tags": await desk.read(request, desk.kb.tags)})

    @routes.post(
        "/tags",
        summary="Give tags to a document, or take them away",
        openapi_extra=says("document.v1", takes=_TAGGING,
                           asks={"document": "note:1", "add": ["gateway"]}),
    )  # fmt: skip
    async def tag(request: Request, desk: AtDesk) -> Response:
        shapes = {"document": str, "add": list, "remove": list}
        asked = fields_of(await desk.body(request), shapes, needed=("document",))
        name = asked.pop("document")
        return told(wire.document(await desk.write(request, lambda _: desk.kb.tag(name, **asked))))

    return routes
