"""Where the store is: one table of rules for the commands and for the socket client."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kb.config import user_file
from kb.locations import store_path
from kb.paths import find_store

FOLDERS = ("made/.kb", "made/deep", "data", "folder")


@pytest.mark.parametrize(
    ("given", "variable", "where", "expected"),
    [
        ("s.sqlite", "v.sqlite", "made", "made/s.sqlite"),
        ("s.db", None, ".", "s.db"),
        (".db", None, ".", ".db/kb.sqlite"),
        ("folder", None, ".", "folder/kb.sqlite"),
        ("made", None, ".", "made/.kb/kb.sqlite"),
        ("made/", None, ".", "made/.kb/kb.sqlite"),
        ("made/.kb", None, ".", "made/.kb/kb.sqlite"),
        ("made/.kb/", None, ".", "made/.kb/kb.sqlite"),
        ("~/x", None, ".", "home/x/kb.sqlite"),
        ("file", None, ".", "file"),
        (None, "v.sqlite", "made", "made/v.sqlite"),
        (None, "made", ".", "made/.kb/kb.sqlite"),
        (None, "", "made", "made/.kb/kb.sqlite"),
        ("", "v.sqlite", "made", "made/.kb/kb.sqlite"),
        (None, None, "made", "made/.kb/kb.sqlite"),
        (None, None, "made/deep", "made/.kb/kb.sqlite"),
        (None, None, "data", "user/kb/kb.sqlite"),
    ],
)
def test_the_store_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str | None,
    variable: str | None,
    where: str,
    expected: str,
) -> None:
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path / where)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user"))
    elif expected.startswith("user"):
        pytest.skip("the user data folder is platformdirs' own")
    monkeypatch.delenv("KB_STORE", raising=False)
    if variable is not None:
        monkeypatch.setenv("KB_STORE", variable)
    assert store_path(given) == tmp_path / expected
    assert Path(find_store(given)) == tmp_path / expected


def test_the_search_for_a_store_starts_where_the_caller_says(tmp_path: Path) -> None:
    (tmp_path / "project" / ".kb").mkdir(parents=True)
    (tmp_path / "project" / "src").mkdir()
    expected = tmp_path / "project" / ".kb" / "kb.sqlite"
    assert store_path(start=tmp_path / "project" / "src") == expected


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere platformdirs itself is used")
@pytest.mark.parametrize("value", [None, "", "/somewhere/else"])
def test_user_folders_are_those_of_platformdirs(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    import platformdirs

    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert user_file() == Path(platformdirs.user_config_dir("kb")) / "config.toml"
    assert store_path(start=Path(os.sep)) == Path(platformdirs.user_data_dir("kb")) / "kb.sqlite"
