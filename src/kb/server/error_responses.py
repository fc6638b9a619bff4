"""Every error as error.v1, with the status that fits."""

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
    WrongMethod,
    short_repr,
)
from kb.logs import logger

log = logger("kb.server")

_RETRY_AFTER_S = "1"
_INTERNAL = {
    "code": "internal_error",
    "message": "something went wrong inside kb",
    "hint": "the server's log tells more; please report it",
}


def answer(error: KbError) -> JSONResponse:
    """The response that tells this error."""
    headers = {}
    if isinstance(error, TooBusy) or error.code == "store_busy":
        headers["Retry-After"] = _RETRY_AFTER_S
    if isinstance(error, MalformedRequest):
        headers["Connection"] = "close"  # where the next request begins is not known
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(_readable(error.to_dict()), error.http_status, headers)


def internal(error: Exception) -> JSONResponse:
    """A bug: told in the log with all there is to know, to the client without any of it."""
    log.error("internal error", exc_info=error)
    return JSONResponse(_INTERNAL, 500)


def install(app: FastAPI) -> None:
    """Have `app` answer with these."""

    async def ours(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, KbError)
        if isinstance(error, ClientGone):
            raise error  # the guard knows why
        return answer(error)

    async def invalid(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return answer(_of_parameters(error))

    async def plain(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return answer(_of_routing(request, error))

    app.add_exception_handler(KbError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, plain)


def _of_parameters(error: RequestValidationError) -> KbError:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"][1:]) or "the request"
    return InvalidRequest(
        f"{name} cannot be {short_repr(first.get('input'))}: {first['msg']}", "see /openapi.json"
    )


def _of_routing(request: Request, error: HTTPException) -> KbError:
    path = short_repr(request.url.path)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return WrongMethod(f"{path} does not take {request.method}", f"it takes: {allowed}")
    if error.status_code == 404:
        return NotFound(f"there is no {path}", "see /openapi.json for what there is")
    return InvalidRequest(str(error.detail), "see /openapi.json")


def _readable(shape: dict[str, str]) -> dict[str, str]:
    """Text that UTF-8 can carry, whatever a client has put into it."""
    return {key: value.encode("utf-8", "backslashreplace").decode() for key, value in shape.items()}
