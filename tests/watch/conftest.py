"""Watchers for tests: the command in a separate process, and the loop in a thread."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from kb import KnowledgeBase, wire
from kb.watch.watcher import Event, Watcher
from tests.schemas import validate

PATIENCE_S = 60.0  # until a test gives up; nothing waits that long when all is well
QUIET_MS = 20
COMMAND = (sys.executable, "-W", "error", "-m", "kb")


class Heard:
    """The events of a watcher, in order. Tests wait only for events, never for a time."""

    def __init__(self) -> None:
        self.events: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """All events up to the first that is `wanted`."""
        seen: list[dict[str, Any]] = []
        while True:
            event = self.events.get(timeout=PATIENCE_S)
            assert event is not None, f"the watcher has ended; it told {seen}"
            seen.append(event)
            if wanted(event):
                return seen

    def kind(self, kind: str) -> list[dict[str, Any]]:
        return self.until(lambda event: event["event"] == kind)

    def read(self, doc_path: str) -> list[dict[str, Any]]:
        """All events up to the batch that has read this document."""
        return self.until(lambda event: doc_path in paths_of(event))


def paths_of(event: dict[str, Any]) -> list[str]:
    report = event["report"] or {"added": [], "changed": [], "renamed": []}
    return [*report["added"], *report["changed"], *(each["after"] for each in report["renamed"])]


class Process(Heard):
    """`kb watch` as a user runs it."""

    def __init__(self, store: Path, *paths: Path) -> None:
        super().__init__()
        options = ("--jsonl", "--quiet-ms", str(QUIET_MS))
        self.process = subprocess.Popen(
            [*COMMAND, "--store", str(store), "watch", *options, *map(str, paths)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            validate(event)
            self.events.put(event)
        self.events.put(None)

    def end(self, how: int) -> tuple[int, str]:
        """The exit status, and the output on stderr."""
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        assert self.process.stderr is not None
        assert self.process.stdout is not None
        said = self.process.stderr.read().decode()
        status = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        self.process.stdout.close()
        self.process.stderr.close()
        return status, said


@contextmanager
def watched(kb: KnowledgeBase, *paths: Path, **options: Any) -> Iterator[Heard]:
    """The loop in a thread of this process."""
    heard = Heard()

    def hear(event: Event) -> None:
        report = None if event.report is None else wire.ingest_report(event.report)
        heard.events.put(
            {"event": event.kind, "paths": event.paths, "report": report,
             "embedded": event.embedded, "error": event.error}
        )  # fmt: skip

    watcher = Watcher(kb, list(map(str, paths)), hear, **({"quiet_ms": QUIET_MS} | options))
    thread = threading.Thread(target=watcher.run, daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        watcher.stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "lib"
    folder.mkdir()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store" / "kb.sqlite"


Contents = dict[str, tuple[Any, ...]]


def contents(store: Path) -> Contents:
    """The content of a store, which a fresh ingest must reproduce."""
    with KnowledgeBase(store) as kb:
        return {
            document.doc_path: (
                document.title,
                document.type,
                document.tags,
                document.updated_at,
                document.content_hash,
                [(chunk.text, chunk.heading_path, chunk.spans)
                 for chunk in kb.chunks(document.doc_path)],
            )
            for document in kb.documents(expired=True)
        }  # fmt: skip


def fresh(*roots: Path) -> Contents:
    """The content after a fresh ingest."""
    with TemporaryDirectory() as folder:
        store = Path(folder) / "kb.sqlite"
        with KnowledgeBase(store) as kb:
            assert not kb.ingest(*roots).failed
        return contents(store)
