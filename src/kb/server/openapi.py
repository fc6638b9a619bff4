"""The OpenAPI document. Its shapes are those of `kb/schemas`: there is no second list of fields.

Routes say by `says` what they take and give; `install` puts the shapes in, and the errors that
every route may answer with.
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
    """A shape of the package, by name."""
    return {"$ref": f"{_COMPONENTS}{name}"}


def says(
    gives: str | JsonDict,
    *,
    example: Any = None,
    takes: str | JsonDict | None = None,
    asks: Any = None,
    status: int = 200,
    media_type: str = _JSON,
) -> JsonDict:
    """What a route takes and gives, for `openapi_extra`: the names of shapes, or schemas. `asks`
    and `example` are examples of the request and of the answer."""
    told: JsonDict = {
        "responses": {str(status): {"content": {media_type: _content(gives, example)}}}
    }
    if takes is not None:
        told["requestBody"] = {"required": True, "content": {_JSON: _content(takes, asks)}}
    return told


def _content(shape: str | JsonDict, example: Any) -> JsonDict:
    told = {"schema": ref(shape) if isinstance(shape, str) else shape}
    return told if example is None else told | {"example": example}


def install(app: FastAPI) -> None:
    """Have `app.openapi()` give the document."""

    def document() -> JsonDict:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's own way to change it


def _document(app: FastAPI) -> JsonDict:
    made = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    made["components"] = {"schemas": _shapes()}
    if app.state.rules.token is not None:
        made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
    error = {"description": "What went wrong.", "content": {_JSON: {"schema": ref("error.v1")}}}
    for operations in made["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)  # FastAPI's own form of an error
            operation["responses"] |= {"4XX": error, "5XX": error}
    return made


def _shapes() -> JsonDict:
    folder = resources.files("kb") / "schemas"
    found = {}
    for each in sorted(folder.iterdir(), key=lambda file: file.name):
        name = each.name.removesuffix(".json")
        schema = json.loads(each.read_text(encoding="utf-8"))
        del schema["$schema"], schema["$id"]
        found[name] = _rooted(schema, name)
    return found


def _rooted(value: Any, name: str) -> Any:
    """References as they are reached from the root of the document."""
    if isinstance(value, list):
        return [_rooted(each, name) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: _rooted(each, name) for key, each in value.items()}
    target = made.get("$ref")
    if isinstance(target, str) and target.startswith(_URN):
        made["$ref"] = _COMPONENTS + target.removeprefix(_URN).replace("#/", "/")
    elif isinstance(target, str) and target.startswith("#/$defs/"):
        made["$ref"] = f"{_COMPONENTS}{name}{target[1:]}"
    return made


async def refuse_unknown(request: Request) -> None:
    """A dependency of every route of the API: a parameter that it does not have is an error, as an
    unknown field is. The page reads its address by itself."""
    path = getattr(request.scope.get("route"), "path", "")
    if (operations := request.app.openapi()["paths"].get(path)) is None:
        return
    told = operations.get(request.method.lower(), {}).get("parameters", [])
    known = [each["name"] for each in told if each["in"] == "query"]
    for name in request.query_params:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise InvalidRequest(
                f"there is no parameter {short_repr(name)}", f"parameters: {listed}"
            )
