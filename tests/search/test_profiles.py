from __future__ import annotations

from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.errors import ConfigError, InvalidRequest
from kb.search.profiles import resolve


def test_an_unknown_profile_lists_the_known_ones(kb: KnowledgeBase) -> None:
    kb.add("x")
    with pytest.raises(InvalidRequest) as error:
        kb.search("x", profile="nosuch")
    assert "default, lexical" in error.value.hint


def test_settings_change_a_profile_for_one_search(kb: KnowledgeBase) -> None:
    for number in range(5):
        kb.add(f"word {number}")
    assert kb.search("word", settings={"top": "2"}).returned == 2
    with pytest.raises(InvalidRequest, match="topp"):
        kb.search("word", settings={"topp": 2})


def test_a_profile_can_be_changed_and_added_in_the_file(kb: KnowledgeBase) -> None:
    for number in range(5):
        kb.add(f"word {number}")
    folder = kb.path.parent
    (folder / "config.toml").write_text(
        '[profiles.lexical]\nmatch = "all"\n[profiles.brief]\nbase = "lexical"\ntop = 1\n'
    )
    with KnowledgeBase(kb.path) as again:
        assert again.search("word nosuch", profile="lexical").returned == 0
        assert again.search("word", profile="brief").returned == 1


@pytest.mark.parametrize(
    "values",
    [{"top": 0}, {"top": "x"}, {"threshold": "x"}, {"match": "some"}, {"retrievers": "lexical"}],
)
def test_values_are_checked(values: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        resolve("default", {}, values)


@pytest.mark.parametrize("mode", ["vector", "hybrid", "sparse", "nosuch"])
def test_a_mode_that_the_profile_does_not_have_is_refused(kb: KnowledgeBase, mode: str) -> None:
    kb.add("x")
    with pytest.raises(InvalidRequest) as error:
        kb.search("x", mode=mode)
    assert "lexical" in error.value.hint


def test_top_must_be_positive(kb: KnowledgeBase) -> None:
    kb.add("x")
    for top in (0, -1):
        with pytest.raises(InvalidRequest, match="top"):
            kb.search("x", top=top)


def test_profile_tables_must_be_tables(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('profiles = "none"\n')
    with pytest.raises(ConfigError):
        KnowledgeBase(tmp_path / "kb.sqlite")
