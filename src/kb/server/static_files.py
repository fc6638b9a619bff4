"""Serves the files of the web page. They are listed at startup: a request never opens a path."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from kb.errors import NotFound
from kb.search.retrievers import registry

_METHODS = ["GET", "HEAD"]
_RETRIEVERS = "retrievers.js"
_MESSAGES = "messages.json"
_COLORS = 3  # of retrievers in the style sheet; further retrievers share one
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class _File(NamedTuple):
    data: bytes
    type: str
    etag: str


@cache
def _files() -> dict[str, _File]:
    files = {}
    web = resources.files("kb.server") / "web"
    messages = json.loads((web / _MESSAGES).read_text("utf-8"))
    for language in next(iter(messages.values())):
        translated = {text: each[language] for text, each in messages.items()}
        module = f"export const MESSAGES = {json.dumps(translated, ensure_ascii=False)};\n"
        files[f"messages-{language}.js"] = _file(module.encode(), ".js")
    for file in web.iterdir():
        suffix = file.name[file.name.rfind(".") :]
        if suffix in _TYPES:
            files[file.name] = _file(file.read_bytes(), suffix)
    return files


def router() -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.api_route("/", methods=_METHODS)
    async def page(request: Request) -> Response:
        return _response("index.html", request)

    @routes.api_route("/library", methods=_METHODS)
    async def library_page(request: Request) -> Response:
        return _response("library.html", request)

    @routes.api_route("/read/{doc_path:document_path}", methods=_METHODS)
    async def document_page(request: Request) -> Response:
        return _response("read.html", request)

    @routes.api_route("/assets/{name}", methods=_METHODS)
    async def asset(name: str, request: Request) -> Response:
        return _response(name, request)

    return routes


def _retrievers() -> _File:
    """The registered retrievers as a JavaScript module, so that the page needs no list of them."""
    entries = [
        {
            "name": spec.name,
            "mode": spec.mode,
            "source": spec.source,
            "label": spec.label.capitalize(),
            "style": f"by-{number}" if number <= _COLORS else "by-other",
        }
        for number, spec in enumerate(registry.specs(), start=1)
    ]
    return _file(f"export const RETRIEVERS = {json.dumps(entries)};\n".encode(), ".js")


def _file(data: bytes, suffix: str) -> _File:
    return _File(data, _TYPES[suffix], f'"{sha256(data).hexdigest()[:20]}"')


def _response(name: str, request: Request) -> Response:
    file = _retrievers() if name == _RETRIEVERS else _files().get(name)
    if file is None:
        raise NotFound("the web page has no such file", "open /")
    headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.data, media_type=file.type, headers=headers)
