"""Turns errors into `error.v1` responses with their HTTP status."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from kb.errors import (
    ClientGone,
    InvalidRequest,
    KbError,
    MalformedRequest,
    NotFound,
    TooBusy,
    TooManyRequests,
    WrongMethod,
    short_repr,
)
from kb.logs import logger

log = logger("kb.server")

_RETRY_AFTER_S = "1"
_INTERNAL = {
    "code": "internal_error",
    "message": "an internal error occurred",
    "hint": "see the server's log, and please report this error",
}


def error_response(error: KbError) -> JSONResponse:
    """The response to a request that failed with this error."""
    headers = {}
    if isinstance(error, TooBusy) or error.code == "store_busy":
        headers["Retry-After"] = _RETRY_AFTER_S
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, MalformedRequest):
        headers["Connection"] = "close"  # the start of the next request is unknown
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error.to_dict(), error.http_status, headers)


def internal_error_response(error: Exception) -> JSONResponse:
    """The response to a request that hit a bug. Only the log gets the details."""
    log.error("internal error", exc_info=error)
    return JSONResponse(_INTERNAL, 500)


def install(app: FastAPI) -> None:
    """Register the error handlers of `app`."""

    async def kb_error(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, KbError)
        if isinstance(error, ClientGone):
            raise error  # the guard handles it
        return error_response(error)

    async def validation_error(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return error_response(_from_validation(error))

    async def http_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return error_response(_from_routing(request, error))

    app.add_exception_handler(KbError, kb_error)
    app.add_exception_handler(RequestValidationError, validation_error)
    app.add_exception_handler(HTTPException, http_error)


def _from_validation(error: RequestValidationError) -> KbError:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"][1:]) or "the request"
    return InvalidRequest(
        f"{name} cannot be {short_repr(first.get('input'))}: {first['msg']}", "see /openapi.json"
    )


def _from_routing(request: Request, error: HTTPException) -> KbError:
    path = short_repr(request.url.path)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return WrongMethod(f"{path} does not support {request.method}", f"it supports: {allowed}")
    if error.status_code == 404:
        return NotFound(f"no route {path}", "see /openapi.json")
    return InvalidRequest(str(error.detail), "see /openapi.json")
