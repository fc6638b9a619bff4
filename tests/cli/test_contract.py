"""What scripts rely on, in real processes: streams, exit statuses, color, pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase, __version__
from kb.errors import StoreError
from tests.cli.conftest import COMMAND, Run

Valid = Callable[[str, Any], None]
ESCAPE = "\x1b"


def test_the_version(process: Run) -> None:
    assert process("--version").out == f"kb {__version__}\n"


def test_alone_it_shows_its_help(process: Run) -> None:
    shown = process()
    assert shown.status == 0
    assert "Usage: kb" in shown.out
    assert shown.err == ""


def test_data_on_stdout_and_nothing_else(here: Path, process: Run) -> None:
    found = process("search", "retry", "storm")
    assert found.status == 0
    assert found.lines[0].startswith("1.  library/lessons/retry-storm.md#L")
    assert ESCAPE not in found.out
    assert found.err == ""


def test_json_of_a_search(here: Path, process: Run, valid: Valid) -> None:
    found = process("search", "retry storm", "--json", "--explain")
    valid("search_response.v1", found.json)
    assert found.json["explain"]["stages"]
    assert found.err == ""


def test_jsonl_is_one_hit_a_line(here: Path, process: Run, valid: Valid) -> None:
    found = process("search", "retry storm", "--jsonl", "-n", "3")
    assert len(found.lines) == 3
    for number, line in enumerate(found.lines, start=1):
        valid("search_hit.v1", json.loads(line))
        assert json.loads(line)["rank"] == number


def test_zero_hits_are_a_success(here: Path, process: Run, valid: Valid) -> None:
    found = process("search", "qqxyzzy")
    assert (found.status, found.out) == (0, "")
    assert "nothing found for 'qqxyzzy'" in found.err
    empty = process("search", "qqxyzzy", "--json")
    valid("search_response.v1", empty.json)
    assert (empty.json["hits"], empty.err) == ([], "")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("get", "nope.md"), "not_found"),
        (("get", "a.md#x"), "invalid_citation"),
        (("search", "x", "--type", "nope"), "invalid_request"),
        (("search", "x", "--kind", "nope"), "invalid_request"),
        (("search", "x", "--scope", "nope"), "invalid_request"),
        (("search", "x", "--mode", "nope"), "invalid_request"),
        (("add", "x", "--kind", "nope"), "invalid_request"),
        (("add",), "usage"),
        (("search", "'a AND'"), "query_syntax"),
        (("search", "--nope", "x"), "usage"),
        (("nope",), "usage"),
        (("--store", "nowhere.sqlite", "search", "x"), "store_missing"),
    ],
)
def test_errors(here: Path, process: Run, valid: Valid, args: tuple[str, ...], code: str) -> None:
    told = process(*args)
    assert (told.status, told.out) == (2, "")
    assert told.err.startswith("error: ")
    assert "\nhint: " in told.err
    for_programs = process("--json", *args)
    assert (for_programs.status, for_programs.out) == (2, "")
    error = json.loads(for_programs.err)
    valid("error.v1", error)
    assert error["code"] == code


def test_a_value_outside_a_closed_set(here: Path, run: Run) -> None:
    """The message is the same for every command."""
    added, found = (
        run(*command, "--kind", "nope").err for command in (("add", "x"), ("search", "x"))
    )
    assert added == found
    assert "\nhint: valid values for kind: decision, lesson, summary, temp_note\n" in added


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("serach", "x"), "'search'"),
        (("Ingest", "x"), "'ingest'"),
        (("search", "--tpo", "3", "x"), "'--top'"),
        (("--stoer", "x", "list"), "'--store'"),
    ],
)
def test_did_you_mean(here: Path, run: Run, args: tuple[str, ...], meant: str) -> None:
    told = run(*args)
    assert told.status == 2
    assert f"Did you mean {meant}?" in told.err


def test_nothing_is_suggested_if_nothing_is_similar(here: Path, run: Run) -> None:
    assert run("xyzzy").err.startswith("error: no such command 'xyzzy'\n")


@pytest.mark.parametrize("query", ["", " ", "?!", "…", "''"])
def test_a_query_without_words(here: Path, run: Run, query: str) -> None:
    told = run("search", query)
    assert (told.status, told.out) == (0, "")
    assert told.err == "the query contains no words\n"
    silent = run("search", query, "--json")
    assert (silent.json["hits"], silent.err) == ([], "")


def test_a_closed_pipe_is_a_success(here: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "search", "the", "-n", "100", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as kb:
        assert kb.stdout is not None
        assert kb.stderr is not None
        kb.stdout.close()
        assert kb.stderr.read() == b""
        assert kb.wait(timeout=60) == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_a_failure(here: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "search", "retry"], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert done.returncode == 2
    assert done.stderr == b"error: cannot write the output: No space left on device\n"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shells")
def test_closed_streams(here: Path) -> None:
    command = f'"{sys.executable}" -W error -m kb search - <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", command], timeout=60).returncode == 0


def test_an_encoding_that_lacks_characters(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    note = "Grüße aus 東京 \N{GRINNING FACE}"
    subprocess.run([*COMMAND, "add", "-"], input=note.encode(), check=True, timeout=60)
    search = [*COMMAND, "search", "東京"]
    plain = subprocess.run(search, capture_output=True, check=True, timeout=60)
    assert b"Gr\\xfc\\xdfe aus \\u6771" in plain.stdout
    shape = subprocess.run([*search, "--json"], capture_output=True, check=True, timeout=60)
    assert json.loads(shape.stdout)["hits"][0]["snippet"] == note


@pytest.mark.skipif(sys.platform != "linux", reason="file names that are any bytes")
def test_a_name_that_is_not_utf8(here: Path, tmp_path: Path, valid: Valid) -> None:
    raw = os.fsencode(tmp_path) + b"/odd"
    os.mkdir(raw)
    with open(raw + b"/n\xffame.md", "wb") as file:
        file.write(b"a peculiar name\n")

    def call(*args: str | bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*COMMAND, *args], capture_output=True, timeout=60)

    assert call("ingest", raw).returncode == 0
    found = call("search", "peculiar", "--json")
    valid("search_response.v1", json.loads(found.stdout))
    uri = json.loads(found.stdout)["hits"][0]["citation"]["uri"]
    for name in (uri, raw + b"/n\xffame.md", b"odd/n\xffame.md"):
        assert call("get", name).stdout == b"a peculiar name\n"
    assert call("tag", b"odd/n\xffame.md", "--add", b"t\xff").stdout == b"t\\xff\n"


# --- color ----------------------------------------------------------------------------------------


def test_a_terminal_has_color_and_lines_that_fit(
    here: Path, on_terminal: Callable[..., str]
) -> None:
    seen = on_terminal("search", "retry", "storm")
    assert f"{ESCAPE}[33m" in seen
    plain = on_terminal("search", "retry", "storm", NO_COLOR="1")
    assert ESCAPE not in plain
    assert max(map(len, plain.splitlines())) == 80


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_color(
    here: Path, on_terminal: Callable[..., str], variables: dict[str, str]
) -> None:
    assert ESCAPE not in on_terminal("search", "retry", **variables)
    assert ESCAPE not in on_terminal("get", "nope", **variables)


def test_forced_color(here: Path, process: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = process("search", "retry").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    forced = process("search", "retry").out
    assert ESCAPE in forced
    monkeypatch.setenv("NO_COLOR", "1")
    assert process("search", "retry").out == plain


def test_a_document_cannot_command_the_terminal(
    here: Path, process: Run, on_terminal: Callable[..., str]
) -> None:
    process("add", f"danger {ESCAPE}[2J zone", "--title", f"{ESCAPE}]0;owned\a")
    for command in (("search", "danger"), ("get", "note:27"), ("list", "--long")):
        seen = on_terminal(*command, NO_COLOR="1")
        assert "\\x1b" in seen
        assert ESCAPE not in seen
    assert ESCAPE in process("get", "note:27").out  # a file gets the text as it is


# --- interruption ---------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_reports_what_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(3000):
        (folder / f"{number}.md").write_text(f"# {number}\n\nText of number {number}.\n")
    store = tmp_path / "kb.sqlite"
    with subprocess.Popen(
        [*COMMAND, "--store", store, "ingest", folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as kb:
        while not _document_count(store):
            assert kb.poll() is None
            time.sleep(0.01)
        kb.send_signal(signal.SIGINT)
        out, err = kb.communicate(timeout=60)
    assert 0 < _document_count(store) < 3000
    assert (kb.returncode, out) == (130, b"")
    message = err.decode().strip().splitlines()[-1]  # a slow machine reports progress first
    assert message.startswith("interrupted: finished files are in the store")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    "module", ["click", "kb.paths", "kb.cli.run", "kb.cli.root", "kb.config", "kb.library", "apsw"]
)
@pytest.mark.parametrize(
    "interrupt",
    [
        "signal.raise_signal(signal.SIGINT)",
        "exec('signal.raise_signal(signal.SIGINT)')",  # Python would end by the signal
        "type('Named', (), {'name': Raises()})",  # RuntimeError from KeyboardInterrupt
    ],
)
def test_ctrl_c_while_importing(tmp_path: Path, module: str, interrupt: str) -> None:
    script = f"""
import signal, sys

class Raises:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGINT)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            {interrupt}

sys.meta_path.insert(0, Finder())
sys.argv = ["kb", "--store", "kb.sqlite", "status"]
if {module!r} == "kb.paths":
    sys.argv = ["kb", "search", "--store", "kb.sqlite", "x"]
from kb.cli import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def _document_count(store: Path) -> int:
    try:
        with KnowledgeBase(store, read_only=True) as kb:
            return len(kb.documents())
    except StoreError:  # the store is being created
        return 0
