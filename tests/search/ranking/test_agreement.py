"""Weights by agreement: lists, by name, as chunk ids, best first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.search.ranking.agreement import FIRST, mean_overlap, weigh_by_agreement

BASE = {"lexical": 0.15, "dense": 0.6, "sparse": 0.25}
ids = st.lists(st.integers(1, 60), unique=True, max_size=40)


def test_lists_that_share_some_count_in_full() -> None:
    lists = {"lexical": [1, 2, 3], "dense": [2, 3, 9], "sparse": [3, 2, 8]}
    assert weigh_by_agreement(BASE, lists).weights == BASE
    assert weigh_by_agreement(BASE, lists).rules == ()


def test_a_list_that_no_other_supports() -> None:
    """An example is the list of a model whose results are noise."""
    lists = {"lexical": list(range(20)), "dense": list(range(100, 120)), "sparse": list(range(20))}
    found = weigh_by_agreement(BASE, lists)
    assert found.weights["lexical"] == BASE["lexical"]
    assert found.weights["dense"] == pytest.approx(0.6 * 0.05**2)
    assert found.rules == ("dense shares 0 of its first 20 hits with others",)


def test_two_lists_cannot_identify_an_outlier() -> None:
    lists: dict[str, list[int]] = {"lexical": [1], "dense": [2], "sparse": []}
    assert weigh_by_agreement(BASE, lists).weights == BASE


def test_siblings_stand_in_for_each_other() -> None:
    words = weigh_by_agreement(BASE, {"lexical": [1], "dense": [1]}).weights
    terms = weigh_by_agreement(BASE, {"dense": [1], "sparse": [1]}).weights
    assert words == {"lexical": 0.25, "dense": 0.6}
    assert terms == {"dense": 0.6, "sparse": 0.25}


def test_the_larger_of_two_siblings_is_inherited_either_way() -> None:
    weights = {"lexical": 0.4, "dense": 0.5, "sparse": 0.1}
    assert weigh_by_agreement(weights, {"dense": [1], "sparse": [1]}).weights == {
        "dense": 0.5,
        "sparse": 0.4,
    }
    assert weigh_by_agreement(weights, {"lexical": [1], "dense": [1]}).weights == {
        "lexical": 0.4,
        "dense": 0.5,
    }


def test_a_list_without_a_weight_counts_once() -> None:
    assert weigh_by_agreement({}, {"lexical": [1], "dense": [1]}).weights == {
        "lexical": 1.0,
        "dense": 1.0,
    }


def test_an_empty_list_keeps_its_weight() -> None:
    """It cannot agree with any other list."""
    lists = {"lexical": [1, 2], "dense": [1, 2], "sparse": [1, 2], "other": []}
    assert weigh_by_agreement({**BASE, "other": 0.3}, lists).weights == {**BASE, "other": 0.3}


def test_some_agreement_counts_in_part() -> None:
    """One shared hit with each of the others: (1 + 0.1) / 2, squared."""
    lists = {"lexical": [1, 2, 9], "dense": [1, 3], "sparse": [1, 2, 9]}
    found = weigh_by_agreement(BASE, lists)
    assert found.weights["dense"] == pytest.approx(0.6 * 0.55**2)
    assert found.weights["lexical"] == BASE["lexical"]
    assert found.rules == ("dense shares 1 of its first 20 hits with others",)


def test_agreement_is_a_mean() -> None:
    lists = {"one": [1, 2, 3], "two": [1, 2], "three": [3, 4]}
    assert mean_overlap(lists) == {"one": 1.5, "two": 1.0, "three": 0.5}


def test_in_cjk_words_and_meaning_swap_weights() -> None:
    three = {"lexical": [1, 2], "dense": [1, 2], "sparse": [1, 2]}
    assert weigh_by_agreement(BASE, three, cjk=True).weights == {
        "lexical": 0.6,
        "dense": 0.15,
        "sparse": 0.25,
    }
    two = {"lexical": [1], "dense": [1]}
    assert weigh_by_agreement(BASE, two, cjk=True).weights == {"lexical": 0.6, "dense": 0.25}
    assert weigh_by_agreement(BASE, {"dense": [1]}, cjk=True).weights == {"dense": 0.6}


def test_in_cjk_a_larger_weight_of_words_stays() -> None:
    weights = {"lexical": 0.7, "dense": 0.3}
    assert weigh_by_agreement(weights, {"lexical": [1], "dense": [1]}, cjk=True).weights == weights


def test_a_profile_of_two_gives_nothing_away() -> None:
    weights = {"lexical": 0.3, "dense": 0.7}
    assert weigh_by_agreement(weights, {"lexical": [1], "dense": [1]}).weights == weights


def test_only_the_first_count() -> None:
    late = [*range(100, 100 + FIRST), 1, 2, 3]
    assert mean_overlap({"one": late, "other": [1, 2, 3]}) == {"one": 0.0, "other": 0.0}


@given(ids, ids, ids)
def test_no_weight_rises_and_none_is_lost(one: list[int], two: list[int], three: list[int]) -> None:
    weights = weigh_by_agreement(BASE, {"lexical": one, "dense": two, "sparse": three}).weights
    assert set(weights) == set(BASE)
    assert all(0.0 < weights[name] <= BASE[name] for name in BASE)


@given(ids, ids, ids)
def test_the_order_of_lists_does_not_matter(
    one: list[int], two: list[int], three: list[int]
) -> None:
    ahead = weigh_by_agreement(BASE, {"lexical": one, "dense": two, "sparse": three}).weights
    behind = weigh_by_agreement(BASE, {"sparse": three, "dense": two, "lexical": one}).weights
    assert ahead == pytest.approx(behind)
