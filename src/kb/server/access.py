"""Access control: the right that a request needs, the rate limit of its token, and the audit
log."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any

from kb.errors import ConfigError, Forbidden, TooManyRequests
from kb.logs import logger, open_log
from kb.text.timestamps import utc_timestamp
from kb.types import Identity, JsonDict

if TYPE_CHECKING:
    from starlette.types import Scope

IDENTITY_KEY = "kb.identity"  # in the ASGI scope
_ALLOWED_KEY = "kb.allowed"
_AUDIT_KEY = "kb.audit"
# An image is a file beside a document, not a document, so the limits of a token do not cover it.
_WHOLE_STORE = ("/ingest", "/embed", "/events", "/metrics", "/uploads", "/images")
_ADMIN = ("/ingest", "/embed")
_READING = ("/search", "/ask", "/mcp")  # POST, because a query may be longer than a URL
REFUSALS = (401, 403, 429)  # HTTP statuses
_SAFE = ("GET", "HEAD", "OPTIONS")
_log = logger("kb.server")


def first_segment(path: str) -> str:
    return "/" + path.lstrip("/").partition("/")[0]


def required_right(method: str, path: str) -> str:
    """The right that a request needs. Tools over MCP are checked one by one."""
    segment = first_segment(path)
    if method in _SAFE or segment in _READING:
        return "read"
    return "admin" if segment in _ADMIN else "write"


def check_access(identity: Identity, method: str, path: str) -> None:
    """Raise `Forbidden` if the token must not send this request."""
    check_right(identity, required_right(method, path))
    if identity.limits and first_segment(path) in _WHOLE_STORE:
        raise Forbidden(
            f"{first_segment(path)} concerns the whole store, but this token is limited",
            "use a token without limits",
        )


def check_right(identity: Identity, right: str) -> None:
    if not identity.may(right):
        raise Forbidden(
            f"the token {identity.name} has the right {identity.right}, but this needs {right}",
            "use another token",
        )


def identity_of(scope: Scope) -> Identity | None:
    """Who sends the request; None on a server without tokens."""
    identity = scope.get(IDENTITY_KEY)
    assert identity is None or isinstance(identity, Identity)
    return identity


def recheck_with(scope: Scope, is_allowed: Callable[[], bool]) -> None:
    """Set what `is_still_allowed` calls."""
    scope[_ALLOWED_KEY] = is_allowed


def is_still_allowed(scope: Scope) -> bool:
    """Whether the request would still be accepted: its token may have been revoked, or have
    expired, since the response began."""
    check: Callable[[], bool] = scope.get(_ALLOWED_KEY, lambda: True)
    return check()


class RateLimiter:
    """Limits the requests per minute of each token with a token bucket that holds a minute's worth.
    Used by the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Requests left, and when they were counted.
        self._buckets: dict[tuple[str, int], tuple[float, float]] = {}

    def check(self, identity: Identity) -> None:
        """Count a request. Raises `TooManyRequests` with the time until the next one is allowed."""
        rate = identity.requests_per_minute
        if not rate:
            return
        now, key = self._clock(), (identity.name, rate)
        left, before = self._buckets.get(key, (float(rate), now))
        left = min(float(rate), left + (now - before) * rate / 60)
        if left < 1:
            self._buckets[key] = (left, now)
            wait_s = ceil((1 - left) * 60 / rate)
            raise TooManyRequests(
                f"the token {identity.name} may send {rate} requests per minute",
                f"wait {wait_s} s",
                retry_after_s=wait_s,
            )
        self._buckets[key] = (left - 1, now)


def describe_write(scope: Scope, **facts: Any) -> None:
    """Add details of a write to its line in the audit log. `status` replaces that of the response,
    for a tool over MCP, whose errors are responses too."""
    scope.setdefault(_AUDIT_KEY, {}).update(facts)


class AuditLog:
    """Appends a line of JSON to the file `path` for each write and each refused request. Without a
    path, nothing is written. Texts and queries are not logged."""

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._path = os.path.expanduser(path)
        if self._path:
            self._append("")

    def request(self, scope: Scope, status: int) -> None:
        """Log a request that is a write or was refused."""
        method, path = scope["method"], scope["path"]
        facts: JsonDict = scope.get(_AUDIT_KEY, {})
        is_write = bool(facts) or required_right(method, path) != "read"
        if not self._path or not (is_write or status in REFUSALS):
            return
        identity = identity_of(scope)
        client = scope.get("client")
        line = {
            "time": utc_timestamp(self._clock()),
            "token": None if identity is None else identity.name,
            "client": client[0] if client else None,
            "method": method,
            "path": path,
            "status": status,
            **facts,
        }
        try:
            self._append(json.dumps(line) + "\n")
        except ConfigError as error:
            _log.error("%s", error.message)

    def _append(self, text: str) -> None:
        try:
            descriptor = open_log(self._path)
            try:
                os.write(descriptor, text.encode("utf-8", "backslashreplace"))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise ConfigError(
                f"cannot write the audit log {self._path}: {error.strerror}",
                "set serve.audit_log to another file",
            ) from error
