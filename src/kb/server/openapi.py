"""The OpenAPI document. Its schemas come from `kb/schemas`, the only place that lists fields.

Routes describe their request and response with `operation`; `install` adds the schemas, and the
errors that every route may return.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi

from kb.errors import InvalidRequest, short_repr
from kb.types import JsonDict

_JSON = "application/json"
_URN = "urn:kb:"
_COMPONENTS = "#/components/schemas/"


def ref(name: str) -> JsonDict:
    """A reference to one of the package's schemas."""
    return {"$ref": f"{_COMPONENTS}{name}"}


def operation(
    response: str | JsonDict,
    *,
    example: Any = None,
    request: str | JsonDict | None = None,
    request_example: Any = None,
    status: int = 200,
    media_type: str = _JSON,
) -> JsonDict:
    """The request and response of a route, for `openapi_extra`. Each is the name of a schema, or a
    schema."""
    extra: JsonDict = {
        "responses": {str(status): {"content": {media_type: _content(response, example)}}}
    }
    if request is not None:
        content = {_JSON: _content(request, request_example)}
        extra["requestBody"] = {"required": True, "content": content}
    return extra


def _content(schema: str | JsonDict, example: Any) -> JsonDict:
    content = {"schema": ref(schema) if isinstance(schema, str) else schema}
    return content if example is None else content | {"example": example}


def install(app: FastAPI) -> None:
    """Make `app.openapi()` return this document."""

    def document() -> JsonDict:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # as FastAPI documents it


def _document(app: FastAPI) -> JsonDict:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    document["components"] = {"schemas": _schemas()}
    if app.state.rules.token is not None:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    error = {"description": "An error.", "content": {_JSON: {"schema": ref("error.v1")}}}
    for operations in document["paths"].values():
        for each in operations.values():
            each["responses"].pop("422", None)  # FastAPI's own error schema
            each["responses"] |= {"4XX": error, "5XX": error}
    return document


def _schemas() -> JsonDict:
    folder = resources.files("kb") / "schemas"
    schemas = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        name = file.name.removesuffix(".json")
        schema = json.loads(file.read_text(encoding="utf-8"))
        del schema["$schema"], schema["$id"]
        schemas[name] = _rebase(schema, name)
    return schemas


def _rebase(value: Any, name: str) -> Any:
    """Rewrite the references of a schema so that they start at the document's root."""
    if isinstance(value, list):
        return [_rebase(each, name) for each in value]
    if not isinstance(value, dict):
        return value
    schema = {key: _rebase(each, name) for key, each in value.items()}
    target = schema.get("$ref")
    if isinstance(target, str) and target.startswith(_URN):
        schema["$ref"] = _COMPONENTS + target.removeprefix(_URN).replace("#/", "/")
    elif isinstance(target, str) and target.startswith("#/$defs/"):
        schema["$ref"] = f"{_COMPONENTS}{name}{target[1:]}"
    return schema


async def refuse_unknown_parameters(request: Request) -> None:
    """Raise `InvalidRequest` for an unknown query parameter. A dependency of every API route; the
    web page reads its own parameters."""
    path = getattr(request.scope.get("route"), "path", "")
    if (operations := request.app.openapi()["paths"].get(path)) is None:
        return
    parameters = operations.get(request.method.lower(), {}).get("parameters", [])
    known = [each["name"] for each in parameters if each["in"] == "query"]
    for name in request.query_params:
        if name not in known:
            hint = f"known parameters: {', '.join(known) or 'none'}"
            raise InvalidRequest(f"unknown parameter {short_repr(name)}", hint)
