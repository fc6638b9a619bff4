from __future__ import annotations

from kb.ingest.parser_support.sections import line_block, paragraphs, trim_range
from kb.types import Block, Span

LINES = ["", "one", "two", "", "", "three", ""]


def test_trimmed() -> None:
    assert trim_range(LINES, 0, 7) == (1, 6)
    assert trim_range(LINES, 3, 5) == (5, 5)


def test_paragraphs() -> None:
    assert list(paragraphs(LINES, 0, 7)) == [(1, 3), (5, 6)]
    assert list(paragraphs(LINES, 2, 3)) == [(2, 3)]


def test_line_block() -> None:
    assert line_block(LINES, 0, 4) == Block("one\ntwo", Span("line", 2, 3))
    assert line_block(LINES, 3, 5) is None
