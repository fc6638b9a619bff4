"""The search for settings: a coarse grid, then fine steps."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.evaluation.grid import COARSE_K, Setting, coarse, fit, neighbors, simplex
from kb.search.profiles import resolve
from kb.search.ranking.fusion import NORMALISATIONS

TWO, THREE = ("lexical", "dense"), ("lexical", "dense", "sparse")


@pytest.mark.parametrize(("parts", "step"), [(2, 0.2), (3, 0.2), (3, 0.1)])
def test_a_simplex_is_complete(parts: int, step: float) -> None:
    found = simplex(parts, step)
    units = round(1 / step)
    assert len(set(found)) == len(found) == comb(units + parts - 1, parts - 1)
    assert all(sum(each) == pytest.approx(1.0) for each in found)


def test_the_coarse_grid_has_every_kind() -> None:
    kinds = {(each.fusion, each.k, each.normalisation) for each in coarse(THREE)}
    assert kinds == {
        *(("convex", None, each) for each in NORMALISATIONS),
        *(("rrf", k, None) for k in COARSE_K),
    }


@given(st.sampled_from(coarse(THREE)), st.sampled_from([0.1, 0.05]))
def test_neighbors_are_valid_settings(setting: Setting, step: float) -> None:
    for each in neighbors(setting, step):
        assert sum(weight for _, weight in each.weights) == pytest.approx(1.0)
        assert all(weight >= 0 for _, weight in each.weights)
        made = resolve("default", {}, {"retrievers": THREE, **each.settings()})
        assert made.fusion == setting.fusion
        assert made.weights == pytest.approx(dict(each.weights))


@pytest.mark.parametrize("target", [0.05, 0.35, 0.65, 0.95])
def test_a_peak_is_found_between_the_coarse_points(target: float) -> None:
    def worth(setting: Setting) -> float:
        off = abs(dict(setting.weights)["dense"] - target)
        return -off - (0 if setting.normalisation == "minmax" else 1)

    found = fit(worth, TWO)
    assert found.normalisation == "minmax"
    assert dict(found.weights)["dense"] == pytest.approx(target)


def test_k_is_fitted_too() -> None:
    def worth(setting: Setting) -> float:
        return -1000.0 if setting.k is None else -abs(setting.k - 34)

    found = fit(worth, TWO)
    assert found.k == pytest.approx(34, abs=8)


def test_without_differences_the_coarse_setting_stays() -> None:
    asked: list[Setting] = []

    def worth(setting: Setting) -> float:
        asked.append(setting)
        return 0.0

    assert fit(worth, TWO) == coarse(TWO)[0]
