"""A server under load on loopback: searches per second, the 95th percentile of the latency, and
memory over time, compared with a bare FastAPI route measured in the same way.

    python -m bench.serve [--chunks 100000] [--connections 32] [--seconds 20]

The store is generated once. Its vectors are random, with the dimension of the bundled encoder, and
so is the encoder: this measures the server and the search, not a model. Notes are added and
embedded during the searches.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any
from zlib import crc32

from fastapi import FastAPI, Request

from bench.__main__ import passage_store
from bench.corpus import Prose, passages
from bench.timing import table
from kb.types import Encoding, ModelSpec

DIMENSION = 384
_NOTES_EVERY_S = 0.25
_PARTS = 4
_MODES = ("lexical", "vector", "hybrid")


class RandomEncoder:
    """Random vectors, seeded by a text's checksum, as long as real ones."""

    spec = ModelSpec("bench", "1", DIMENSION, frozenset({"dense"}))

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,  # noqa: ARG002  # ignored
        want: Set[str] = frozenset({"dense"}),  # noqa: ARG002  # dense only
        on_progress: Callable[[int], None] | None = None,  # noqa: ARG002  # too fast to report
    ) -> list[Encoding]:
        return [Encoding(dense=_vector(text)) for text in texts]


def _vector(text: str) -> array[float]:
    chance = random.Random(crc32(text.encode()))
    return array("f", (chance.gauss(0, 1) for _ in range(DIMENSION)))


# --- the two servers, each in its own process ---------------------------------------------------


def serve_kb(store: Path) -> None:
    from kb import KnowledgeBase
    from kb.config import Config, ServeConfig
    from kb.server.lifecycle import serve

    config = Config(serve=ServeConfig(port=0))
    with KnowledgeBase(store, config=config, encoder=RandomEncoder()) as kb:
        kb.embed()
        serve(kb, token=None, ready=lambda port: print(port, flush=True))


def serve_bare() -> None:
    """A route that reads a body and returns as many bytes as a search."""
    import socket

    import uvicorn

    app, answer = FastAPI(), {"hits": [{"snippet": "x" * 700}] * 10}

    @app.post("/search")
    async def search(request: Request) -> dict[str, Any]:
        json.loads(await request.body())
        return answer

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        print(listening.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listening])


# --- the load -------------------------------------------------------------------------------------


@dataclass
class Load:
    """The result of a load test."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    notes: int = 0

    def row(self, name: str, took_s: float) -> tuple[str, ...]:
        ranked = sorted(self.seconds)
        p50, p95 = (ranked[int(len(ranked) * part)] * 1000 for part in (0.5, 0.95))
        rate = len(ranked) / took_s
        return (name, f"{rate:.0f}", f"{p50:.1f}", f"{p95:.1f}", str(len(self.errors)))


class Connection:
    """One persistent connection with little overhead."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def post(self, path: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        self._writer.write(head.encode() + data)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.split(b"content-length:")[1].split(b"\r\n")[0])
        return int(answer.split()[1]), await self._reader.readexactly(length)


async def asking(port: int, bodies: Sequence[Mapping[str, Any]], load: Load, until: float) -> None:
    async with Connection(port) as connection:
        for body in cycle(bodies):
            started = time.perf_counter()
            if started > until:
                return
            status, answer = await connection.post("/search", body)
            load.seconds.append(time.perf_counter() - started)
            if status != 200:
                load.errors.append(f"{status} {answer[:100]!r}")


async def adding(port: int, prose: Prose, load: Load, until: float) -> None:
    async with Connection(port) as connection:
        while time.perf_counter() < until:
            status, answer = await connection.post("/documents", {"text": prose.passage()})
            if status == 201:
                load.notes += 1
            else:
                load.errors.append(f"{status} {answer[:100]!r}")
            await asyncio.sleep(_NOTES_EVERY_S)


async def under_load(port: int, connections: int, seconds: float, *, add: bool, load: Load) -> None:
    prose = Prose(seed=5)
    queries = [prose.query(passage) for passage in passages(200)]
    until = time.perf_counter() + seconds
    work = []
    for number in range(connections):
        mine = queries[number:] + queries[:number]
        bodies = [
            {"query": query, "mode": _MODES[(number + at) % len(_MODES)]}
            for at, query in enumerate(mine)
        ]
        work.append(asking(port, bodies, load, until))
    if add:
        work.append(adding(port, prose, load, until))
    await asyncio.gather(*work)


def memory_mb(pid: int) -> float:
    """Resident memory from /proc, or 0 if there is none."""
    try:
        text = Path(f"/proc/{pid}/statm").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(name: str, args: list[str], options: argparse.Namespace) -> tuple[tuple[str, ...], str]:
    """A row of the table, and a line about memory."""
    command = [sys.executable, "-m", "bench.serve", *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            add = name == "kb serve"
            warm_s = min(5.0, options.seconds / 4)
            asyncio.run(under_load(port, options.connections, warm_s, add=add, load=Load()))
            load, memory = Load(), [memory_mb(process.pid)]
            started = time.perf_counter()
            for _ in range(_PARTS):  # several samples show whether it grows
                part_s = options.seconds / _PARTS
                asyncio.run(under_load(port, options.connections, part_s, add=add, load=load))
                memory.append(memory_mb(process.pid))
            took_s = time.perf_counter() - started
        finally:
            process.terminate()
    for error in load.errors[:3]:
        print("  error:", error)
    grown = ", ".join(f"{each:.0f}" for each in memory)
    line = f"{name}: {grown} MB resident before, between and after; {load.notes} notes added"
    return load.row(name, took_s), line


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m bench.serve", description=__doc__)
    reader.add_argument("--chunks", type=int, default=100_000)
    reader.add_argument("--connections", type=int, default=32)
    reader.add_argument("--seconds", type=float, default=20.0)
    reader.add_argument("--role", choices=("kb", "bare"), help=argparse.SUPPRESS)
    reader.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    options = reader.parse_args()
    if options.role == "kb":
        serve_kb(options.store)
    elif options.role == "bare":
        serve_bare()
    else:
        _compare(options)


def _compare(options: argparse.Namespace) -> None:
    """Measure on a copy of the store, since notes are added to it."""
    import shutil

    passages_path = passage_store(options.chunks)
    store = passages_path.with_name(f"serve-{options.chunks}.sqlite")
    for file in passages_path.parent.glob(f"{store.name}*"):
        file.unlink()
    shutil.copyfile(passages_path, store)
    runs = {
        "bare FastAPI route": ["--role", "bare"],
        "kb serve": ["--role", "kb", "--store", str(store)],
    }
    results = [measure(name, args, options) for name, args in runs.items()]
    title = (
        f"{options.chunks:,} chunks, {options.connections} connections, lexical, vector and hybrid "
        f"in turn for {options.seconds:g} s, while notes are added"
    )
    header = ("", "per second", "p50 ms", "p95 ms", "errors")
    print(table(title, header, [row for row, _ in results]))
    print("\n".join(line for _, line in results))


if __name__ == "__main__":
    main()
