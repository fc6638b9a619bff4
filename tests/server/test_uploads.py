"""Uploads: a refused upload changes nothing, and kb touches only files that it has written."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest
from fastapi.testclient import TestClient

from kb import KnowledgeBase
from kb.errors import InvalidRequest
from kb.server import upload_folder
from kb.server.api import create_app
from tests.ingest import bombs
from tests.schemas import validate, validator
from tests.server.conftest import HEADERS, PATIENCE_S, Running, Serve, put, until

GOOD = b"# Barnacles\n\nThey settle on the hull.\n"
BAD = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 9


def folder(running: Running) -> Path:
    return running.kb.path.parent / "uploads"


def files(running: Running) -> list[str]:
    """The content of the folder, without receipts and the owner's name."""
    return sorted(
        str(path.relative_to(folder(running)))
        for path in folder(running).rglob("*")
        if path.is_file() and path.parent.name != ".kb-uploads"
    )


def delete(running: Running, name: str) -> httpx.Response:
    return running.client.delete(f"/documents/uploads/{name}", headers=HEADERS)


# --- accepted --------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
@pytest.mark.parametrize(("mode", "of_folder"), [(0o600, 0o700), (0o640, 0o750), (0o644, 0o755)])
def test_uploads_are_as_private_as_the_store(filled: Running, mode: int, of_folder: int) -> None:
    filled.kb.path.chmod(mode)
    before = os.umask(0o022)
    try:
        assert put(filled, "barnacles.md", GOOD).status_code == 201
    finally:
        os.umask(before)
    assert (folder(filled) / "barnacles.md").stat().st_mode & 0o777 == mode
    assert folder(filled).stat().st_mode & 0o777 == of_folder


@pytest.mark.skipif(os.name == "nt", reason="an open store cannot be moved there")
def test_after_the_store_was_moved_nothing_is_created(filled: Running, tmp_path: Path) -> None:
    home = filled.kb.path.parent
    moved = home.rename(home.with_name("moved"))
    refused = put(filled, "barnacles.md", GOOD)
    assert (refused.status_code, refused.json()["code"]) == (404, "store_missing")
    assert not home.exists()
    moved.rename(home)
    assert put(filled, "barnacles.md", GOOD).status_code == 201


def test_a_file_is_kept_found_and_replaced(filled: Running) -> None:
    first = put(filled, "barnacles.md", b"# Barnacles\n\nThey settle on the hull.\n")
    assert first.status_code == 201, first.text
    validate(first.json())
    (hit,) = filled.search("barnacles settle", top=1)["hits"]
    assert hit["doc_path"] == "uploads/barnacles.md"
    put(filled, "barnacles.md", b"# Barnacles\n\nCopper keeps them away.\n")
    assert filled.search("barnacles copper")["hits"][0]["doc_path"] == "uploads/barnacles.md"
    assert len([each for each in filled.kb.documents() if each.path == "barnacles.md"]) == 1


def test_names_that_are_not_utf_8_do_not_become_one(filled: Running) -> None:
    for name in ("%ff.md", "%fe.md", "a%ed%a0%80.md"):
        assert put(filled, name, GOOD).status_code == 400
    assert put(filled, "%C3%BC.md", GOOD).status_code == 201
    assert files(filled) == ["ü.md"]


def test_a_removed_upload_does_not_come_back(filled: Running) -> None:
    put(filled, "a.md", b"# A\n\nText.\n")
    assert filled.client.delete("/documents/uploads/a.md", headers=HEADERS).status_code == 200
    filled.client.post("/ingest", json={})
    assert filled.client.get("/documents/uploads/a.md").status_code == 404


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.bin", b"\0\1\2\3" * 99),
        ("secrets.json", b"{}"),
        ("x.key", b"k"),
        (
            "notes.md",
            b"-----BEGIN PRIVATE KEY-----\n" + b"A" * 64 + b"\n-----END PRIVATE KEY-----\n",
        ),
    ],
)
def test_what_cannot_be_taken_is_not_kept(filled: Running, name: str, data: bytes) -> None:
    answer = put(filled, name, data)
    validator("error.v1").validate(answer.json())
    assert answer.status_code == 422
    assert files(filled) == []


def test_a_bomb_is_refused_and_the_server_goes_on(filled: Running) -> None:
    """It is parsed in a separate process: see test_parser_pool.py."""
    kb = filled.kb
    kb.config = replace(kb.config, ingest=replace(kb.config.ingest, parse_memory_bytes=200 << 20))
    answer = put(filled, "a.pdf", bombs.pdf())
    assert answer.status_code == 422, answer.text
    assert "of memory" in answer.text
    assert files(filled) == []
    assert put(filled, "a.md", GOOD).status_code == 201


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_edit_made_during_an_upload_is_kept(
    filled: Running, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    """The change is made while the new file is checked, or while it is ingested, which then
    fails."""
    put(filled, "a.md", GOOD)
    target = filled.kb.path.parent / "uploads" / "a.md"
    ingest = upload_folder._ingest

    def edit(kb: KnowledgeBase, path: Path, **options: Any) -> Any:
        if options.get("dry_run", False) is dry_run:
            target.write_text("my own words")
            if not dry_run:
                raise InvalidRequest("it cannot be ingested", "try again")
        return ingest(kb, path, **options)

    monkeypatch.setattr(upload_folder, "_ingest", edit)
    assert put(filled, "a.md", b"# New\n\nText.\n").status_code in (409, 422)
    assert target.read_text() == "my own words"


def test_an_upload_has_a_limit(serve: Serve) -> None:
    running = serve(max_upload_bytes=1000)
    answer = put(running, "a.md", b"x" * 1001)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_the_folder_may_lie_where_no_walk_goes(tmp_path: Path) -> None:
    """An example is a project that is ingested as a whole and has its store in `.kb`."""

    (tmp_path / "project" / ".kb").mkdir(parents=True)
    (tmp_path / "project" / "a.md").write_text("# A\n\nText.\n", encoding="utf-8")
    with KnowledgeBase(tmp_path / "project" / ".kb" / "kb.sqlite", encoder="none") as kb:
        kb.ingest(tmp_path / "project")
        with TestClient(create_app(kb), base_url="http://localhost") as client:
            answer = client.put("/uploads/b.md", content=GOOD, headers=HEADERS)
            assert answer.status_code == 201, answer.text
            assert client.post("/ingest", json={}).status_code == 200
        assert [each.doc_path for each in kb.documents()] == ["project/a.md", "uploads/b.md"]


@pytest.mark.parametrize("name", ["__pycache__", "node_modules", "ignored.log", "a.md"])
@pytest.mark.parametrize("whole", ["uploads", "."])
def test_no_upload_is_lost_to_a_walk_that_leaves_it_out(
    serve: Serve, name: str, whole: str
) -> None:
    """The name or an ignore file may exclude the upload from the walk. The owner may ingest the
    whole folder later."""
    running = serve()
    parent = running.kb.path.parent
    (parent / ".git").mkdir()
    (parent / ".gitignore").write_text("*.log\n")
    text = b"The mooring needs a second shackle.\n"
    assert put(running, name, text).status_code == 201
    mine = folder(running) / "mine.log"
    mine.write_bytes(b"Not uploaded.\n")
    running.kb.ingest(parent / whole)
    running.client.post("/ingest", json={})
    running.client.post("/ingest", json={"force": True})
    assert running.kb.document(f"uploads/{name}").path == name
    assert put(running, name, text.replace(b"second", b"third")).status_code == 201
    assert put(running, f"new {name}", text).status_code == 201
    running.client.post("/ingest", json={})
    assert running.search("third shackle", top=1)["hits"][0]["doc_path"] == f"uploads/{name}"
    assert running.search("not uploaded")["returned"] == 0
    (folder(running) / name).unlink()
    running.kb.ingest()
    assert running.client.get(f"/documents/uploads/{name}").status_code == 404


# --- refused --------------------------------------------------------------------------------------


def test_a_refused_upload_leaves_the_earlier_file_and_document(filled: Running) -> None:
    put(filled, "a.md", GOOD)
    filled.client.post("/tags", json={"document": "uploads/a.md", "add": ["hull"]})
    before = filled.client.get("/documents/uploads/a.md").json()
    assert put(filled, "a.md", BAD).status_code == 422
    assert put(filled, "a.md", b"").status_code == 422
    assert (folder(filled) / "a.md").read_bytes() == GOOD
    assert filled.client.get("/documents/uploads/a.md").json() == before
    filled.client.post("/ingest", json={})
    assert filled.search("barnacles settle")["hits"][0]["tags"] == ["hull"]
    assert files(filled) == ["a.md"]


def test_a_file_of_others_is_neither_replaced_nor_removed(filled: Running) -> None:
    folder(filled).mkdir()
    theirs = folder(filled) / "theirs.md"
    theirs.write_bytes(b"# Theirs\n\nNot uploaded.\n")
    filled.kb.ingest(theirs)
    for data in (GOOD, BAD, theirs.read_bytes()):
        answer = put(filled, "theirs.md", data)
        validator("error.v1").validate(answer.json())
        assert (answer.status_code, answer.json()["code"]) == (409, "file_conflict")
    assert filled.client.get("/documents/uploads/theirs.md").status_code == 200
    assert delete(filled, "theirs.md").status_code == 200
    assert theirs.read_bytes() == b"# Theirs\n\nNot uploaded.\n"


def test_an_upload_that_its_owner_has_changed_is_theirs(filled: Running) -> None:
    put(filled, "a.md", GOOD)
    (folder(filled) / "a.md").write_bytes(b"# Changed\n\nBy hand.\n")
    assert put(filled, "a.md", GOOD).status_code == 409
    assert delete(filled, "a.md").status_code == 200
    assert (folder(filled) / "a.md").read_bytes() == b"# Changed\n\nBy hand.\n"


@pytest.mark.skipif(os.name == "nt", reason="links need leave there")
@pytest.mark.parametrize("planted", ["uploads", "uploads/.kb-uploads", "uploads/a.md"])
def test_a_link_leads_nothing_elsewhere(filled: Running, tmp_path: Path, planted: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_bytes(b"# Outside\n")
    link = folder(filled).parent / planted
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside / "a.md" if planted.endswith("a.md") else outside)
    answer = put(filled, "a.md", GOOD)
    assert (answer.status_code, answer.json()["code"]) == (409, "file_conflict")
    assert [path.name for path in outside.rglob("*")] == ["a.md"]
    assert (outside / "a.md").read_bytes() == b"# Outside\n"


def test_a_folder_in_place_of_the_file(filled: Running) -> None:
    (folder(filled) / "a.md").mkdir(parents=True)
    assert put(filled, "a.md", GOOD).status_code == 409


def test_many_at_once_of_one_name(filled: Running) -> None:
    texts = [f"# Version {number}\n\nText of {number}.\n".encode() for number in range(6)]
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda data=data: statuses.append(_put_alone(filled, data)))
        for data in texts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert statuses == [201] * 6
    kept = (folder(filled) / "a.md").read_bytes()
    assert kept in texts
    number = kept.split()[2].decode()
    assert filled.search(f"version {number}", top=1)["hits"][0]["title"] == f"Version {number}"
    assert files(filled) == ["a.md"]
    assert put(filled, "a.md", GOOD).status_code == 201


def _put_alone(running: Running, data: bytes) -> int:
    address = f"{running.url}/uploads/a.md"
    return httpx.put(address, content=data, headers=HEADERS, trust_env=False).status_code


def test_an_upload_that_is_broken_off_leaves_nothing(filled: Running) -> None:
    put(filled, "a.md", GOOD)
    head = b"PUT /uploads/a.md HTTP/1.1\r\nHost: localhost\r\nX-KB-Request: 1\r\n"
    with socket.create_connection(("127.0.0.1", filled.port), timeout=PATIENCE_S) as raw:
        raw.sendall(head + b"Content-Length: 3000000\r\n\r\n" + b"x" * 1_000_000)
        _until(lambda: len(files(filled)) == 2)
    _until(lambda: files(filled) == ["a.md"])
    assert (folder(filled) / "a.md").read_bytes() == GOOD


def _until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_only_so_many_are_under_way(filled: Running) -> None:
    head = b"PUT /uploads/%d.md HTTP/1.1\r\nHost: localhost\r\nX-KB-Request: 1\r\n"
    open_ones = []
    try:
        for number in range(8):
            raw = socket.create_connection(("127.0.0.1", filled.port), timeout=PATIENCE_S)
            open_ones.append(raw)
            raw.sendall(head % number + b"Content-Length: 100\r\n\r\nx")
        _until(lambda: filled.app.state.context.upload_slots._free == 0)
        answer = put(filled, "a.md", GOOD)
        assert (answer.status_code, answer.json()["code"]) == (503, "too_busy")
    finally:
        for raw in open_ones:
            raw.close()
    _until(lambda: put(filled, "a.md", GOOD).status_code == 201)


# --- a full disk, a killed process ----------------------------------------------------------------

_SERVE = """
import sys, threading
from pathlib import Path
if sys.argv[2] != "0":
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
from kb.cli import main
sys.argv[1:] = ["--store", sys.argv[1], "serve", "--port", "0"]
main()
"""


@contextmanager
def process(store: Path, *, limit_bytes: int = 0, code: str = _SERVE) -> Iterator[Any]:
    """A server process and its client."""
    environment = os.environ | {"KB_MODELS_ENCODER": "none", "KB_SERVE_TOKEN": ""}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(store), str(limit_bytes)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        try:
            with httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False) as client:
                yield server, client
        finally:
            server.terminate()
            server.communicate(timeout=PATIENCE_S)


def _parts(store: Path) -> list[Path]:
    return [path for path in (store.parent / "uploads").rglob("*") if path.name in ("new", "old")]


@pytest.mark.skipif(sys.platform != "linux", reason="limits on the size of files differ")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"x " * 1_000_000, id="the file is too large"),
        pytest.param(b"".join(b"word%d " % n for n in range(110_000)), id="the store is"),
    ],
)
def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path: Path, text: bytes) -> None:
    """The limit on file size has the same effect as a full disk."""
    store = tmp_path / "kb.sqlite"
    with process(store, limit_bytes=1_500_000) as (_, client):
        first = client.put("/uploads/a.md", content=GOOD, headers=HEADERS)
        assert first.status_code == 201, first.text
        before = client.get("/documents/uploads/a.md").json()
        for name in ("a.md", "b.md"):
            answer = client.put(f"/uploads/{name}", content=text, headers=HEADERS)
            assert (answer.status_code, answer.json()["code"]) == (507, "disk_full")
        assert client.get("/documents/uploads/a.md").json() == before
    assert (tmp_path / "uploads" / "a.md").read_bytes() == GOOD
    assert not (tmp_path / "uploads" / "b.md").exists()
    assert _parts(store) == []


_KILLED = """
import os, sys
real, moment = os.replace, sys.argv[2]
def replace(source, target):
    is_upload = os.path.basename(target) == "a.md"
    if moment == "after" or not is_upload:
        real(source, target)
    if is_upload:
        os.kill(os.getpid(), 9)
os.replace = replace
from kb.cli import main
sys.argv[1:] = ["--store", sys.argv[1], "serve", "--port", "0"]
main()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal on Windows")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_killed_server_leaves_one_of_the_two_files(tmp_path: Path, moment: str) -> None:
    store = tmp_path / "kb.sqlite"
    newer = GOOD.replace(b"hull", b"keel")
    with process(store) as (_, client):
        client.put("/uploads/a.md", content=GOOD, headers=HEADERS)
    with process(store, limit_bytes=moment, code=_KILLED) as (server, client):  # type: ignore[arg-type]
        with pytest.raises(httpx.TransportError):
            client.put("/uploads/a.md", content=newer, headers=HEADERS)
        server.wait(timeout=PATIENCE_S)
    assert _parts(store)  # its temporary files
    mine = tmp_path / "uploads" / ".kb-uploads" / "notes.part"
    mine.write_bytes(b"of somebody else")
    with process(store) as (_, client):
        assert _parts(store) == []
        client.post("/ingest", json={})
        text = client.get("/passages", params={"uri": "uploads/a.md"}).json()["text"]
        kept = (tmp_path / "uploads" / "a.md").read_bytes()
        assert kept == (newer if moment == "after" else GOOD)
        assert kept.split()[-1].decode() in text
        answer = client.put("/uploads/a.md", content=GOOD, headers=HEADERS)
        assert answer.status_code == 201, answer.text
    assert mine.exists()


@pytest.mark.skipif(os.name == "nt", reason="no process can be asked there")
def test_files_of_a_server_that_runs_are_left_alone(filled: Running) -> None:
    put(filled, "a.md", GOOD)
    work = folder(filled) / ".kb-uploads"
    others, ended = work / f"{os.getppid()}-{'0' * 16}", work / f"999999999-{'0' * 16}"
    for each in (others, ended):
        (each / "new").mkdir(parents=True)
        (each / "old").mkdir()
    upload_folder.clean_up(filled.kb)
    assert (others.exists(), ended.exists()) == (True, False)


# --- concurrent writes ----------------------------------------------------------------------------


SlowIngest = tuple[threading.Event, threading.Event]


@pytest.fixture
def slow_ingest(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowIngest]:
    """The ingest of `slow.md` sets the first event and waits for the second."""
    started, finish = threading.Event(), threading.Event()
    ingest = upload_folder._ingest

    def wait(kb: KnowledgeBase, path: Path, **options: Any) -> Any:
        if path.name == "slow.md" and not finish.is_set():
            started.set()
            assert finish.wait(PATIENCE_S)
        return ingest(kb, path, **options)

    monkeypatch.setattr(upload_folder, "_ingest", wait)
    yield started, finish
    finish.set()


def test_an_upload_delays_no_other_write(filled: Running, slow_ingest: SlowIngest) -> None:
    started, finish = slow_ingest
    with ThreadPoolExecutor(1) as other:
        slow = other.submit(put, filled, "slow.md", b"# Slow\n\nText.\n")
        assert started.wait(PATIENCE_S)
        tags = {"document": "lib/notes/retry.md", "add": ["x"]}
        assert filled.client.post("/tags", json=tags).status_code == 200
        assert filled.client.post("/documents", json={"text": "A note."}).status_code == 201
        assert put(filled, "small.md", b"# Small\n\nText.\n").status_code == 201
        assert filled.client.post("/ingest", json={}).status_code == 200
        assert filled.client.delete("/documents/note:1", headers=HEADERS).status_code in (200, 404)
        assert not slow.done()
        finish.set()
        assert slow.result().status_code == 201


def test_uploads_of_one_name_follow_each_other(filled: Running, slow_ingest: SlowIngest) -> None:
    started, finish = slow_ingest
    with ThreadPoolExecutor(2) as others:
        first = others.submit(put, filled, "slow.md", b"# First\n\nText.\n")
        assert started.wait(PATIENCE_S)
        second = others.submit(put, filled, "slow.md", b"# Second\n\nText.\n")
        until(lambda: filled.app.state.context.uploads.task_count == 2)
        finish.set()
        assert [each.result().status_code for each in (first, second)] == [201, 201]
    assert filled.kb.document("uploads/slow.md").title == "Second"


@pytest.mark.parametrize("is_replaced", [False, True])
def test_two_servers_of_one_store_take_uploads_of_one_name(
    filled: Running, monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    """The second server gets its upload while the first one ingests the same name."""
    store, ingest, seconds = filled.kb.path, upload_folder._ingest, list[httpx.Response]()
    if is_replaced:
        assert put(filled, "a.md", GOOD).status_code == 201
    monkeypatch.setenv("KB_STORE_BUSY_TIMEOUT_S", "0.1")
    with process(store) as (_, other):

        def upload(kb: KnowledgeBase, path: Path, **options: Any) -> Any:
            if not options.get("dry_run") and not seconds:
                text = b"# Second\n\nText.\n"
                seconds.append(other.put("/uploads/a.md", content=text, headers=HEADERS))
            return ingest(kb, path, **options)

        monkeypatch.setattr(upload_folder, "_ingest", upload)
        assert put(filled, "a.md", b"# First\n\nText.\n").status_code == 201
        assert (seconds[0].status_code, seconds[0].json()["code"]) == (503, "store_busy")
        assert filled.kb.document("uploads/a.md").title == "First"
        for title in ("Third", "Fourth"):
            for client in (other, filled.client):
                text = f"# {title}\n\nText.\n".encode()
                later = client.put("/uploads/a.md", content=text, headers=HEADERS)
                assert later.status_code == 201, later.text
        assert delete(filled, "a.md").status_code == 200
    assert files(filled) == []
    assert not list((folder(filled) / ".kb-uploads").glob("lock-*"))


def test_a_file_of_another_program_that_appears_during_an_upload_is_kept(
    filled: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = upload_folder._move_into_place

    def create_first(new: Path, target: Path) -> None:
        target.write_bytes(GOOD)
        move(new, target)

    monkeypatch.setattr(upload_folder, "_move_into_place", create_first)
    assert put(filled, "a.md", GOOD).status_code == 409
    assert files(filled) == ["a.md"]
    assert put(filled, "a.md", b"# Mine\n\nText.\n").status_code == 409  # it was not uploaded


def test_a_store_that_stays_busy_is_an_error_within_the_request_timeout(serve: Serve) -> None:
    running = serve(request_timeout_s=0.5)
    note = running.kb.add("A note.")
    tags = {"document": note.doc_path, "add": ["x"]}
    with closing(apsw.Connection(str(running.kb.path))) as other:
        other.execute("BEGIN IMMEDIATE")
        for path, body in (("/tags", tags), ("/documents", {"text": "Another note."})):
            answer = running.client.post(path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (503, "store_busy")
            assert answer.headers["retry-after"] == "1"
        other.execute("ROLLBACK")
    assert running.kb.document(note.doc_path).tags == ()
    assert running.client.post("/tags", json=tags).status_code == 200
