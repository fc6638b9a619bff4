"""`kb doctor`, `backup`, `copy`, `export` and `import` on the command line."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.cli.conftest import COMMAND, Run
from tests.cli.test_contract import ESCAPE, Valid
from tests.replaced import REPLACEMENTS

STORE = Path(".kb") / "kb.sqlite"


def _plant(sql: str) -> None:
    connection = apsw.Connection(str(STORE))
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute(sql)
    connection.close()


# --- doctor ---------------------------------------------------------------------------------------


def test_a_healthy_store(here: Path, run: Run, valid: Valid) -> None:
    told = run("doctor")
    assert (told.status, told.err) == (0, "healthy\n")
    assert told.lines[0].startswith("ok       file        can be opened; kb ")
    shape = run("doctor", "--json")
    valid("doctor.v1", shape.json)
    assert (shape.status, shape.err, shape.json["healthy"]) == (0, "", True)


def test_an_unhealthy_store_is_exit_3_until_it_is_fixed(here: Path, run: Run, valid: Valid) -> None:
    _plant("UPDATE state SET chunks = 1")
    told = run("doctor")
    assert (told.status, told.err) == (3, "not healthy\n")
    assert "error    counters    1 chunks are counted" in told.out
    assert "\n                     kb doctor --fix\n" in told.out
    shape = run("doctor", "--json")
    valid("doctor.v1", shape.json)
    assert (shape.status, shape.json["healthy"]) == (3, False)
    fixed = run("doctor", "--fix")
    assert (fixed.status, fixed.err) == (0, "healthy\n")
    assert "fixed    counters" in fixed.out
    assert run("doctor").status == 0


def test_warnings_are_healthy(here: Path, run: Run) -> None:
    run("add", "short", "--ttl", "1s")
    _plant("UPDATE documents SET expires_at = '2020-01-01T00:00:00Z' WHERE path = 'note:27'")
    told = run("doctor")
    assert told.status == 0
    assert "warning  expired" in told.out


def test_a_damaged_file(here: Path, run: Run, valid: Valid) -> None:
    raw = STORE.read_bytes()
    for damaged in (b"no store at all" * 500, raw[:4096] + b"\xff" * (len(raw) - 4096), raw[:9000]):
        STORE.write_bytes(damaged)
        told = run("doctor", "--fix", "--json")
        assert (told.status, told.err) == (3, "")
        valid("doctor.v1", told.json)


def test_no_store(run: Run, tmp_path: Path) -> None:
    told = run("--store", tmp_path / "none.sqlite", "doctor")
    assert (told.status, told.out) == (2, "")
    assert "there is no store" in told.err


def test_the_doctor_on_a_terminal(here: Path, on_terminal: Callable[..., str]) -> None:
    assert f"{ESCAPE}[32mok" in on_terminal("doctor")
    assert ESCAPE not in on_terminal("doctor", NO_COLOR="1")


# --- backup ---------------------------------------------------------------------------------------


def test_backup(here: Path, run: Run, valid: Valid) -> None:
    told = run("backup", "copy.sqlite")
    assert (told.status, told.out) == (0, "copy.sqlite\n")
    found = run("--store", "copy.sqlite", "search", "retry storm")
    assert found.out == run("search", "retry storm").out
    again = run("backup", "copy.sqlite")
    assert (again.status, again.out) == (2, "")
    assert "--force" in again.err
    forced = run("backup", "--force", "copy.sqlite", "--json")
    valid("backup.v1", forced.json)
    assert forced.json["size_bytes"] == Path("copy.sqlite").stat().st_size
    assert sorted(os.listdir(here)) == [".kb", "copy.sqlite"]


@pytest.mark.parametrize("command", ["backup", "export"])
def test_force_does_not_replace_the_store(here: Path, run: Run, command: str) -> None:
    told = run(command, "--force", STORE)
    assert (told.status, told.out) == (2, "")
    assert told.err.startswith(f"error: {STORE} is the store itself\n")
    assert run("doctor").status == 0


@pytest.mark.skipif(sys.platform == "win32", reason="no /dev")
def test_an_export_to_dev_stdout(here: Path, run: Run) -> None:
    told = run("export", "/dev/stdout")
    assert (told.status, told.err) == (0, "")
    assert told.out == run("export").out


def test_backup_of_nothing(run: Run, tmp_path: Path) -> None:
    told = run("--store", tmp_path / "none.sqlite", "backup", tmp_path / "copy.sqlite")
    assert told.status == 2
    assert list(tmp_path.glob("*copy*")) == []


def test_a_backup_below_a_file(here: Path, run: Run) -> None:
    Path("file").touch()
    told = run("backup", "file/copy.sqlite")
    assert told.status == 2
    assert (
        told.err
        == "error: file is not a folder\nhint: give the path of a file in an existing folder\n"
    )


def test_a_store_below_a_file(here: Path, run: Run) -> None:
    Path("file").touch()
    told = run("--store", "file/kb.sqlite", "search", "anything")
    assert told.status == 2
    assert told.err.startswith("error: there is no store at ")


# --- export and import ----------------------------------------------------------------------------


def hits(lines: str) -> list[dict[str, Any]]:
    """Hits without their files, which an import has not read."""
    made = [json.loads(line) for line in lines.splitlines()]
    return [
        hit | {"citation": hit["citation"] | {"file": None, "line": None, "link": None}}
        for hit in made
    ]


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz"])
def test_export_and_import(here: Path, run: Run, valid: Valid, name: str) -> None:
    told = run("export", name)
    assert (told.status, told.out) == (0, f"{name}\n")
    assert told.err.startswith("26 documents, ")
    assert (Path(name).read_bytes()[:2] == b"\x1f\x8b") is name.endswith(".gz")
    taken = run("--store", "new.sqlite", "import", name)
    assert (taken.status, taken.out) == (0, "26 added, 0 replaced, 0 kept\n")
    ask = ("search", "retry storm", "--jsonl")
    assert hits(run("--store", "new.sqlite", *ask).out) == hits(run(*ask).out)
    again = run("export", name, "--json")
    assert (again.status, json.loads(again.err)["code"]) == (2, "invalid_request")
    forced = run("export", name, "--json", "--force")
    valid("export.v1", forced.json)
    merged = run("import", name, "--merge", "--json")
    valid("import_report.v1", merged.json)
    assert (merged.json["added"], merged.json["kept"]) == (0, 26)


def test_through_pipes(here: Path, process: Run) -> None:
    out = subprocess.run([*COMMAND, "export"], capture_output=True, check=True, timeout=60).stdout
    for data in (out, gzip.compress(out)):
        store = f"new-{len(data)}.sqlite"
        taken = process("--store", store, "import", "-", stdin=data)
        assert (taken.status, taken.out) == (0, "26 added, 0 replaced, 0 kept\n")
        again = subprocess.run(
            [*COMMAND, "--store", store, "export", "-"], capture_output=True, check=True, timeout=60
        )
        assert again.stdout == out


def test_a_closed_pipe(here: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "export"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as kb:
        assert kb.stdout is not None
        assert kb.stderr is not None
        kb.stdout.close()
        assert kb.stderr.read() == b""
        assert kb.wait(timeout=60) == 0


def test_a_broken_import(here: Path, run: Run, valid: Valid) -> None:
    run("export", "e.jsonl")
    lines = Path("e.jsonl").read_bytes().splitlines(keepends=True)
    Path("e.jsonl").write_bytes(b"".join([*lines[:9], b"{broken\n", *lines[9:]]))
    told = run("--store", "new.sqlite", "import", "e.jsonl", "--json")
    assert (told.status, told.out) == (2, "")
    error = json.loads(told.err)
    valid("error.v1", error)
    assert (error["code"], error["message"][:8]) == ("broken_import", "line 10:")
    assert sorted(os.listdir(here)) == [".kb", "e.jsonl"]


def test_imports_that_are_refused(here: Path, run: Run) -> None:
    run("export", "e.jsonl")
    refused = run("import", "e.jsonl")
    assert refused.status == 2
    assert "hint: import into a new one (--store), or use --merge" in refused.err
    missing = run("import", "nothing.jsonl")
    assert missing.status == 2
    assert missing.err.startswith("error: there is no file nothing.jsonl\nhint: ")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_interrupted_import_leaves_nothing(here: Path) -> None:
    """stdin stays open, so that the import waits in the middle."""
    lines = subprocess.run([*COMMAND, "export"], capture_output=True, check=True, timeout=60)
    with subprocess.Popen(
        [*COMMAND, "--store", "new/kb.sqlite", "import", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as kb:  # fmt: skip
        assert kb.stdin is not None
        kb.stdin.write(lines.stdout[: len(lines.stdout) // 2])
        kb.stdin.flush()
        while not list(here.glob("new/.kb.sqlite.*.part")):
            assert kb.poll() is None
        kb.send_signal(signal.SIGINT)
        out, err = kb.communicate(timeout=60)
    assert (kb.returncode, out) == (130, b"")
    assert err == b"interrupted: nothing was imported\n"
    assert list((here / "new").iterdir()) == []


# --- imported folders -----------------------------------------------------------------------------


def test_a_library_is_moved_by_import_and_attach(
    tmp_path: Path, run: Run, valid: Valid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    Path("notes/a.md").write_text("# A\n\ntext\n")
    run("--store", "old.sqlite", "ingest", "notes")
    run("--store", "old.sqlite", "export", "e.jsonl")
    Path("notes").rename("elsewhere")
    new = ("--store", "new.sqlite")
    told = run(*new, "import", "e.jsonl")
    assert "notes is detached; to read its files: kb attach" in told.err
    assert "notes/ is detached" in run(*new, "list").err
    assert "detached (kb attach notes FOLDER)" in run(*new, "status").out
    assert "detached; to read its files, run: kb attach notes FOLDER" in run(*new, "ingest").err
    assert "its folder is detached" in run(*new, "get", "notes/a.md").err
    assert run(*new, "attach", "notes").status == 2
    attached = run(*new, "attach", "notes", "elsewhere", "--json")
    valid("ingest_report.v1", attached.json)
    assert (attached.status, attached.json["unchanged"]) == (0, 1)
    assert run(*new, "get", "notes/a.md").err.startswith("exact: ")
    assert "detached" not in run(*new, "status").out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX files")
@pytest.mark.parametrize("kind", REPLACEMENTS)
def test_a_pipe_in_place_of_a_file_blocks_no_command(
    tmp_path: Path, process: Run, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    file = Path("notes/a.md")
    file.write_text("# A\n\ntext\n")
    store = ("--store", "kb.sqlite")
    process(*store, "ingest", "notes")
    file.unlink()
    make, reason = REPLACEMENTS[kind]
    make(tmp_path / file)
    told = process(*store, "get", "notes/a.md")
    assert told.status == 0
    assert reason in told.err
    assert told.out.endswith("text\n")
    assert "1 not readable" in process(*store, "doctor").out
    assert process(*store, "ingest").status == 0


# --- copy -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
def test_copy(run: Run, valid: Valid) -> None:
    copied = run("copy", STORE, "copy.sqlite", "--json")
    assert copied.status == 0
    valid("copy.v1", copied.json)
    assert (copied.json["documents"], copied.json["detached"]) == (26, ["library"])
    found = run("--store", "copy.sqlite", "search", "retry storm")
    assert found.out == run("search", "retry storm").out
    again = run("copy", STORE, "copy.sqlite")
    assert (again.status, again.out) == (2, "")
    assert "has documents" in again.err
    told = run("copy", STORE, "other.sqlite")
    assert "26 documents" in told.err
    assert "kb attach" in told.err
