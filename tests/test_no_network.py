"""`kb` uses no network: every command runs while connections are refused and recorded.

A hook in every process of `kb` records attempts to resolve a name or to connect, and refuses them.
Where the system allows it, the commands also run in a network namespace without any network.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[1] / "examples" / "library"
PATIENCE_S = 300
HOOK = """
import os, sys

EVENTS = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto",
          "socket.sendmsg", "urllib.Request", "http.client.connect")
LOCAL = (None, "", "127.0.0.1", b"127.0.0.1", "::1")

def refuse(event, args):
    if event not in EVENTS:
        return
    if event == "socket.getaddrinfo" and args[0] in LOCAL:
        return  # a server looks up the address that it listens on
    if event.startswith("socket.") and isinstance(args[-1], (str, bytes)):
        return  # a socket of the file system
    if event in ("socket.sendto", "socket.sendmsg") and args[-1] is None:
        return  # without an address: the peer of a connection
    with open(os.environ["KB_TEST_ATTEMPTS"], "a") as file:
        print(event, *map(repr, args), file=file)
    raise OSError("the network is blocked")

sys.addaudithook(refuse)
"""
COMMANDS = (
    ("init",),
    ("ingest", "library"),
    ("search", "who made it worse by asking again"),
    ("search", "retry", "--mode", "vector"),
    ("search", "retry", "--rerank", "--reranker", "cross-encoder", "--explain"),
    ("search", "retry", "--json"),
    ("ask", "who made it worse by asking again"),
    ("similar", "library/lessons/retry-storm.md"),
    ("compare", "retry storm"),
    ("add", "Rotate keys on the first Monday"),
    ("get", "library/lessons/retry-storm.md"),
    ("open", "library/lessons/retry-storm.md#L3"),
    ("list",),
    ("map",),
    ("tag", "library/lessons/retry-storm.md"),
    ("status",),
    ("doctor",),
    ("config",),
    ("models", "list"),
    ("jobs",),
    ("reindex", "--model", "kb-mini-multilingual"),
    ("export", "out.jsonl"),
    ("backup", "copy.sqlite"),
    ("gc", "--compact"),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="programs of POSIX"),
]


@pytest.fixture
def attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """The attempts to use the network, by every process that is started with this environment."""
    hooks, log = tmp_path / "hooks", tmp_path / "attempts"
    hooks.mkdir()
    log.touch()
    (hooks / "sitecustomize.py").write_text(HOOK)
    for name in [name for name in os.environ if name.startswith(("KB_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(hooks))
    monkeypatch.setenv("KB_TEST_ATTEMPTS", str(log))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EDITOR", "true")
    for name in ("lessons", "papers", "web", "notebooks"):
        shutil.copytree(LIBRARY / name, tmp_path / "library" / name)
    monkeypatch.chdir(tmp_path)
    return log.read_text


def kb(*args: str) -> list[str]:
    return [sys.executable, "-m", "kb", *args]


def namespace() -> list[str]:
    """The command that runs another one without a network; empty if the system has none."""
    command = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("unshare") is None:
        return []
    tried = subprocess.run([*command, "true"], capture_output=True)
    return command if tried.returncode == 0 else []


def test_the_hook_refuses_connections(attempts: Callable[[], str]) -> None:
    script = "import urllib.request; urllib.request.urlopen('http://192.0.2.1/')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "the network is blocked" in done.stderr
    assert "192.0.2.1" in attempts()


def test_no_command_uses_the_network(attempts: Callable[[], str]) -> None:
    for command in COMMANDS:
        done = subprocess.run(
            [*namespace(), *kb(*command)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert attempts() == "", command


def test_a_server_connects_to_nothing(attempts: Callable[[], str]) -> None:
    subprocess.run(kb("ingest", "library/lessons"), check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        kb("serve", "--port", str(port)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if str(port) in line:
                break
        query = json.dumps({"query": "who asked again"}).encode()
        for path, body in (("/", None), ("/search", query), ("/status", None)):
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                assert answer.status == 200
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(PATIENCE_S)
        if server.stdout is not None:
            server.stdout.close()
    assert attempts() == ""
