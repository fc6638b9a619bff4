"""Network access: which addresses may be contacted, when to retry, and how to report failures.

Only `http_client`, `chat` and `download` open connections, through `connections`, and only to
addresses that the user has configured or given. `models.offline` and `KB_OFFLINE` forbid even that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kb.errors import ConfigError, InvalidRequest, Offline

if TYPE_CHECKING:
    from kb.config import Config

Sleep = Callable[[float], None]

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
# Worth a retry: the server, or a proxy in front of it, is busy or restarting.
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504, 507, 529})
_YES = ("1", "true", "yes", "on")


def is_offline(config: Config) -> bool:
    """Whether the settings or `KB_OFFLINE` forbid connections."""
    return config.models.offline or os.environ.get("KB_OFFLINE", "").strip().lower() in _YES


def check_online(config: Config, url: str) -> None:
    """Raise `Offline` if connections are forbidden."""
    if is_offline(config):
        raise Offline(
            f"kb is offline and does not contact {host_of(url)}",
            "unset KB_OFFLINE, or set models.offline to false",
        )


def is_this_machine(url: str) -> bool:
    """Whether the URL's host is `localhost` or a literal loopback address. Any other name would
    have to be looked up."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or is_loopback(host)


def is_loopback(host: str) -> bool:
    """Whether `host` is a numeric loopback address."""
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(url: str) -> str:
    """The host and port of a URL, without a user name."""
    return urlsplit(url).netloc.rpartition("@")[2] or url


def check_url(url: str, name: str) -> str:
    """Return the URL of the setting `name`. Raises `InvalidRequest` if it is not valid, and
    `ConfigError` if it contains a password, which messages would show."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or any(ord(char) <= 32 for char in url):
        raise InvalidRequest(
            f"{name} is not a valid URL: {url!r}", "it must start with http:// or https://"
        )
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{name} contains a user name or a password", "remove them from the URL")
    return url


def wait_s(attempt: int, retry_after: str | None) -> float:
    """How long to wait after an attempt, counted from 0: twice as long each time, and at least as
    long as the header `Retry-After` requires."""
    backoff_s = min(FIRST_WAIT_S * float(2**attempt), LONGEST_WAIT_S)
    return max(backoff_s, _parse_retry_after(retry_after))


def _parse_retry_after(value: str | None) -> float:
    """The seconds in a `Retry-After` header, which may be a number or a date."""
    if not value:
        return 0.0
    if value.strip().isdecimal():
        return float(value)
    import time
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def describe_failure(error: Exception) -> str:
    """Describe why a connection failed."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return "no response in time"
    if isinstance(reason, ConnectionRefusedError):
        return "connection refused"
    return str(getattr(reason, "strerror", None) or reason or type(error).__name__)
