"""Four hours of server load, compressed: `python -m tests.soak --requests 72000`.

72,000 requests are four hours at five per second. Sixteen connections search, read, list, add
notes, upload, tag and delete, and some disconnect before their response arrives. Meanwhile the
files of an ingested folder change, and `kb ingest` runs repeatedly beside the server.

At the end, every note and upload that was accepted and not deleted exists with its text, every
deleted one is gone, and `kb doctor` finds nothing. During the run no response is a 5xx, except for
503 `too_busy`; none takes longer than ten seconds, and the server stays below a gigabyte. Anything
else ends the run with status 1. With `--seconds`, the run ends after that time, and is checked in
the same way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.endurance import text as file_text

LONGEST_S = 10.0
MOST_BYTES = 1_000_000_000
_WORDS = "gateway battery buoy frame slot retry storm jitter queue clock drift mooring".split()
_KB = (sys.executable, "-m", "kb")


@dataclass
class Report:
    """The results of the run so far."""

    statuses: Counter[int] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    most_bytes: int = 0
    largest_wal: int = 0
    problems: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)  # document -> a word that only it contains
    deleted: set[str] = field(default_factory=set)

    def note(self, operation: str, status: int, seconds: float, answer: bytes) -> None:
        self.operations[operation] += 1
        self.statuses[status] += 1
        self.slowest_s = max(self.slowest_s, seconds)
        if status >= 500 and b'"too_busy"' not in answer:
            self.problems.append(f"{operation}: {status} {answer[:200]!r}")
        if seconds > LONGEST_S:
            self.problems.append(f"{operation} took {seconds:.1f} s")


class Connection:
    """A persistent connection, reopened after it was dropped."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        await self._send(method, path, body)
        assert self._streams is not None
        reader, _ = self._streams
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head.split()[1])
        if b"content-length:" in head:
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            answer = await reader.readexactly(length)
        else:
            answer = b"".join([piece async for piece in _pieces(reader)])
        if b"connection: close" in head:
            self.drop()
        return status, answer

    async def leave(self, method: str, path: str, body: bytes) -> None:
        """Send a request and disconnect without reading the response."""
        await self._send(method, path, body)
        self.drop()

    def drop(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None

    async def _send(self, method: str, path: str, body: bytes) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-KB-Request: soak\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._streams[1].write(head.encode() + body)
        await self._streams[1].drain()


async def _pieces(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The pieces of a chunked body."""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")


class Client:
    """Runs random operations and records what the server has accepted."""

    def __init__(self, number: int, port: int, report: Report) -> None:
        self._chance = random.Random(number)
        self._connection = Connection(port)
        self._report = report
        self._number = number
        self._mine: list[str] = []  # only this client deletes what it has added

    async def run(self, requests: int, until: float) -> None:
        operations = [self.search, self.read, self.list, self.add, self.upload, self.delete]
        operations += [self.tag, self.hybrid, self.leave]
        weights = [60, 10, 4, 6, 4, 6, 4, 4, 2]
        for step in range(requests):
            if time.monotonic() > until:
                break
            (operation,) = self._chance.choices(operations, weights)
            try:
                await operation(step)
            except (OSError, asyncio.IncompleteReadError) as error:
                self._report.problems.append(f"{operation.__name__}: {error!r}")
                self._connection.drop()
        self._connection.drop()

    async def search(self, _step: int) -> None:
        await self._search("lexical")

    async def hybrid(self, _step: int) -> None:
        await self._search("hybrid")

    async def read(self, _step: int) -> None:
        if self._mine:
            await self._ask(
                "read", "GET", f"/passages?uri={quote(self._chance.choice(self._mine))}"
            )

    async def list(self, _step: int) -> None:
        await self._ask("list", "GET", f"/documents?limit=50&offset={self._chance.randrange(50)}")

    async def add(self, step: int) -> None:
        word = f"note{self._number}x{step}"
        note = {"text": f"{self._query()} {word}\n\n" + " ".join(_WORDS * 20)}
        status, answer = await self._ask("add", "POST", "/documents", _json(note))
        if status == 201:
            self._keep(json.loads(answer)["doc_path"], word)

    async def upload(self, step: int) -> None:
        word = f"upload{self._number}x{step}"
        name = f"file-{self._number}-{self._chance.randrange(20)}.md"
        body = file_text(word, step).encode() * self._chance.choice((1, 1, 1, 200))
        status, _ = await self._ask("upload", "PUT", f"/uploads/{name}", body)
        if status == 201:
            self._keep(f"uploads/{name}", word)

    async def delete(self, _step: int) -> None:
        if self._mine:
            document = self._mine.pop(self._chance.randrange(len(self._mine)))
            status, _ = await self._ask("delete", "DELETE", f"/documents/{quote(document)}")
            if status == 200:
                del self._report.kept[document]
                self._report.deleted.add(document)

    async def tag(self, _step: int) -> None:
        if self._mine:
            tagging = {"document": self._chance.choice(self._mine), "add": [self._query()]}
            await self._ask("tag", "POST", "/tags", _json(tagging))

    async def leave(self, _step: int) -> None:
        self._report.operations["leave"] += 1
        await self._connection.leave("POST", "/search", _json({"query": self._query()}))

    async def _search(self, mode: str) -> None:
        filters = {"tags": [self._query()]} if self._chance.random() < 0.1 else {}
        asked = {"query": " ".join(self._query() for _ in range(4)), "mode": mode}
        await self._ask(mode, "POST", "/search", _json(asked | {"filters": filters}))

    async def _ask(
        self, operation: str, method: str, path: str, body: bytes = b""
    ) -> tuple[int, bytes]:
        started = time.perf_counter()
        status, answer = await self._connection.ask(method, path, body)
        self._report.note(operation, status, time.perf_counter() - started, answer)
        return status, answer

    def _query(self) -> str:
        return self._chance.choice(_WORDS)

    def _keep(self, document: str, word: str) -> None:
        if document not in self._mine:
            self._mine.append(document)
        self._report.kept[document] = word
        self._report.deleted.discard(document)


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


# --- server and files -----------------------------------------------------------------------------


@asynccontextmanager
async def server(store: Path) -> AsyncIterator[tuple[int, int]]:
    """A real `kb serve`; its process and its port."""
    process = await asyncio.create_subprocess_exec(
        *_KB, "--store", str(store), "serve", "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    port = 0
    while not port:
        line = (await process.stdout.readline()).decode()
        assert line, "the server did not start"
        if "http://" in line:
            port = int(line.split("http://")[1].split("/")[0].split(":")[1].split()[0])
    drain = asyncio.create_task(_discard(process.stdout))
    try:
        yield process.pid, port
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 3 * LONGEST_S)
        await drain


async def _discard(stream: asyncio.StreamReader) -> None:
    while await stream.read(65536):
        pass


async def measure(pid: int, store: Path, report: Report, done: asyncio.Event) -> None:
    """Samples the server's memory and the size of the write-ahead log."""
    wal = store.with_name(store.name + "-wal")
    while not done.is_set():
        with suppress(FileNotFoundError, IndexError):
            pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
            report.most_bytes = max(report.most_bytes, pages * os.sysconf("SC_PAGE_SIZE"))
        with suppress(FileNotFoundError):
            report.largest_wal = max(report.largest_wal, wal.stat().st_size)
        await asyncio.sleep(0.2)


async def change_files(store: Path, folder: Path, report: Report, done: asyncio.Event) -> None:
    """Add, change and remove files; another process ingests the folder each time."""
    chance, version = random.Random("files"), 0
    while not done.is_set():
        version += 1
        for _ in range(5):
            file = folder / f"{chance.randrange(30)}.md"
            if chance.random() < 0.2:
                file.unlink(missing_ok=True)
            else:
                file.write_text(file_text(file.stem, version), encoding="utf-8")
        command = (*_KB, "--store", str(store), "ingest", "--no-embed", str(folder))
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        if await process.wait():
            report.problems.append(f"kb ingest ended with {process.returncode}")


def verify(store: Path, report: Report) -> None:
    """Check that everything accepted exists, and everything deleted is gone."""
    from kb import KnowledgeBase

    with KnowledgeBase(store, encoder="none") as kb:
        present = {document.doc_path for document in kb.documents()}
        for document, word in report.kept.items():
            if document not in present:
                report.problems.append(f"{document} was accepted and is lost")
            elif word not in kb.get(document, count=False).text:
                report.problems.append(f"{document} has lost its text")
        report.problems += [f"{each} was deleted and is back" for each in report.deleted & present]
    doctor = subprocess.run([*_KB, "--store", str(store), "doctor"], capture_output=True, text=True)
    if doctor.returncode:
        report.problems.append(f"kb doctor: {doctor.stdout}{doctor.stderr}")


async def soak(requests: int, connections: int, seconds: float) -> Report:
    report, done, until = Report(), asyncio.Event(), time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as home:
        store, folder = Path(home) / ".kb" / "kb.sqlite", Path(home) / "files"
        folder.mkdir()
        async with server(store) as (pid, port):
            around = asyncio.gather(
                measure(pid, store, report, done), change_files(store, folder, report, done)
            )
            clients = [Client(number, port, report) for number in range(connections)]
            share = requests // connections
            await asyncio.gather(*(client.run(share, until) for client in clients))
            done.set()
            await around
        verify(store, report)
    if report.most_bytes > MOST_BYTES:
        report.problems.append(f"the server took {report.most_bytes:,} bytes")
    return report


def _summary(report: Report, seconds: float) -> str:
    lines = [
        f"{sum(report.operations.values()):,} requests in {seconds:.0f} s",
        ", ".join(f"{name} {count:,}" for name, count in report.operations.most_common()),
        ", ".join(f"{status}: {count:,}" for status, count in sorted(report.statuses.items())),
        f"slowest {report.slowest_s:.2f} s, server at most {report.most_bytes / 1e6:.0f} MB, "
        f"write-ahead log at most {report.largest_wal / 1e6:.1f} MB, "
        f"{len(report.kept)} documents kept",
    ]
    counts = Counter(report.problems).most_common(20)
    lines += [f"PROBLEM ({count}x): {problem}" for problem, count in counts]
    return "".join(f"{line}\n" for line in lines)


def main() -> int:
    reader = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    reader.add_argument("--requests", type=int, default=72_000)
    reader.add_argument("--connections", type=int, default=16)
    reader.add_argument("--seconds", type=float, default=math.inf)
    options = reader.parse_args()
    started = time.monotonic()
    report = asyncio.run(soak(options.requests, options.connections, options.seconds))
    sys.stdout.write(_summary(report, time.monotonic() - started))
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
