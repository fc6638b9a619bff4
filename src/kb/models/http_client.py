"""A request to an endpoint, sent again where that may help, and the answer read with care.

What passes (429, 5xx, no connection, no answer in time) is tried again, later each time, and not
before the server says (`Retry-After`). What does not pass (a wrong key, an unknown model, a text
that is too long) is told at once. The key is in one header and in no message.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from kb.errors import EndpointError, ModelBroken
from kb.logs import logger
from kb.models import network

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import OpenerDirector, Request

log = logger(__name__)

_MOST_BYTES = 256 << 20  # of an answer
_BLOCK_BYTES = 1 << 16
_SHOWN_CHARS = 200
_HINTS = {
    401: "set KB_ENDPOINT_KEY to a key of that server",
    403: "KB_ENDPOINT_KEY may hold a key that may not do this",
    404: "check models.endpoint_url and models.endpoint_model",
    413: "set models.endpoint_batch lower",
}


class _Passing(Exception):
    """A failure that may be over in a while; `told` is what the server says about that."""

    def __init__(self, why: str, told: str | None = None) -> None:
        super().__init__(why)
        self.told = told


@dataclass(frozen=True, slots=True)
class Asking:
    """How a server is asked for vectors."""

    url: str
    model: str
    key: str = field(repr=False)
    timeout_s: float
    retries: int
    longest_wait_s: float
    sleep: network.Sleep

    def vectors(self, texts: list[str]) -> list[Any]:
        """What stands for the vectors in the answer, one a text, in their order."""
        request = self._request(texts)
        opener = network.opener(redirects=False)
        for attempt in range(self.retries + 1):
            try:
                return self._listed(self._answer(opener, request))
            except _Passing as passing:
                self._wait(attempt, passing)
        raise AssertionError("the last attempt either answers or raises")

    def _wait(self, attempt: int, passing: _Passing) -> None:
        """Until the next attempt; raises where there is none."""
        pause_s = network.wait_s(attempt, passing.told)
        if attempt >= self.retries or pause_s > self.longest_wait_s:
            times = "once" if not attempt else f"{attempt + 1} times"
            later = f"; it says to come back in {pause_s:.0f} s" if passing.told else ""
            raise EndpointError(
                f"the endpoint {self._host} failed, asked {times}: {passing}{later}",
                "is the server running? What is not embedded is found by its words until then",
            ) from passing
        log.warning("%s: %s; again in %.1f s", self._host, passing, pause_s)
        self.sleep(pause_s)

    @property
    def _host(self) -> str:
        return network.host_of(self.url)

    def _request(self, texts: list[str]) -> Request:
        from urllib.request import Request

        asked = {"model": self.model, "input": texts, "encoding_format": "float"}
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = Request(self.url, json.dumps(asked).encode(), headers, method="POST")
        if self.key:
            # Such a header is not sent on, wherever the answer points to.
            request.add_unredirected_header("Authorization", f"Bearer {self.key}")
        return request

    def _answer(self, opener: OpenerDirector, request: Request) -> bytes:
        from urllib.error import HTTPError

        deadline = time.monotonic() + self.timeout_s
        try:
            with opener.open(request, timeout=self.timeout_s) as response:
                return _read(response, deadline)
        except HTTPError as error:
            with error:
                raise self._refusal(error.code, _beginning(error), error.headers) from None
        except (OSError, HTTPException) as error:
            raise _Passing(network.unreachable(error)) from error

    def _listed(self, body: bytes) -> list[Any]:
        """The vectors by their place: servers may answer in another order."""
        try:
            rows = json.loads(body)["data"]
            places = [row.get("index", at) for at, row in enumerate(rows)]
            vectors = dict(zip(places, (row["embedding"] for row in rows), strict=True))
            return [vectors[at] for at in range(len(rows))]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            begins = self._without_key(_said(body[:_BLOCK_BYTES].decode("utf-8", "replace")))
            raise ModelBroken(
                f"the endpoint {self._host} gave no embeddings, but: {begins!r}",
                "models.endpoint_url is the address that /embeddings is below, as .../v1",
            ) from error

    def _refusal(self, status: int, body: str, headers: Any) -> Exception:
        """What an answer other than 200 means."""
        said = self._without_key(_said(body))
        why = f"HTTP {status}{f': {said}' if said else ''}"
        if status in network.PASSING:
            return _Passing(why, headers.get("Retry-After"))
        hint = _HINTS.get(status, "check models.endpoint_url and models.endpoint_model")
        return EndpointError(f"the endpoint {self._host} refused: {why}", hint)

    def _without_key(self, text: str) -> str:
        return text.replace(self.key, "***") if self.key else text


def _read(response: HTTPResponse, deadline: float) -> bytes:
    """All of it, in time: a server that sends a byte now and then is slow, too."""
    blocks, size_bytes = [], 0
    while block := response.read1(_BLOCK_BYTES):
        blocks.append(block)
        size_bytes += len(block)
        if time.monotonic() > deadline:
            raise TimeoutError
        if size_bytes > _MOST_BYTES:
            raise ModelBroken("the endpoint's answer has no end", "check models.endpoint_url")
    if response.length:  # what was announced and did not come
        raise ConnectionError("the connection was cut off")
    return b"".join(blocks)


def _beginning(error: Any) -> str:
    try:
        return str(error.read(_BLOCK_BYTES).decode("utf-8", "replace"))
    except (OSError, HTTPException):
        return ""


def _said(body: str) -> str:
    """The message in an answer that refuses: OpenAI's shape, or the first of whatever it is."""
    try:
        found = json.loads(body)
        error = found["error"] if isinstance(found, dict) and "error" in found else found
        body = str(error["message"] if isinstance(error, dict) and "message" in error else error)
    except (ValueError, RecursionError):
        pass
    return " ".join(body.split())[:_SHOWN_CHARS]
