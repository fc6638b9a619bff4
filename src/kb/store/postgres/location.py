"""The URL of a store: how to connect, its schema, and what to show.

    postgresql://USER:PASSWORD@HOST:PORT/DATABASE?schema=NAME

All parameters but `schema`, `machine`, `read`, `max_lag_s`, `partitions` and `shard` are those of
libpq, such as `sslmode` or `application_name`. The password is better kept in `~/.pgpass` or
PGPASSWORD. `machine` names this machine; set it if several machines have different folders at the
same path.

Several hosts can be given: `HOST1,HOST2`. Writes go to the one that accepts them, so that they
follow a failover. With `read=standby`, reads prefer a standby; if it lags by more than `max_lag_s`
seconds, responses report this.

`partitions` divides the large tables of a store that is created, and `shard=1/2` makes it the first
of two shards; an existing store ignores both. Several URLs, separated by spaces, are the shards of
one store: see `kb.store.postgres.shards`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from kb import paths
from kb.errors import InvalidRequest, MissingExtra
from kb.processes import machine_name

_OWN = ("schema", "machine", "read", "max_lag_s", "partitions", "shard")  # not for libpq
_MAX_PARTITIONS, _MAX_SHARDS = 64, 64
SCHEMA = "kb"  # unless the URL names another
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_SHORT = re.compile(r"[\w./-]{0,40}")
_PASSWORDS = ("password", "sslpassword")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HOST = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")
_HOW = "postgresql://USER@HOST/DATABASE?schema=NAME"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a store is. `dsn` is the URL for libpq, `shown` the URL without its passwords, and
    `secrets` are these passwords, encoded and decoded. `standby_dsn` is the URL for reads if they
    prefer a standby. A new store gets `partitions`: see `kb.store.postgres.partitions`."""

    dsn: str
    schema: str
    shown: str
    path: Path
    standby_dsn: str | None = None
    max_lag_s: float = 10.0
    has_several_hosts: bool = False
    secrets: tuple[str, ...] = ()
    machine: str = ""
    partitions: int = 1
    shard: tuple[int, int] | None = None  # its number, from 1, and how many there are

    @classmethod
    def parse(cls, url: str) -> Location:
        """Parse the URL of a store. Raises `InvalidRequest` if it is invalid."""
        if url.count("postgresql://") > 1:  # it must not appear in a message, with its password
            raise InvalidRequest(
                "the URL of the store contains another URL",
                "separate the URLs of shards with spaces",
            )
        try:
            parts = urlsplit(url)
        except ValueError as error:  # the original message may contain the password
            raise InvalidRequest(
                "the URL of the store is not a valid URL", f"use {_HOW}"
            ) from error
        if _BAD_ESCAPE.search(parts.netloc) or _BAD_ESCAPE.search(parts.query):
            raise InvalidRequest(
                "the URL of the store has a '%' without two hexadecimal digits after it",
                "write '%' as %25, even in a password",
            )
        if parts.netloc.count("@") > 1 or "@" in parts.path:
            # libpq would take a part of the password for the host, look it up and repeat it.
            raise InvalidRequest(
                "the URL of the store has an '@' or a '/' in its user or password",
                "write '@' as %40 and '/' as %2F in a password",
            )
        user, at, hosts = parts.netloc.rpartition("@")
        if not all(_HOST.fullmatch(host) for host in hosts.split(",")):
            raise InvalidRequest(
                "the URL of the store has no valid host and port",
                "use postgresql://USER:PASSWORD@HOST:PORT/DATABASE; the port is a number",
            )
        options = parse_qsl(parts.query, keep_blank_values=True)
        names = [name for name, _ in options]
        schema = dict(options).get("schema", SCHEMA)
        is_system = schema.lower().startswith("pg_") or schema.lower() == "information_schema"
        if not _NAME.fullmatch(schema) or is_system or names.count("schema") > 1:
            raise InvalidRequest(
                f"{_repr_if_short(schema)} is not a valid schema name",
                "use one schema name of letters, digits and underscores: ?schema=team",
            )
        database = parts.path.lstrip("/")
        if not database or "/" in database:
            raise InvalidRequest("the URL of the store names no database", f"use {_HOW}")
        if parts.fragment:
            raise InvalidRequest(
                "the URL of the store has a '#'", "write '#' as %23, even in a password"
            )
        name, _, password = user.partition(":")
        rest = [(key, value) for key, value in options if key not in _OWN]
        read, max_lag_s = _standby(dict(options))
        public = [(key, value) for key, value in rest if key not in _PASSWORDS]
        secrets = [password, *(value for key, value in rest if key in _PASSWORDS)]
        spellings = {spell(each) for each in secrets for spell in (str, quote, unquote)} - {""}
        if schema != SCHEMA:
            public.append(("schema", schema))
        public += [(key, value) for key, value in options if key in ("read", "max_lag_s")]
        given = dict(rest)
        several = "," in (hosts or given.get("host", ""))
        primary, standby = rest, rest
        if "target_session_attrs" not in given:
            primary = [*rest, ("target_session_attrs", "read-write")] if several else rest
            standby = [*rest, ("target_session_attrs", "prefer-standby")]
        server = (hosts or f"{given.get('host', '')}:{given.get('port', '')}").lower()
        digest = hashlib.blake2b(f"{server} {database} {schema}".encode(), digest_size=6)
        folder = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', database)}-{schema}-{digest.hexdigest()}"
        return cls(
            dsn=_url(parts, parts.netloc, primary),
            schema=schema,
            shown=_url(parts, f"{name}{at}{hosts}", public),
            path=Path(paths.user_folder("data")) / "postgresql" / folder / "kb.store",
            standby_dsn=_url(parts, parts.netloc, standby) if read == "standby" else None,
            max_lag_s=max_lag_s,
            has_several_hosts=several,
            machine=dict(options).get("machine") or machine_name(),
            partitions=_partitions(dict(options)),
            shard=_shard(dict(options)),
            secrets=tuple(sorted(spellings, key=len, reverse=True)),
        )

    def without_secrets(self, text: str) -> str:
        """Mask the passwords in a libpq error message, which may repeat parts of the URL."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def parse_all(url: str) -> list[Location]:
    """Parse the URL of a store, or the URLs of its shards, which are separated by spaces."""
    parts = url.split()
    if not all(part.startswith("postgresql://") for part in parts):  # a space in one URL
        parts = [url]
    return [Location.parse(part) for part in parts]


def path_of(locations: Sequence[Location]) -> Path:
    """`Store.path` of a store with these shards."""
    first = locations[0].path
    if len(locations) == 1:
        return first
    paths = " ".join(str(each.path) for each in locations)
    digest = hashlib.blake2b(paths.encode(), digest_size=6).hexdigest()
    return first.parent.with_name(f"shards-{digest}") / first.name


def _repr_if_short(value: str) -> str:
    """A value for a message, if it is short: text after the URL, perhaps with a password, becomes a
    part of the last value."""
    return repr(value) if _SHORT.fullmatch(value) else "this value"


def _standby(options: dict[str, str]) -> tuple[str, float]:
    """The values of `read` and `max_lag_s`."""
    read = options.get("read", "primary")
    if read not in ("primary", "standby"):
        raise InvalidRequest(
            f"read cannot be {_repr_if_short(read)}", "use read=primary or read=standby"
        )
    try:
        max_lag_s = float(options.get("max_lag_s", "10"))
    except ValueError:
        max_lag_s = -1.0
    if not 0 <= max_lag_s < inf:
        raise InvalidRequest(
            f"max_lag_s cannot be {_repr_if_short(options['max_lag_s'])}",
            "give a number of seconds",
        )
    return read, max_lag_s


def _partitions(options: dict[str, str]) -> int:
    given = options.get("partitions", "1")
    if not (given.isascii() and given.isdigit() and 1 <= int(given[:4]) <= _MAX_PARTITIONS):
        raise InvalidRequest(
            f"partitions cannot be {_repr_if_short(given)}",
            f"give a number from 1 to {_MAX_PARTITIONS}",
        )
    return int(given)


def _shard(options: dict[str, str]) -> tuple[int, int] | None:
    if (given := options.get("shard")) is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]?)/([1-9][0-9]?)", given)
    number, count = map(int, match.groups()) if match else (1, 0)
    if number > count or count > _MAX_SHARDS:
        raise InvalidRequest(
            f"shard cannot be {_repr_if_short(given)}",
            f"use shard=1/2 for the first of two shards; there can be {_MAX_SHARDS}",
        )
    return number, count


def _url(parts: SplitResult, host: str, options: list[tuple[str, str]]) -> str:
    return urlunsplit((parts.scheme, host, parts.path, urlencode(options, quote_via=quote), ""))


def require_driver() -> None:
    """Raise `MissingExtra` if psycopg is not installed."""
    try:
        import psycopg  # noqa: F401  # tests availability
    except ImportError as error:
        raise MissingExtra(
            "a store in PostgreSQL needs an extra package",
            "install it with: pip install 'kb-search[postgres]'",
        ) from error
