"""Long documents are rendered in a parser process, under limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.deadline import Deadline
from kb.errors import Cancelled, DeadlineExceeded, ParserUnavailable
from kb.ingest import parser_pool
from kb.library import rendering, rendering_process
from kb.library.rendering_process import render_within_limits

LONG = "# Title\n\n" + "Some *words*, `code` and a [link](b.md).\n\n" * 1000
# Takes quadratic time: a minute at this length.
NESTED = "[" * 250_000 + "]" * 250_000


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    parser_pool.close()


def test_a_long_document_is_rendered_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = rendering.render("lib/a.md", "markdown", LONG)
    monkeypatch.setattr(rendering_process, "render", None)
    assert render_within_limits("lib/a.md", "markdown", LONG) == expected
    assert expected.kind == "elements"


def test_a_short_document_needs_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_pool, "extract_text", None)
    assert render_within_limits("lib/a.md", "markdown", "# Title\n").kind == "elements"


@pytest.mark.parametrize("limit", [{"timeout_s": 0.1}, {"output_bytes": 1000}])
def test_a_document_beyond_the_limits_is_shown_as_lines(
    monkeypatch: pytest.MonkeyPatch, limit: dict[str, float]
) -> None:
    limits = replace(rendering_process._LIMITS, **limit)  # type: ignore[arg-type]
    monkeypatch.setattr(rendering_process, "_LIMITS", limits)
    text = NESTED if "timeout_s" in limit else LONG * 10
    assert render_within_limits("lib/a.md", "markdown", text).kind == "lines"


def test_without_a_process_a_document_is_shown_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ParserUnavailable("no process", "")

    monkeypatch.setattr(parser_pool, "extract_text", fail)
    assert render_within_limits("lib/a.md", "markdown", LONG).kind == "lines"


def test_a_client_that_disconnects_stops_the_process() -> None:
    request = Deadline()
    request.cancel()
    with pytest.raises(Cancelled), request:
        render_within_limits("lib/a.md", "markdown", NESTED)
    assert not parser_pool._POOL._busy


def test_the_deadline_of_the_request_stops_it() -> None:
    with pytest.raises(DeadlineExceeded), Deadline(0.0):
        render_within_limits("lib/a.md", "markdown", NESTED)
    assert not parser_pool._POOL._busy


def test_images_of_a_long_document(
    kb: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding out what a document shows is as much work as rendering it."""
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "long.md").write_text(LONG + "![x](x.gif)\n")
    (folder / "x.gif").write_bytes(b"GIF89a")
    kb.ingest(folder)
    monkeypatch.setattr(rendering_process, "render", None)
    monkeypatch.setattr(rendering, "render", None)
    for _ in range(2):
        assert kb.image("lib/long.md", "x.gif") == ("image/gif", b"GIF89a")
