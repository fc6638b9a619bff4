"""A team at work: `python -m tests.team_soak --seconds 600`.

Two `kb serve`, two `kb embed --worker` and one `kb watch` share a store in PostgreSQL. 32 clients
add, edit, tag, remove, read and search notes, each request to a random one of the two servers,
while another task changes files in the watched folder.

Each client keeps a model of its own notes: every search that is limited to them has to return
exactly the notes of the model, whichever server has written the last change. At the end, all
passages get their vectors; the documents of the store are those of the models and the folder; each
of 200 notes is the nearest to its own text by vectors; both servers give the same responses; a copy
in SQLite ranks like the original, as `kb copy` checks; and `kb doctor` finds nothing. An error
other than 503 `too_busy`, a process that ends, and a wrong response end the run with status 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.postgres import Server
from tests.soak import LONGEST_S, Connection

CLIENTS = 32
PATIENCE_S = 600.0  # until the last passage has its vectors
FILES = 40
_KB = (sys.executable, "-m", "kb")
_WORDS = "gateway battery buoy frame slot retry storm jitter queue clock drift mooring".split()
_TAGS = ("red", "green", "blue")
_BUSY_WAIT_S = 0.2


@dataclass
class Note:
    """What a client knows of one of its notes: `word` occurs in no other text."""

    word: str
    text: str
    tags: frozenset[str]


@dataclass
class Report:
    """The results of the run so far."""

    operations: Counter[str] = field(default_factory=Counter)
    busy: int = 0
    slowest_s: float = 0.0
    problems: list[str] = field(default_factory=list)


class Client:
    """Sends random requests and compares the responses with its model."""

    def __init__(self, number: int, ports: list[int], report: Report) -> None:
        self._number = number
        self._chance = random.Random(number)
        self._connections = [Connection(port) for port in ports]
        self._report = report
        self._step = 0
        self.notes: dict[str, Note] = {}

    async def run(self, until: float, requests: int) -> None:
        operations = [self.add, self.edit, self.tag, self.remove, self.read, self.find_word,
                      self.find_all, self.find_tagged, self.search]  # fmt: skip
        weights = [10, 6, 6, 5, 8, 15, 15, 15, 20]
        for self._step in range(requests):
            if time.monotonic() > until:
                break
            (operation,) = self._chance.choices(operations, weights)
            await operation()
        for connection in self._connections:
            connection.drop()

    # --- writing ----------------------------------------------------------------------------------

    async def add(self) -> None:
        note = self._new(frozenset(self._chance.sample(_TAGS, 2)))
        status, answer = await self._request("add", "POST", "/documents", {
            "text": note.text, "tags": sorted(note.tags | {self._own})})  # fmt: skip
        if self._check(status == 201, "add", status, answer):
            self.notes[answer["doc_path"]] = note
            await self._expect_word(note.word, {answer["doc_path"]})

    async def edit(self) -> None:
        if not self.notes:
            return
        path, old = self._any()
        status, editable = await self._request("open", "GET", f"/notes/{quote(path)}")
        if not self._check(
            status == 200 and editable["text"] == old.text, "open", status, editable
        ):
            return
        note = self._new(old.tags)
        change = {"text": note.text, "version": editable["version"], "tags": editable["tags"]}
        status, answer = await self._request("edit", "PUT", f"/notes/{quote(path)}", change)
        if self._check(status == 200, "edit", status, answer):
            self.notes[path] = note
            await self._expect_word(old.word, set())
            await self._expect_word(note.word, {path})

    async def tag(self) -> None:
        if not self.notes:
            return
        path, note = self._any()
        tag = self._chance.choice(_TAGS)
        change = {"document": path, "remove" if tag in note.tags else "add": [tag]}
        status, answer = await self._request("tag", "POST", "/tags", change)
        if self._check(status == 200, "tag", status, answer):
            note.tags = note.tags ^ {tag}

    async def remove(self) -> None:
        if len(self.notes) < 3:
            return
        path, note = self._any()
        status, answer = await self._request("remove", "DELETE", f"/documents/{quote(path)}")
        if self._check(status == 200, "remove", status, answer):
            del self.notes[path]
            await self._expect_word(note.word, set())

    # --- reading ----------------------------------------------------------------------------------

    async def read(self) -> None:
        if self.notes:
            path, note = self._any()
            status, answer = await self._request("read", "GET", f"/passages?uri={quote(path)}")
            self._check(status == 200 and answer["text"] == note.text, "read", status, answer)

    async def find_word(self) -> None:
        if self.notes:
            path, note = self._any()
            await self._expect_word(note.word, {path})

    async def find_all(self) -> None:
        await self._expect(_WORDS[0], [self._own], set(self.notes))

    async def find_tagged(self) -> None:
        tag = self._chance.choice(_TAGS)
        expected = {path for path, note in self.notes.items() if tag in note.tags}
        await self._expect(_WORDS[0], [self._own, tag], expected)

    async def search(self) -> None:
        """A search by words and meaning among all documents, or among those of this client."""
        query = " ".join(self._chance.choices(_WORDS, k=4)) + f" {self._step}"
        asked: dict[str, Any] = {"query": query}
        if own := self._chance.random() < 0.5:
            asked["filters"] = {"tags": [self._own]}
        status, answer = await self._request("search", "POST", "/search", asked)
        if self._check(status == 200, "search", status, answer) and own:
            strange = {hit["doc_path"] for hit in answer["hits"]} - set(self.notes)
            self._check(not strange, "search", status, strange)

    async def _expect_word(self, word: str, paths: set[str]) -> None:
        await self._expect(word, [], paths)

    async def _expect(self, query: str, tags: list[str], paths: set[str]) -> None:
        """Search by words; the response has exactly these documents."""
        asked = {"query": query, "mode": "lexical", "top": 100, "collapse": False,
                 "filters": {"tags": tags}}  # fmt: skip
        status, answer = await self._request("find", "POST", "/search", asked)
        if self._check(status == 200, "find", status, answer):
            found = {hit["doc_path"] for hit in answer["hits"]}
            if len(paths) <= 100:
                self._check(found == paths, f"find {query} {tags}", status, found ^ paths)

    # --- requests ---------------------------------------------------------------------------------

    async def _request(
        self, name: str, method: str, path: str, body: Any = None
    ) -> tuple[int, Any]:
        """Send a request to one of the servers; again, if the server is too busy for it."""
        data = b"" if body is None else json.dumps(body).encode()
        while True:
            connection = self._chance.choice(self._connections)
            started = time.perf_counter()
            try:
                status, answer = await connection.ask(method, path, data)
            except (OSError, asyncio.IncompleteReadError) as error:
                self._report.problems.append(f"{name}: {error!r}")
                connection.drop()
                return 0, {}
            self._report.operations[name] += 1
            self._report.slowest_s = max(self._report.slowest_s, time.perf_counter() - started)
            parsed = json.loads(answer)
            if status != 503 or parsed["code"] != "too_busy":
                return status, parsed
            self._report.busy += 1
            await asyncio.sleep(_BUSY_WAIT_S)

    def _check(self, holds: bool, name: str, status: int, found: object) -> bool:
        if not holds:
            self._report.problems.append(f"client {self._number}: {name}: {status} {found!r}"[:500])
        return holds

    @property
    def _own(self) -> str:
        return f"client{self._number}"

    def _any(self) -> tuple[str, Note]:
        return self._chance.choice(list(self.notes.items()))

    def _new(self, tags: frozenset[str]) -> Note:
        word = _spell("zq", self._number, self._step, len(self.notes))
        words = " ".join(self._chance.choices(_WORDS, k=self._chance.randrange(5, 60)))
        return Note(word, f"{_WORDS[0]} {word} {words}", tags)


def _spell(prefix: str, *numbers: int) -> str:
    """A word of letters that contains the numbers, so that it is one term."""
    digits = str.maketrans("0123456789", "abcdefghij")
    return prefix + "x".join(str(number).translate(digits) for number in numbers) + "z"


# --- processes ------------------------------------------------------------------------------------


class Team:
    """The processes around one store."""

    def __init__(self, store: str, folder: Path, report: Report) -> None:
        self._store = store
        self._folder = folder
        self._report = report
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._environment = os.environ | {
            f"XDG_{kind}_HOME": str(folder / "home") for kind in ("CONFIG", "DATA", "STATE")
        }

    async def start(self, name: str, *arguments: str) -> asyncio.subprocess.Process:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *_KB, "--store", self._store, *arguments, stdout=asyncio.subprocess.PIPE,
                stderr=log, env=self._environment, cwd=self._folder,
            )  # fmt: skip
        self._processes[name] = process
        return process

    async def serve(self, name: str) -> int:
        """Start a server; returns its port."""
        process = await self.start(name, "serve", "--port", "0")
        assert process.stdout is not None
        while line := (await process.stdout.readline()).decode():
            if found := re.search(r"http://[^/]*:([0-9]+)", line):
                asyncio.get_running_loop().create_task(_discard(process.stdout))
                return int(found[1])
        raise AssertionError(f"{name} did not start: {self._log(name)}")

    async def background(self, name: str, *arguments: str) -> None:
        process = await self.start(name, *arguments)
        assert process.stdout is not None
        asyncio.get_running_loop().create_task(_discard(process.stdout))

    async def stop(self) -> None:
        """End all processes; each has to end by itself and without a traceback."""
        for name, process in self._processes.items():
            if process.returncode is not None:
                self._report.problems.append(
                    f"{name} ended with {process.returncode}: {self._log(name)}"
                )
                continue
            process.send_signal(signal.SIGTERM)
        for name, process in self._processes.items():
            await asyncio.wait_for(process.wait(), 60)
            if "Traceback" in (log := self._log(name)):
                self._report.problems.append(f"{name}: {log}")

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")[-2000:]


async def _discard(stream: asyncio.StreamReader) -> None:
    while await stream.read(65536):
        pass


async def change_files(folder: Path, until: float, done: asyncio.Event) -> dict[str, str]:
    """Add, change, rename and remove files. Returns the text of each at the end."""
    chance, texts = random.Random("files"), dict[str, str]()
    version = 0
    while not done.is_set() and time.monotonic() < until:
        version += 1
        name = f"{chance.randrange(FILES)}.md"
        if name in texts and chance.random() < 0.2:
            (folder / name).unlink()
            del texts[name]
        elif name in texts and chance.random() < 0.2:
            new = f"{chance.randrange(FILES)}-{version}.md"
            (folder / name).rename(folder / new)
            texts[new] = texts.pop(name)
        else:
            words = " ".join(chance.choices(_WORDS, k=80))
            texts[name] = f"# {name}\n\n{_spell('file', version)} {words}\n"
            (folder / name).write_text(texts[name])
        await asyncio.sleep(chance.random())
    return texts


# --- the end --------------------------------------------------------------------------------------


def verify(store: str, clients: list[Client], files: dict[str, str], report: Report) -> None:
    """Compare the whole store with the models."""
    from kb import KnowledgeBase
    from kb.text.timestamps import utc_timestamp
    from kb.types import Filters

    expected = {path: note.text for client in clients for path, note in client.notes.items()}
    with KnowledgeBase(store) as kb:
        end = time.monotonic() + PATIENCE_S
        wanted = set(expected) | {f"files/{name}" for name in files}
        while kb.pending() or {one.doc_path for one in kb.documents()} != wanted:
            if time.monotonic() > end:
                found = {one.doc_path for one in kb.documents()}
                report.problems.append(f"{kb.pending()} passages have no vectors; documents that "
                                       f"differ: {sorted(found ^ wanted)[:10]}")  # fmt: skip
                return
            time.sleep(0.5)
        for path, text in expected.items():
            if kb.get(path, count=False).text != text:
                report.problems.append(f"{path} has another text than the model")
        for name, text in files.items():
            if kb.get(f"files/{name}", count=False).text.strip() != text.strip():
                report.problems.append(f"files/{name} has another text than the file")
        sample = random.Random(1).sample(sorted(expected), min(200, len(expected)))
        encoder, vectors = kb.encoder(), kb._store.vectors
        assert encoder is not None
        (model, *_) = vectors.models()
        for path in sample:
            # Encoded as a passage: the vector of a query may be closer to another note.
            (encoding,) = encoder.encode([expected[path]], want={"dense"})
            nearest = vectors.nearest_dense(
                model.model_id, encoding.dense or [], filters=Filters(), now=utc_timestamp(0),
                limit=3,
            )  # fmt: skip
            if kb.chunks(path)[0].chunk_id not in [one.chunk_id for one in nearest.chunks]:
                report.problems.append(f"{path} is not near its own text")
        diagnosis = kb.doctor()
        if not diagnosis.healthy:
            report.problems.append(f"kb doctor: {diagnosis}")
        report.operations["documents at the end"] = len(wanted)


async def compare_servers(ports: list[int], report: Report) -> None:
    """Both servers give the same responses."""
    connections = [Connection(port) for port in ports]
    chance = random.Random("compare")
    for _ in range(50):
        query = {"query": " ".join(chance.choices(_WORDS, k=4)), "top": 20}
        hits = []
        for connection in connections:
            status, answer = await connection.ask("POST", "/search", json.dumps(query).encode())
            if status != 200:
                report.problems.append(f"{query['query']!r}: {status} {answer!r}"[:500])
                return
            hits.append([(hit["chunk_id"], hit["score"]) for hit in json.loads(answer)["hits"]])
        if hits[0] != hits[1]:
            report.problems.append(f"the servers answer {query['query']!r} differently")
    for connection in connections:
        connection.drop()


async def soak(store: str, seconds: float, requests: int, clients: int, folder: Path) -> Report:
    report = Report()
    files = folder / "files"
    files.mkdir()
    team = Team(store, folder, report)
    subprocess.run([*_KB, "--store", store, "init"], check=True, capture_output=True)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(team.stop)
        ports = [await team.serve(f"server{number}") for number in (1, 2)]
        for number in (1, 2):
            await team.background(f"worker{number}", "embed", "--worker")
        await team.background("watcher", "watch", str(files))
        until, done = time.monotonic() + seconds, asyncio.Event()
        changing = asyncio.create_task(change_files(files, until, done))
        crowd = [Client(number, ports, report) for number in range(clients)]
        await asyncio.gather(*(client.run(until, requests) for client in crowd))
        done.set()
        texts = await changing
        await asyncio.to_thread(verify, store, crowd, texts, report)
        await compare_servers(ports, report)
    copied = subprocess.run(
        [*_KB, "copy", store, str(folder / "copy.sqlite")], capture_output=True, text=True
    )
    if copied.returncode:
        report.problems.append(f"kb copy: {copied.stderr}")
    return report


def run(seconds: float, requests: int, clients: int) -> Report:
    """Run the team with a new server."""
    with tempfile.TemporaryDirectory(prefix="kb-team-") as home:
        Path(home).chmod(0o755)  # the server may run as another user
        server = Server(Path(home) / "postgres")
        try:
            work = Path(home) / "work"
            work.mkdir()
            return asyncio.run(soak(server.url(), seconds, requests, clients, work))
        finally:
            server.stop()


def main() -> int:
    reader = argparse.ArgumentParser(prog="python -m tests.team_soak", description=__doc__)
    reader.add_argument("--seconds", type=float, default=600)
    reader.add_argument("--requests", type=int, default=1_000_000, help="of each client")
    reader.add_argument("--clients", type=int, default=CLIENTS)
    options = reader.parse_args()
    started = time.monotonic()
    report = run(options.seconds, options.requests, options.clients)
    counts = ", ".join(f"{name} {count:,}" for name, count in report.operations.most_common())
    problems = Counter(report.problems).most_common(20)
    sys.stdout.write(
        f"{sum(report.operations.values()):,} requests in {time.monotonic() - started:.0f} s "
        f"({counts}), {report.busy:,} refused as too busy, slowest {report.slowest_s:.2f} s\n"
        + "".join(f"PROBLEM ({count}x): {problem}\n" for problem, count in problems)
    )
    return 1 if report.problems or report.slowest_s > 3 * LONGEST_S else 0


if __name__ == "__main__":
    sys.exit(main())
