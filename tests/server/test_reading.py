"""Routes of the document page."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kb.server.memory import MemoryBudget, Reservation
from tests.schemas import validate
from tests.server.conftest import Running, Serve

PAPERS = Path(__file__).parents[2] / "examples" / "library" / "papers"
PNG = b"\x89PNG\r\n\x1a\n" + b"rest"


def test_a_document_is_rendered(filled: Running) -> None:
    answer = filled.client.get("/renderings", params={"uri": "lib/notes/retry.md#L3"})
    shape = answer.json()
    validate(shape)
    assert shape["kind"] == "elements"
    assert shape["citation"]["start"] == 3
    assert {node["tag"] for node in shape["nodes"]} <= {"h2", "h3", "p", "ul", "table", "pre"}
    assert filled.client.get("/renderings", params={"uri": "lib/no.md"}).status_code == 404


def test_a_long_document_is_rendered_under_limits(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "long.md").write_text("# A\n\n" + "Some *words* of it.\n\n" * 2000)
    (folder / "cells.md").write_text("|a|b|\n|-|-|\n" + "|x|y|\n" * 10_000)
    running = serve()
    running.kb.ingest(folder)
    long = running.client.get("/renderings", params={"uri": "lib/long.md"}).json()
    validate(long)
    assert long["outline"] == [{"level": 1, "id": "section-1", "text": "A"}]
    cells = running.client.get("/renderings", params={"uri": "lib/cells.md"}).json()
    validate(cells)
    assert (cells["kind"], cells["text"][:5]) == ("lines", "|a|b|")


def test_the_original(filled: Running) -> None:
    answer = filled.client.get("/originals/lib/notes/retry.md")
    assert answer.headers["content-disposition"] == "attachment"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.text.startswith("#") or answer.text.startswith("---")
    assert filled.client.get("/originals/lib/no.md").status_code == 404


def test_pages_and_images(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "paper.pdf").write_bytes((PAPERS / "mooring-study.pdf").read_bytes())
    (folder / "a.md").write_text("# A\n\n![x](x.png)\n")
    (folder / "x.png").write_bytes(PNG)
    running = serve()
    running.kb.ingest(folder)
    chunk = running.kb.chunks("lib/paper.pdf")[0]
    query: dict[str, str | int] = {
        "document": "lib/paper.pdf", "page": 1, "chunk": chunk.chunk_id,
    }  # fmt: skip
    page = running.client.get("/page-images", params=query).json()
    validate(page)
    assert page["boxes"]
    image = running.client.get("/images", params={"document": "lib/a.md", "path": "x.png"}).json()
    validate(image)
    assert base64.b64decode(image["image"]) == PNG
    query = {"document": "lib/a.md", "page": 1}
    assert running.client.get("/page-images", params=query).status_code == 422
    query = {"document": "lib/paper.pdf", "page": 99}
    assert running.client.get("/page-images", params=query).status_code == 404


def _image_status(running: Running, document: str, path: str) -> int:
    query = {"document": document, "path": path}
    return running.client.get("/images", params=query).status_code


def test_only_images_that_the_document_shows_are_read(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    for name in ("sub", "ignored", ".hidden"):
        (folder / name).mkdir(parents=True)
    (folder / ".kbignore").write_text("ignored/\n")
    paths = ("a b.png", "sub/deep.png", "ignored/i.png", ".hidden/h.png", "../out.png", "no.png")
    shown = "\n".join(f"![x](<{path}>)" for path in paths)
    (folder / "a.md").write_text(f"# A\n\n{shown}\n\n![x](text.png) ![x][ref]\n\n[ref]: r.gif\n")
    for path in (*paths[:-1], "private.png"):
        (folder / path).write_bytes(PNG)
    (folder / "r.gif").write_bytes(b"GIF89a")
    (folder / "text.png").write_text("root:x:0:0\n")
    running = serve()
    running.kb.ingest(folder)
    for path, status in (
        ("a b.png", 200), ("sub/deep.png", 200), ("r.gif", 200),
        ("private.png", 404), ("./a b.png", 404), ("a.md", 404), ("no.png", 404),
        ("ignored/i.png", 404), (".hidden/h.png", 404), ("../out.png", 404), ("text.png", 422),
    ):  # fmt: skip
        assert _image_status(running, "lib/a.md", path) == status, path


def test_a_file_that_was_ingested_alone_opens_only_the_images_it_shows(
    serve: Serve, tmp_path: Path
) -> None:
    folder = tmp_path / "home"
    (folder / "pictures").mkdir(parents=True)
    (folder / "todo.md").write_text("# Todo\n\n![x](x.png)\n")
    for path in ("x.png", "private.png", "pictures/p.png"):
        (folder / path).write_bytes(PNG)
    running = serve()
    running.kb.ingest(folder / "todo.md")
    for path, status in (("x.png", 200), ("private.png", 404), ("pictures/p.png", 404)):
        assert _image_status(running, "home/todo.md", path) == status, path


@pytest.mark.parametrize("path", ["/read/lib/notes/retry.md", "/read/note:1", "/read/"])
def test_the_page_is_the_same_for_every_document(filled: Running, path: str) -> None:
    answer = filled.client.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "retry" not in answer.text


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/renderings", {"uri": "notes/birds.md"}),
        ("/images", {"document": "notes/birds.md", "path": "heron.png"}),
    ],
)
def test_memory_is_reserved_at_once(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, params: dict[str, str]
) -> None:
    """A request that holds some memory does not wait for more: of the images of one page, which a
    browser loads together, some were refused."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "birds.md").write_text("![heron](heron.png)\n" + "The heron waits.\n" * 50)
    (folder / "heron.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 100)
    running = serve(max_memory_bytes=128 << 20)
    running.kb.ingest(folder)
    reserved: list[int] = []
    grow = MemoryBudget.wait_to_grow

    def recorded(budget: MemoryBudget, reservation: Reservation, size_bytes: int) -> None:
        reserved.append(size_bytes)
        grow(budget, reservation, size_bytes)

    monkeypatch.setattr(MemoryBudget, "wait_to_grow", recorded)
    assert running.client.get(path, params=params).status_code == 200
    assert len(reserved) == 1
