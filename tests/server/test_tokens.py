"""Named tokens: their file, rights, rates, rotation, and the audit log."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb.cli import log_handlers
from kb.errors import ConfigError, InvalidRequest, NotFound, TooManyRequests
from kb.server.access import AuditLog, RateLimiter, required_right
from kb.server.guard import AccessRules
from kb.server.lifecycle import rules_for
from kb.server.tokens import TokenFile, TokenRegistry
from kb.types import Identity, Limits
from tests.server.conftest import Running, Serve, until


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "private" / "tokens.json")


def registry(file: TokenFile, now: Callable[[], float] = lambda: 0.0) -> TokenRegistry:
    return TokenRegistry(file, now)


def status_of(running: Running, token: str | None, method: str, path: str, **options: Any) -> int:
    headers = {"X-KB-Request": "1"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return running.client.request(method, path, headers=headers, **options).status_code


# --- the file -------------------------------------------------------------------------------------


def test_the_file_holds_hashes_and_is_private(file: TokenFile) -> None:
    identity = Identity("ci", "write", Limits(("project",), ("handbook",), ("red",)), 60)
    token = file.add(identity, 0.0, "2030-01-01T00:00:00Z")
    assert token not in file.path.read_text()
    assert os.stat(file.path).st_mode & 0o777 == 0o600
    (record,) = file.read()
    assert (record.identity, record.expires_at) == (identity, "2030-01-01T00:00:00Z")
    assert registry(file).identify(token) == identity
    assert registry(file).identify(token + "x") is None


def test_names_are_unique_and_rights_are_checked(file: TokenFile) -> None:
    file.add(Identity("ci", "read"), 0.0)
    for identity in (
        Identity("ci", "read"),
        Identity("../ci", "read"),
        Identity("", "read"),
        Identity("other", "everything"),
        Identity("other", "read", Limits(scopes=("team",))),
        Identity("other", "admin", Limits(scopes=("project",))),
    ):
        with pytest.raises(InvalidRequest):
            file.add(identity, 0.0)
    with pytest.raises(NotFound):
        file.revoke("other")
    assert [each.identity.name for each in file.read()] == ["ci"]


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"version": 2, "tokens": []}', '{"version": 1, "tokens": [{}]}']
)
def test_a_damaged_file_is_an_error_and_lets_nobody_in(file: TokenFile, content: str) -> None:
    token = file.add(Identity("ci", "read"), 0.0)
    tokens = registry(file)
    file.path.write_text(content)
    assert tokens.identify(token) is None
    assert tokens.is_required
    with pytest.raises(ConfigError, match=r"tokens\.json"):
        registry(file)


def test_a_deleted_file_lets_nobody_in(file: TokenFile) -> None:
    token = file.add(Identity("ci", "read"), 0.0)
    tokens = registry(file)
    file.path.unlink()
    assert tokens.identify(token) is None
    assert tokens.is_required
    assert not registry(file).is_required


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_a_file_that_others_can_write_is_refused(file: TokenFile) -> None:
    file.add(Identity("ci", "read"), 0.0)
    os.chmod(file.path, 0o666)
    with pytest.raises(ConfigError, match="other users can write"):
        registry(file)


def test_tokens_rotate_expire_and_are_revoked_without_a_restart(file: TokenFile) -> None:
    now = 0.0
    tokens = registry(file, lambda: now)
    assert not tokens.is_required
    first = file.add(Identity("ci", "read"), now, "1970-01-01T00:01:00Z")
    assert tokens.identify(first) == Identity("ci", "read")
    second = file.rotate("ci", now)
    assert tokens.identify(first) is None
    assert tokens.identify(second) == Identity("ci", "read")
    now = 60.0
    assert tokens.identify(second) is None
    now = 0.0
    file.revoke("ci")
    assert tokens.identify(second) is None


# --- rights and rates -----------------------------------------------------------------------------

REQUESTS: list[tuple[str, str, dict[str, Any], str]] = [
    ("GET", "/tags", {}, "read"),
    ("POST", "/search", {"json": {"query": "x"}}, "read"),
    ("GET", "/metrics", {}, "read"),
    ("POST", "/documents", {"json": {"text": "A note."}}, "write"),
    ("DELETE", "/documents/none", {}, "write"),
    ("PUT", "/uploads/a.md", {"content": b"A text."}, "write"),
    ("POST", "/ingest", {"json": {}}, "admin"),
    ("POST", "/embed", {"json": {}}, "admin"),
]


def test_a_token_needs_the_right_of_the_route(serve: Serve, file: TokenFile) -> None:
    tokens = {name: file.add(Identity(name, name), 0.0) for name in ("read", "write", "admin")}
    running = serve(AccessRules(tokens=registry(file)))
    order = ["read", "write", "admin"]
    for method, path, options, right in REQUESTS:
        assert required_right(method, path) == right
        assert status_of(running, None, method, path, **options) == 401
        for name, token in tokens.items():
            status = status_of(running, token, method, path, **options)
            assert (status == 403) == (order.index(name) < order.index(right)), (path, name)
            assert status not in (401, 500)


def test_health_checks_need_no_token(serve: Serve, file: TokenFile) -> None:
    file.add(Identity("ci", "read"), 0.0)
    running = serve(AccessRules(tokens=registry(file)))
    for path in ("/health", "/healthz", "/readyz"):
        assert status_of(running, None, "GET", path) == 200


def test_a_server_whose_store_is_gone_is_alive_but_not_ready(serve: Serve) -> None:
    running = serve()
    running.kb.close()
    running.kb.path.write_bytes(b"not a store")
    assert status_of(running, None, "GET", "/healthz") == 200
    assert status_of(running, None, "GET", "/readyz") == 503


def test_a_rate_fills_up_again() -> None:
    now = 0.0
    rates = RateLimiter(lambda: now)
    fast, other = Identity("fast", "read", Limits(), 120), Identity("other", "read")
    for _ in range(120):
        rates.check(fast)
    with pytest.raises(TooManyRequests) as refusal:
        rates.check(fast)
    assert refusal.value.retry_after_s == 1
    for _ in range(1000):
        rates.check(other)
    now = 0.5
    rates.check(fast)
    with pytest.raises(TooManyRequests):
        rates.check(fast)


def test_too_many_requests_are_refused_with_the_time_to_wait(serve: Serve, file: TokenFile) -> None:
    token = file.add(Identity("ci", "read", Limits(), 1), 0.0)
    other = file.add(Identity("other", "read"), 0.0)
    running = serve(AccessRules(tokens=registry(file)))
    assert status_of(running, token, "GET", "/tags") == 200
    headers = {"Authorization": f"Bearer {token}"}
    refusal = running.client.get("/tags", headers=headers)
    assert (refusal.status_code, refusal.json()["code"]) == (429, "too_many_requests")
    assert 1 <= int(refusal.headers["Retry-After"]) <= 60
    assert status_of(running, other, "GET", "/tags") == 200


def test_other_machines_need_a_token(file: TokenFile) -> None:
    with pytest.raises(ConfigError, match="no token is set"):
        rules_for("0.0.0.0", None, "", registry(file))
    file.add(Identity("ci", "read"), 0.0)
    assert rules_for("0.0.0.0", None, "", registry(file)).open


# --- the audit log --------------------------------------------------------------------------------


def test_writes_and_refusals_are_logged_without_texts(
    serve: Serve, file: TokenFile, tmp_path: Path
) -> None:
    log = tmp_path / "audit.jsonl"
    reader = file.add(Identity("reader", "read"), 0.0)
    writer = file.add(Identity("writer", "write"), 0.0)
    running = serve(AccessRules(tokens=registry(file)), audit_log=str(log))
    note = {"text": "A secret text.", "tags": ["red"]}
    status_of(running, reader, "POST", "/search", json={"query": "a secret query"})
    status_of(running, reader, "POST", "/documents", json=note)
    status_of(running, writer, "POST", "/documents", json=note)
    status_of(running, writer, "POST", "/tags", json={"document": "note:1", "add": ["blue"]})
    status_of(running, writer, "DELETE", "/documents/note:1")
    status_of(running, None, "GET", "/tags")
    until(lambda: len(log.read_text().splitlines()) == 5)  # written after the response
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(each["token"], each["method"], each["status"]) for each in lines] == [
        ("reader", "POST", 403),
        ("writer", "POST", 201),
        ("writer", "POST", 200),
        ("writer", "DELETE", 200),
        (None, "GET", 401),
    ]
    assert lines[1]["document"] == "note:1"
    assert (lines[2]["document"], lines[2]["add"]) == ("note:1", ["blue"])
    assert "secret" not in log.read_text()
    assert os.stat(log).st_mode & 0o077 == 0


def test_an_audit_log_that_cannot_be_written_stops_the_start(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="audit log"):
        serve(audit_log=str(tmp_path / "missing" / "audit.jsonl"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_named_pipe_without_a_reader_is_no_log(tmp_path: Path) -> None:
    """Opening it would wait for a reader, without a message."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="audit log"):
        AuditLog(pipe)
    with pytest.raises(ConfigError, match="cannot write the log"):
        log_handlers._to_file(pipe)


def test_an_event_stream_ends_with_its_token(serve: Serve, file: TokenFile, tmp_path: Path) -> None:
    """It went on for as long as the client kept it open, with the paths of ingested files."""
    first = file.add(Identity("first", "admin"), 0.0)
    second = file.add(Identity("second", "admin"), 0.0)
    running = serve(AccessRules(tokens=registry(file)), ingest_from=(tmp_path,))
    headers = {"Authorization": f"Bearer {first}"}
    with running.client.stream("GET", "/events", headers=headers) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry:")
        file.revoke("first")
        body = {"paths": [str(tmp_path)]}
        assert status_of(running, second, "POST", "/ingest", json=body) == 200
        for line in lines:  # it ends
            assert line != "event: ingest"
