"""The only way from here to another machine: whether it may be taken, and how.

Nothing but `endpoint` and `download` opens a connection, and only when the user has named an
address. `models.offline` and `KB_OFFLINE` forbid even that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kb.errors import ConfigError, InvalidRequest, Offline

if TYPE_CHECKING:
    from urllib.request import OpenerDirector, Request

    from kb.config import Config

Sleep = Callable[[float], None]

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
# What goes away by itself: a server that is busy, restarted, or behind a proxy that is.
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504, 507, 529})
_YES = ("1", "true", "yes", "on")


def is_offline(config: Config) -> bool:
    return config.models.offline or os.environ.get("KB_OFFLINE", "").strip().lower() in _YES


def check_online(config: Config, url: str) -> None:
    """Raises `Offline` where kb may not ask for that address."""
    if is_offline(config):
        raise Offline(
            f"kb is offline, and does not ask {host_of(url)}",
            "unset KB_OFFLINE, or set models.offline to false",
        )


def is_here(url: str) -> bool:
    """Whether it is this machine's own."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    return host in ("localhost", "::1") or host.startswith("127.") or host.endswith(".localhost")


def host_of(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2] or url


def checked_url(url: str, name: str) -> str:
    """An address that can be asked. One with a password in it would be shown in messages."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine or any(ord(char) <= 32 for char in url):
        raise InvalidRequest(f"{name} is no address: {url!r}", "it starts with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{name} holds a name or a password", "give the address without")
    return url


def opener(*, redirects: bool) -> OpenerDirector:
    """Speaks HTTP and HTTPS, through the system's proxy, and nothing else: no files, no FTP."""
    import ssl
    from urllib import request

    class Redirects(request.HTTPRedirectHandler):
        def redirect_request(self, req: Request, fp: Any, *rest: Any) -> Request | None:
            found = super().redirect_request(req, fp, *rest) if redirects else None
            if found is not None and req.type == "https" and found.type != "https":
                return None  # what was asked for in private is not fetched in public
            return found

    made = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(), request.UnknownHandler(), request.HTTPHandler(),
        request.HTTPSHandler(context=ssl.create_default_context()),
        request.HTTPDefaultErrorHandler(), Redirects(), request.HTTPErrorProcessor(),
    ):  # fmt: skip
        made.add_handler(handler)
    return made


def wait_s(attempt: int, told: str | None) -> float:
    """How long to wait before the next attempt, the first being 0: twice as long each time, and at
    least as long as the server says."""
    own = min(FIRST_WAIT_S * float(2**attempt), LONGEST_WAIT_S)
    return max(own, _told_s(told))


def _told_s(told: str | None) -> float:
    """`Retry-After`: seconds, or a date."""
    if not told:
        return 0.0
    if told.strip().isdecimal():
        return float(told)
    import time
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def unreachable(error: Exception) -> str:
    """Why there was no answer, in words."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return "it did not answer in time"
    if isinstance(reason, ConnectionRefusedError):
        return "nothing listens there"
    return str(getattr(reason, "strerror", None) or reason or type(error).__name__)
