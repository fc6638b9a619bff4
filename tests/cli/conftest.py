"""Fixtures that run `kb`: in this process, in a separate process, and on a terminal."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from kb import KnowledgeBase, wire
from kb.cli.run import run as run_kb

EXAMPLES = Path(__file__).parents[2] / "examples"
SCHEMAS = (
    "answer.v1", "facets.v1", "map.v1", "statistics.v1",
    "backup.v1", "chunk.v1", "chunks.v1", "citation.v1", "compare.v1", "copy.v1", "doctor.v1",
    "document.v1", "documents.v1", "embed_report.v1",
    "embedding.v1", "highlights.v1", "image.v1", "jobs.v1",
    "progress.v1", "rendering.v1", "reindex_report.v1",
    "removed.v1", "retry_report.v1", "tags.v1", "error.v1",
    "eval_report.v1",
    "eval_tuning.v1", "export.v1", "import_report.v1", "ingest_report.v1", "models.v1",
    "passage.v1", "search_hit.v1", "search_request.v1", "search_response.v1", "status.v1",
    "watch_event.v1", "token.v1", "tokens.v1",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Run(Protocol):
    def __call__(self, *args: str | Path, stdin: bytes = b"") -> Result: ...


# --- stores ---------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 26 documents of the example library, and a store that contains them. Read-only.
    Text, Markdown and code: the interfaces do not depend on formats."""
    folder = tmp_path_factory.mktemp("filled")
    others = shutil.ignore_patterns("papers", "web", "notebooks", "zh-*", "ja-*", "ko-*")
    shutil.copytree(EXAMPLES / "library", folder / "library", ignore=others)
    with KnowledgeBase(folder / ".kb" / "kb.sqlite") as kb:
        report = kb.ingest(folder / "library")
    assert not report.failed
    return folder


@pytest.fixture
def here(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, whose `.kb/` contains the example library. Tests may change it."""
    folder = tmp_path / "here"
    shutil.copytree(filled / ".kb", folder / ".kb")
    monkeypatch.chdir(folder)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return folder


# --- calling --------------------------------------------------------------------------------------


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs `kb` in this process."""

    def call(*args: str | Path, stdin: bytes = b"") -> Result:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        status = run_kb([os.fspath(arg) for arg in args])
        return Result(status, *capsys.readouterr())

    yield call
    log = logging.getLogger("kb")
    log.handlers = []
    log.setLevel(logging.NOTSET)


COMMAND = (sys.executable, "-W", "error", "-m", "kb")


@pytest.fixture
def process() -> Run:
    """Runs `kb` in a separate process, where a warning is an error."""

    def call(*args: str | Path, stdin: bytes = b"") -> Result:
        done = subprocess.run([*COMMAND, *args], input=stdin, capture_output=True, timeout=60)
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


@pytest.fixture
def on_terminal() -> Callable[..., str]:
    """The output of `kb` on a terminal of 80 columns, stdout and stderr together."""
    if sys.platform == "win32":
        pytest.skip("no pseudo-terminals on Windows")

    def call(*args: str, columns: int = 80, typed: str = "", **variables: str) -> str:
        # A pager that waits for a key would wait forever.
        environment = {"TERM": "xterm-256color", "PAGER": "cat"} | variables
        return _on_pty([*COMMAND, *args], columns, typed, environment)

    return call


def _on_pty(command: Sequence[str], columns: int, typed: str, variables: dict[str, str]) -> str:
    import pty
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    os.write(ours, typed.encode())
    environment = {key: os.environ[key] for key in os.environ if key != "COLUMNS"} | variables
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    while part := _read(ours):
        seen += part
    os.close(ours)
    child.wait(timeout=60)
    return seen.decode().replace("\r\n", "\n")


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 65536)
    except OSError:  # how Linux reports a closed peer
        return b""


# --- checking -------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def valid() -> Callable[[str, Any], None]:
    """Check a value against the schema of that name."""
    schemas = {name: wire.schema(name) for name in SCHEMAS}
    named = [(f"urn:kb:{name}", Resource.from_contents(each)) for name, each in schemas.items()]
    registry: Registry[Any] = Registry().with_resources(named)

    def check(name: str, value: Any) -> None:
        Draft202012Validator(schemas[name], registry=registry).validate(value)

    return check
