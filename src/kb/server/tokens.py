"""Named tokens: the file that stores them, and the identity behind a token.

The file belongs to one store. It holds the SHA-256 of each token, never a token itself: a token has
256 random bits, so nobody can recover it from its hash. It is read again whenever it changes, so
that tokens are added and revoked without a restart.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from kb import paths
from kb.atomic import atomic_path
from kb.errors import ConfigError, InvalidRequest, KbError, NotFound, StoreBusy, short_repr
from kb.library.knowledge_base import KnowledgeBase
from kb.logs import logger
from kb.regular_files import open_file
from kb.server.file_lock import name_lock
from kb.store import open_store
from kb.text.timestamps import utc_timestamp
from kb.trust import exposure
from kb.types import RIGHTS, SCOPES, Identity, Limits

PREFIX = "kb_"  # lets secret scanners recognize a leaked token
_VERSION = 1
_MAX_BYTES = 4 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_LOCK_S = 10.0
_log = logger("kb.server")


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as it is stored. `expires_at` is a time in UTC, or None."""

    identity: Identity
    digest: str
    created_at: str
    expires_at: str | None = None

    def has_expired(self, now: str) -> bool:
        return self.expires_at is not None and self.expires_at <= now


def default_path(store: Path) -> Path:
    """The file for the tokens of a store: in the user's own configuration, since a store's folder
    may come from someone else."""
    place = sha256(os.fsencode(os.path.realpath(store))).hexdigest()[:16]
    return Path(paths.user_folder("config")) / "tokens" / f"{place}.json"


def token_file_of(kb: KnowledgeBase) -> TokenFile:
    """The file with the tokens of a knowledge base: the setting `serve.tokens`, or the default,
    even if the store has been moved or its URL names other hosts since the tokens were added."""
    if configured := kb.config.serve.tokens:
        return TokenFile(Path(configured).expanduser())
    path = default_path(kb.path)
    if not kb.exists():
        return TokenFile(path)
    store = {"id": kb._store.store_id(), "path": os.path.realpath(kb.path)}
    damaged: list[Path] = []
    own = [each for each in _files_beside(path) if _belongs(each, store, damaged)]
    own = [each for each in own if TokenFile(each).read()] or own or [path]
    if damaged and not TokenFile(own[0]).read():  # perhaps the tokens of this store
        raise _unusable(damaged[0], "it is damaged")
    return TokenFile(own[0], store)


def _files_beside(path: Path) -> list[Path]:
    """`path`, and the files with the tokens of other stores."""
    return [path, *sorted(each for each in path.parent.glob("*.json") if each != path)]


def _belongs(path: Path, store: Mapping[str, str], damaged: list[Path]) -> bool:
    """Whether these are the tokens of a store, which may have had another path or URL when they
    were added. A copy of a store that is still at its place has tokens of its own. Adds the path
    to `damaged` if the file cannot be read."""
    try:
        with open_file(path, links="follow") as file:
            recorded = json.loads(file.read(_MAX_BYTES)).get("store")
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError, RecursionError, AttributeError):
        damaged.append(path)
        return False
    if not isinstance(recorded, dict) or recorded.get("id") != store["id"]:
        return False
    place = str(recorded.get("path"))
    return place == store["path"] or not _has_copy(place, store)


def _has_copy(place: str, store: Mapping[str, str]) -> bool:
    """Whether there is a copy of the store at another place: the same id, in another file."""
    try:
        if not os.path.exists(place) or os.path.samefile(place, store["path"]):
            return False
        opened = open_store(place, read_only=True)
        try:
            return opened.store_id() == store["id"]
        finally:
            opened.close()
    except (KbError, OSError):
        return False


def digest_of(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class TokenFile:
    """The tokens of one store. `store` is its id and its path on this machine, which the file
    records."""

    def __init__(self, path: Path, store: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._store = store

    def stamp(self) -> tuple[int, ...] | None:
        """A value that changes when the file changes; None if there is no file."""
        try:
            info = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._unusable(error.strerror or "it cannot be read") from error
        return info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino

    def read(self) -> list[TokenRecord]:
        """All tokens by name. Raises `ConfigError` if others could have written the file, or if it
        is damaged."""
        return self._read()[0]

    def _read(self) -> tuple[list[TokenRecord], Any]:
        """All tokens, and the store that the file records."""
        try:
            with open_file(self.path, links="follow") as file:
                if problem := exposure(file.info, os.stat(self.path.parent)):
                    raise self._unusable(problem)
                data = json.loads(file.read(_MAX_BYTES))
        except (FileNotFoundError, NotADirectoryError):
            return [], None
        except OSError as error:
            raise self._unusable(error.strerror or "it cannot be read") from error
        except (ValueError, RecursionError) as error:
            raise self._unusable("it is not JSON") from error
        try:
            if data["version"] != _VERSION:
                raise self._unusable(f"its version is {short_repr(data['version'])}")
            return [_record(each) for each in data["tokens"]], data.get("store")
        except (KeyError, TypeError, ValueError, KbError) as error:
            if isinstance(error, ConfigError):
                raise
            raise self._unusable("it is damaged") from error

    def add(self, identity: Identity, now_s: float, expires_at: str | None = None) -> str:
        """Add a token and return it. Only its hash is stored."""
        check_identity(identity)
        token = PREFIX + secrets.token_urlsafe(32)
        with self._changing() as records:
            if identity.name in records:
                raise InvalidRequest(
                    f"there is already a token {identity.name}",
                    f"choose another name, or: kb token rotate {identity.name}",
                )
            records[identity.name] = TokenRecord(
                identity, digest_of(token), utc_timestamp(now_s), expires_at
            )
        return token

    def rotate(self, name: str, now_s: float) -> str:
        """Replace a token with a new one that has the same rights, and return it."""
        token = PREFIX + secrets.token_urlsafe(32)
        with self._changing() as records:
            old = _find_record(records, name)
            records[name] = replace(old, digest=digest_of(token), created_at=utc_timestamp(now_s))
        return token

    def revoke(self, name: str) -> None:
        with self._changing() as records:
            del records[_find_record(records, name).identity.name]

    def record_store(self) -> None:
        """Record which store the tokens belong to, if the file has tokens and another store or
        none. A file that cannot be written stays as it is."""
        tokens, recorded = self._read()
        if tokens and self._store is not None and recorded != self._store:
            with suppress(OSError, ConfigError, StoreBusy), self._changing():
                pass

    @contextmanager
    def _changing(self) -> Iterator[dict[str, TokenRecord]]:
        """Yield the tokens by name, and write them back."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error.strerror or "its folder cannot be created") from error
        with name_lock(self.path.parent, self.path.name, _LOCK_S):
            existing, recorded = self._read()
            records = {each.identity.name: each for each in existing}
            yield records
            if self._store is not None and self._records_other_store(recorded):
                self._copy_for(recorded["id"])
            tokens = [_values(each) for each in records.values()]
            data = {"version": _VERSION, "tokens": tokens}
            if self._store is not None:
                data["store"] = dict(self._store)
            with atomic_path(self.path, overwrite=True, mode=0o600) as part:
                part.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")

    def _records_other_store(self, recorded: Any) -> bool:
        """Whether the file belongs to another store, which was at this store's place before."""
        return (
            self._store is not None
            and isinstance(recorded, dict)
            and isinstance(recorded.get("id"), str)
            and recorded["id"] != self._store["id"]
        )

    def _copy_for(self, store_id: str) -> None:
        """Copy the file for the store that it records: it may have been moved, and must not lose
        its tokens to the store that took its place."""
        name = sha256(store_id.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        kept = self.path.with_name(f"{name}.json")
        if not kept.exists():
            with atomic_path(kept, mode=0o600) as part:
                part.write_bytes(self.path.read_bytes())

    def _unusable(self, why: str) -> ConfigError:
        return _unusable(self.path, why)


def _unusable(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"cannot use the tokens in {path}: {why}", "check the file, or create it again"
    )


def _find_record(records: Mapping[str, TokenRecord], name: str) -> TokenRecord:
    if name not in records:
        raise NotFound(f"no token {short_repr(name)}", "kb token list shows all tokens")
    return records[name]


def check_identity(identity: Identity) -> Identity:
    """Raise `InvalidRequest` if the name, the right or a limit is invalid."""
    if not _NAME.fullmatch(identity.name):
        raise InvalidRequest(
            f"{short_repr(identity.name)} is not a valid token name",
            "use up to 64 letters, digits, dots, dashes, underscores and @",
        )
    if identity.right not in RIGHTS:
        raise InvalidRequest(
            f"{short_repr(identity.right)} is not a right", f"rights: {', '.join(RIGHTS)}"
        )
    for scope in identity.limits.scopes:
        if scope not in SCOPES:
            raise InvalidRequest(
                f"{short_repr(scope)} is not a scope", f"scopes: {', '.join(SCOPES)}"
            )
    if identity.right == "admin" and identity.limits:
        raise InvalidRequest(
            "a token with the right admin sees the whole store", "use write, or drop the limits"
        )
    return identity


def _values(record: TokenRecord) -> dict[str, Any]:
    identity = record.identity
    return {
        "name": identity.name,
        "right": identity.right,
        **asdict(identity.limits),
        "requests_per_minute": identity.requests_per_minute,
        "sha256": record.digest,
        "created_at": record.created_at,
        "expires_at": record.expires_at,
    }


def _record(values: Mapping[str, Any]) -> TokenRecord:
    lists = {name: tuple(values[name]) for name in ("scopes", "roots", "tags")}
    texts = [values[name] for name in ("name", "right", "sha256", "created_at")]
    texts += [each for items in lists.values() for each in items]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError
    rate = int(values["requests_per_minute"])
    identity = Identity(values["name"], values["right"], Limits(**lists), rate)
    expires_at = values["expires_at"]
    if expires_at is not None and not isinstance(expires_at, str):
        raise ValueError
    return TokenRecord(check_identity(identity), values["sha256"], values["created_at"], expires_at)


class TokenRegistry:
    """Finds the identity behind a token. Rereads the file when it has changed. Used by the event
    loop only.

    Once there has been a token, every request needs one: if the file is deleted or damaged while
    the server runs, all requests are refused.
    """

    def __init__(self, file: TokenFile, clock: Callable[[], float]) -> None:
        self._file = file
        self._clock = clock
        self._stamp: tuple[int, ...] | None = None
        self._records: dict[str, TokenRecord] = {}
        self.is_required = False
        self._read(strict=True)

    def identify(self, token: str) -> Identity | None:
        """The identity behind the token; None if it is unknown or has expired."""
        self.refresh()
        record = self._records.get(digest_of(token))
        if record is None or record.has_expired(utc_timestamp(self._clock())):
            return None
        return record.identity

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        try:
            if self._file.stamp() != self._stamp:
                self._read(strict=False)
        except ConfigError as error:
            self._refuse_all(error)

    def _read(self, *, strict: bool) -> None:
        try:
            stamp = self._file.stamp()
            self._records = {each.digest: each for each in self._file.read()}
            self._stamp = stamp
        except ConfigError as error:
            if strict:
                raise
            self._refuse_all(error)
        self.is_required = self.is_required or bool(self._records)

    def _refuse_all(self, error: ConfigError) -> None:
        if self._records or not self.is_required:
            _log.error("%s; until this is fixed, no token is accepted", error.message)
        self._records, self._stamp, self.is_required = {}, (), True
