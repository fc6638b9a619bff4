"""Output on terminals and in files: color, width and wrapping."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.cli.output import Console, display_width, has_color, truncate


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, True),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_color(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: bool) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert has_color(Terminal()) is expected
    assert has_color(io.StringIO()) is ("FORCE_COLOR" in variables and expected)


@pytest.mark.parametrize(("said", "width"), [("80", 80), ("300", 120), ("20", None)])
def test_width(monkeypatch: pytest.MonkeyPatch, said: str, width: int | None) -> None:
    monkeypatch.setenv("COLUMNS", said)
    assert Console.of(Terminal()).width == width
    assert Console.of(io.StringIO()).width is None


@given(st.text(alphabet="ab東\u0301", max_size=30), st.integers(-2, 40))
def test_truncated_text_fits(text: str, width: int) -> None:
    shown = truncate(text, width)
    assert display_width(shown) <= max(width, 0)
    assert shown == text or width <= 0 or shown.endswith("…")
