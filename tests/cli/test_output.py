"""The sheet that is written on: whom it has colour for, and what fits on it."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.cli.output import Page, columns, cut, has_colour


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
def test_colour(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: bool) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert has_colour(Terminal()) is expected
    assert has_colour(io.StringIO()) is ("FORCE_COLOR" in variables and expected)


@pytest.mark.parametrize(("said", "width"), [("80", 80), ("300", 120), ("20", None)])
def test_width(monkeypatch: pytest.MonkeyPatch, said: str, width: int | None) -> None:
    monkeypatch.setenv("COLUMNS", said)
    assert Page.of(Terminal()).width == width
    assert Page.of(io.StringIO()).width is None


@given(st.text(alphabet="ab東\u0301", max_size=30), st.integers(-2, 40))
def test_what_is_cut_fits(text: str, width: int) -> None:
    shown = cut(text, width)
    assert columns(shown) <= max(width, 0)
    assert shown == text or width <= 0 or shown.endswith("…")


@pytest.mark.skipif(sys.platform != "linux", reason="its rule is kept by hand on Linux only")
@pytest.mark.parametrize("value", [None, "", "/somewhere/else"])
def test_the_user_folders_are_those_of_platformdirs(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    import platformdirs

    from kb.config import store_path, user_file

    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert user_file() == Path(platformdirs.user_config_dir("kb")) / "config.toml"
    assert store_path(start=Path(os.sep)) == Path(platformdirs.user_data_dir("kb")) / "kb.sqlite"
