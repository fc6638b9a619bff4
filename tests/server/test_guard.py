"""Access checks. Every rule has a request that it refuses and one that it accepts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.errors import Foreign, KbError, TokenNeeded, WrongContent
from kb.server.guard import SECURITY_HEADERS, AccessRules
from tests.schemas import validator
from tests.server.conftest import Running, Serve

HERE = {"host": "127.0.0.1:8765"}
TOKEN = "a-token-that-is-long-enough"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8765", "localhost", "LOCALHOST:1", "kb.localhost:8765", "[::1]:8765", "127.8.8.8"],
)
def test_names_of_this_machine_are_accepted(host: str) -> None:
    AccessRules().check("GET", "/status", {"host": host})


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:8765", "localhost.evil.example", "127.0.0.1.evil.example",
     "192.168.0.7", "localhost@evil.example", "localhost:x", "localhost/x", "a b", "[::1", "[::2]",
     "localhost,evil.example", "[::1]evil.example", "[::1]evil.example:8765", "[::1%evil.example]",
     "[::1%1]", "[127.0.0.1]", "[localhost]", "::1", "localhost:99999", "localhost:8765:1",
     "127.0.0.1%0", "localhost\n"],
)  # fmt: skip
def test_other_names_are_refused_as_rebound(host: str) -> None:
    with pytest.raises(Foreign):
        AccessRules().check("GET", "/status", {"host": host})


def test_a_server_for_others_knows_its_addresses_and_its_names() -> None:
    rules = AccessRules(frozenset({"kb.example.org"}), open=True, token=TOKEN)
    sent = {"authorization": f"Bearer {TOKEN}"}
    for host in ("192.168.0.7:80", "kb.example.org", "KB.example.org:443", "[2001:db8::1]"):
        rules.check("GET", "/status", sent | {"host": host})
    with pytest.raises(Foreign):
        rules.check("GET", "/status", sent | {"host": "evil.example"})


@given(st.text(st.characters(max_codepoint=255)))
def test_any_host_is_answered_or_refused(host: str) -> None:
    try:
        AccessRules().check("GET", "/status", {"host": host})
    except KbError:
        return
    assert any(own in host.lower() for own in ("localhost", "127.", "::1"))


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://127.0.0.1:9999", "null", "https://127.0.0.1:8765.evil.example",
     "http://localhost:8765", "", "chrome-extension://127.0.0.1:8765", "ftp://127.0.0.1:8765",
     "//127.0.0.1:8765", "127.0.0.1:8765", "http://127.0.0.1:8765/", "http://a@127.0.0.1:8765"],
)  # fmt: skip
def test_another_origin_is_refused(origin: str) -> None:
    with pytest.raises(Foreign):
        AccessRules().check("GET", "/status", HERE | {"origin": origin})


@pytest.mark.parametrize("scheme", ["http", "https"])  # the second is a proxy's
def test_the_own_origin_is_accepted(scheme: str) -> None:
    AccessRules().check("GET", "/status", HERE | {"origin": f"{scheme}://127.0.0.1:8765"})


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_requests_that_a_browser_marks_as_cross_site_are_refused(site: str) -> None:
    marked = HERE | {"sec-fetch-site": site}
    for method, path in (("GET", "/status"), ("GET", "/documents/a.md"), ("POST", "/search")):
        with pytest.raises(Foreign):
            AccessRules().check(method, path, marked | {"sec-fetch-mode": "navigate"})
    with pytest.raises(Foreign):  # as a picture or a script would
        AccessRules().check("GET", "/", marked | {"sec-fetch-mode": "no-cors"})
    AccessRules().check("GET", "/", marked | {"sec-fetch-mode": "navigate"})  # a link to the page


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; x=y"]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_forms_of_other_sites_change_nothing(method: str, kind: str) -> None:
    with pytest.raises(WrongContent):
        AccessRules().check(method, "/documents", HERE | {"content-type": kind})
    AccessRules().check(
        method, "/documents", HERE | {"content-type": "application/json; charset=utf-8"}
    )
    AccessRules().check(method, "/documents", HERE | {"content-type": kind, "x-kb-request": "1"})


@pytest.mark.parametrize(
    "sent", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer ü"]
)
def test_without_the_token_requests_are_refused(sent: str) -> None:
    rules = AccessRules(token=TOKEN)
    for path in ("/status", "/search", "/openapi.json", "/metrics", "/assets", "//health"):
        with pytest.raises(TokenNeeded):
            rules.check("GET", path, HERE | {"authorization": sent})
    for path in ("/", "/health", "/assets/app.js"):
        rules.check("GET", path, HERE | {"authorization": sent})


def test_with_the_token_it_answers() -> None:
    AccessRules(token=TOKEN).check("GET", "/status", HERE | {"authorization": f"bearer {TOKEN}"})


# --- over the wire --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Host": "evil.example"}, 403, "foreign"),
        ({"Origin": "http://evil.example"}, 403, "foreign"),
        ({"Sec-Fetch-Site": "cross-site"}, 403, "foreign"),
        ({"Content-Type": "text/plain"}, 415, "wrong_content"),
    ],
)
def test_refusals_are_errors_of_the_contract(
    filled: Running, headers: dict[str, str], status: int, code: str
) -> None:
    sent = {"Content-Type": "application/json"} | headers
    answer = filled.client.post("/search", content=b'{"query": "x"}', headers=sent)
    validator("error.v1").validate(answer.json())
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_host_that_is_sent_twice_is_refused(filled: Running) -> None:
    import socket

    with socket.create_connection(("127.0.0.1", filled.port), timeout=30) as raw:
        raw.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert raw.recv(100).split()[1] in (b"400", b"403")


@pytest.mark.parametrize(
    ("method", "address"),
    [
        ("GET", "/documents/lib/%ff.md"),
        ("DELETE", "/documents/lib/%ff.md"),
        ("GET", "/passages?uri=lib/%ff.md"),
        ("GET", "/documents?tags=%ed%a0%80"),
    ],
)
def test_an_address_that_is_not_utf_8_is_refused(
    filled: Running, method: str, address: str
) -> None:
    answer = filled.client.request(method, address, headers={"X-KB-Request": "1"})
    validator("error.v1").validate(answer.json())
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed_request")


def test_every_answer_carries_the_headers(filled: Running) -> None:
    for path in ("/", "/assets/app.js", "/status", "/nothing", "/metrics"):
        answer = filled.client.get(path)
        for name, value in SECURITY_HEADERS.items():
            assert answer.headers[name] == value
    assert filled.client.get("/status").headers["cache-control"] == "no-store"
    policy = SECURITY_HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_no_site_is_allowed_to_read(filled: Running) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "DELETE"}
    answer = filled.client.options("/documents/lib/notes/retry.md", headers=asked)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_server_with_a_token(serve: Serve) -> None:
    running = serve(AccessRules(token=TOKEN))
    refused = running.client.get("/status")
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    sent = {"Authorization": f"Bearer {TOKEN}"}
    assert running.client.get("/status", headers=sent).status_code == 200
    assert running.client.get("/openapi.json", headers=sent).json()["security"] == [{"token": []}]
    assert running.client.get(f"/status?token={TOKEN}").status_code == 401  # not in an address


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "BREW", "PROPFIND"])
def test_methods_that_no_route_has(filled: Running, method: str) -> None:
    for path in ("/status", "/search", "/"):
        answer = filled.client.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (405, "wrong_method"), path
