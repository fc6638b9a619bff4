"""Downloads one file over HTTP. An interrupted download can be resumed.

Received bytes are kept in a `.part` file whose name contains the expected hash, and a later run
requests the rest (`Range`). A server that does not support ranges sends the whole file again. The
file is moved to its place once its size and SHA-256 match the manifest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kb.errors import EndpointError, ModelBroken, ModelMissing
from kb.models import network
from kb.models.checksums import sha256_of
from kb.models.manifest import ModelFile

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from kb.models.connections import TimeLimit

TRIES = 5  # attempts without progress
TIMEOUT_S = 30.0  # for a manifest, for the header of a file, and for each part of it
PART_BYTES = 1 << 15
_BLOCK_BYTES = 1 << 18
_MAX_TEXT_BYTES = 1 << 20  # of a manifest

OnBytes = Callable[[int], None]  # how many bytes of the file have arrived


@dataclass(frozen=True, slots=True)
class Downloads:
    """Downloads files, with retries. Tests pass their own `sleep`."""

    sleep: network.Sleep
    tries: int = TRIES
    timeout_s: float = TIMEOUT_S

    def text(self, url: str, limit_bytes: int = _MAX_TEXT_BYTES) -> bytes:
        """Download a small file, such as a manifest."""
        bodies: list[bytes] = []

        def attempt() -> bool:
            with _open(url, 0, _limit(self.timeout_s)) as response:
                body = response.read(limit_bytes + 1)
                if response.length and len(body) <= limit_bytes:
                    raise ConnectionError("the connection was interrupted")
                bodies.append(body)
            return True

        self._retry(attempt, lambda: 0, url)
        if len(bodies[0]) > limit_bytes:
            raise ModelBroken(f"{url} is too large for a manifest", "use the URL of the model.json")
        return bodies[0]

    def file(self, url: str, file: ModelFile, target: Path, on_bytes: OnBytes) -> None:
        """Download `file` from `url` to `target`. Raises `ModelBroken` if size or hash differ."""
        part = target.with_name(f"{target.name}.{file.sha256[:12]}.part")
        self._retry(
            lambda: _resume(url, file, part, self.timeout_s, on_bytes), lambda: _size(part), url
        )
        check_file(part, file, url)
        part.replace(target)

    def _retry(self, attempt: Callable[[], bool], size: Callable[[], int], url: str) -> None:
        """Call `attempt` until it returns True. Attempts that make progress do not count as
        failures. An attempt that ran out of time has made progress only if it received a whole
        part."""
        failed = 0
        while True:
            before, enough = size(), 1
            reason, retry_after = "the connection was interrupted", None
            try:
                if attempt():
                    return
            except (OSError, HTTPException) as error:
                reason, retry_after = _classify(error, url)
                enough = PART_BYTES if isinstance(error, TimeoutError) else 1
            failed = 0 if size() - before >= enough else failed + 1
            pause_s = network.wait_s(max(failed - 1, 0), retry_after)
            if failed >= self.tries or pause_s > network.LONGEST_WAIT_S:
                raise EndpointError(
                    f"{url} could not be downloaded: {reason}",
                    "run the command again to resume the download",
                )
            self.sleep(pause_s)


def check_file(path: Path, file: ModelFile, source: str) -> None:
    """Check the size and hash of a downloaded or copied file; a wrong file is removed. Raises
    `ModelBroken`."""
    size_bytes = _size(path)
    digest = sha256_of(path) if size_bytes == file.size_bytes else None
    if digest == file.sha256:
        return
    path.unlink(missing_ok=True)
    difference = f"its SHA-256 is {digest} instead of {file.sha256}" if digest else \
        f"it has {size_bytes:,} bytes instead of {file.size_bytes:,}"  # fmt: skip
    raise ModelBroken(
        f"{source} does not match the manifest: {difference}", "it was removed; check the source"
    )


# --- one attempt ----------------------------------------------------------------------------------


def _resume(url: str, file: ModelFile, part: Path, timeout_s: float, on_bytes: OnBytes) -> bool:
    """Download the missing bytes, and return whether the file is complete."""
    have = _size(part)
    if have > file.size_bytes:
        part.unlink()
        have = 0
    on_bytes(have)
    if have == file.size_bytes and part.exists():
        return True
    limit = _limit(timeout_s)
    try:
        connection = _open(url, have, limit)
    except OSError as error:
        if getattr(error, "code", 0) == 416:  # the server's file is shorter: start again
            part.unlink(missing_ok=True)
        raise
    with connection as response:
        start = _start(response, have)
        with part.open("ab" if start else "wb") as stream:
            left = file.size_bytes - start
            _copy(response, stream, left, limit, lambda count: on_bytes(start + count))
    return _size(part) >= file.size_bytes


def _start(response: HTTPResponse, have: int) -> int:
    """The offset of the response's body in the file: 0 if the server does not support ranges."""
    if response.status != 206:
        return 0
    match = re.match(r"bytes (\d{1,18})-", response.headers.get("Content-Range", ""))
    if match is None or int(match[1]) != have:
        raise ConnectionError("the server sent a different range than requested")
    return have


def _copy(
    response: HTTPResponse, stream: BinaryIO, left: int, limit: TimeLimit, on_bytes: OnBytes
) -> None:
    """Copy at most one byte more than expected, so that a longer file is noticed and an endless one
    does not fill the disk. The limit applies to each part of the file: a download from a server
    that sends single bytes is abandoned."""
    limit.restart()
    copied = part = 0
    while copied <= left:
        block = response.read1(min(_BLOCK_BYTES, left + 1 - copied))
        if not block:
            return
        stream.write(block)
        copied += len(block)
        part += len(block)
        if part >= PART_BYTES:
            limit.restart()
            part = 0
        on_bytes(min(copied, left))


def _open(url: str, start: int, limit: TimeLimit) -> HTTPResponse:
    from urllib.request import Request

    from kb.models.connections import open_url

    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    return open_url(Request(url, headers=headers), limit, redirects=True)


def _limit(seconds: float) -> TimeLimit:
    from kb.models.connections import TimeLimit

    return TimeLimit(seconds)


def _classify(error: Exception, url: str) -> tuple[str, str | None]:
    """The reason for a transient failure, and the `Retry-After` header. Raises `ModelError` for a
    permanent failure."""
    from urllib.error import HTTPError

    if not isinstance(error, HTTPError):
        return network.describe_failure(error), None
    with error:
        if error.code in network.TRANSIENT or error.code == 416:
            return f"HTTP {error.code}", error.headers.get("Retry-After")
    if error.code in (404, 410):
        raise ModelMissing(f"{url} does not exist", "check the address and the revision") from error
    raise EndpointError(f"{url} could not be downloaded: HTTP {error.code}", "check the address")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
