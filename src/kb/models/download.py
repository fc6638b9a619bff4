"""One file from an address, whole or not at all, going on where an interrupted one stopped.

What has arrived lies in a file of its own (`.part`) that carries the hash it is to have, so that a
later run goes on with it (`Range`). A server without ranges sends all of it again. Nothing counts
before its size and its SHA-256 are what the manifest says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.errors import EndpointError, ModelBroken, ModelMissing
from kb.models import network
from kb.models.checksums import sha256_of
from kb.models.manifest import ModelFile

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

TRIES = 5  # without a single byte more
TIMEOUT_S = 30.0  # without a byte
_BLOCK_BYTES = 1 << 18
_MOST_TEXT_BYTES = 1 << 20  # of a manifest

OnBytes = Callable[[int], None]  # how many bytes of the file are there


@dataclass(frozen=True, slots=True)
class Downloads:
    """How files are fetched. Tests bring a `sleep` of their own."""

    sleep: network.Sleep
    tries: int = TRIES
    timeout_s: float = TIMEOUT_S

    def text(self, url: str) -> bytes:
        """A small file, as a manifest is."""
        found: list[bytes] = []

        def take() -> bool:
            with _open(url, 0, self.timeout_s) as response:
                body = response.read(_MOST_TEXT_BYTES + 1)
                if response.length and len(body) <= _MOST_TEXT_BYTES:
                    raise ConnectionError("the connection was cut off")
                found.append(body)
            return True

        self._until(take, lambda: 0, url)
        if len(found[0]) > _MOST_TEXT_BYTES:
            raise ModelBroken(f"{url} is too long for a manifest", "name the model.json itself")
        return found[0]

    def file(self, url: str, file: ModelFile, target: Path, on_bytes: OnBytes) -> None:
        """`file` from `url` to `target`. Raises `ModelBroken` where it is another one."""
        part = target.with_name(f"{target.name}.{file.sha256[:12]}.part")
        self._until(
            lambda: _more(url, file, part, self.timeout_s, on_bytes), lambda: _size(part), url
        )
        check_arrived(part, file, url)
        part.replace(target)

    def _until(self, take: Callable[[], bool], size: Callable[[], int], url: str) -> None:
        """Take, again and again, until it is done. Attempts that bring something are free."""
        failed = 0
        while True:
            before = size()
            why, told = "the connection was cut off", None
            try:
                if take():
                    return
            except (OSError, HTTPException) as error:
                why, told = _judged(error, url)
            failed = 0 if size() > before else failed + 1
            pause_s = network.wait_s(max(failed - 1, 0), told)
            if failed >= self.tries or pause_s > network.LONGEST_WAIT_S:
                raise EndpointError(
                    f"{url} could not be fetched: {why}",
                    "the same command goes on with what has arrived",
                )
            self.sleep(pause_s)


def check_arrived(path: Path, file: ModelFile, source: str) -> None:
    """A file that is another one is removed: to go on with it would help nobody."""
    size_bytes = _size(path)
    found = sha256_of(path) if size_bytes == file.size_bytes else None
    if found == file.sha256:
        return
    path.unlink(missing_ok=True)
    what = f"its SHA-256 is {found} and should be {file.sha256}" if found else \
        f"it has {size_bytes:,} bytes and should have {file.size_bytes:,}"  # fmt: skip
    raise ModelBroken(
        f"{source} is not the file of the manifest: {what}", "nothing was kept; check the source"
    )


# --- one attempt ----------------------------------------------------------------------------------


def _more(url: str, file: ModelFile, part: Path, timeout_s: float, on_bytes: OnBytes) -> bool:
    """Take what is still missing; whether it is all there now."""
    have = _size(part)
    if have > file.size_bytes:
        part.unlink()
        have = 0
    on_bytes(have)
    if have == file.size_bytes and part.exists():
        return True
    try:
        opened = _open(url, have, timeout_s)
    except OSError as error:
        if getattr(error, "code", 0) == 416:  # there is less of it there than here: from the start
            part.unlink(missing_ok=True)
        raise
    with opened as response:
        start = _start(response, have)
        with part.open("ab" if start else "wb") as stream:
            _copy(response, stream, file.size_bytes - start, lambda count: on_bytes(start + count))
    return _size(part) >= file.size_bytes


def _start(response: Any, have: int) -> int:
    """Where the body begins in the file: a server without ranges begins at the beginning."""
    if response.status != 206:
        return 0
    told = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if told is None or int(told[1]) != have:
        raise ConnectionError("the server sent another range than it was asked for")
    return have


def _copy(response: Any, stream: Any, left: int, on_bytes: OnBytes) -> None:
    """One byte more than there should be is taken, so that a file that is too long is noticed; no
    more than that, so that one without an end fills no disk."""
    copied = 0
    while copied <= left:
        block = response.read1(min(_BLOCK_BYTES, left + 1 - copied))
        if not block:
            return
        stream.write(block)
        copied += len(block)
        on_bytes(min(copied, left))


def _open(url: str, start: int, timeout_s: float) -> Any:
    from urllib.request import Request

    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    opener: OpenerDirector = network.opener(redirects=True)
    return opener.open(Request(url, headers=headers), timeout=timeout_s)


def _judged(error: Exception, url: str) -> tuple[str, str | None]:
    """Why it failed, and what the server says of when to come back; raises where that would be of
    no use."""
    from urllib.error import HTTPError

    if not isinstance(error, HTTPError):
        return network.unreachable(error), None
    with error:
        if error.code in network.PASSING or error.code == 416:
            return f"HTTP {error.code}", error.headers.get("Retry-After")
    if error.code in (404, 410):
        raise ModelMissing(f"there is no {url}", "check the address and the revision") from error
    raise EndpointError(f"{url} could not be fetched: HTTP {error.code}", "check the address")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
