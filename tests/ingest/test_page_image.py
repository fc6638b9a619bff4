"""Pages of a PDF as images."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb.deadline import Deadline
from kb.errors import Cancelled, DeadlineExceeded, InvalidRequest, NotFound
from kb.ingest import page_image as module
from kb.ingest.page_image import page_image

PDF = (Path(__file__).parents[2] / "examples/library/papers/mooring-study.pdf").read_bytes()


def test_a_page_and_the_places_of_a_passage() -> None:
    passage = "Abstract. On 27 April 2026 a spring tide pulled tp-11 under"
    image = page_image(PDF, 1, passage, width=400)
    assert base64.b64decode(image["image"]).startswith(b"\x89PNG")
    assert (image["width"], image["pages"]) == (400, 4)
    assert image["boxes"]
    for left, top, wide, high in image["boxes"]:
        assert 0 <= left < left + wide <= 1
        assert 0.1 < top < top + high < 0.4  # the abstract is in the upper half


def test_a_passage_of_another_page_has_no_place() -> None:
    assert page_image(PDF, 2, "zzzz qqqq xxxx yyyy", width=200)["boxes"] == []


def test_a_page_that_does_not_exist() -> None:
    with pytest.raises(NotFound, match="page 99"):
        page_image(PDF, 99)


@pytest.mark.parametrize("data", [b"", b"%PDF-1.4 nothing", PDF[:2000], b"\0" * 5000])
def test_a_broken_file(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        page_image(data, 1)


def test_a_file_larger_than_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has not read all of it when the deadline is checked for the first time."""
    monkeypatch.setattr(module, "_POLL_S", 0.001)
    padding = b"%" + b" " * 500_000 + b"\n"
    assert page_image(_pdf("0 0 100 100", padding), 1)["pages"] == 1


def _pdf(box: str, content: bytes = b"") -> bytes:
    """A PDF with one page."""
    return (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[" + box.encode() + b"]/Contents 4 0 R>>endobj\n"
        b"4 0 obj<</Length " + str(len(content)).encode() + b">>stream\n" + content +
        b"\nendstream endobj\ntrailer<</Root 1 0 R>>\n"
    )  # fmt: skip


# Each curve fills most of the page, so that drawing all of them takes minutes.
SLOW = _pdf("0 0 612 792", b"0 0 m 600 700 l 300 20 100 600 50 50 c h f " * 600_000)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that are started."""
    started: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[call-overload]
            self.environment = options.get("env") or {}
            started.append(self)

    monkeypatch.setattr(module.subprocess, "Popen", Recorded)  # type: ignore[attr-defined]
    yield started
    assert all(process.returncode is not None for process in started)


def test_the_deadline_stops_the_process(processes: list[subprocess.Popen[bytes]]) -> None:
    with pytest.raises(DeadlineExceeded), Deadline(0.5):
        page_image(SLOW, 1)
    assert len(processes) == 1
    assert processes[0].returncode != 0


def test_a_client_that_disconnects_stops_the_process(
    processes: list[subprocess.Popen[bytes]],
) -> None:
    limit = Deadline()
    limit.cancel()
    with pytest.raises(Cancelled), limit:
        page_image(SLOW, 1)
    assert processes[0].returncode != 0


def test_a_page_that_takes_too_long_without_a_deadline(
    processes: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.5)
    with pytest.raises(InvalidRequest, match="cannot be shown"):
        page_image(SLOW, 1)
    assert processes[0].returncode != 0


def test_the_process_gets_no_secrets(
    processes: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_TOKEN", "secret")
    page_image(_pdf("0 0 100 100"), 1)
    environment = vars(processes[0])["environment"]
    assert environment
    assert "KB_TOKEN" not in environment


def test_the_shape_of_a_page_is_bounded() -> None:
    with pytest.raises(InvalidRequest, match="cannot be shown"):
        page_image(_pdf("0 0 0.001 1000000"), 1)
    image = page_image(_pdf("0 0 10 2000"), 1)
    assert max(image["width"], image["height"]) <= 10_000


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_the_process_ends_with_its_parent() -> None:
    """The parent holds the other end of the output pipe."""
    command = [sys.executable, "-m", "kb.ingest.page_image"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()
