"""Pages of a PDF as images."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kb.errors import InvalidRequest, NotFound
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
