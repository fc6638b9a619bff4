"""Routes: documents, passages, chunks, tags."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import pytest

from kb import KnowledgeBase
from kb.metadata import PAGE_BYTES
from kb.server.upload_folder import check_name
from tests.replaced import REPLACEMENTS
from tests.schemas import validate, validator
from tests.server.conftest import PATIENCE_S, Running, Serve, taken, until
from tests.test_regular_files import posix

JSON = {"Content-Type": "application/json"}


def test_documents_are_listed_page_by_page(filled: Running) -> None:
    first = filled.client.get("/documents", params={"limit": 2}).json()
    second = filled.client.get("/documents", params={"limit": 2, "offset": 2}).json()
    for page in (first, second):
        validate(page)
    assert (first["next_offset"], second["next_offset"]) == (2, None)
    paths = [each["doc_path"] for page in (first, second) for each in page["documents"]]
    assert paths == [document.doc_path for document in filled.kb.documents()]


@pytest.mark.skipif(os.name == "nt", reason="names have no line breaks there")
@pytest.mark.parametrize("name", ["a\nb.md", "a\r\nb.md"])
def test_a_path_may_contain_line_breaks(filled: Running, tmp_path: Path, name: str) -> None:
    for each in ("a.md", name):
        (tmp_path / "lib" / each).write_text("# Broken\n\nA line.\n", encoding="utf-8")
    filled.kb.ingest()
    path = f"/documents/lib/{quote(name)}"
    assert filled.client.get(path).json()["doc_path"] == f"lib/{name}"
    removed = filled.client.delete(path, headers={"X-KB-Request": "1"}).json()["removed"]
    assert removed == [f"lib/{name}"]
    assert filled.client.get("/documents/lib/a.md").status_code == 200
    assert filled.client.get("/documents/lib/a.md%0A").status_code == 404


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be replaced there")
def test_a_note_is_in_the_file_that_has_replaced_the_store(filled: Running, tmp_path: Path) -> None:
    assert filled.client.post("/documents", json={"text": "The first."}).status_code == 201
    with KnowledgeBase(tmp_path / "newer.sqlite", encoder="none") as newer:
        newer.add("Of the new file.")
    os.replace(tmp_path / "newer.sqlite", filled.kb.path)
    answer = filled.client.post("/documents", json={"text": "After the change."})
    assert (answer.status_code, answer.json()["doc_path"]) == (201, "note:2")
    with KnowledgeBase(filled.kb.path, encoder="none", read_only=True) as other:
        assert [each.title for each in other.documents()] == [
            "Of the new file.", "After the change."
        ]  # fmt: skip


def test_a_list_can_be_filtered_and_knows_its_parameters(filled: Running) -> None:
    found = filled.client.get("/documents", params={"type": ["code", "pdf"]}).json()["documents"]
    assert [each["doc_path"] for each in found] == ["lib/code/pump.py"]
    unknown = filled.client.get("/documents", params={"colour": "red"})
    assert (unknown.status_code, unknown.json()["code"]) == (422, "invalid_request")
    assert "path_glob" in unknown.json()["hint"]


def test_a_page_has_a_limit(serve: Any) -> None:
    running = serve(max_page=2)
    for number in range(3):
        running.kb.add(f"note {number}")
    assert len(running.client.get("/documents?limit=1000").json()["documents"]) == 2


def _as_older_stores_have_it(running: Running, metadata: str) -> None:
    """Metadata of every document, longer than is allowed now."""
    with closing(apsw.Connection(str(running.kb.path))) as connection:
        connection.execute("UPDATE documents SET metadata = ?", (metadata,))


def test_a_page_ends_where_metadata_is_long(serve: Any) -> None:
    running = serve()
    paths = [running.kb.add(f"note {number}").doc_path for number in range(5)]
    _as_older_stores_have_it(running, json.dumps({"a": "x" * (PAGE_BYTES // 2 - 100)}))
    pages: list[list[str]] = []
    offset: int | None = 0
    while offset is not None:
        answer = running.client.get("/documents", params={"limit": 200, "offset": offset}).json()
        validate(answer)
        pages.append([each["doc_path"] for each in answer["documents"]])
        offset = answer["next_offset"]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [path for page in pages for path in page] == paths
    assert [each.doc_path for each in running.kb.documents()] == paths


def test_a_page_has_at_least_one_document(serve: Any) -> None:
    running = serve()
    running.kb.add("note 1")
    running.kb.add("note 2")
    _as_older_stores_have_it(running, json.dumps({"a": "x" * (2 * PAGE_BYTES)}))
    first = running.client.get("/documents").json()
    assert (len(first["documents"]), first["next_offset"]) == (1, 1)
    last = running.client.get("/documents?offset=1").json()
    assert (len(last["documents"]), last["next_offset"]) == (1, None)


def test_a_search_reads_no_metadata(serve: Any) -> None:
    running = serve()
    running.kb.add("a buoy")
    _as_older_stores_have_it(running, "no JSON at all")
    assert len(running.search("buoy")["hits"]) == 1


def test_a_note_is_added_read_and_removed(filled: Running) -> None:
    note = {"text": "Salt eats copper.", "tags": ["field"], "kind": "lesson", "metadata": {"a": 1}}
    added = filled.client.post("/documents", json=note)
    assert added.status_code == 201
    validate(added.json())
    path = added.json()["doc_path"]
    assert filled.client.get(f"/documents/{path}").json() == added.json()
    assert filled.search("copper")["hits"][0]["doc_path"] == path
    removed = filled.client.delete(f"/documents/{path}", headers=JSON)
    validate(removed.json())
    assert removed.json()["removed"] == [path]
    assert filled.client.get(f"/documents/{path}").status_code == 404


def test_a_file_that_was_ingested_stays_on_disk(filled: Running, tmp_path: Path) -> None:
    assert filled.client.delete("/documents/lib/notes/retry.md", headers=JSON).status_code == 200
    assert (tmp_path / "lib" / "notes" / "retry.md").exists()


def test_a_folder_is_not_removed_by_a_slash(filled: Running) -> None:
    assert filled.client.delete("/documents/lib/", headers=JSON).status_code == 422
    assert len(filled.kb.documents()) == 3


def test_a_citation_opens_and_counts(filled: Running) -> None:
    uri = filled.search("jitter")["hits"][0]["citation"]["uri"]
    opened = filled.client.get("/passages", params={"uri": uri})
    validate(opened.json())
    assert "Jitter" in opened.json()["text"]
    filled.client.get("/passages", params={"uri": "lib/notes/retry.md", "quiet": True})
    assert filled.kb.document("lib/notes/retry.md").access_count == 1


def test_chunks(filled: Running) -> None:
    listed = filled.client.get("/chunks", params={"document": "lib/notes/retry.md", "limit": 1})
    validate(listed.json())
    (first,) = listed.json()["chunks"]
    assert filled.client.get(f"/chunks/{first['chunk_id']}").json() == first
    assert filled.client.get("/chunks/999999").status_code == 404


def test_tags_are_added_and_removed(filled: Running) -> None:
    body = {"document": "lib/notes/retry.md", "add": ["network"]}
    assert filled.client.post("/tags", json=body).json()["tags"] == ["network"]
    listed = filled.client.get("/tags").json()
    validate(listed)
    assert listed["tags"]["network"] == 1
    gone = filled.client.post("/tags", json={"document": body["document"], "remove": ["nope"]})
    assert gone.status_code == 404


# --- files outside the ingested folders -----------------------------------------------------------

OUTSIDE = [
    "../secret.txt", "../../secret.txt", "lib/../../secret.txt", "..%2Fsecret.txt",
    "lib/%2e%2e/%2e%2e/secret.txt", "/etc/passwd", "//etc/passwd", "%2Fetc%2Fpasswd",
    "~/.ssh/id_rsa", "file:///etc/passwd", "lib/notes/retry.md/../../../secret.txt",
    "lib\\..\\..\\secret.txt", "lib/notes/retry.md%00.png", "....//....//secret.txt",
]  # fmt: skip


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text("hunter2 is the password\n", encoding="utf-8")
    return path


def as_it_is(running: Running, method: str, target: str) -> tuple[int, str]:
    """A request whose path no client has normalized."""
    connection = HTTPConnection("127.0.0.1", running.port, timeout=30)
    with closing(connection):
        connection.request(method, target, b"# new", {"X-KB-Request": "1"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out(filled: Running, secret: Path, path: str) -> None:
    """This holds for every parameter that takes a path, and for any spelling."""
    targets = [("GET", "/documents/"), ("DELETE", "/documents/"), ("GET", "/chunks/"),
               ("GET", "/assets/"), ("PUT", "/uploads/")]  # fmt: skip
    for method, target in targets:
        status, text = as_it_is(filled, method, target + path)
        assert status in (400, 403, 404, 405, 422), (method, target, text)
        assert "hunter2" not in text
    asked = [
        *(filled.client.get("/passages", params={"uri": each}) for each in (path, f"{path}#L1")),
        filled.client.get("/chunks", params={"document": path}),
        filled.client.get("/similar", params={"to": path}),
        filled.client.post("/tags", json={"document": path, "add": ["x"]}),
        filled.client.post("/ingest", json={"paths": [path]}),
    ]
    for answer in asked:
        assert answer.status_code in (403, 404, 405, 422), (answer.url, answer.text)
        assert "hunter2" not in answer.text
    assert secret.read_text(encoding="utf-8").startswith("hunter2")
    assert sorted(document.doc_path for document in filled.kb.documents()) == [
        "lib/code/pump.py", "lib/notes/battery.md", "lib/notes/retry.md",
    ]  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="links need leave there")
def test_a_link_that_takes_a_files_place_is_not_followed(
    filled: Running, secret: Path, tmp_path: Path
) -> None:
    file = tmp_path / "lib" / "notes" / "retry.md"
    file.unlink()
    file.symlink_to(secret)
    for uri in ("lib/notes/retry.md", "lib/notes/retry.md#L1-L9"):
        opened = filled.client.get("/passages", params={"uri": uri})
        assert opened.json()["state"] == "stale"
        assert "hunter2" not in opened.text


@posix
@pytest.mark.parametrize("kind", REPLACEMENTS)
def test_a_pipe_in_place_of_a_file_blocks_no_read(
    filled: Running, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "lib" / "notes" / "retry.md"
    file.unlink()
    make, reason = REPLACEMENTS[kind]
    make(file)
    for uri in ("lib/notes/retry.md", "lib/notes/retry.md#L1-L9"):
        opened = filled.client.get("/passages", params={"uri": uri})
        validator("passage.v1").validate(opened.json())
        assert opened.json()["state"] == "stale"
        assert opened.json()["reason"].endswith(reason)
        assert "nobody" not in opened.text
    filled.stop()


@pytest.mark.parametrize("name", ["a.md", "Übung 1.pdf", "2026-01-01.md", "日本.txt", "a.b.c"])
def test_names_of_files(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".env", "a/b", "a\\b", "a\0b", "a\nb", "nul", "COM1.txt", "a:b", " a", "a.",
     "x" * 300, "\ud800"],
)  # fmt: skip
def test_invalid_file_names(name: str) -> None:
    from kb.errors import InvalidRequest

    with pytest.raises(InvalidRequest):
        check_name(name)


def test_errors_are_readable_for_any_request(filled: Running) -> None:
    answer = filled.client.get("/documents/%ED%A0%80%FF")
    validator("error.v1").validate(answer.json())
    assert answer.status_code == 400  # an address that is not UTF-8


# --- concurrency ----------------------------------------------------------------------------------


def test_passages_that_find_no_room_are_refused(serve: Serve) -> None:
    running = serve(max_waiting=1)
    with taken(running.app.state.context.passages, 5):
        answer = running.client.get("/passages", params={"uri": "note:1"})
        assert (answer.status_code, answer.json()["code"]) == (503, "too_busy")
        assert running.client.get("/status").status_code == 200  # other routes have separate slots


def test_a_passage_is_canceled_when_its_client_disconnects(filled: Running) -> None:
    pool = filled.app.state.context.passages
    with taken(pool, 4):
        with socket.create_connection(("127.0.0.1", filled.port), timeout=PATIENCE_S) as client:
            client.sendall(b"GET /passages?uri=note:1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(lambda: pool.task_count == 5)
        until(lambda: pool.task_count == 4)


@pytest.mark.parametrize(
    "path", ["/passages?uri=lib/large.txt", "/passages?uri=lib/large.txt%23L3",
             "/chunks?document=lib/large.txt"],
)  # fmt: skip
def test_documents_are_reserved_before_they_are_read(
    serve: Serve, library: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The budget has room for one of them."""
    running = serve(max_memory_bytes=5_000_000, request_timeout_s=2.0)
    running.kb.ingest(library({"large.txt": "The gateway retries.\n" * 50_000}))
    reading, go, readers = threading.Event(), threading.Event(), list[int]()
    for name in ("get", "chunks"):
        original = getattr(KnowledgeBase, name)

        def read(*args: Any, _read: Callable[..., Any] = original, **options: Any) -> Any:
            readers.append(1)
            reading.set()
            assert go.wait(PATIENCE_S)
            return _read(*args, **options)

        monkeypatch.setattr(KnowledgeBase, name, read)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(running.client.get, path)
        assert reading.wait(PATIENCE_S)
        refused = running.client.get(path)
        assert (refused.status_code, refused.json()["code"]) == (503, "too_busy")
        assert refused.headers["retry-after"] == "1"
        assert len(readers) == 1
        go.set()
        assert first.result().status_code == 200
    assert running.client.get(path).status_code == 200
