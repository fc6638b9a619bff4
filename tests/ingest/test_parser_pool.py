"""Files are parsed in separate processes, under limits. The only effect of a hostile file is a line
in the report."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.deadline import Deadline
from kb.errors import ClientGone, DeadlineExceeded, ParserUnavailable
from kb.ingest import parser_pool, parser_process
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parser_limits import OUT_OF_TIME, Limits
from kb.ingest.progress import Progress
from kb.ports import Source
from tests.ingest.bombs import BOMBS
from tests.ingest.conftest import Library
from tests.ingest.plug_ins import plug_in
from tests.store.builders import check_integrity

MB = 1024 * 1024
WATCHDOG_S = 120
LIMITS = Limits(200 * MB, 60.0)
BAD = "tests.ingest.plug_ins:Misbehaving"
TIME_BOMBS = set(BOMBS) - {"size.docx", "size.epub", "forms.pdf", "words.eml", "comments.py"}

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    parser_pool.close()


def eventually(is_so: Callable[[], bool]) -> None:
    """Wait until the condition holds. A watchdog, not a measure of speed."""
    until = time.monotonic() + WATCHDOG_S
    while not is_so():
        assert time.monotonic() < until, "it never came to be"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether a process runs, even if it is not our child. A zombie whose threads have ended does
    not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
        return state != b"Z" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except FileNotFoundError:
        pass
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return sys.platform != "linux"
    return False


def parsed(words: str, limits: Limits = LIMITS, **options: Any) -> tuple[str, int]:
    """The text that `Misbehaving` returns for a file, and the process it ran in."""
    source = Source("a.bad", words.encode())
    with parser_pool.start(BAD, source, 1800, limits, **options) as parsing:
        document = parsing.document()
        return " ".join(chunk.text for chunk in document.chunks), document.attributes.metadata[
            "pid"
        ]


# --- bombs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in TIME_BOMBS else ()) for name in BOMBS],
)
def test_a_bomb_costs_no_more_than_its_file(library: Library, name: str) -> None:
    """Some are read, because their parser handles them by now."""
    library.put("a.md", "before the bomb\n")
    library.put(name, BOMBS[name]())
    library.put("z.md", "behind the bomb\n")
    library.configure(parse_memory_bytes=200 * MB, parse_timeout_s=5)
    report = library.ingest("")
    assert {note.path for note in report.failed} <= {f"library/{name}"}
    assert {"library/a.md", "library/z.md"} <= set(report.added)


def test_a_pdf_of_nested_forms_is_one_failed_line(library: Library) -> None:
    library.put("a.pdf", BOMBS["forms.pdf"]())
    library.configure(parse_memory_bytes=200 * MB)
    (note,) = library.ingest("").failed
    assert "of memory" in note.reason


def test_what_a_file_was_before_it_became_a_bomb_stays(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_in(monkeypatch, "Misbehaving")
    library.put("a.bad", "behave")
    library.ingest("")
    library.put("a.bad", "fill_memory", hours_ago=1)
    library.configure(parse_memory_bytes=200 * MB)
    assert len(library.ingest("").failed) == 1
    assert library.text("library/a.bad") == "good words"


def test_opening_a_bomb_shows_what_was_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_in(monkeypatch, "Misbehaving")
    monkeypatch.setenv("KB_INGEST_PARSE_MEMORY_BYTES", str(200 * MB))
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.bad").write_text("behave")
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        kb.ingest(folder)
        (folder / "a.bad").write_text("fill_memory")
        passage = kb.get("files/a.bad")
        assert (passage.state, passage.text) == ("stale", "good words")
        assert {one.state for one in kb.doctor().findings} <= {"ok", "warning"}


# --- parsers that misbehave -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("sleep", "takes longer than 2 s to parse; if you trust it, raise ingest.parse_timeout_s"),
        ("spin", "takes longer than 2 s to parse"),
        ("sleep_later", "takes longer than 2 s to parse"),
        ("fill_memory", "needs more than 200 MB of memory to parse; if you trust it, raise"),
        ("fill_memory_later", "needs more than 200 MB of memory"),
        ("raise_much", "ValueError: long long"),
        ("leave", "SystemExit: had enough"),
        ("vanish", "its parser crashed (exit status 0)"),
        ("surrogate", ""),
        pytest.param("crash", "its parser crashed (SIGSEGV)", marks=posix),
    ],
)
def test_a_parser_that_misbehaves_costs_its_file(
    library: Library, monkeypatch: pytest.MonkeyPatch, does: str, reason: str
) -> None:
    plug_in(monkeypatch, "Misbehaving")
    library.configure(parse_memory_bytes=200 * MB, parse_timeout_s=2)
    for name, words in (("a.bad", "behave"), ("b.bad", does), ("c.bad", "behave")):
        library.put(name, words)
    report = library.ingest("")
    if does == "surrogate":  # escaped, as everywhere
        assert len(report.added) == 3
        return
    assert report.added == ("library/a.bad", "library/c.bad")
    assert [note.path for note in report.failed] == ["library/b.bad"]
    assert reason in report.failed[0].reason
    assert len(report.failed[0].reason) < 5000
    check_integrity(library.store)


def test_a_flood_ends_at_its_limit() -> None:
    source = Source("a.bad", b"flood")
    limits = Limits(200 * MB, 60.0, 2 * MB)
    with (
        pytest.raises(Unreadable, match="contains more than 2 MB of text"),
        parser_pool.start(BAD, source, 1800, limits) as parsing,
    ):
        list(parsing.document().chunks)


def test_what_a_parser_prints_is_not_its_answer(capfd: pytest.CaptureFixture[str]) -> None:
    assert parsed("print_much")[0] == "good words"
    assert parsed("read_input")[0] == "read ''"
    printed, shown = capfd.readouterr()
    assert printed == ""
    assert "printed" in shown


def test_a_parser_process_knows_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    parser_pool.close()
    for name in (
        "KB_ENDPOINT_KEY", "KB_SERVE_TOKEN", "KB_STORE", "PGPASSWORD", "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "LC_TIME",
    ):  # fmt: skip
        monkeypatch.setenv(name, "secret")
    assert parsed("show_secrets")[0] == "LC_TIME"


def test_nothing_is_imported_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's folder may contain a `json.py`."""
    for name in ("json", "signal", "struct", "kb"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hijacked')")
    parser_pool.close()
    monkeypatch.chdir(tmp_path)
    assert parsed("behave")[0] == "good words"


def test_unsupported_and_unreadable_come_as_the_parser_raises_them() -> None:
    for data, error in ((b"PK not a zip", Unreadable), (b"\0\0", Unreadable)):
        with (
            pytest.raises(error),
            parser_pool.start("docx", Source("a.docx", data), 1800, LIMITS) as parsing,
        ):
            parsing.document()
    with (
        pytest.raises(Unsupported, match="binary file"),
        parser_pool.start("text", Source("a.txt", b"\0\1\2" * 99), 1800, LIMITS) as parsing,
    ):
        parsing.document()


# --- the processes --------------------------------------------------------------------------------


def test_a_process_is_kept_for_the_next_file() -> None:
    assert parsed("behave")[1] == parsed("behave")[1] != os.getpid()


def test_a_process_that_was_ended_is_replaced() -> None:
    _, first = parsed("behave")
    os.kill(first, signal.SIGTERM)
    eventually(lambda: not is_alive(first))
    assert parsed("behave") != ("good words", first)


@posix
def test_a_process_that_is_killed_in_a_file(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_in(monkeypatch, "Misbehaving")
    _, pid = parsed("behave")
    library.put("a.bad", "sleep")
    library.put("b.md")

    events: list[Progress] = []

    def kill(now: Progress) -> None:
        events.append(now)
        if now.path.endswith("a.bad") and now in events[:-1]:  # not before the process has the file
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    report = library.indexer.ingest([library.folder], on_event=kill)
    assert [note.path for note in report.failed] == ["library/a.bad"]
    assert "SIGKILL" in report.failed[0].reason
    assert report.added == ("library/b.md",)


def test_who_waits_for_a_file_can_leave(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens when a server stops, or its client disconnects."""
    plug_in(monkeypatch, "Misbehaving")
    _, pid = parsed("behave")
    library.put("a.bad", "spin")
    told: list[Progress] = []

    def leave(now: Progress) -> None:
        told.append(now)
        if told.count(now) > 2:
            raise ClientGone("the client has gone")

    with pytest.raises(ClientGone):
        library.indexer.ingest([library.folder], on_event=leave)
    assert not is_alive(pid)
    assert library.documents() == {}


def test_a_run_that_is_ended_between_files_leaves_no_process_at_work(library: Library) -> None:
    """The second file is being parsed while the first one is written."""
    library.put("a.md")
    library.put("b.md")

    def leave(now: Progress) -> None:
        if now.path.endswith("b.md"):
            raise ClientGone("the client has gone")

    with pytest.raises(ClientGone):
        library.indexer.ingest([library.folder], on_event=leave)
    assert list(library.documents()) == ["library/a.md"]
    assert not parser_pool._POOL._busy


def test_a_deadline_ends_the_parsing() -> None:
    _, pid = parsed("behave")
    with Deadline(0.5), pytest.raises(DeadlineExceeded):
        parsed("spin")
    assert not is_alive(pid)


def test_many_threads_share_a_few_processes() -> None:
    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(parsed, ["behave"] * 60))
    assert {text for text, _ in answers} == {"good words"}
    assert len({pid for _, pid in answers}) <= 4


def test_a_process_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    parser_pool.close()
    monkeypatch.setattr(parser_pool, "_IDLE_S", 0.05)
    _, pid = parsed("behave")
    eventually(lambda: not is_alive(pid))
    assert parsed("behave")[1] != pid


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows it")
def test_a_process_that_has_grown_is_replaced() -> None:
    _, first = parsed("keep_memory", Limits(1000 * MB, 60.0))
    assert parsed("behave", Limits(1000 * MB, 60.0))[1] == first
    assert parsed("behave", LIMITS)[1] != first


# --- processes that cannot start ------------------------------------------------------------------


@pytest.mark.parametrize("executable", ["/no/such/python", "", None])
def test_without_a_parser_process_nothing_is_parsed(
    library: Library, monkeypatch: pytest.MonkeyPatch, executable: str | None
) -> None:
    parser_pool.close()
    library.put("a.html")
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(ParserUnavailable, match="cannot start the parser process") as raised:
        library.ingest("")
    assert "kb.ingest.parser_worker" in raised.value.hint
    assert library.documents() == {}


def test_a_process_that_dies_at_its_start(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser_pool.close()
    library.put("a.html")
    monkeypatch.setattr(parser_process, "_PROGRAM", "raise SystemExit(3)")
    with pytest.raises(ParserUnavailable, match="did not start: exit status 3"):
        library.ingest("")


def test_a_process_of_another_version(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens after an upgrade while a server runs."""
    parser_pool.close()
    library.put("a.html")
    monkeypatch.setattr(parser_process, "__version__", "0.0.1")
    with pytest.raises(ParserUnavailable, match=r"but this process runs kb 0\.0\.1") as raised:
        library.ingest("")
    assert raised.value.hint == "restart kb"


@pytest.mark.parametrize(
    "answer",
    [
        b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"chunks": [], "more": false}',
        b'{"document": 1, "chunks": [], "more": false}', b'{"error": "x"}', b'{"log": [1]}',
        b'{"progress": [1, "x"]}',
        b'{"document": {"type": "x", "warnings": [], "attributes": {"tags": [], "metadata": {}}},'
        b' "chunks": [1], "more": false}',
        b'{"document": {"type": "x", "warnings": [], "attributes": {"tags": [], "metadata": {}}},'
        b' "chunks": [[1, [], null, []]], "more": false}',
        b'{"document": {"type": "x", "warnings": [], "attributes": {"tags": [1], "metadata": {}}},'
        b' "chunks": [], "more": false}',
    ],
)  # fmt: skip
def test_an_answer_that_makes_no_sense(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    """A parser process under the control of a hostile file may send anything."""
    parser_pool.close()
    program = f"""
import json, struct, sys
from kb import __version__
for body in (json.dumps({{"version": __version__}}).encode(), {answer!r}):
    sys.stdout.buffer.write(struct.pack("<I", len(body)) + body)
sys.stdout.flush()
sys.stdin.read()
"""
    monkeypatch.setattr(
        parser_process, "_PROGRAM", "import sys; sys.path[:] = sys.argv[1:]\n" + program
    )
    with pytest.raises(Unreadable, match="invalid result"):
        parsed("behave")


# --- orphaned processes ---------------------------------------------------------------------------

PARENT = """
import sys
from kb.ingest import parser_pool
from tests.ingest.test_parser_pool import LIMITS, parsed
if __name__ == "__main__":
    print(parsed("behave")[1], flush=True)
    {then}
"""


def parent(then: str) -> tuple[subprocess.Popen[str], int]:
    """A program that has parsed a file, and its parser process."""
    started = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(then=then)],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert started.stdout is not None
    return started, int(started.stdout.readline())


@pytest.mark.parametrize(
    ("then", "ended"),
    [
        ("pass", ""),
        ("from kb.shutdown import Shutdown; Shutdown(0.2).begin(); parsed('sleep')", ""),
        ("import time; time.sleep(600)", "SIGKILL"),
        ("import time; time.sleep(600)", "SIGINT"),
    ],
)
@posix
def test_no_process_outlives_its_parent(then: str, ended: str) -> None:
    started, pid = parent(then)
    with started:
        if ended:
            assert is_alive(pid)
            started.send_signal(getattr(signal, ended))
        started.wait(WATCHDOG_S)
    eventually(lambda: not is_alive(pid))


@pytest.mark.parametrize("ended", ["SIGKILL", "SIGTERM"])
@pytest.mark.parametrize("word", ["sleep", "spin"])
@posix
def test_a_file_is_abandoned_with_its_parent(word: str, ended: str) -> None:
    """Long before its own limits: nobody waits for its result."""
    hour = (
        f"parsed({word!r}, LIMITS.__class__(10**9, 3600.0), on_wait=lambda: print(1, flush=True))"
    )
    started, pid = parent(hour)
    with started:
        assert started.stdout is not None
        assert started.stdout.readline() == "1\n"  # the parser is at work
        started.send_signal(getattr(signal, ended))
        started.wait(WATCHDOG_S)
    try:
        eventually(lambda: not is_alive(pid))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@posix
def test_cpu_time_is_limited_where_no_thread_can_run() -> None:
    program = (
        "from kb.ingest.parser_limits import limit_cpu\n"
        "limit_cpu(0.3); sum(iter(int, 1))\n"  # a loop in C
    )
    ended = subprocess.run([sys.executable, "-c", program], timeout=WATCHDOG_S, check=False)
    assert ended.returncode == OUT_OF_TIME


def test_a_process_whose_parent_is_gone_says_nothing() -> None:
    """Its first message has no receiver: after a killed `kb ingest`, it must not print a
    traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    program = "from kb.ingest.parser_worker import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE, timeout=WATCHDOG_S,
    )  # fmt: skip
    os.close(writer)
    assert ended.stderr == b""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_has_processes_of_its_own() -> None:
    then = """
    import os, warnings
    warnings.simplefilter("ignore")
    child = os.fork()
    _, mine = parsed("behave")
    print(mine, flush=True)
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0"""
    started, pid = parent(then.strip())
    with started:
        assert started.stdout is not None
        others = [int(line) for line in started.stdout]
        assert started.wait(WATCHDOG_S) == 0
    assert pid in others
    assert len(set(others)) == 2


# --- limits ---------------------------------------------------------------------------------------


def test_a_larger_file_may_take_more() -> None:
    small, large = LIMITS.for_file(1000), LIMITS.for_file(200 * MB)
    assert small.timeout_s == pytest.approx(60, rel=0.01)
    assert large.timeout_s > 3600
    assert large.memory_bytes == 3400 * MB
    assert large.output_bytes > 2 * 200 * MB


@posix
def test_memory_is_watched_where_the_system_has_no_limit() -> None:
    program = (
        "import resource; from kb.ingest.parser_limits import _start_watching\n"
        "unit = 1 if __import__('sys').platform == 'darwin' else 1024\n"
        "_start_watching(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit + (100 << 20))\n"
        "held = []\n"
        "while True: held.append(bytearray(1 << 20))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], timeout=WATCHDOG_S, check=False)
    assert ended.returncode == 86
