"""Each store in a folder has its own uploads: which store owns `uploads`, and which gets another
folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from kb import KnowledgeBase
from kb.ingest import upload_receipts
from kb.library.ingestion import ingest_upload
from kb.server.api import create_app
from tests.server.conftest import HEADERS

GOOD = b"# Barnacles\n\nThey settle on the hull.\n"

Open = Callable[[str], TestClient]


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Open]:
    """`open_store("a.sqlite")`: a client of a server over that store. All are in one folder."""
    with ExitStack() as stack:

        def opened(name: str) -> TestClient:
            kb = stack.enter_context(KnowledgeBase(tmp_path / name, encoder="none"))
            kb.create()
            return stack.enter_context(
                TestClient(create_app(kb), base_url="http://localhost", headers=HEADERS)
            )

        yield opened


def _text(client: TestClient, doc_path: str) -> str:
    answer = client.get("/passages", params={"uri": doc_path, "quiet": True})
    assert answer.status_code == 200, answer.text
    text: str = answer.json()["text"]
    return text


def _document(client: TestClient, name: str) -> str:
    """The path of the only document with this file name."""
    listed = client.get("/documents").json()["documents"]
    (path,) = [each["doc_path"] for each in listed if each["doc_path"].endswith(f"/{name}")]
    assert isinstance(path, str)
    return path


def _make_legacy(folder: Path) -> None:
    """Create the upload folder as earlier versions did: shared by all stores, without an owner."""
    (folder / "uploads" / ".kb-uploads").mkdir(parents=True)


def _upload_as_before(client: TestClient, name: str, data: bytes) -> None:
    """Upload into the folder `uploads`, whichever store has used it."""
    kb = client.app.state.context.kb  # type: ignore[attr-defined]
    target = kb.path.parent / "uploads" / name
    target.write_bytes(data)
    work = target.parent / ".kb-uploads"
    for each in work.glob(f"{upload_receipts.name_digest(name)}.*"):
        each.unlink()
    digest = upload_receipts.new_hash()
    digest.update(data)
    upload_receipts.receipt_path(work, name, digest.hexdigest()).touch()
    ingest_upload(kb, target)


@pytest.mark.parametrize("names", [("a.sqlite", "b.sqlite"), ("kb.sqlite", "a"), ("a.db", "a")])
def test_two_stores_in_one_folder_share_no_uploads(open_store: Open, names: list[str]) -> None:
    first, second = map(open_store, names)
    assert first.put("/uploads/report.md", content=GOOD).status_code == 201
    assert second.put("/uploads/report.md", content=b"# B\n\nOther text.\n").status_code == 201
    first.post("/ingest", json={})
    assert "hull" in _text(first, _document(first, "report.md"))
    assert second.delete(f"/documents/{_document(second, 'report.md')}").status_code == 200
    first.post("/ingest", json={})
    assert "hull" in _text(first, _document(first, "report.md"))


def test_a_copied_store_leaves_the_uploads_of_the_original_alone(
    open_store: Open, tmp_path: Path
) -> None:
    with KnowledgeBase(tmp_path / "a.sqlite", encoder="none") as kb:
        with TestClient(create_app(kb), base_url="http://localhost", headers=HEADERS) as client:
            assert client.put("/uploads/a.md", content=GOOD).status_code == 201
        kb.backup(tmp_path / "copy.sqlite")
    original, copy = open_store("a.sqlite"), open_store("copy.sqlite")
    path = _document(original, "a.md")
    assert copy.delete(f"/documents/{path}").status_code == 200
    assert copy.put("/uploads/a.md", content=b"# Copy\n\nOther text.\n").status_code == 201
    original.post("/ingest", json={})
    assert "hull" in _text(original, path)


def test_a_store_keeps_the_folder_that_it_has_used(open_store: Open, tmp_path: Path) -> None:
    """Before, every store used `uploads`, and no file named its owner."""
    _make_legacy(tmp_path)
    client = open_store("notes.sqlite")
    _upload_as_before(client, "a.md", GOOD)
    _upload_as_before(client, "b.md", GOOD)
    newer = GOOD.replace(b"hull", b"keel")
    assert client.put("/uploads/a.md", content=newer).status_code == 201
    assert (tmp_path / "uploads" / "a.md").read_bytes() == newer
    assert client.delete("/documents/uploads/b.md").status_code == 200
    assert not (tmp_path / "uploads" / "b.md").exists()
    assert client.delete("/documents/uploads/a.md").status_code == 200
    assert client.put("/uploads/c.md", content=GOOD).status_code == 201
    assert (tmp_path / "uploads" / "c.md").exists()


def test_the_first_request_of_a_store_that_has_used_the_folder_may_be_a_removal(
    open_store: Open, tmp_path: Path
) -> None:
    _make_legacy(tmp_path)
    client = open_store("notes.sqlite")
    _upload_as_before(client, "a.md", GOOD)
    assert client.delete("/documents/uploads/a.md").status_code == 200
    assert not (tmp_path / "uploads" / "a.md").exists()


@pytest.mark.parametrize("names", [("a.sqlite", "b.sqlite"), ("kb.sqlite", "b.sqlite")])
def test_stores_that_have_shared_a_folder_are_separated(
    open_store: Open, tmp_path: Path, names: list[str]
) -> None:
    _make_legacy(tmp_path)
    first, second = map(open_store, names)
    _upload_as_before(first, "a.md", GOOD)
    _upload_as_before(second, "b.md", GOOD)
    other = b"# Other\n\nText.\n"
    assert first.put("/uploads/a.md", content=other).status_code == 201
    assert first.put("/uploads/b.md", content=other).status_code == 409
    assert second.put("/uploads/a.md", content=GOOD).status_code == 201
    assert second.delete("/documents/uploads/b.md").status_code == 200
    assert (tmp_path / "uploads" / "a.md").read_bytes() == other
    assert (tmp_path / "uploads" / "b.md").read_bytes() == GOOD


def test_a_store_that_has_ingested_the_uploads_of_another_does_not_take_them(
    open_store: Open, tmp_path: Path
) -> None:
    _make_legacy(tmp_path)
    first, second = open_store("kb.sqlite"), open_store("b.sqlite")
    _upload_as_before(first, "a.md", GOOD)
    second.app.state.context.kb.ingest(tmp_path / "uploads" / "a.md")  # type: ignore[attr-defined]
    assert second.put("/uploads/a.md", content=b"# B\n\nText.\n").status_code == 201
    assert second.delete("/documents/uploads/a.md").status_code == 200
    assert (tmp_path / "uploads" / "a.md").read_bytes() == GOOD


def test_a_store_that_is_created_again_replaces_its_uploads(
    open_store: Open, tmp_path: Path
) -> None:
    with (
        KnowledgeBase(tmp_path / "a.sqlite", encoder="none") as kb,
        TestClient(create_app(kb), base_url="http://localhost", headers=HEADERS) as client,
    ):
        assert client.put("/uploads/a.md", content=GOOD).status_code == 201
    (tmp_path / "a.sqlite").unlink()
    newer = GOOD.replace(b"hull", b"keel")
    assert open_store("a.sqlite").put("/uploads/a.md", content=newer).status_code == 201
