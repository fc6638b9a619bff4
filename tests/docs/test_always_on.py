"""The services on the page about watching: their commands start and stop correctly."""

from __future__ import annotations

import configparser
import plistlib
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, blocks
from tests.docs.reading import Reader
from tests.docs.reading import reader as reader_at

PAGE = DOCS / "how-to" / "watch.md"
WORDS = {"KB_MODELS_ENCODER": "none"}
UNIT, PLIST = (
    next(block.text for block in blocks(PAGE) if block.language == language)
    for language in ("ini", "xml")
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such services")


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return reader_at(tmp_path)


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as systemd has it
    parser.read_string(UNIT)
    return parser


def commands(reader: Reader) -> dict[str, list[str]]:
    """The commands of systemd and launchd, for this reader."""
    agent = plistlib.loads(PLIST.encode())
    return {
        "systemd": shlex.split(unit()["Service"]["ExecStart"].replace("%h", str(reader.home))),
        "launchd": [
            word.replace("/Users/ada", str(reader.home)) for word in agent["ProgramArguments"]
        ],
    }


@pytest.mark.parametrize("manager", ["systemd", "launchd"])
def test_the_service_watches_what_was_ingested(manager: str, reader: Reader) -> None:
    status, printed = reader.run("cd && kb ingest tidepool/examples/library", **WORDS)
    assert status == 0, printed
    service = reader.start(f"env -C / {shlex.join(commands(reader)[manager])}", **WORDS)
    ready = service.until(lambda so_far: "\n" in so_far)
    assert ready == "watching /home/ada/tidepool/examples/library: up to date\n"
    assert service.end(signal.SIGTERM) == (0, "stopped\n")


def test_a_service_without_a_folder_fails_and_says_so(reader: Reader) -> None:
    """The error is that of the page, and systemd restarts the service."""
    status, printed = reader.run(f"cd / && {shlex.join(commands(reader)['systemd'])}", **WORDS)
    assert (status, printed.splitlines()[0]) == (2, "error: nothing has been ingested yet")
    assert unit()["Service"]["Restart"] == "on-failure"


def test_launchd_knows_every_key() -> None:
    agent = plistlib.loads(PLIST.encode())
    assert agent.keys() == {
        "Label", "ProgramArguments", "RunAtLoad", "KeepAlive", "ProcessType", "StandardErrorPath",
    }  # fmt: skip
    assert f"{agent['Label']}.plist" in PAGE.read_text("utf-8")
    assert "~" not in PLIST  # launchd would treat it as a name


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_takes_the_unit(reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / "kb-watch.service"
    path.write_text(UNIT, encoding="utf-8")
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(path)],
        env={**reader.environment, "XDG_RUNTIME_DIR": str(runtime)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
