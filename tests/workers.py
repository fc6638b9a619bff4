"""A process that embeds, for tests that start several and kill them.

    python -m tests.workers STORE embed          embed pending chunks with the first encoder
    python -m tests.workers STORE reindex        switch from the active encoder to the other one

A line is printed for every unit of work, so that a test can choose the moment.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Set
from pathlib import Path

import apsw

from kb import KnowledgeBase
from kb.embedding.embedder import EmbedProgress
from kb.types import Encoding
from tests.models.weightless import Weightless

FIRST, SECOND = "weightless", "second"
WORDS = "radio buoy battery sleep window slot salt water sensor drift clock hull".split()


class Thorough(Weightless):
    """A slow encoder, so that processes that start together also work at the same time."""

    def _encode(self, text: str, want: Set[str]) -> Encoding:
        for _ in range(100):
            super()._encode(text, want)
        return super()._encode(text, want)


def first() -> Weightless:
    return Thorough(64, name=FIRST)


def second() -> Weightless:
    return Thorough(32, name=SECOND)


def open_by_first(path: Path) -> KnowledgeBase:
    """Open the store with both encoders known by name, whichever computed its vectors."""
    kb = KnowledgeBase(path, encoder=first())
    kb._services.embedding.encoders.register(FIRST, first())
    kb._services.embedding.encoders.register(SECOND, second())
    return kb


def other(kb: KnowledgeBase) -> str:
    """The encoder that is not active."""
    return SECOND if kb._store.vectors.models()[0].name == FIRST else FIRST


def texts(count: int, start: int = 0) -> list[str]:
    return [f"{WORDS[n % len(WORDS)]} number {n}" for n in range(start, start + count)]


AUDIT = """
CREATE TABLE audit (model_id, chunk_id, was_ready);
CREATE TRIGGER audit_insert AFTER INSERT ON embeddings WHEN new.state = 'ready' BEGIN
  INSERT INTO audit VALUES (new.model_id, new.chunk_id, 0);
END;
CREATE TRIGGER audit_update AFTER UPDATE ON embeddings WHEN new.state = 'ready' BEGIN
  INSERT INTO audit VALUES (new.model_id, new.chunk_id, old.state = 'ready');
END;
"""


def watch(path: Path) -> None:
    """Record every write of vectors from now on."""
    connection = apsw.Connection(str(path))
    connection.execute(AUDIT)
    connection.close()


def audited(path: Path) -> dict[tuple[int, int], int]:
    """How often the vectors of each chunk were written, by model."""
    connection = apsw.Connection(str(path))
    rows = connection.execute("SELECT model_id, chunk_id, count(*) FROM audit GROUP BY 1, 2")
    found = {(int(str(model)), int(str(chunk))): int(str(count)) for model, chunk, count in rows}
    connection.close()
    return found


class Crowd:
    """Several processes that work on one store, killed at moments that `chance` chooses."""

    def __init__(self, path: Path, deed: str, count: int, chance: random.Random) -> None:
        self._command = [sys.executable, "-m", "tests.workers", str(path), deed]
        self._chance = chance
        self._running = [self._start() for _ in range(count)]
        self.killed = 0
        for process in self._running:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        for process in self._running:  # all at once
            _let_go(process)

    def _start(self) -> subprocess.Popen[bytes]:
        root, pipe = Path(__file__).parent.parent, subprocess.PIPE
        return subprocess.Popen(self._command, stdin=pipe, stdout=pipe, cwd=root)

    def kill_one(self, most_lines: int, least_lines: int = 1) -> bool:
        """Kill one of them after some batches, and start another. Returns False if it had already
        finished."""
        process = self._running.pop(self._chance.randrange(len(self._running)))
        assert process.stdout is not None
        lines = self._chance.randint(least_lines, most_lines)
        at_work = all(process.stdout.readline() for _ in range(lines))
        if at_work:
            process.kill()  # it may have just ended by itself
        process.stdout.close()
        status = process.wait()
        self._running.append(self._start())
        _let_go(self._running[-1])
        assert status in (0, -signal.SIGKILL), f"{process.args!r} ended with {status}"
        self.killed += status != 0
        return status != 0

    def finish(self) -> None:
        """Wait for the others to finish."""
        while self._running:
            with self._running.pop() as process:
                assert process.stdout is not None
                process.stdout.read()
            assert process.returncode == 0

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        """After a failed test, end the remaining processes."""
        for process in self._running:
            process.kill()
            with process:
                pass


def _let_go(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def main(path: Path, deed: str) -> int:
    def say(now: EmbedProgress) -> None:
        sys.stdout.write(f"{now.done}\n")
        sys.stdout.flush()

    with open_by_first(path) as kb:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
        if deed == "reindex":
            kb.reindex(other(kb), grace_s=0.5, on_progress=say)
        else:
            kb.embed(on_progress=say)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
