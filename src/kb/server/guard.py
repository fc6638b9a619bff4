"""Checks access, limits every request and response, and adds security headers.

Every web page that the user opens can send requests to a server on this machine. These checks
refuse them:

- Host must be a name of this server, which defeats DNS rebinding.
- Origin, if a browser sends it, must be this server. Requests that a browser marks as coming from
  another site are refused, except opening the page through a link.
- A request that may change something needs JSON or a custom header: the forms of other sites can
  send neither without the browser asking this server first.
- If there are tokens, every request needs one, except those for the page's files and health
  checks; and the token must have the right, and not exceed its rate.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kb.config import ServeConfig
from kb.errors import ClientGone, Foreign, KbError, MalformedRequest, TokenNeeded, WrongContent
from kb.server import error_responses
from kb.server.access import IDENTITY_KEY, AuditLog, RateLimiter, check_access, recheck_with
from kb.server.admission import Admission, Slot
from kb.server.memory import MEMORY_KEY, MemoryBudget, RequestMemory
from kb.server.metrics import Metrics
from kb.server.tokens import TokenRegistry
from kb.server.transfer_limits import RequestStream, ResponseStream, TransferTimeout
from kb.types import Identity

HEADER = "x-kb-request"  # any value will do: a form on another site cannot set the header
# The only methods of routes besides GET and HEAD.
_WRITE_METHODS = ("POST", "PUT", "PATCH", "DELETE")
_PAGES = ("/", "/library")  # files without data
_PUBLIC_PATHS = (*_PAGES, "/health", "/healthz", "/readyz")
_OWNER = Identity("owner")  # the identity behind the server's single token
_ASSETS = "/assets/"
_READ = "/read/"  # serves the document page, not the document
MAX_HEADER_BYTES = 32 * 1024
_MAX_HEADERS = 100
_HOST = re.compile(
    r"(\[(?P<address>[0-9a-f.]*:[0-9a-f:.]*)\]|(?P<name>[a-z0-9._-]+))(:(?P<port>[0-9]{0,5}))?",
    re.ASCII | re.IGNORECASE,
)
_MAX_PORT = 65_535
_SCHEMES = ("http", "https")  # https if a proxy terminates TLS
_SAME_SITE = ("same-origin", "none")

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Who may send requests. `hosts` are this server's names besides the loopback ones.

    With `open`, the server accepts other machines too, and any IP address counts as its name:
    unlike a DNS name, an address cannot be pointed elsewhere.
    """

    hosts: frozenset[str] = frozenset()
    open: bool = False
    token: str | None = None
    tokens: TokenRegistry | None = None

    def check(self, method: str, path: str, headers: Mapping[str, str]) -> Identity | None:
        """Return the identity of the sender; None if no token is needed. Raises an error if the
        request must be refused."""
        host = headers.get("host", "")
        if not self._is_own_name(host):
            raise Foreign(
                f"{host!r} is not a name of this server",
                "if it should be, add it to serve.allow_hosts",
            )
        self._check_site(method, path, headers, host)
        identity = self._identify(path, headers)
        _check_intent(method, headers)
        return identity

    def _is_own_name(self, host: str) -> bool:
        name = _host_name(host)
        if name is None:
            return False
        if name == "localhost" or name.endswith(".localhost") or name in self.hosts:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return self.open or address.is_loopback

    def _check_site(self, method: str, path: str, headers: Mapping[str, str], host: str) -> None:
        origin = headers.get("origin")
        own = [f"{scheme}://{host.lower()}" for scheme in _SCHEMES]
        if origin is not None and origin.lower() not in own:
            raise Foreign(
                f"pages from {origin!r} may not use this server", "open the server's own page"
            )
        is_page = path in _PAGES or path.startswith(_READ)
        opened = method == "GET" and is_page and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "none") not in _SAME_SITE and not opened:
            raise Foreign(
                "pages from other sites may not use this server", "open the server's own page"
            )

    def _identify(self, path: str, headers: Mapping[str, str]) -> Identity | None:
        tokens = self.tokens
        if tokens is not None:
            tokens.refresh()
        needs_token = self.token is not None or (tokens is not None and tokens.is_required)
        if not needs_token or path in _PUBLIC_PATHS or path.startswith((_ASSETS, _READ)):
            return None
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and (token := token.strip()):
            if self.token is not None and hmac.compare_digest(token.encode(), self.token.encode()):
                return _OWNER
            if tokens is not None and (identity := tokens.identify(token)) is not None:
                return identity
        raise TokenNeeded("this server requires a token", "send it as: Authorization: Bearer TOKEN")


def _host_name(host: str) -> str | None:
    """The name in a Host header, without its port; None if the header is malformed."""
    match = _HOST.fullmatch(host)
    if match is None or int(match["port"] or 0) > _MAX_PORT:
        return None
    return (match["address"] or match["name"].rstrip(".")).lower()


def _check_intent(method: str, headers: Mapping[str, str]) -> None:
    if method not in _WRITE_METHODS or HEADER in headers:
        return
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise WrongContent(
            f"{method} needs Content-Type: application/json or the header X-KB-Request",
            "add one of them; forms on other sites cannot",
        )


class Guard:
    """The outermost layer of the application. Bodies sent to the paths `disk_paths` go to disk and
    do not count as memory."""

    def __init__(
        self,
        app: ASGIApp,
        rules: AccessRules,
        metrics: Metrics,
        limits: ServeConfig,
        admission: Admission,
        disk_paths: tuple[str, ...] = (),
        audit: AuditLog | None = None,
    ) -> None:
        self._app = app
        self._rules = rules
        self._metrics = metrics
        self._timeout = TransferTimeout(limits.client_timeout_s)
        self._budget = MemoryBudget(limits.max_memory_bytes)
        self._admission = admission
        self._disk_paths = disk_paths
        self._rates = RateLimiter()
        self._audit = audit or AuditLog("")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        with (
            self._metrics.request_in_progress(),
            self._budget.reservation() as body,
            self._budget.reservation() as response,
            self._admission.slot(scope["path"]) as slot,
        ):
            scope[MEMORY_KEY] = RequestMemory(self._budget, body, response)
            counted = None if scope["path"].startswith(self._disk_paths) else body
            receiving = RequestStream(receive, self._timeout, self._budget, counted, slot)
            sending = ResponseStream(_add_headers(send), self._timeout, self._budget, response)
            try:
                await self._respond(scope, receiving, sending, slot)
            finally:
                seconds = time.perf_counter() - started
                route = getattr(scope.get("route"), "path", "none")
                self._metrics.request(scope["method"], route, sending.status, seconds)
                self._audit.request(scope, sending.status)

    async def _respond(
        self, scope: Scope, receiving: RequestStream, sending: ResponseStream, slot: Slot
    ) -> None:
        failure: KbError | None = None
        try:
            headers = _read_headers(scope)
            identity = self._rules.check(scope["method"], scope["path"], headers)
            if identity is not None:
                scope[IDENTITY_KEY] = identity
                check_access(identity, scope["method"], scope["path"])
                self._rates.check(identity)
            recheck_with(scope, lambda: self._is_allowed(scope, headers))
            _check_address(scope)
            if _has_body(headers):
                slot.check()
            else:
                slot.take()
            await self._app(scope, receiving, sending)
        # The framework may wrap a failure of the streams in its own error. The client learns
        # nothing about other errors. The error itself is not kept: its traceback would keep the
        # response in memory.
        except Exception as error:  # noqa: BLE001
            failure = receiving.failure or sending.failure
            if failure is None and isinstance(error, KbError):
                failure = error.with_traceback(None)
            elif failure is None:
                response = error_responses.internal_error_response(error)
                if not sending.is_started:
                    await response(scope, receiving, sending)
                return
        if failure is None:
            failure = receiving.failure
        if isinstance(failure, ClientGone):
            sending.status = failure.http_status
        elif failure is not None and not sending.is_started:
            with suppress(ClientGone):
                await error_responses.error_response(failure)(scope, receiving, sending)

    def _is_allowed(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        try:
            identity = self._rules.check(scope["method"], scope["path"], headers)
            if identity is not None:
                check_access(identity, scope["method"], scope["path"])
        except KbError:
            return False
        return True


def _has_body(headers: Mapping[str, str]) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": _with_security_headers(message["headers"])}
        await send(message)

    return send_with_headers


def _with_security_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    added = {name.encode(): value.encode() for name, value in SECURITY_HEADERS.items()}
    present = {name for name, _ in headers}
    if b"cache-control" not in present:  # results are private
        added[b"cache-control"] = b"no-store"
    return [*headers, *((name, value) for name, value in added.items() if name not in present)]


def _check_address(scope: Scope) -> None:
    """Raise an error if the path or query is not UTF-8. Decoding it with replacement characters
    would turn different names into the same one."""
    for part in (scope.get("raw_path") or b"", scope.get("query_string", b"")):
        try:
            unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise MalformedRequest(
                "the address is not UTF-8", "percent-encode its UTF-8 bytes"
            ) from None


def _read_headers(scope: Scope) -> dict[str, str]:
    """Headers by name. Repeated headers are joined, so that no check misses one of the values."""
    raw: list[tuple[bytes, bytes]] = scope["headers"]
    if len(raw) > _MAX_HEADERS or sum(len(n) + len(v) for n, v in raw) > MAX_HEADER_BYTES:
        raise MalformedRequest(
            f"the request has more than {_MAX_HEADERS} headers, or its headers are larger than "
            f"{MAX_HEADER_BYTES:,} bytes",
            "send fewer or shorter headers",
        )
    headers: dict[str, str] = {}
    for name_bytes, value in raw:
        name = name_bytes.decode("latin-1").lower()
        text = value.decode("latin-1")
        headers[name] = f"{headers[name]},{text}" if name in headers else text
    if "content-length" in headers and "transfer-encoding" in headers:
        raise MalformedRequest(
            "the request has both Content-Length and Transfer-Encoding", "send one of them"
        )
    return headers
