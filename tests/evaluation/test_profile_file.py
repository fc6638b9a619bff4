"""A fitted profile in a config.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from kb import config as settings
from kb.config import Config
from kb.errors import ConfigError, InvalidRequest
from kb.evaluation.grid import Setting
from kb.evaluation.profile_file import check_name, fitted_profile, to_toml, write_profile
from kb.search.profiles import resolve

FITTED = Setting("convex", (("lexical", 0.25), ("dense", 0.75)), normalisation="minmax").settings()
TABLE = fitted_profile("default", Config(), FITTED)
BEFORE = """# mine
[search]
default_top = 7   # few

[profiles.mine]  # an old fit
base = "notes"
k = 3

[profiles.mine.weights]
dense = 1

[profiles.mine-too]
base = "lexical"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "config.toml"


def test_a_new_file(path: Path) -> None:
    write_profile(path, "mine", TABLE)
    made = resolve("mine", settings.load(path.with_name("kb.sqlite")).profiles)
    assert (made.fusion, made.normalisation, made.adaptive) == ("convex", "minmax", False)
    assert (made.weight("lexical"), made.weight("dense")) == (0.25, 0.75)


def test_everything_else_stays(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(BEFORE)
    write_profile(path, "mine", TABLE)
    after = path.read_text()
    assert "default_top = 7   # few" in after
    assert "an old fit" not in after
    parsed = tomllib.loads(after)
    assert parsed["profiles"]["mine-too"] == {"base": "lexical"}
    assert parsed["profiles"]["mine"] == TABLE
    write_profile(path, "mine", TABLE)
    assert path.read_text() == after


def test_a_file_that_cannot_be_changed_safely_is_kept(path: Path) -> None:
    path.parent.mkdir()
    for before in (
        'profiles.mine.base = "notes"\n',
        "[profiles]\nmine = { k = 3 }\n",
        "not TOML [",
    ):
        path.write_text(before)
        with pytest.raises(ConfigError) as caught:
            write_profile(path, "mine", TABLE)
        assert to_toml("mine", TABLE) in caught.value.hint
        assert path.read_text() == before


def test_a_custom_profile_keeps_its_settings() -> None:
    custom = {"mine": {"base": "notes", "top": 5, "weights": {"sparse": 2.0, "dense": 9.0}}}
    table = fitted_profile("mine", Config(profiles=custom), FITTED)
    assert (table["base"], table["top"]) == ("notes", 5)
    assert table["weights"] == {"sparse": 2.0, "dense": 0.75, "lexical": 0.25}


def test_names() -> None:
    custom = Config(profiles={"mine": {}})
    check_name("new", "default", custom, force=False)
    check_name("default", "default", custom, force=False)
    check_name("mine", "default", custom, force=True)
    for name in ("mine", "lexical", "a b", "", "x]"):
        with pytest.raises(InvalidRequest):
            check_name(name, "default", custom, force=False)
