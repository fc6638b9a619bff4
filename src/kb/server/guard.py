"""Who may ask, and what every answer carries. The first thing a request meets.

A server on this machine can be reached by every web page that the user opens. What keeps those out:

- Host must be a name of this server, so that a name which an attacker lets point here (DNS
  rebinding) is refused.
- Origin, where a browser sends one, must be this server itself; and what a browser marks as coming
  from another site is refused, but for opening the page by a link.
- What could be sent by a form of another site without being asked for leave first is not taken:
  a request that may change something needs JSON, or a header that forms cannot set.
- Where there is a token, it is needed for everything but the page's files and /health.
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
from kb.server.memory import Memory
from kb.server.metrics import Figures
from kb.server.transfer_limits import Incoming, Outgoing, Pace

HEADER = "x-kb-request"  # any value: that it can be set at all is what counts
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_NOT_SECRET = ("/", "/health")
_ASSETS = "/assets/"
MOST_HEADER_BYTES = 32 * 1024
_MOST_HEADERS = 100
_HOST = re.compile(
    r"(\[(?P<address>[0-9a-f.]*:[0-9a-f:.]*)\]|(?P<name>[a-z0-9._-]+))(:(?P<port>[0-9]{0,5}))?",
    re.ASCII | re.IGNORECASE,
)
_MOST_PORT = 65_535
_SCHEMES = ("http", "https")  # the second where a proxy speaks it
_OWN_SITE = ("same-origin", "none")

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
class Rules:
    """What a request must show. `hosts` are names besides the loopback ones; with `open`, the
    server listens to other machines too, and any IP address is one of its names: an address cannot
    be made to point elsewhere."""

    hosts: frozenset[str] = frozenset()
    open: bool = False
    token: str | None = None

    def check(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Raises for a request that is not to be answered."""
        host = headers.get("host", "")
        if not self._is_ours(host):
            raise Foreign(
                f"this server is not called {host!r}", "name it with serve.allow_hosts if it is"
            )
        self._check_site(method, path, headers, host)
        self._check_token(path, headers)
        _check_intent(method, headers)

    def _is_ours(self, host: str) -> bool:
        name = _name_of(host)
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
            raise Foreign(f"pages of {origin!r} may not ask this server", "open its own page")
        opened = method == "GET" and path == "/" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "none") not in _OWN_SITE and not opened:
            raise Foreign("pages of other sites may not ask this server", "open its own page")

    def _check_token(self, path: str, headers: Mapping[str, str]) -> None:
        if self.token is None or path in _NOT_SECRET or path.startswith(_ASSETS):
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode(), self.token.encode())
        if kind.lower() != "bearer" or not right:
            raise TokenNeeded(
                "this server answers to those who have its token",
                "send it as: Authorization: Bearer TOKEN",
            )


def _name_of(host: str) -> str | None:
    """The name in a Host header, without its port; None where it makes no sense."""
    match = _HOST.fullmatch(host)
    if match is None or int(match["port"] or 0) > _MOST_PORT:
        return None
    return (match["address"] or match["name"].rstrip(".")).lower()


def _check_intent(method: str, headers: Mapping[str, str]) -> None:
    if method in _SAFE_METHODS or HEADER in headers:
        return
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise WrongContent(
            f"{method} needs Content-Type: application/json, or the header X-KB-Request",
            "so that forms of other sites cannot send it",
        )


class Guard:
    """The outermost layer: checks, bounds, counts, and gives every answer its headers. Bodies below
    the paths `to_disk` are not kept in memory."""

    def __init__(
        self,
        app: ASGIApp,
        rules: Rules,
        figures: Figures,
        limits: ServeConfig,
        to_disk: tuple[str, ...] = (),
    ) -> None:
        self._app = app
        self._rules = rules
        self._figures = figures
        self._pace = Pace(limits.client_timeout_s)
        self._memory = Memory(limits.max_memory_bytes)
        self._to_disk = to_disk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        with self._figures.under_way(), self._memory.claim() as body, self._memory.claim() as held:
            kept = None if scope["path"].startswith(self._to_disk) else body
            incoming = Incoming(receive, self._pace, self._memory, kept)
            answer = Outgoing(_with_headers(send), self._pace, self._memory, held)
            try:
                await self._answer(scope, incoming, answer)
            finally:
                seconds = time.perf_counter() - started
                route = getattr(scope.get("route"), "path", "none")
                self._figures.request(scope["method"], route, answer.status, seconds)

    async def _answer(self, scope: Scope, incoming: Incoming, answer: Outgoing) -> None:
        failure: KbError | None = None
        try:
            headers = _headers(scope)
            self._rules.check(scope["method"], scope["path"], headers)
            _check_address(scope)
            await self._app(scope, incoming, answer)
        # What a layer of the framework makes of a failure of ours is still that failure. Of any
        # other error the client hears no more than that there was one. The error itself is not
        # kept: its traceback would keep the answer in memory.
        except Exception as error:  # noqa: BLE001
            failure = incoming.failure or answer.failure
            if failure is None and isinstance(error, KbError):
                failure = error.with_traceback(None)
            elif failure is None:
                response = error_responses.internal(error)
                if not answer.is_started:
                    await response(scope, incoming, answer)
                return
        if failure is None:
            failure = incoming.failure
        if isinstance(failure, ClientGone):
            answer.status = failure.http_status
        elif failure is not None and not answer.is_started:
            with suppress(ClientGone):
                await error_responses.answer(failure)(scope, incoming, answer)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": _with_ours(message["headers"])}
        await send(message)

    return sending


def _with_ours(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    ours = {name.encode(): value.encode() for name, value in SECURITY_HEADERS.items()}
    given = {name for name, _ in headers}
    if b"cache-control" not in given:  # what was found is nobody else's business
        ours[b"cache-control"] = b"no-store"
    return [*headers, *((name, value) for name, value in ours.items() if name not in given)]


def _check_address(scope: Scope) -> None:
    """Raises where path or query are not UTF-8. They would be read with replacement characters, so
    that two names become one."""
    for part in (scope.get("raw_path") or b"", scope.get("query_string", b"")):
        try:
            unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise MalformedRequest(
                "the address is not UTF-8", "encode it as UTF-8, then with percent signs"
            ) from None


def _headers(scope: Scope) -> dict[str, str]:
    """By name. One that is sent twice is joined, so that no check sees another than its reader."""
    raw: list[tuple[bytes, bytes]] = scope["headers"]
    if len(raw) > _MOST_HEADERS or sum(len(n) + len(v) for n, v in raw) > MOST_HEADER_BYTES:
        raise MalformedRequest(
            f"there are more than {_MOST_HEADERS} headers or {MOST_HEADER_BYTES:,} bytes of them",
            "send fewer",
        )
    found: dict[str, str] = {}
    for name_bytes, value in raw:
        name = name_bytes.decode("latin-1").lower()
        text = value.decode("latin-1")
        found[name] = f"{found[name]},{text}" if name in found else text
    if "content-length" in found and "transfer-encoding" in found:
        raise MalformedRequest(
            "the length of the body is given in two ways",
            "send either Content-Length or Transfer-Encoding",
        )
    return found
