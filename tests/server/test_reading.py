"""Routes of the document page."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.schemas import validate
from tests.server.conftest import Running, Serve

PAPERS = Path(__file__).parents[2] / "examples" / "library" / "papers"


def test_a_document_is_rendered(filled: Running) -> None:
    answer = filled.client.get("/renderings", params={"uri": "lib/notes/retry.md#L3"})
    shape = answer.json()
    validate(shape)
    assert shape["kind"] == "elements"
    assert shape["citation"]["start"] == 3
    assert {node["tag"] for node in shape["nodes"]} <= {"h2", "h3", "p", "ul", "table", "pre"}
    assert filled.client.get("/renderings", params={"uri": "lib/no.md"}).status_code == 404


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
    (folder / "x.png").write_bytes(b"png")
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
    assert base64.b64decode(image["image"]) == b"png"
    for path, status in (("../x.png", 404), ("a.md", 422), ("y.png", 404)):
        query = {"document": "lib/a.md", "path": path}
        assert running.client.get("/images", params=query).status_code == status
    query = {"document": "lib/a.md", "page": 1}
    assert running.client.get("/page-images", params=query).status_code == 422
    query = {"document": "lib/paper.pdf", "page": 99}
    assert running.client.get("/page-images", params=query).status_code == 404


@pytest.mark.parametrize("path", ["/read/lib/notes/retry.md", "/read/note:1", "/read/"])
def test_the_page_is_the_same_for_every_document(filled: Running, path: str) -> None:
    answer = filled.client.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "retry" not in answer.text
