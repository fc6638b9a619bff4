"""Routes: ingest, embed, progress."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.deadline import Deadline
from kb.errors import ClientGone
from kb.server import ingest
from tests.models.weightless import Weightless
from tests.schemas import validate, validator
from tests.server.conftest import FILES, Running, Serve, put

# --- paths ----------------------------------------------------------------------------------------


def test_a_folder_that_is_allowed_is_ingested(serve: Serve, library: Callable[..., Path]) -> None:
    folder = library(FILES)
    running = serve(ingest_from=(folder.parent,))
    answer = running.client.post("/ingest", json={"paths": [str(folder)]})
    assert answer.status_code == 200, answer.text
    validate(answer.json())
    assert len(answer.json()["added"]) == 3
    again = running.client.post("/ingest", json={"paths": [str(folder / "notes")]})
    assert again.json()["unchanged"] + len(again.json()["changed"]) == 2


def test_ingested_folders_are_refreshed(filled: Running, tmp_path: Path) -> None:
    (tmp_path / "lib" / "new.md").write_text("# New\n\nA new note.\n", encoding="utf-8")
    for body in ({}, {"paths": [str(tmp_path / "lib")], "dry_run": True}):
        answer = filled.client.post("/ingest", json=body)
        assert answer.status_code == 200
    assert filled.search("new note")["returned"] == 1


def test_other_folders_are_refused_whether_they_exist_or_not(
    filled: Running, tmp_path: Path
) -> None:
    texts = set()
    for name in ("home", "nothing"):
        (tmp_path / "home").mkdir(exist_ok=True)
        answer = filled.client.post("/ingest", json={"paths": [str(tmp_path / name)]})
        validator("error.v1").validate(answer.json())
        assert (answer.status_code, answer.json()["code"]) == (403, "path_refused")
        texts.add(answer.json()["message"].replace(name, ""))
    assert len(texts) == 1


def test_paths_have_a_bound(filled: Running) -> None:
    answer = filled.client.post("/ingest", json={"paths": ["."] * 200_000})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert "the limit is 1,000" in answer.json()["message"]


def test_a_path_that_is_sent_twice_is_read_once(filled: Running, tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    paths = [str(folder), str(folder / "notes" / ".."), str(folder)]
    answer = filled.client.post("/ingest", json={"paths": paths})
    assert (answer.status_code, answer.json()["unchanged"]) == (200, 3)


def test_paths_are_not_looked_at_for_a_client_that_has_gone(
    filled: Running, tmp_path: Path
) -> None:
    deadline = Deadline()
    deadline.cancel(ClientGone("the client has gone"))
    with pytest.raises(ClientGone):
        ingest._allowed_paths([str(tmp_path / "lib")], filled.app.state.context, deadline)


def test_a_file_that_was_ingested_alone_does_not_open_its_folder(
    serve: Serve, tmp_path: Path
) -> None:
    """An upload does not make its folder available either."""
    running = serve()
    uploads, alone = running.kb.path.parent / "uploads", tmp_path / "alone"
    for folder in (uploads, alone):
        folder.mkdir()
        (folder / "private.md").write_text("# Secret\n", encoding="utf-8")
        (folder / "a.md").write_text("# A\n", encoding="utf-8")
    running.kb.ingest(alone / "a.md")
    assert put(running, "b.md", b"# B\n\nText.\n").status_code == 201
    for folder in (uploads, alone):
        for path in (folder, folder / "private.md", folder / ".." / folder.name):
            answer = running.client.post("/ingest", json={"paths": [str(path)]})
            assert (answer.status_code, answer.json()["code"]) == (403, "path_refused")
    for path in (uploads / "b.md", alone / "a.md"):
        assert running.client.post("/ingest", json={"paths": [str(path)]}).status_code == 200
    assert running.client.post("/ingest", json={}).status_code == 200
    assert running.search("Secret")["returned"] == 0


@pytest.mark.skipif(os.name == "nt", reason="links need leave there")
def test_a_link_out_of_an_allowed_folder_is_refused(serve: Serve, tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    for folder in (outside, inside):
        folder.mkdir()
    (outside / "a.md").write_text("# Secret\n", encoding="utf-8")
    (inside / "link").symlink_to(outside)
    running = serve(ingest_from=(inside,))
    for path in (inside / "link", inside / "link" / "a.md", inside / ".." / "outside"):
        assert running.client.post("/ingest", json={"paths": [str(path)]}).status_code == 403
    running.client.post("/ingest", json={"paths": [str(inside)]})
    assert running.search("Secret")["returned"] == 0


def test_clients_may_not_ingest_a_detached_folder(serve: Serve, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "a.md").write_text("# Secret\n", encoding="utf-8")
    exported = io.BytesIO()
    with KnowledgeBase(tmp_path / "theirs.sqlite") as theirs:
        theirs.ingest(private)
        theirs.export(exported)
    running = serve()
    running.kb.import_(io.BytesIO(exported.getvalue()))
    (private / "a.md").write_text("# Hunter2\n", encoding="utf-8")
    for path in (private, private / "a.md"):
        refused = running.client.post("/ingest", json={"paths": [str(path)]})
        assert (refused.status_code, refused.json()["code"]) == (403, "path_refused")
    opened = running.client.get("/passages", params={"uri": "private/a.md"}).json()
    validator("passage.v1").validate(opened)
    assert (opened["state"], opened["text"]) == ("stale", "# Secret")
    assert "kb attach private FOLDER" in opened["reason"]
    running.client.post("/ingest", json={})
    assert running.search("Hunter2")["returned"] == 0


@pytest.mark.skipif(os.name == "nt", reason="links need leave there")
def test_a_root_that_a_link_has_replaced_allows_nothing(serve: Serve, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root, outside):
        folder.mkdir()
        (folder / "a.md").write_text(f"# {folder.name}\n", encoding="utf-8")
    running = serve()
    running.kb.ingest(root)
    root.rename(tmp_path / "aside")
    root.symlink_to(outside)
    for path in (root, outside, root / "a.md"):
        assert running.client.post("/ingest", json={"paths": [str(path)]}).status_code == 403
    running.client.post("/ingest", json={})
    assert running.search("outside")["returned"] == 0


@pytest.mark.parametrize("body", [{"paths": ["\0"]}, {"paths": [""]}, {"paths": "x"}, {"path": []}])
def test_invalid_paths(filled: Running, body: dict[str, Any]) -> None:
    assert filled.client.post("/ingest", json=body).status_code == 422


# --- vectors, and progress ------------------------------------------------------------------------


def events(running: Running, until: Callable[[str, Any], bool]) -> Iterator[tuple[str, Any]]:
    """The events up to the expected one."""
    with running.client.stream("GET", "/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                data = json.loads(line.removeprefix("data: "))
                yield name, data
                if until(name, data):
                    return


def test_new_documents_are_embedded_automatically(serve: Serve) -> None:
    running = serve(encoder=Weightless())
    put(running, "a.md", b"# Drift\n\nThe clock drifts.\n")
    told = list(
        events(running, lambda name, data: name == "embedding" and not running.kb.pending())
    )
    for name, data in told:
        if name == "embedding":
            validate(data)
    found = running.search("clock drift", mode="vector")
    assert (found["returned"], found["degraded"]) == (1, [])


def test_a_failing_model_is_reported_and_search_uses_words(serve: Serve) -> None:
    class Broken(Weightless):
        def encode(self, *args: Any, **options: Any) -> Any:
            raise RuntimeError("no memory")

    running = serve(encoder=Broken())
    put(running, "a.md", b"# Drift\n\nThe clock drifts.\n")
    told = list(events(running, lambda name, data: data.get("state") == "failed"))
    assert "no memory" in told[-1][1]["error"]
    found = running.search("clock")
    assert found["returned"] == 1
    assert found["degraded"]


def test_ingest_reports_progress(serve: Serve, library: Callable[..., Path]) -> None:
    folder = library(FILES)
    running = serve(ingest_from=(folder,))
    running.client.post("/ingest", json={"paths": [str(folder)]})
    (last,) = (data for name, data in events(running, lambda name, _: name == "ingest")
               if name == "ingest")  # fmt: skip
    assert last["stage"] == "done"


def test_vectors_can_be_requested(serve: Serve) -> None:
    running = serve(encoder=Weightless())
    answer = running.client.post("/embed", json={"retry": True})
    assert answer.status_code == 202
    validate(answer.json())


def test_the_number_of_event_streams_is_limited(filled: Running) -> None:
    streams = []
    try:
        for _ in range(32):
            stream = filled.client.stream("GET", "/events")
            streams.append(stream)
            assert stream.__enter__().status_code == 200
        with filled.client.stream("GET", "/events") as refused:
            assert refused.status_code == 503
            assert refused.headers["retry-after"]
    finally:
        for stream in streams:
            stream.__exit__(None, None, None)
