from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.errors import ConfigError, InvalidRequest
from kb.search.profile_settings import ABOUT, KEYS, TABLES
from kb.search.profiles import BUILT_IN, Profile, resolve


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
    [{"top": 0}, {"top": "x"}, {"threshold": "x"}, {"match": "some"}, {"retrievers": "nosuch"}],
)
def test_values_are_checked(values: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        resolve("default", {}, values)


@pytest.mark.parametrize("mode", ["vector", "hybrid", "sparse", "nosuch"])
def test_a_mode_that_the_profile_does_not_have_is_refused(kb: KnowledgeBase, mode: str) -> None:
    kb.add("x")
    with pytest.raises(InvalidRequest) as error:
        kb.search("x", profile="lexical", mode=mode)
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


# --- every field can be set -----------------------------------------------------------------------

GOOD: dict[str, tuple[object, object]] = {
    "retrievers": ("dense,lexical", ("lexical", "dense")),
    "match": ("all", "all"),
    "candidates": ("3x", "3x"),
    "fusion": ("rrf", "rrf"),
    "k": ("10", 10.0),
    "normalisation": ("minmax", "minmax"),
    "adaptive": ("true", True),
    "agreement": ("true", True),
    "coverage": ("true", True),
    "word_match": ("true", True),
    "complete": ("false", False),
    "literal": ("true", True),
    "min_score": ("0.2", 0.2),
    "boosts": ("decay,type", ("type", "decay")),
    "half_life_days": ("7", 7.0),
    "rerank": ("colbert", "colbert"),
    "rerank_candidates": ("50", 50),
    "rerank_blend": ("0.25", 0.25),
    "threshold": ("none", None),
    "min_relevance": ("none", None),
    "calibrated": ("yes", True),
    "collapse": ("false", False),
    "per_document": ("0", 0),
    "group": ("true", True),
    "top": ("3", 3),
}
BAD: dict[str, tuple[object, ...]] = {
    "retrievers": ("", "words", 3),
    "candidates": ("0", "x", "3.5", "-1", "1000000000", "１０", 10**5000),
    "fusion": ("none", "sum"),
    "k": ("0", "-1", "nan", "many", 10**400, 10**5000, "1e7", "１０", "1_000", [], b"1"),
    "normalisation": ("softmax",),
    "complete": ("maybe",),
    "adaptive": ("maybe", 2),
    "agreement": ("maybe", 2),
    "min_score": ("inf", "x", True, 10**400, "-1e308", "０.５"),
    "threshold": (10**400, "1e308", "１"),
    "boosts": ("fame",),
    "half_life_days": ("0", "soon", "1e308", "３０"),
    "collapse": ("maybe",),
    "per_document": ("-1", "some", 1.5, True, 10**5000),
    "group": ("2", "１", 10**5000),
    "top": ("0", "1.5", 2.5, True, "１０", "1_0", "9" * 5000, 10**5000),
    "rerank": ("", "bert", "better", True, 1),
    "rerank_candidates": ("0", "1001", "3x", "1.5", True),
    "rerank_blend": ("-0.1", "1.01", "nan", "half", True),
    "weights.dense": ("-1", "x", "1e308", 1_000_001, "１"),
    "weights.fame": ("1",),
    "weights": ("1",),
    "type_weights.film": ("1",),
    "type_weights.decision": ("1e308", 10**400),
}


@pytest.mark.parametrize("key", GOOD)
def test_every_field_can_be_set(key: str) -> None:
    said, expected = GOOD[key]
    assert getattr(resolve("memory", {}, {key: said}), key) == expected


def test_every_field_has_a_setting() -> None:
    fields = {item.name for item in dataclasses.fields(Profile)} - {"name", "summary"}
    assert fields == set(KEYS) | set(TABLES) == set(GOOD) | set(TABLES) == set(ABOUT)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(key, value, id=f"{key}-{at}")
        for key in BAD
        for at, value in enumerate(BAD[key])
    ],
)
def test_bad_values_are_refused_with_a_hint(key: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as error:
        resolve("memory", {}, {key: value})
    assert error.value.hint


def test_entries_of_tables() -> None:
    changed = resolve("memory", {}, {"weights.dense": "0.5", "type_weights.lesson": 3})
    assert changed.weights == {"lexical": 0.3, "dense": 0.5}
    assert changed.type_weights["lesson"] == 3.0
    nested = resolve("memory", {"memory": {"weights": {"dense": 0.5}}})
    assert nested.weights == {"lexical": 0.3, "dense": 0.5}
    assert resolve("memory", {}).weights == {"lexical": 0.3, "dense": 0.7}


def test_names_that_the_seed_has_for_them() -> None:
    said = {"max_results": 3, "half_life": 7, "vector_weight": 0.6, "keyword_weight": 0.4}
    changed = resolve("memory", {}, said)
    assert (changed.top, changed.half_life_days) == (3, 7.0)
    assert changed.weights == {"dense": 0.6, "lexical": 0.4}


def test_profiles_as_the_contract_has_them() -> None:
    notes, memory, knowledge = (resolve(name, {}) for name in ("notes", "memory", "knowledge"))
    assert (notes.fusion, notes.k, notes.candidates_for(10)) == ("rrf", 60.0, 30)
    assert memory.weights == {"dense": 0.7, "lexical": 0.3}
    assert (memory.min_score, memory.boosts, memory.half_life_days) == (0.1, ("decay",), 30.0)
    assert (knowledge.fusion, knowledge.boosts) == ("rrf", ("type", "access"))
    assert (knowledge.candidates_for(10), memory.top, knowledge.top) == (30, 10, 10)
    assert resolve("default", {}).candidates_for(10) == 100
    assert resolve("default", {}).candidates_for(500) == 100  # further ones are appended
    for profile in BUILT_IN.values():
        assert (profile.match == "any") == (profile.mode == "hybrid")


def test_only_settings_with_an_effect_are_shown() -> None:
    assert set(resolve("lexical", {}).settings()) == {
        "summary", "retrievers", "match", "min_score", "threshold", "min_relevance", "top",
    }  # fmt: skip
    assert resolve("memory", {}).settings()["weights"] == {"lexical": 0.3, "dense": 0.7}
    assert "k" not in resolve("memory", {}).settings()


@pytest.mark.parametrize("key", ["foo", "weights", "weights.fame", "type_weights.film"])
def test_an_unknown_setting_lists_all_there_are(key: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        resolve("notes", {}, {key: "1"})
    assert error.value.message == f"unknown setting {key} of profile notes"
    assert error.value.hint.startswith("settings: retrievers, match, ")
    assert (
        "weights.lexical, weights.dense, weights.sparse, type_weights.decision" in error.value.hint
    )


@pytest.mark.parametrize(
    "settings", [[("k", 1)], "k=1", 5, {1: 2}, {"foo": {"bar": 1}}, {"foo": {}}]
)
def test_invalid_settings(kb: KnowledgeBase, settings: Any) -> None:
    kb.add("x")
    with pytest.raises(InvalidRequest) as error:
        kb.search("x", settings=settings)
    assert error.value.hint


@pytest.mark.parametrize("number", ["1", " 1.0 ", "+1e0", ".1e1", 1, 1.0, Fraction(1)])
def test_numbers_as_they_are_written(number: object) -> None:
    assert resolve("memory", {}, {"k": number}).k == 1.0
