"""Routes: documents, passages, chunks, tags."""

from __future__ import annotations

import sys
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.convertors import PathConvertor, register_url_convertor

from kb import wire
from kb.errors import InvalidCitation, InvalidRequest, NotFound
from kb.library import notes
from kb.library.knowledge_base import KnowledgeBase
from kb.server import upload_folder
from kb.server.access import describe_write
from kb.server.context import Context
from kb.server.memory import RequestMemory
from kb.server.openapi import operation
from kb.server.request_bodies import check_fields
from kb.text.citations import parse_uri
from kb.types import KINDS, SCOPES, TRUSTS, Filters, JsonDict

_STRINGS = {"type": "array", "items": {"type": "string"}}
_NOTE: JsonDict = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1},
        "title": {"type": ["string", "null"]},
        "tags": {"type": ["array", "null"], "items": {"type": "string"}},
        "kind": {"enum": [*KINDS, None]},
        "scope": {"enum": [*SCOPES, None]},
        "trust": {"enum": [*TRUSTS, None]},
        "lang": {"type": ["string", "null"]},
        "ttl": {
            "description": "Time to live: `7d`, `12h`, `never`.",
            "type": ["string", "null"],
        },
        "metadata": {"type": ["object", "null"]},
    },
    "required": ["text"],
    "additionalProperties": False,
}
_NOTE_FIELDS = {"text": str, "title": str, "tags": list, "kind": str, "scope": str, "trust": str,
                "lang": str, "ttl": str, "metadata": dict}  # fmt: skip
_NOTE_EXAMPLE = {
    "text": "The gateway retries with jitter.",
    "tags": ["gateway"],
    "kind": "lesson",
}
_EDIT = {
    "type": "object",
    "properties": {
        **{name: _NOTE["properties"][name] for name in ("text", "title", "tags", "kind")},
        "ttl": {
            "description": "Time to live from now: `7d`, `12h`, `never`; by default, as before.",
            "type": ["string", "null"],
        },
        "version": {
            "description": "The version that was edited. If the note has another one, nothing is "
            "written, and the status is 409.",
            "type": "string",
        },
    },
    "required": ["text", "version"],
    "additionalProperties": False,
}
_EDIT_FIELDS = {"text": str, "title": str, "tags": list, "kind": str, "ttl": str, "version": str}
_EDIT_EXAMPLE = {"text": "The gateway retries with jitter.", "version": "1f0c8d"}
_EDITABLE = {
    "type": "object",
    "description": "What can be edited of a note. `title` is null if it comes from the text.",
    "properties": {
        "doc_path": {"type": "string"},
        "text": {"type": "string"},
        "title": {"type": ["string", "null"]},
        "tags": _STRINGS,
        "kind": {"type": ["string", "null"]},
        "expires_at": {"type": ["string", "null"]},
        "version": {"type": "string"},
    },
    "required": ["doc_path", "text", "title", "tags", "kind", "expires_at", "version"],
    "additionalProperties": False,
}
_TAGS = {
    "type": "object",
    "properties": {
        "document": {"type": "string"},
        "add": {"type": "array", "items": {"type": "string"}},
        "remove": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["document"],
    "additionalProperties": False,
}
_TAGS_FIELDS = {"document": str, "add": list, "remove": list}
_TAGS_EXAMPLE = {"document": "note:1", "add": ["gateway"]}
_READING_COPIES = 8  # for a file: its bytes and the decoded text, at up to four bytes a character
ENCODING_COPIES = 3  # for a text: itself, the JSON text and its bytes

_Texts = Annotated[list[str] | None, Query()]
_Text = Annotated[str | None, Query()]
Limit = Annotated[int, Query(ge=1, description="Maximum number of results.")]
Offset = Annotated[int, Query(ge=0, le=1_000_000_000, description="Number of results to skip.")]
Uri = Annotated[
    str, Query(description="A citation or a document's path.", examples=["lib/a.md#L3-L9"])
]


class _DocumentPath(PathConvertor):
    """The rest of a URL path. Unlike the convertor `path`, it accepts line breaks, which a file's
    name may contain."""

    regex = r"[\s\S]*"


register_url_convertor("document_path", _DocumentPath())


async def _filters(
    tags: _Texts = None,
    tags_any: _Texts = None,
    type: _Texts = None,  # the parameter's name in the API
    kind: _Texts = None,
    scope: _Text = None,
    lang: _Text = None,
    path_glob: _Text = None,
    links_to: _Text = None,
    trust_min: _Text = None,
    after: _Text = None,
    before: _Text = None,
) -> Filters:
    """The search filters as query parameters; lists repeat their parameter."""
    values = {"tags": tags, "tags_any": tags_any, "type": type, "kind": kind, "scope": scope,
              "lang": lang, "path_glob": path_glob, "links_to": links_to,
              "trust_min": trust_min, "after": after, "before": before}  # fmt: skip
    return wire.read_filters(values)


FilterParameters = Annotated[Filters, Depends(_filters)]


def router() -> APIRouter:
    routes = APIRouter(tags=["documents"])

    @routes.get(
        "/documents", summary="List documents by path", openapi_extra=operation("documents.v1")
    )
    async def list_documents(
        request: Request,
        context: Context,
        filters: FilterParameters,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> Response:
        size = min(limit, context.limits.max_page)

        def work() -> JsonDict:
            kb = context.view(request)
            return wire.documents(*kb.documents_page(filters, limit=size, offset=offset))

        return await context.read(request, work)

    @routes.post(
        "/documents",
        summary="Store a note",
        status_code=201,
        openapi_extra=operation(
            "document.v1", request=_NOTE, request_example=_NOTE_EXAMPLE, status=201
        ),
    )
    async def add(request: Request, context: Context) -> Response:
        note = check_fields(await context.body(request), _NOTE_FIELDS, required=("text",))
        kb = context.view(request)

        def work() -> JsonDict:
            document = kb.add(**note)
            describe_write(request.scope, document=document.doc_path)
            return wire.document(document)

        response = await context.write(request, work, 201)
        context.worker.wake()
        return response

    @routes.get(
        "/documents/{doc_path:document_path}",
        summary="Describe one document",
        openapi_extra=operation("document.v1"),
    )
    async def get_document(request: Request, context: Context, doc_path: str) -> Response:
        kb = context.view(request)
        return await context.read(request, lambda: wire.document(kb.document(doc_path)))

    @routes.get(
        "/notes/{doc_path:document_path}",
        summary="Read a note to edit it",
        openapi_extra=operation(_EDITABLE),
    )
    async def get_note(request: Request, context: Context, doc_path: str) -> Response:
        def work(memory: RequestMemory) -> JsonDict:
            reserve_document(context.view(request), doc_path, memory)
            return _editable(context.view(request), doc_path)

        return await context.read_large(request, work)

    @routes.put(
        "/notes/{doc_path:document_path}",
        summary="Edit a note",
        description="It keeps its path, and the attributes that cannot be edited.",
        openapi_extra=operation(_EDITABLE, request=_EDIT, request_example=_EDIT_EXAMPLE),
    )
    async def edit(request: Request, context: Context, doc_path: str) -> Response:
        fields = check_fields(
            await context.body(request), _EDIT_FIELDS, required=("text", "version")
        )
        describe_write(request.scope, document=doc_path)

        def work() -> JsonDict:
            kb = context.view(request)
            return _editable(kb, kb.edit(doc_path, **fields).doc_path)

        response = await context.write(request, work)
        context.worker.wake()
        return response

    @routes.delete(
        "/documents/{doc_path:document_path}",
        summary="Remove a document",
        description="Its file is kept, unless it was uploaded and is unchanged.",
        openapi_extra=operation("removed.v1"),
    )
    async def remove(request: Request, context: Context, doc_path: str) -> Response:
        if doc_path.endswith("/"):
            raise InvalidRequest("a folder cannot be removed over HTTP", "use: kb rm FOLDER/")

        def work() -> JsonDict:
            removed = upload_folder.remove(context.view(request), doc_path)
            return {"schema_version": "removed.v1", "removed": removed}

        return await context.write(request, work)

    @routes.get(
        "/passages",
        summary="Read a cited passage or a whole document",
        description="Says whether the file has changed since it was indexed. Counts as an access.",
        openapi_extra=operation("passage.v1"),
    )
    async def passage(
        request: Request,
        context: Context,
        uri: Uri,
        quiet: Annotated[bool, Query(description="Do not count this as an access.")] = False,
    ) -> Response:
        def work(memory: RequestMemory) -> JsonDict:
            kb = context.view(request)
            reserve_document(kb, uri, memory)
            passage = kb.get(uri, count=not quiet)
            memory.reserve_response(ENCODING_COPIES * sys.getsizeof(passage.text))
            return wire.passage(passage)

        return await context.read_large(request, work)

    @routes.get(
        "/chunks",
        summary="List the passages of a document as they were indexed",
        openapi_extra=operation("chunks.v1"),
    )
    async def list_chunks(
        request: Request,
        context: Context,
        document: Annotated[str, Query(description="A document's path.")],
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> Response:
        end = offset + min(limit, context.limits.max_page)

        def work(memory: RequestMemory) -> JsonDict:
            kb = context.view(request)
            reserve_document(kb, document, memory)
            chunks = kb.chunks(document)
            next_offset = end if len(chunks) > end else None
            return wire.chunks(document, chunks[offset:end], next_offset)

        return await context.read_large(request, work)

    @routes.get(
        "/chunks/{chunk_id}", summary="Read one passage", openapi_extra=operation("chunk.v1")
    )
    async def get_chunk(request: Request, context: Context, chunk_id: int) -> Response:
        kb = context.view(request)
        return await context.read(request, lambda: wire.chunk(kb.chunk(chunk_id)))

    @routes.get("/tags", summary="List tags with their counts", openapi_extra=operation("tags.v1"))
    async def list_tags(request: Request, context: Context) -> Response:
        kb = context.view(request)
        return await context.read(request, lambda: {"schema_version": "tags.v1", "tags": kb.tags()})

    @routes.post(
        "/tags",
        summary="Add tags to a document, or remove them",
        openapi_extra=operation("document.v1", request=_TAGS, request_example=_TAGS_EXAMPLE),
    )
    async def tag(request: Request, context: Context) -> Response:
        fields = check_fields(await context.body(request), _TAGS_FIELDS, required=("document",))
        name = fields.pop("document")
        describe_write(request.scope, document=name, **fields)
        kb = context.view(request)
        return await context.write(request, lambda: wire.document(kb.tag(name, **fields)))

    return routes


def _editable(kb: KnowledgeBase, doc_path: str) -> JsonDict:
    document = kb.document(doc_path)
    notes.check_editable(document, None)
    text = kb.get(document.doc_path, count=False).text
    return {
        "doc_path": document.doc_path,
        "text": text,
        "title": notes.own_title(document, text),
        "tags": sorted(document.tags),
        "kind": document.kind,
        "expires_at": document.expires_at,
        "version": notes.version(document),
    }


def reserve_document(
    kb: KnowledgeBase, uri: str, memory: RequestMemory, *, text_copies: int = 0, least: int = 0
) -> None:
    """Reserve the memory that reading a document takes, with `text_copies` of its text, and at
    least `least` bytes. Everything is reserved at once, because a request that already holds memory
    does not wait for more. If `uri` is not a plain citation, only `least` bytes are reserved: the
    read will report an error, or find the document by a part of its path."""
    try:
        document = kb.document(parse_uri(uri).path)
    except (NotFound, InvalidCitation):
        memory.reserve_response(least)
        return
    copies = _READING_COPIES if document.type == "pdf" else max(_READING_COPIES, text_copies)
    memory.reserve_response(max(least, copies * document.size_bytes))
