"""Sends requests to an endpoint, retries them, and parses the responses.

Transient failures (429, 5xx, no connection, timeouts) are retried with growing pauses that respect
`Retry-After`. Permanent failures (a wrong key, an unknown model, a text that is too long) are
raised at once. The API key is sent in one header and never appears in a message.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from kb import deadline
from kb.errors import EndpointError, ModelBroken, to_unicode
from kb.logs import logger
from kb.models import network

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import Request

    from kb.models.connections import TimeLimit

log = logger(__name__)

_MAX_VECTOR_BYTES = 512 << 10  # of JSON: 16,000 numbers with all their digits
_BLOCK_BYTES = 1 << 16
_SHOWN_CHARS = 200
_HINTS = {
    401: "set KB_ENDPOINT_KEY to a valid key for that server",
    403: "the key in KB_ENDPOINT_KEY may not be allowed to do this",
    404: "check models.endpoint_url and models.endpoint_model",
    413: "use a lower models.endpoint_batch",
}


class _TransientError(Exception):
    """A failure that is worth a retry; `retry_after` is the server's header, if any. `late` means
    that the time limit was reached."""

    def __init__(self, reason: str, retry_after: str | None = None, *, late: bool = False) -> None:
        super().__init__(reason)
        self.retry_after = retry_after
        self.late = late


@dataclass(frozen=True, slots=True)
class EmbeddingClient:
    """Requests vectors from a server. With `patient`, `timeout_s` applies to each attempt;
    otherwise to all of them together, and `TimeoutError` is raised when it is reached."""

    url: str
    model: str
    key: str = field(repr=False)
    timeout_s: float
    retries: int
    longest_wait_s: float
    sleep: network.Sleep
    patient: bool = True

    def vectors(self, texts: list[str]) -> list[Any]:
        """The vectors in the response, unchecked: one for each text, in order."""
        request = self._request(texts)
        limit = self._limit()
        for attempt in range(self.retries + 1):
            try:
                return self._parse(self._send(request, limit, len(texts)))
            except _TransientError as error:
                if error.late and not self.patient:
                    raise TimeoutError(str(error)) from error
                self._wait(attempt, error)
            if self.patient:
                limit = self._limit()
        raise AssertionError("the last attempt either returns or raises")

    def _limit(self) -> TimeLimit:
        from kb.models.connections import TimeLimit

        return TimeLimit(min(self.timeout_s, deadline.remaining_s()))

    def _wait(self, attempt: int, error: _TransientError) -> None:
        """Wait before the next attempt. Raises `EndpointError` after the last one."""
        pause_s = network.wait_s(attempt, error.retry_after)
        if attempt >= self.retries or pause_s > self.longest_wait_s:
            attempts = "1 attempt" if not attempt else f"{attempt + 1} attempts"
            later = f"; it asks to retry in {pause_s:.0f} s" if error.retry_after else ""
            raise EndpointError(
                f"the endpoint {self._host} failed after {attempts}: {error}{later}",
                "check that the server is running; until then, new text is found by its words only",
            ) from error
        log.warning("%s: %s; next attempt in %.1f s", self._host, error, pause_s)
        self.sleep(pause_s)

    @property
    def _host(self) -> str:
        return network.host_of(self.url)

    def _request(self, texts: list[str]) -> Request:
        from urllib.request import Request

        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = Request(self.url, json.dumps(body).encode(), headers, method="POST")
        if self.key:
            # This header is not sent to another address after a redirect.
            request.add_unredirected_header("Authorization", f"Bearer {self.key}")
        return request

    def _send(self, request: Request, limit: TimeLimit, count: int) -> bytes:
        """The body of the response, with at most as many bytes as `count` vectors can have."""
        from urllib.error import HTTPError

        from kb.models.connections import open_url

        try:
            with open_url(request, limit, redirects=False) as response:
                return _read(response, _BLOCK_BYTES + count * _MAX_VECTOR_BYTES)
        except HTTPError as error:
            with error:
                raise self._to_error(error.code, read_start(error), error.headers) from None
        except (OSError, HTTPException) as error:
            late = isinstance(getattr(error, "reason", error), TimeoutError)
            raise _TransientError(network.describe_failure(error), late=late) from error

    def _parse(self, body: bytes) -> list[Any]:
        """The vectors by their index: servers may return them in another order."""
        try:
            rows = json.loads(body)["data"]
            places = [row.get("index", at) for at, row in enumerate(rows)]
            vectors = dict(zip(places, (row["embedding"] for row in rows), strict=True))
            return [vectors[at] for at in range(len(rows))]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            start = self._without_key(error_message(body[:_BLOCK_BYTES].decode("utf-8", "replace")))
            raise ModelBroken(
                f"the endpoint {self._host} returned something other than embeddings: {start!r}",
                "models.endpoint_url is the address without /embeddings, such as https://host/v1",
            ) from error

    def _to_error(self, status: int, body: str, headers: Any) -> Exception:
        """The exception for a response with an error status."""
        message = self._without_key(error_message(body))
        reason = f"HTTP {status}{f': {message}' if message else ''}"
        if status in network.TRANSIENT:
            return _TransientError(reason, headers.get("Retry-After"))
        hint = _HINTS.get(status, "check models.endpoint_url and models.endpoint_model")
        return EndpointError(f"the endpoint {self._host} refused the request: {reason}", hint)

    def _without_key(self, text: str) -> str:
        return text.replace(self.key, "***") if self.key else text


def _read(response: HTTPResponse, max_bytes: int) -> bytes:
    blocks, size_bytes = [], 0
    while block := response.read1(_BLOCK_BYTES):
        blocks.append(block)
        size_bytes += len(block)
        if size_bytes > max_bytes:
            raise ModelBroken("the endpoint's response is too large", "check models.endpoint_url")
    if response.length:  # bytes that were announced and did not arrive
        raise ConnectionError("the connection was interrupted")
    return b"".join(blocks)


def read_start(error: Any) -> str:
    try:
        return str(error.read(_BLOCK_BYTES).decode("utf-8", "replace"))
    except (OSError, HTTPException):
        return ""


def error_message(body: str) -> str:
    """The message of an error response in OpenAI's format, or the start of any other body."""
    try:
        data = json.loads(body)
        error = data["error"] if isinstance(data, dict) and "error" in data else data
        body = str(error["message"] if isinstance(error, dict) and "message" in error else error)
    except (ValueError, RecursionError):
        pass
    return to_unicode(" ".join(body.split())[:_SHOWN_CHARS])
