"""Processes killed in the middle of any operation: `python -m tests.kills --kills 1000`

A child works on a store and is killed with SIGKILL after a random time; it reports through a pipe
what it has done so far. Then another child checks: the file is intact, every document that was
reported exists completely, nothing exists that nobody wrote, the operation completes when it is run
again, and no other files are left behind. Children are forked from a process that has everything
loaded and neither threads nor connections, so that a kill takes a fraction of a second.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kb import KnowledgeBase
from kb.config import Config, IngestConfig, ModelsConfig, ServeConfig
from kb.errors import NotFound
from tests.endurance import CHUNKS, text
from tests.models.weightless import Weightless
from tests.store.builders import sqlite_store

FILES, NOTES = 12, 40
PATIENCE_S = 60.0
Say = Callable[..., None]
OTHER = Weightless(32, name="other")


def opened(path: Path) -> KnowledgeBase:
    kb = KnowledgeBase(path, encoder=Weightless(), config=_config())
    kb._services.embedding.encoders.register("weightless", Weightless())
    kb._services.embedding.encoders.register("other", OTHER)
    return kb


def _config() -> Config:
    return replace(
        Config(),
        models=ModelsConfig(exam=False),
        serve=replace(ServeConfig(), port=0, drain_s=1),
        ingest=replace(IngestConfig(), follow_links=False),
    )


# --- operations on the store ----------------------------------------------------------------------


@dataclass
class State:
    """The expected content. Notes and uploads are listed by path; those that are `unsure` may exist
    or not."""

    folder: Path
    chance: random.Random
    version: int = 0
    notes: dict[str, str] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    uploads: dict[str, bytes] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        return self.folder / "kb.sqlite"

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def change_files(self) -> None:
        self.version += 1
        for number in self.chance.sample(range(FILES), FILES // 2):
            path = self.files / f"{number}.md"
            if self.chance.random() < 0.15:
                path.unlink(missing_ok=True)
            else:
                path.write_text(text(path.name, self.version), encoding="utf-8")


def add(state: State, say: Say) -> None:
    with opened(state.store) as kb:
        for number in range(NOTES):
            note = f"needle note {state.version}-{number}"
            say(kb.add(note, tags=["note"], metadata={"n": number}).doc_path, note)


def remove(state: State, say: Say) -> None:
    with opened(state.store) as kb:
        for path in sorted(state.notes)[: NOTES + 5]:
            with suppress(NotFound):  # removed by the killed process before it could report it
                say(kb.remove(path)[0])


def tag(state: State, say: Say) -> None:
    with opened(state.store) as kb:
        for path in sorted(state.notes)[:NOTES]:
            kb.tag(path, add=[f"t{state.version}"])
            say(path)


def ingest(state: State, say: Say) -> None:
    with opened(state.store) as kb:
        assert not kb.ingest(state.files).failed
        say("done")


def force(state: State, say: Say) -> None:
    with opened(state.store) as kb:
        assert not kb.ingest(state.files, force=True).failed
        say("done")


def embed(state: State, say: Say) -> None:
    with opened(state.store) as kb:
        if state.chance.random() < 0.3:
            kb._store.vectors.drop_all()
        kb.embed()
        say("done")


def reindex(state: State, say: Say) -> None:
    with opened(state.store) as kb:
        answering = (
            kb._store.vectors.models()[0].name if kb._store.vectors.models() else "weightless"
        )
        kb.reindex("other" if answering == "weightless" else "weightless", grace_s=0)
        say("done")


def gc(state: State, say: Say) -> None:
    """Expired notes are removed together."""
    with opened(state.store) as kb:
        for number in range(10):
            kb.add(f"expired {number}", ttl="1s", tags=["expired"])
        with KnowledgeBase(state.store, clock=lambda: time.time() + 3600) as later:
            later.gc()
        say("done")


def export(state: State, say: Say) -> None:
    with opened(state.store) as kb:
        for name in ("e.jsonl", "e.jsonl.gz"):
            kb.export(state.out / name, overwrite=True, vectors=True)
        say("done")


def backup(state: State, say: Say) -> None:
    with opened(state.store) as kb:
        kb.backup(state.out / "b.sqlite", overwrite=True)
        say("done")


def import_new(state: State, say: Say) -> None:
    """Import into a store that does not exist: it appears complete or not at all."""
    target = state.out / "new.sqlite"
    for end in ("", "-wal", "-shm", "-vectors", "-words"):
        target.with_name(target.name + end).unlink(missing_ok=True)
    with opened(target) as kb:
        kb.import_(state.folder / "export.jsonl")
    say("done")


def import_merge(state: State, say: Say) -> None:
    with opened(state.store) as kb:
        kb.import_(state.folder / "merge.jsonl", merge=True)
        say("done")


def doctor(state: State, say: Say) -> None:
    """All derived data is damaged, and rebuilt."""
    with opened(state.store) as kb:
        with sqlite_store(kb)._database.writing() as connection:
            connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('delete-all')")
            connection.execute("DELETE FROM sparse_postings")
            connection.execute("UPDATE state SET chunks = 0")
            connection.execute("DROP TRIGGER IF EXISTS chunks_insert")
            connection.execute("UPDATE embeddings SET tokens = x'00' WHERE chunk_id % 3 = 0")
        say("damaged")
        kb.doctor(fix=True)
        say("done")


def serve(state: State, say: Say) -> None:
    """Uploads over HTTP; the requests come from a thread of the same process."""
    import http.client

    from kb.server.lifecycle import serve as run

    def upload(port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        for number in range(NOTES):
            name = f"u{number % 5}.md"
            data = text(name, state.version * 100 + number).encode()
            say("begin", name)
            connection.request("PUT", f"/uploads/{name}", data, {"X-KB-Request": "1"})
            answer = connection.getresponse()
            body = answer.read()
            if answer.status not in (200, 201):
                say("failed", f"{answer.status} {body!r}")
                return
            say("uploaded", name, data)

    def ready(port: int) -> None:
        threading.Thread(target=upload, args=(port,), daemon=True).start()

    with opened(state.store) as kb:
        run(kb, token=None, ready=ready)


def watch(state: State, say: Say) -> None:
    from kb.watch.watcher import Watcher

    def change() -> None:
        for number in range(50):
            file = state.files / f"{number % FILES}.md"
            part = Path(
                f"{state.folder}.part"
            )  # kb is not responsible for a file truncated by a kill
            part.write_text(text(file.name, number), encoding="utf-8")
            part.replace(file)
            time.sleep(0.01)

    with opened(state.store) as kb:
        threading.Thread(target=change, daemon=True).start()
        Watcher(kb, [str(state.files)], lambda _event: say("event"), quiet_ms=20).run()


OPERATIONS: dict[str, Callable[[State, Say], None]] = {
    "add": add, "rm": remove, "tag": tag, "ingest": ingest, "ingest --force": force,
    "embed": embed, "reindex": reindex, "gc": gc, "export": export, "backup": backup,
    "import": import_new, "import --merge": import_merge, "doctor --fix": doctor,
    "serve": serve, "watch": watch,
}  # fmt: skip
ENDLESS = ("serve", "watch")


# --- checks afterwards ----------------------------------------------------------------------------


def look(state: State, name: str, reported: list[Any]) -> dict[str, Any]:
    """In a child process: the content after the next complete run of the operation."""
    problems: list[str] = []
    found = _contents(state, problems, f"after {name}")
    if name == "add":
        found["unreported"] = set(found["notes"]) - set(state.notes) - {one[0] for one in reported}
    if name not in ENDLESS:
        OPERATIONS[name](state, lambda *_: None)
    _complete(state, problems)
    found |= {"after": _contents(state, problems, f"after the next {name}")["notes"]}
    allowed = {"kb.sqlite", "kb.sqlite-vectors", "kb.sqlite-words", "files", "out", "uploads",
               "export.jsonl", "merge.jsonl", "kb.sqlite.sock"}  # fmt: skip
    outside = {
        "e.jsonl",
        "e.jsonl.gz",
        "b.sqlite",
        "new.sqlite",
        "new.sqlite-vectors",
        "new.sqlite-words",
    }
    stray = {path.name for path in state.folder.iterdir()} - allowed
    stray |= {path.name for path in state.out.iterdir()} - outside
    if stray:
        problems.append(f"files that were left: {sorted(stray)}")
    return found | {"problems": problems}


def _contents(state: State, problems: list[str], when: str) -> dict[str, Any]:
    import apsw

    raw = apsw.Connection(str(state.store))
    if (told := raw.execute("PRAGMA integrity_check").fetchall()) != [("ok",)]:
        problems.append(f"{when}: {told}")
    raw.close()
    with opened(state.store) as kb:
        if when in [f"after {name}" for name in OPERATIONS if name != "doctor --fix"]:
            wrong = [one for one in kb.doctor().findings if one.state == "error"]
            problems += [f"{when}: {one.part}: {one.what}" for one in wrong]
        documents = kb.documents(expired=True)
        for one in documents:
            if one.root_id is not None and one.chunks != CHUNKS:
                problems.append(f"{when}: {one.doc_path} has {one.chunks} passages")
        notes = {one.doc_path: kb.get(one.doc_path, count=False).text
                 for one in documents if one.root_id is None}  # fmt: skip
        kb.search("needle", top=5)
        tags = {one.doc_path: one.tags for one in documents}
        files = {one.doc_path: one.content_hash for one in documents if one.root_id is not None}
    return {"notes": notes, "tags": tags, "files": files}


def _complete(state: State, problems: list[str]) -> None:
    """Bring the folder up to date; the store must then match the disk."""
    with opened(state.store) as kb:
        report = kb.ingest(state.files)
        problems += [f"ingest: {one.path}: {one.reason}" for one in report.failed]
        stored = {one.path for one in kb.documents() if one.doc_path.startswith("files/")}
        there = {path.name for path in state.files.iterdir()}
        if stored != there:
            problems.append(f"stored {sorted(stored)}, on disk {sorted(there)}")
        for name in sorted(there):
            told = "\n".join(chunk.text for chunk in kb.chunks(f"files/{name}"))
            for line in (state.files / name).read_text().split("\n"):
                if line and not line.startswith("#") and line not in told:
                    problems.append(f"files/{name} lacks {line!r}")
        kb.embed()
        if pending := kb.pending():
            problems.append(f"{pending} passages are still without vectors")


# --- the campaign ---------------------------------------------------------------------------------


class Campaign:
    """Kills one operation after another; `problems` lists what went wrong."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.state = State(folder, random.Random(seed))
        self.kills: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        self.problems: list[str] = []
        self._length_s = dict.fromkeys(OPERATIONS, 0.2)
        self.state.files.mkdir(parents=True)
        self.state.out.mkdir()
        for number in range(FILES):
            (self.state.files / f"{number}.md").write_text(text(f"{number}.md", 0))
        self._in_child(_prepare, self.state)

    def run(
        self,
        kills: int,
        names: tuple[str, ...] = tuple(OPERATIONS),
        on_problem: Callable[[str], None] = lambda _problem: None,
    ) -> None:
        while self.kills.total() < kills and self.attempts.total() < 4 * kills:
            name = min(names, key=lambda one: (self.attempts[one], self.state.chance.random()))
            known = len(self.problems)
            self.once(name)
            for problem in self.problems[known:]:
                on_problem(problem)

    def once(self, name: str) -> None:
        state = self.state
        self.attempts[name] += 1
        if name in ("ingest", "watch"):
            state.change_files()
        state.version += 1
        if name in ("rm", "tag") and len(state.notes) < 10:
            name = "add"
        killed, reported = self._kill(name)
        self.kills[name] += killed
        self._note(name, reported)
        found = self._in_child(look, state, name, reported)
        if found is None:
            self.problems.append(f"{name}: the look itself failed")
            return
        self.problems += [f"{name} (kill {self.kills.total()}): {one}" for one in found["problems"]]
        self._compare(name, reported, found)

    def _note(self, name: str, reported: list[Any]) -> None:
        if name == "add":
            self.state.notes |= dict(reported)
        elif name == "rm":
            for (path,) in reported:
                self.state.notes.pop(path, None)
        elif name == "serve":
            for kind, upload, *data in reported:
                if kind == "uploaded":
                    self.state.uploads[upload] = data[0]
                else:
                    self.state.uploads.pop(upload, None)  # an unfinished upload need not exist

    def _compare(self, name: str, reported: list[Any], found: dict[str, Any]) -> None:
        state = self.state
        lost = {path for path, note in state.notes.items() if found["notes"].get(path) != note}
        if name == "rm":
            if len(lost) > 1:
                self.problems.append(f"rm: {len(lost)} are gone that were not reported")
        elif lost:
            self.problems.append(f"{name}: notes were lost: {sorted(lost)[:5]}")
        if name == "add" and len(found["unreported"]) > 1:
            self.problems.append(f"add: {len(found['unreported'])} notes were not reported")
        if name == "tag":
            bare = [path for (path,) in reported
                    if f"t{state.version}" not in found["tags"].get(path, ())]  # fmt: skip
            self.problems += [f"tag: {path} has lost its tag" for path in bare]
        for upload, data in state.uploads.items():
            path = state.folder / "uploads" / upload
            if not path.exists() or path.read_bytes() != data:
                self.problems.append(f"{name}: the upload {upload} is not what was accepted")
            if f"uploads/{upload}" not in found["files"]:
                self.problems.append(f"{name}: the upload {upload} is not in the store")
        state.notes = {path: note for path, note in found["after"].items() if note}

    # --- children ---------------------------------------------------------------------------------

    def _kill(self, name: str) -> tuple[bool, list[Any]]:
        """Whether it was killed before its end, and its reports."""
        length_s = self._length_s[name]
        wait_s = self.state.chance.uniform(0.0, 1.2 * length_s)
        started = time.monotonic()
        with _forked(_work, name, self.state) as (pid, reader):
            data, ended = _read(reader, started + (wait_s if name not in ENDLESS else PATIENCE_S),
                                until_first=name in ENDLESS)  # fmt: skip
            if name in ENDLESS and not ended:
                more, ended = _read(reader, time.monotonic() + wait_s)
                data += more
            seconds = time.monotonic() - started
            os.kill(pid, signal.SIGKILL)
            data += _read(reader, time.monotonic() + PATIENCE_S)[0]
            _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and not ended
        if not ended and name not in ENDLESS:
            self._length_s[name] = min(2.0, max(length_s, 1.02 * seconds))
        elif ended:
            self._length_s[name] = 0.8 * length_s + 0.2 * seconds
        reports = _reports(data)
        failed = [one for one in reports if one[0] == "failed"]
        self.problems += [f"{name} failed by itself: {one[1]}" for one in failed]
        return killed, [one for one in reports if one[0] != "failed"]

    def _in_child(self, function: Callable[..., Any], *args: Any) -> Any:
        with _forked(_answer, function, args) as (pid, reader):
            data, ended = _read(reader, time.monotonic() + PATIENCE_S)
            if not ended:
                self.problems.append(f"{args[1:2]}: the next run did not end in time")
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        (answer,) = _reports(data) or [(None,)]
        if answer[0] == "failed":
            self.problems.append(f"{args[1:2]}: {answer[1]}")
            return None
        return answer[0]


def _prepare(state: State) -> None:
    with opened(state.store) as kb:
        kb.ingest(state.files)
        kb.embed()
        kb.export(state.folder / "export.jsonl", vectors=True)
    other = state.folder / "other.sqlite"
    with opened(other) as kb:
        for number in range(20):
            kb.add(f"needle merged {number}")
        kb.export(state.folder / "merge.jsonl")
    for path in state.folder.glob("other.sqlite*"):
        path.unlink()


def _work(name: str, state: State, say: Say) -> None:
    OPERATIONS[name](state, say)


def _answer(function: Callable[..., Any], args: tuple[Any, ...], say: Say) -> None:
    say(function(*args))


@contextmanager
def _forked(function: Callable[..., None], *args: Any) -> Iterator[tuple[int, int]]:
    """A child process that runs `function`, and the end of a pipe with its reports."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)

        def say(*what: Any) -> None:
            data = pickle.dumps(what)
            view = memoryview(len(data).to_bytes(4, "big") + data)
            while view:
                view = view[os.write(writer, view) :]

        status = 1
        try:
            function(*args, say)
            status = 0
        except BaseException:  # noqa: BLE001  # told to the parent
            with suppress(OSError):
                say("failed", traceback.format_exc(limit=-8))
        finally:
            os._exit(status)
    os.close(writer)
    try:
        yield pid, reader
    finally:
        os.close(reader)


def _read(reader: int, until: float, *, until_first: bool = False) -> tuple[bytes, bool]:
    """The data received so far, and whether the child has ended."""
    data = b""
    while (left := until - time.monotonic()) > 0:
        if select.select([reader], [], [], left)[0]:
            block = os.read(reader, 1 << 16)
            if not block:
                return data, True
            data += block
            if until_first:
                break
    return data, False


def _reports(data: bytes) -> list[Any]:
    """The complete reports."""
    found, at = [], 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if at + 4 + size > len(data):
            break
        found.append(pickle.loads(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=100)
    arguments.add_argument("--seed", default="0")
    said = arguments.parse_args()
    os.environ |= {"KB_MODELS_ENCODER": "none", "KB_MODELS_EXAM": "false"}
    _load()
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="kb-kills-"))
    try:
        campaign = Campaign(folder, said.seed)
        campaign.run(said.kills, on_problem=lambda one: print(one, flush=True))  # noqa: T201
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - started
    told = ", ".join(f"{name} {count}" for name, count in sorted(campaign.kills.items()))
    sys.stdout.write(
        f"{campaign.kills.total()} kills in {seconds:.0f} s ({told}); "
        f"{len(campaign.problems)} problems\n"
    )
    return 1 if campaign.problems else 0


def _load() -> None:
    """Import everything that the children need, so that they need not."""
    import http.client  # noqa: F401

    import kb.ingest.indexer
    import kb.library.archive
    import kb.library.doctor
    import kb.server.lifecycle
    import kb.watch.watcher  # noqa: F401


if __name__ == "__main__":
    sys.exit(main())
