"""Connections: the total time, proxies, and what counts as this machine."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import Request

import pytest

from kb.config import Config
from kb.errors import EndpointError, Offline
from kb.models import connections, network
from kb.models.connections import TimeLimit, open_url
from kb.models.download import Downloads
from kb.models.endpoint import open_endpoint
from kb.models.manifest import ModelFile
from kb.models.pull import pull
from tests.models import tiny
from tests.models.serving import RawServer, raw_serving, serving
from tests.models.test_endpoint import KEY, Waits, config, embed
from tests.models.test_pull import Hub

LIMIT_S = 0.2
TEXT = "a very private text"
STATUS_LINE = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KB_OFFLINE", "no_proxy", "NO_PROXY", "KB_MODELS_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KB_ENDPOINT_KEY", KEY)


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[RawServer]:
    """A proxy in the environment that accepts tunnels and answers nothing else."""

    def accept_tunnel(server: RawServer, connection: socket.socket) -> None:
        if server.received[-1].startswith(b"CONNECT "):
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")

    with raw_serving(accept_tunnel) as server:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, server.url)
        yield server


# --- the total time -------------------------------------------------------------------------------


def slow_header(server: RawServer, connection: socket.socket) -> None:
    connection.sendall(STATUS_LINE)
    server.trickle(connection, b"X-Slow: " + b"x" * 400)


def slow_body(server: RawServer, connection: socket.socket) -> None:
    connection.sendall(STATUS_LINE + b"Content-Length: 400\r\n\r\n")
    server.trickle(connection, b"x" * 400)


def endless_continue(server: RawServer, connection: socket.socket) -> None:
    server.trickle(connection, b"HTTP/1.1 100 Continue\r\n\r\n" * 20)


# Bytes keep coming, so that only a limit on the total time can end these requests.
SLOW = [slow_header, slow_body, endless_continue]
Handler = Callable[[RawServer, socket.socket], None]


@pytest.mark.parametrize("handler", SLOW)
@pytest.mark.parametrize("as_query", [True, False])
def test_a_request_takes_no_longer_than_its_limit(handler: Handler, as_query: bool) -> None:
    with raw_serving(handler) as server:
        settings = config(server.url, endpoint_timeout_s=LIMIT_S, endpoint_retries=0)
        encoder = open_endpoint(settings)
        with pytest.raises(EndpointError, match="no response in time"):
            encoder.encode([TEXT], as_query=as_query)


@pytest.mark.parametrize("handler", SLOW)
def test_a_manifest_takes_no_longer_than_its_limit(handler: Handler, tmp_path: Path) -> None:
    waits = Waits()
    with raw_serving(handler) as server:
        with pytest.raises(EndpointError, match="no response in time"):
            Downloads(waits, tries=2, timeout_s=LIMIT_S).text(f"{server.url}/model.json")
        assert (waits, len(server.received)) == ([0.5], 2)


def test_a_file_must_keep_coming(tmp_path: Path) -> None:
    """A few bytes within the limit do not count as progress; otherwise a download would never
    end."""
    with raw_serving(slow_body) as server:
        file = ModelFile("model.onnx", size_bytes=400, sha256="0" * 64)
        with pytest.raises(EndpointError, match="no response in time"):
            Downloads(Waits(), tries=2, timeout_s=LIMIT_S).file(
                server.url, file, tmp_path / "model.onnx", lambda _: None
            )
        assert len(server.received) == 2


def test_time_left() -> None:
    now = [0.0]
    limit = TimeLimit(2.0, clock=lambda: now[0])
    now[0] = 1.5
    assert limit.left_s() == 0.5
    now[0] = 2.0
    with pytest.raises(TimeoutError):
        limit.left_s()
    limit.restart()
    assert limit.left_s() == 2.0


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key and a certificate for 127.0.0.1, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    path = tmp_path / "server.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", path, "-out", f"{path}.crt", "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


def test_tls_too(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A response over TLS, then a slow header over TLS, then a server that is not TLS."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate)
    client_side = ssl.create_default_context(cafile=f"{certificate}.crt")
    client_side.sslsocket_class = connections._TlsSocket
    monkeypatch.setattr(connections, "_tls_context", lambda: client_side)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"

        def ask(limit: TimeLimit, sent: bytes) -> bytes:
            from threading import Thread

            def respond() -> None:
                connection, _ = listener.accept()
                with server_side.wrap_socket(connection, server_side=True) as tls:
                    tls.recv(1 << 16)
                    tls.sendall(sent)
                    tls.recv(1 << 16)  # until the client hangs up

            thread = Thread(target=respond)
            thread.start()
            try:
                with open_url(Request(url), limit, redirects=False) as response:
                    return response.read()
            finally:
                thread.join()

        answer = STATUS_LINE + b"Content-Length: 2\r\n\r\nok"
        assert ask(TimeLimit(60.0), answer) == b"ok"
        with pytest.raises(TimeoutError):
            ask(TimeLimit(LIMIT_S), STATUS_LINE)
    with raw_serving(slow_header) as server, pytest.raises(OSError):  # noqa: PT011  # any will do
        open_url(Request(server.url.replace("http", "https")), TimeLimit(LIMIT_S), redirects=False)


# --- proxies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("offline", ["", "1"])
@pytest.mark.parametrize("as_query", [True, False])
def test_no_proxy_to_this_machine(
    proxy: RawServer, monkeypatch: pytest.MonkeyPatch, offline: str, as_query: bool
) -> None:
    monkeypatch.setenv("KB_OFFLINE", offline)
    with serving(embed) as server:
        for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
            assert open_endpoint(config(url)).encode([TEXT], as_query=as_query)
        assert len(server.asked) == 2
    assert proxy.received == []


def test_no_proxy_to_this_machine_for_a_pull(proxy: RawServer, tmp_path: Path) -> None:
    tiny.lay(tmp_path / "hub" / "tiny")
    with serving(Hub(tmp_path / "hub")) as server:
        pull(Config(), f"{server.url}/tiny/model.json", to=tmp_path / "pulled")
    assert proxy.received == []


def test_plain_http_never_goes_through_a_proxy(proxy: RawServer) -> None:
    """The proxy would read the key and the texts."""
    settings = config("http://192.0.2.1", endpoint_timeout_s=0.05, endpoint_retries=0)
    with pytest.raises(EndpointError):
        open_endpoint(settings).encode([TEXT])
    assert proxy.received == []


def test_https_goes_through_a_tunnel(proxy: RawServer) -> None:
    """The proxy learns the name of the server, and nothing else."""
    settings = config("https://models.example.org", endpoint_timeout_s=LIMIT_S, endpoint_retries=0)
    with pytest.raises(EndpointError):
        open_endpoint(settings).encode([TEXT])
    (received,) = proxy.received
    assert received.startswith(b"CONNECT models.example.org:443 HTTP/1.")
    assert b"\r\n\r\n\x16\x03" in received  # then the handshake of TLS
    assert KEY.encode() not in received
    assert TEXT.encode() not in received


# --- this machine ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:11434/v1", True),
        ("http://LOCALHOST/v1", True),
        ("http://127.0.0.1:80/", True),
        ("https://127.8.9.10/", True),
        ("http://[::1]:80/", True),
        ("http://127.0.0.1.nip.io:9120/v1", False),
        ("http://127.evil.example/", False),
        ("http://api.localhost/", False),
        ("http://localhost.example.org/", False),
        ("http://localhost./", False),
        ("http://10.0.0.1/", False),
        ("http://0.0.0.0/", False),
    ],
)
def test_what_counts_as_this_machine(
    url: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_OFFLINE", "1")
    assert network.is_this_machine(url) == expected
    if expected:
        open_endpoint(config(url))
    else:
        with pytest.raises(Offline):
            open_endpoint(config(url))


def test_localhost_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up = socket.getaddrinfo
    flags: list[int] = []

    def spy(*args: object, **options: int) -> object:
        flags.append(options.get("flags", 0))
        return look_up(*args, **options)  # type: ignore[arg-type]

    with serving(embed) as server:
        monkeypatch.setattr(socket, "getaddrinfo", spy)
        url = server.url.replace("127.0.0.1", "localhost")
        assert open_endpoint(config(url)).encode([TEXT])
    assert flags
    assert all(flag & socket.AI_NUMERICHOST for flag in flags)
