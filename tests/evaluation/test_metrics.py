"""Measures, by hand and against ir-measures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from math import log2

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import RR, P, R, Success, nDCG

from kb.errors import InvalidRequest
from kb.evaluation.metrics import (
    GAINS,
    Measure,
    distinct,
    ndcg,
    parse_measure,
    per_query,
    precision,
    recall,
    reciprocal_rank,
    success,
)

GRADES = {"a": 3, "b": 1, "c": 0, "d": -1, "e": 2}


# --- by hand --------------------------------------------------------------------------------------


def test_ndcg_linear_by_hand() -> None:
    found = 1 / log2(2) + 3 / log2(4)
    ideal = 3 / log2(2) + 2 / log2(3) + 1 / log2(4)
    assert ndcg(["b", "x", "a"], GRADES, 3) == pytest.approx(found / ideal)


def test_ndcg_exponential_by_hand() -> None:
    found = 1 / log2(2) + 7 / log2(4)
    ideal = 7 / log2(2) + 3 / log2(3) + 1 / log2(4)
    assert ndcg(["b", "x", "a"], GRADES, 3, "exp") == pytest.approx(found / ideal)


def test_the_ideal_is_cut_too() -> None:
    assert ndcg(["a"], GRADES, 1) == 1.0
    assert ndcg(["a"], GRADES) < 1.0


def test_recall_precision_and_rank_by_hand() -> None:
    ranked = ["x", "c", "b", "y", "a"]
    assert recall(ranked, GRADES, 3) == pytest.approx(1 / 3)
    assert recall(ranked, GRADES, 5) == pytest.approx(2 / 3)
    assert precision(ranked, GRADES, 5) == pytest.approx(2 / 5)
    assert reciprocal_rank(ranked, GRADES) == pytest.approx(1 / 3)
    assert reciprocal_rank(ranked, GRADES, 2) == 0.0
    assert success(ranked, GRADES, 2) == 0.0
    assert success(ranked, GRADES, 3) == 1.0


def test_precision_divides_by_k_even_if_fewer_are_found() -> None:
    assert precision(["a"], GRADES, 10) == pytest.approx(0.1)


def test_a_repeated_document_counts_once_and_takes_one_place() -> None:
    repeated, once = ["x", "x", "a", "x", "a", "b"], ["x", "a", "b"]
    assert ndcg(repeated, GRADES, 3) == ndcg(once, GRADES, 3)
    assert recall(repeated, GRADES, 3) == recall(once, GRADES, 3)
    assert precision(repeated, GRADES, 3) == precision(once, GRADES, 3)
    assert reciprocal_rank(repeated, GRADES) == 0.5
    assert (success(repeated, GRADES, 1), success(repeated, GRADES, 2)) == (0.0, 1.0)


@pytest.mark.parametrize("gain", GAINS)
def test_a_negative_grade_counts_as_none(gain: str) -> None:
    assert ndcg(["d", "a"], GRADES, 2, gain) == ndcg(["unjudged", "a"], GRADES, 2, gain)
    assert reciprocal_rank(["d", "a"], GRADES) == 0.5


@pytest.mark.parametrize("judgments", [{}, {"a": 0}, {"a": -1}])
def test_no_relevant_documents_count_as_zero(judgments: dict[str, int]) -> None:
    ranked = ["a", "b"]
    assert ndcg(ranked, judgments) == 0.0
    assert recall(ranked, judgments, 2) == 0.0
    assert precision(ranked, judgments, 2) == 0.0
    assert reciprocal_rank(ranked, judgments) == 0.0
    assert success(ranked, judgments, 2) == 0.0


def test_every_query_with_judgments_counts() -> None:
    rankings = {"found": ["a"], "unjudged": ["a"], "nothing relevant": ["a"]}
    qrels = {"found": {"a": 1}, "not asked": {"a": 1}, "nothing relevant": {"a": 0}}
    values = per_query(Measure("MRR"), rankings, qrels)
    assert values == {"found": 1.0, "not asked": 0.0, "nothing relevant": 0.0}


def test_the_order_is_kept() -> None:
    """A search has already broken its ties; ids do not break them again."""
    judged = {"z": 1, "a": 0}
    assert reciprocal_rank(["z", "a"], judged) == 1.0
    assert reciprocal_rank(["a", "z"], judged) == 0.5


def test_unjudged_documents_take_a_rank_without_gain() -> None:
    assert ndcg(["never judged", "a"], {"a": 1}, 2) == pytest.approx(1 / log2(3))
    assert precision(["never judged", "a"], {"a": 1}, 2) == 0.5
    assert recall(["never judged"], {"a": 1, "b": 1}, 2) == 0.0


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InvalidRequest, match="cut-off cannot be 0"):
        precision(["a"], GRADES, 0)
    with pytest.raises(InvalidRequest, match="'cubic'") as caught:
        ndcg(["a"], GRADES, 10, "cubic")
    assert caught.value.message.startswith("gain ")
    assert "linear, exp" in caught.value.hint


def test_gain_is_linear_by_default() -> None:
    rankings = {"q": ["b", "a"]}
    expected = ndcg(rankings["q"], GRADES, 10, "linear")
    assert expected != ndcg(rankings["q"], GRADES, 10, "exp")
    assert Measure("nDCG", 10).score(rankings["q"], GRADES) == expected
    assert per_query(Measure("nDCG", 10), rankings, {"q": GRADES}) == {"q": expected}


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("nDCG@10", "nDCG@10"),
        ("NDCG@10", "nDCG@10"),
        ("nDCG", "nDCG"),
        ("Recall@100", "Recall@100"),
        ("R@100", "Recall@100"),
        ("P@10", "Precision@10"),
        ("precision@10", "Precision@10"),
        (" MRR ", "MRR"),
        ("RR@5", "MRR@5"),
        ("MRR@10", "MRR@10"),
        ("success@5", "Success@5"),
    ],
)
def test_text_to_measure_and_back(text: str, canonical: str) -> None:
    measure = parse_measure(text)
    assert str(measure) == canonical
    assert parse_measure(str(measure)) == measure


@pytest.mark.parametrize(
    "text",
    [
        "",
        "MAP",
        "nDCG@",
        "nDCG@0",
        "nDCG@-1",
        "nDCG@1.5",
        "nDCG@٣",
        "Recall",
        "P",
        "success",
        "@10",
        "P@10@5",
    ],
)
def test_an_unknown_measure_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_measure(text)
    assert "Recall@k" in caught.value.hint
    assert caught.value.hint.endswith("Success@k, with k from 1")


@pytest.mark.parametrize(("name", "k"), [("MAP", 10), ("Recall", None), ("nDCG", 0), ("ndcg", 10)])
def test_an_invalid_measure_cannot_be_built(name: str, k: int | None) -> None:
    with pytest.raises(InvalidRequest):
        Measure(name, k)


# --- against ir-measures --------------------------------------------------------------------------

Qrels = dict[str, dict[str, int]]
Rankings = dict[str, list[str]]

EXPONENTIAL = {grade: 2**grade - 1 for grade in range(5)}
CUTS = (1, 3, 10)
THEIRS = {
    **{f"nDCG@{k}": nDCG @ k for k in CUTS},
    **{f"Recall@{k}": R @ k for k in CUTS},
    **{f"Precision@{k}": P @ k for k in CUTS},
    **{f"MRR@{k}": RR @ k for k in CUTS},
    **{f"Success@{k}": Success @ k for k in CUTS},
    "nDCG": nDCG,
    "MRR": RR,
}
THEIRS_EXPONENTIAL = {
    "nDCG": nDCG(gains=EXPONENTIAL),
    **{f"nDCG@{k}": nDCG(gains=EXPONENTIAL) @ k for k in CUTS},
}

doc_ids = st.sampled_from([f"d{number}" for number in range(15)])
query_ids = st.sampled_from([f"q{number}" for number in range(5)])
rankings_of_some = st.dictionaries(query_ids, st.lists(doc_ids), min_size=1)
scored_runs = st.dictionaries(
    query_ids, st.dictionaries(doc_ids, st.integers(0, 3).map(float)), min_size=1
)
judgments_of_some = st.dictionaries(doc_ids, st.integers(-2, 4))
qrels_of_some = st.dictionaries(query_ids, judgments_of_some, min_size=1)


def expect_equal(
    rankings: Rankings, qrels: Qrels, theirs: Mapping[str, ir_measures.Measure], gain: str
) -> None:
    """Compare a ranking as a run. A run has each document once: at its first rank."""
    run = {
        query_id: {doc_id: -float(rank) for rank, doc_id in enumerate(distinct(ranked))}
        for query_id, ranked in rankings.items()
    }
    expect_equal_run(rankings, run, qrels, theirs, gain)


def expect_equal_run(
    rankings: Rankings,
    run: Mapping[str, Mapping[str, float]],
    qrels: Qrels,
    theirs: Mapping[str, ir_measures.Measure],
    gain: str,
) -> None:
    """Compare per query and on average, for every measure."""
    # Negative grades count as 0, and pytrec_eval, which runs below, may crash or hang on them.
    graded = {
        query_id: {doc_id: max(0, grade) for doc_id, grade in judgments.items()}
        for query_id, judgments in qrels.items()
    }
    names = {measure: name for name, measure in theirs.items()}
    single = {
        (names[value.measure], value.query_id): value.value
        for value in ir_measures.iter_calc(list(names), graded, run)
    }
    means = ir_measures.calc_aggregate(list(names), graded, run)
    for measure, name in names.items():
        ours = per_query(parse_measure(name), rankings, qrels, gain)
        assert ours == pytest.approx({query_id: single[name, query_id] for query_id in qrels})
        assert sum(ours.values()) / len(ours) == pytest.approx(means[measure])


@settings(deadline=None)
@given(rankings=rankings_of_some, qrels=qrels_of_some)
def test_linear_equals_ir_measures(rankings: Rankings, qrels: Qrels) -> None:
    expect_equal(rankings, qrels, THEIRS, "linear")


@settings(deadline=None)
@given(rankings=rankings_of_some, qrels=qrels_of_some)
def test_exponential_equals_ir_measures(rankings: Rankings, qrels: Qrels) -> None:
    expect_equal(rankings, qrels, THEIRS_EXPONENTIAL, "exp")


@settings(deadline=None)
@given(run=scored_runs, qrels=qrels_of_some)
def test_equal_scores_in_trec_evals_order_equal_ir_measures(
    run: dict[str, dict[str, float]], qrels: Qrels
) -> None:
    """trec_eval puts the last id first. Here, the order of the search counts. (RR@k of ir-measures
    uses another tool, which puts the first id first.)"""
    by_trec_eval = {text: each for text, each in THEIRS.items() if not text.startswith("MRR@")}
    rankings = {
        query_id: sorted(scores, key=lambda doc_id: (scores[doc_id], doc_id), reverse=True)
        for query_id, scores in run.items()
    }
    expect_equal_run(rankings, run, qrels, by_trec_eval, "linear")
    expect_equal_run(rankings, run, qrels, THEIRS_EXPONENTIAL, "exp")


@pytest.mark.parametrize("text", sorted(THEIRS))
def test_names_of_ir_measures_are_accepted(text: str) -> None:
    """The names of ir-measures are accepted: R@3, RR, P@10."""
    assert parse_measure(str(THEIRS[text])) == parse_measure(text)


# --- properties -----------------------------------------------------------------------------------


@given(
    ranked=st.lists(doc_ids),
    judgments=st.dictionaries(doc_ids, st.integers(-2, 4)),
    name=st.sampled_from(sorted(THEIRS)),
    gain=st.sampled_from(GAINS),
)
def test_measures_are_between_zero_and_one(
    ranked: list[str], judgments: dict[str, int], name: str, gain: str
) -> None:
    assert 0.0 <= parse_measure(name).score(ranked, judgments, gain) <= 1.0


@given(
    judgments=st.dictionaries(doc_ids, st.integers(1, 1_000), min_size=1),
    k=st.none() | st.integers(1, 20),
    gain=st.sampled_from(GAINS),
)
def test_the_best_order_has_ndcg_one(judgments: dict[str, int], k: int | None, gain: str) -> None:
    best = sorted(judgments, key=lambda doc_id: -judgments[doc_id])
    assert ndcg(best, judgments, k, gain) == pytest.approx(1.0)


def test_metrics_load_nothing_heavy() -> None:
    code = "import sys, kb.evaluation.metrics; sys.exit(bool({'numpy', 'apsw'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
