"""`kb search` through a running process: the results are the same."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase, config
from kb.cli import socket_client, socket_server
from kb.cli.socket_server import serve_socket
from tests import hostile
from tests.cli.conftest import COMMAND, Run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sockets of this kind are for POSIX")

_TIMES = re.compile(r" *\d+\.\d+ ms|\"[a-z_]+\": \d+\.\d+(?=[,}\n])")


ACKNOWLEDGE_S = socket_client.ACKNOWLEDGE_S


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the time limit: a busy machine may take longer than a second, and the command would
    then search in its own process."""
    monkeypatch.setattr(socket_client, "ACKNOWLEDGE_S", 60.0)


@pytest.fixture
def store(here: Path) -> Path:
    return here / ".kb" / "kb.sqlite"


@pytest.fixture
def served(store: Path) -> Iterator[Path]:
    """The socket of a store that a running process serves."""
    with KnowledgeBase(store) as kb, serve_socket(kb):
        yield Path(f"{store}{socket_client.SUFFIX}")


def plain(text: str) -> str:
    """The output without times, which differ between searches."""
    return _TIMES.sub("", text)


def forward(*args: str) -> int | None:
    return socket_client.forward(["search", *args])


def test_a_long_answer_is_shown_in_the_pager_of_the_client(
    served: Path, tmp_path: Path, on_terminal: Callable[..., str]
) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED; cat\n")
    pager.chmod(0o755)
    for command, is_paged in ((("-n", "10"), True), (("-n", "1"), False), (("--json",), False)):
        shown = on_terminal("search", "the", *command, PAGER=str(pager))
        assert ("PAGED" in shown, "#L" in shown) == (is_paged, True)
        assert "PAGED" not in on_terminal("search", "the", *command, PAGER="cat")


# --- the same answers -----------------------------------------------------------------------------

CALLS: list[tuple[str, ...]] = [
    ("retry", "storm"),
    ("-n", "3", "--json", "retry", "storm"),
    ("--jsonl", "battery"),
    ("--explain", "retry", "storm"),
    ("--mode", "lexical", "--tags", "gateway", "retry"),
    ("zzznothing",),
    ("...",),
    ("--", "--store"),
    ("--profile", "nope", "retry"),
    ("--mode", "nope", "retry"),
    ("--nope", "retry"),
    ("--json", "--kind", "nope", "retry"),
    ("--mode", "vector", "retry"),
    ("'NEAR('",),
    (),
]


@pytest.mark.parametrize("args", CALLS, ids=" ".join)
def test_answers_are_identical(
    served: Path, run: Run, capsys: pytest.CaptureFixture[str], args: tuple[str, ...]
) -> None:
    capsys.readouterr()
    status = forward(*args)
    through = capsys.readouterr()
    alone = run("search", *args)
    assert status == alone.status
    assert plain(through.out) == plain(alone.out)
    assert plain(through.err) == plain(alone.err)


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_on_a_terminal_too(
    served: Path, on_terminal: Callable[..., str], variables: dict[str, str]
) -> None:
    through = on_terminal("search", "retry", "storm", columns=64, **variables)
    served.rename(served.with_suffix(".off"))
    assert through == on_terminal("search", "retry", "storm", columns=64, **variables)
    assert ("\x1b[" in through) == (not variables)


def test_names_and_queries_that_are_not_utf8(served: Path, run: Run) -> None:
    alone = run("search", "caf\udce9")
    done = subprocess.run([*COMMAND, "search", b"caf\xe9"], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr.decode()) == (alone.status, alone.err)


def test_the_client_loads_nothing(served: Path) -> None:
    script = (
        "import atexit, sys\n"
        "from kb.cli import socket_client\n"
        "socket_client.ACKNOWLEDGE_S = 60.0\n"
        "sys.argv = ['kb', 'search', 'retry', 'storm']\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from kb.cli import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    modules = set(done.stderr.split())
    assert "library/lessons/retry-storm.md" in done.stdout
    assert not modules & {"click", "apsw", "numpy", "socket", "typing"}
    assert {name for name in modules if name.startswith("kb")} == {
        "kb",
        "kb.cli",
        "kb.cli.socket_client",
        "kb.paths",
    }


# --- without a server -----------------------------------------------------------------------------


def test_without_a_socket(store: Path) -> None:
    assert forward("retry") is None


@pytest.mark.parametrize("arg", ["-", "-h", "--help", "-v", "--verbose"])
def test_options_that_concern_the_process_itself(served: Path, arg: str) -> None:
    assert forward("retry", arg) is None


def test_other_commands(served: Path) -> None:
    assert socket_client.forward(["status"]) is None
    assert socket_client.forward([]) is None


def test_a_stale_socket(store: Path, run: Run, process: Run) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{store}{socket_client.SUFFIX}")
    assert forward("retry") is None
    found = process("search", "--json", "retry")
    assert (found.status, found.json["returned"] > 0) == (0, True)
    with KnowledgeBase(store) as kb, serve_socket(kb):  # and it is replaced
        assert forward("retry") == 0
    assert not os.path.exists(f"{store}{socket_client.SUFFIX}")


def test_a_plain_file_in_its_place(store: Path) -> None:
    Path(f"{store}{socket_client.SUFFIX}").write_text("no socket")
    assert forward("retry") is None


@contextmanager
def started(store: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that has responded once."""
    command = [*COMMAND, "--store", str(store), "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline()
            assert forward("retry") == 0
            yield server
        finally:
            server.kill()  # works on a stopped process too


def ended_by(signal_: signal.Signals, store: Path) -> int:
    """The exit status of a server that has responded once and then received the signal."""
    with started(store) as server:
        server.send_signal(signal_)
        return server.wait(60)


def test_a_killed_server(store: Path, process: Run) -> None:
    ended_by(signal.SIGKILL, store)
    assert os.path.exists(f"{store}{socket_client.SUFFIX}")
    assert forward("retry") is None
    assert process("search", "--json", "retry").json["returned"] > 0


def test_a_server_stopped_by_sigterm(store: Path) -> None:
    """A service manager stops it this way. The socket and the write-ahead log are removed."""
    assert ended_by(signal.SIGTERM, store) == 0
    assert not os.path.exists(f"{store}{socket_client.SUFFIX}")
    assert not os.path.exists(f"{store}-wal")


def test_a_stopped_server(store: Path, process: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It still accepts connections, and never responds."""
    with started(store) as server:
        server.send_signal(signal.SIGSTOP)
        os.waitpid(server.pid, os.WUNTRACED)  # until then, it may still acknowledge a request
        with monkeypatch.context() as usual:
            usual.setattr(socket_client, "ACKNOWLEDGE_S", ACKNOWLEDGE_S)
            usual.setattr(socket_client, "ANSWER_S", 3600.0)  # only the first limit can end it
            assert forward("retry") is None
        assert process("search", "--json", "--mode", "lexical", "retry").json["returned"] > 0
        server.send_signal(signal.SIGCONT)
        assert forward("retry") == 0


def test_a_slow_answer_has_more_time_than_its_acknowledgement(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    respond = socket_server._SocketServer._respond

    def slowly(*args: Any) -> dict[str, Any]:
        time.sleep(0.6)
        return respond(*args)

    assert forward("retry") == 0  # nothing is left to load
    monkeypatch.setattr(socket_client, "ACKNOWLEDGE_S", 0.5)
    monkeypatch.setattr(socket_server._SocketServer, "_respond", slowly)
    assert forward("retry") == 0


def test_searches_of_disconnected_clients_stop(
    hostile_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The searches would keep all threads busy for minutes. When their clients are killed, the
    threads become free."""
    store = Path(shutil.copy(hostile_store, tmp_path / "kb.sqlite"))
    for name, value in {"KB_STORE": str(store), "KB_MODELS_ENCODER": "none",
                        "KB_SEARCH_TIMEOUT_S": "0"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(socket_client, "ANSWER_S", 3600.0)
    with KnowledgeBase(store) as kb, serve_socket(kb):
        address = f"{store}{socket_client.SUFFIX}"
        busy = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(4)]
        for client in busy:
            client.connect(address)
            request = socket_client._request(["search", hostile.EXPRESSION], str(store))
            client.sendall(json.dumps(request).encode())
            client.shutdown(socket.SHUT_WR)
        waiting = threading.Thread(target=forward, args=("harbour",))
        waiting.start()
        waiting.join(1.0)
        assert waiting.is_alive()  # the others occupy all threads
        for client in busy:
            client.close()
        waiting.join(60.0)
        assert not waiting.is_alive()
        assert forward("harbour") == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a file that takes nothing")
def test_a_closed_stderr(served: Path) -> None:
    """Output is not printed twice."""
    command = [*COMMAND, "search", "--rerank", "retry"]  # no reranker is available
    with open("/dev/full", "w") as full:
        through = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, timeout=60)
        served.rename(served.with_suffix(".off"))
        alone = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, timeout=60)
    assert (through.returncode, through.stdout) == (alone.returncode, alone.stdout)
    assert through.stdout
    assert through.returncode  # there was a message


def test_another_version(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert forward("retry") == 0
    monkeypatch.setattr(socket_server, "__version__", "0.0.1")
    assert forward("retry") is None


def test_another_python(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket_client._request

    def other(args: list[str], store: str) -> dict[str, object]:
        return real(args, store) | {"prefix": "/elsewhere"}

    monkeypatch.setattr(socket_client, "_request", other)
    assert forward("retry") is None


def test_other_settings(served: Path, monkeypatch: pytest.MonkeyPatch, store: Path) -> None:
    with monkeypatch.context() as changed:
        changed.setenv("KB_SEARCH_DEFAULT_TOP", "1")
        assert forward("retry") is None
    assert forward("retry") == 0
    (store.parent / "config.toml").write_text("[search]\ndefault_top = 1\n")
    assert forward("retry") is None
    (store.parent / "config.toml").unlink()
    config.user_file().parent.mkdir(parents=True)
    config.user_file().write_text("[serve]\nport = 9\n")
    assert forward("retry") == 0
    (store.parent / "config.toml").write_text("not TOML")
    assert forward("retry") is None


def test_ignored_settings_are_named_through_the_socket_too(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (store.parent / "config.toml").write_text("[serve]\nport = 9\n")
    with KnowledgeBase(store) as kb, serve_socket(kb):
        assert forward("retry") == 0
    assert "ignored serve.port in" in capsys.readouterr().err


def test_logs_equal_those_of_the_command(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.user_file().parent.mkdir(parents=True)
    config.user_file().write_text("[search]\nslow_ms = 500\n")
    assert forward("retry") is None
    config.user_file().write_text("[search]\nlog = 'stderr'\n")
    assert forward("retry") is None


def test_a_link_to_the_store_is_left_to_this_process(
    served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have come with a cloned folder."""
    (tmp_path / "cloned").mkdir()
    (tmp_path / "cloned" / ".kb").symlink_to(served.parent)
    monkeypatch.chdir(tmp_path / "cloned")
    assert forward("retry") is None


def test_another_store(served: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with KnowledgeBase(other) as kb:
        kb.add("something else")
    os.symlink(served, f"{other}{socket_client.SUFFIX}")
    assert forward("--store", str(other), "retry") is None


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give it away")
def test_another_user_s_socket(served: Path) -> None:
    os.chown(served, 12345, 12345)
    assert forward("retry") is None


def test_another_user_at_the_other_end(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_client, "peer_uid", lambda _: os.getuid() + 1)
    assert forward("retry") is None


@contextmanager
def odd(store: Path, answer: bytes | None) -> Iterator[None]:
    """A socket that responds with `answer`, or not at all."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{store}{socket_client.SUFFIX}")
        listening.listen(1)
        held = []

        def serve() -> None:
            connection, _ = listening.accept()
            if answer is None:
                held.append(connection)
                return
            while connection.recv(1 << 16):
                pass
            connection.sendall(answer)
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join(60)
        for connection in held:
            connection.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"nonsense", b"[]", b"3", b"{}", b"\xff", b'{"answered": false}',
        b'{"answered": true}', b'{"answered": true, "status": "0", "out": "", "err": ""}',
        b"[" * 100_000, None,
    ],
    ids=lambda answer: str(answer)[:30],
)  # fmt: skip
def test_an_invalid_response(
    store: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: bytes | None,
) -> None:
    monkeypatch.setattr(socket_client, "ACKNOWLEDGE_S", 0.2)
    monkeypatch.setattr(socket_client, "ANSWER_S", 0.2)
    with odd(store, answer):
        assert forward("retry") is None
    assert capsys.readouterr() == ("", "")


# --- the socket -----------------------------------------------------------------------------------


def test_only_its_owner_can_use_the_socket(served: Path) -> None:
    assert served.stat().st_mode & 0o777 == 0o600


def test_the_socket_is_removed_with_its_process(store: Path) -> None:
    with KnowledgeBase(store) as kb, serve_socket(kb):
        assert forward("retry") == 0
    assert not os.path.exists(f"{store}{socket_client.SUFFIX}")


def test_the_first_server_keeps_the_socket(store: Path) -> None:
    path = Path(f"{store}{socket_client.SUFFIX}")
    with KnowledgeBase(store) as first, serve_socket(first):
        identity = path.stat().st_ino
        with KnowledgeBase(store) as second, serve_socket(second):
            assert path.stat().st_ino == identity
        assert forward("retry") == 0


@pytest.mark.parametrize(
    "request_",
    [b"", b"nonsense", b"[]", b"{}", b'{"protocol": 3}', b"[" * 100_000, b"x" * (2 << 20)],
    ids=lambda request: str(request)[:20],
)
def test_an_invalid_request_harms_nobody(served: Path, request_: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(served))
        try:
            client.sendall(request_)
            client.shutdown(socket.SHUT_WR)
            received = client.makefile("rb").read()
            assert received.startswith(socket_client.ACKNOWLEDGEMENT) or not received
            assert b'"answered": true' not in received
        except (BrokenPipeError, ConnectionResetError):
            pass  # disconnected before it had sent everything
    assert forward("retry") == 0


def test_only_searches_are_answered(served: Path) -> None:
    request = socket_client._request(
        ["rm", "library/"], str(served).removesuffix(socket_client.SUFFIX)
    )
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(served))
        client.sendall(json.dumps(request).encode())
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as response:
            assert response.readline() == socket_client.ACKNOWLEDGEMENT
            assert json.loads(response.read()) == {"answered": False, "why": "args"}


def test_new_documents_are_found(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with KnowledgeBase(store) as kb, serve_socket(kb):
        assert forward("--json", "shackles") == 0
        before = json.loads(capsys.readouterr().out)["returned"]
        with KnowledgeBase(store) as other:
            other.add("The spare shackles are in locker 4.")
        assert forward("--json", "shackles") == 0
        assert json.loads(capsys.readouterr().out)["returned"] == before + 1


# --- the choice of the store ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "rest", "named"),
    [
        (["search", "x"], ["search", "x"], None),
        (["search", "--store", "a", "x"], ["search", "x"], "a"),
        (["search", "--store=a", "--store", "b"], ["search"], "b"),
        (["search", "--", "--store", "a"], ["search", "--", "--store", "a"], None),
        (["search", "--store"], ["search", "--store"], None),
    ],
)
def test_the_store_option_is_split_off(args: list[str], rest: list[str], named: str | None) -> None:
    assert socket_client.split_store_option(args) == (rest, named)
