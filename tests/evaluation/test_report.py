"""`eval_report.v1` and the table."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from kb.evaluation.bootstrap import Interval
from kb.evaluation.metrics import Measure
from kb.evaluation.qrels import Caveats
from kb.evaluation.report import caveat_lines, to_dict, to_markdown, to_table
from kb.evaluation.runs import Comparison, EvalReport, Latency, MethodResult, Score

NDCG, MRR = Measure("nDCG", 10), Measure("MRR")
REPORT = EvalReport(
    data="reef",
    split="test",
    gain="linear",
    measures=(NDCG, MRR),
    query_ids=("q1", "q2"),
    baseline="lexical",
    methods={
        "lexical": MethodResult(
            scores={
                NDCG: Score(0.6, Interval(0.5, 0.7), (0.5, 0.7)),
                MRR: Score(0.0, Interval(0.0, 0.0), (0.0, 0.0)),
            },
            comparisons=None,
            latency=Latency(1.23456, 1.2, 2.0),
        ),
        "three_way": MethodResult(
            scores={
                NDCG: Score(0.66, Interval(0.55, 0.77), (0.55, 0.77)),
                MRR: Score(1 / 3, Interval(0.25, 0.5), (0.25, 0.5)),
            },
            comparisons={
                NDCG: Comparison(0.06, Interval(-1e-9, 0.07), 10.0),
                MRR: Comparison(1 / 3, Interval(0.25, 0.5), None),
            },
            latency=Latency(120.0, 118.0, 143.26),
            degraded={("dense", "no_model"): 2},
        ),
    },
    queries={"q1": "copper | guard", "q2": "鲸 <b>"},
    caveats=Caveats(unjudged_queries=3, unknown_documents=("gone.md",), lost_queries=1),
    documents=1_200,
    model="kb-mini 2",
)
NOTES = [
    "2 queries are too few: the intervals are too narrow by an unknown amount",
    "1 judged document is missing, such as gone.md; counted as not found",
    "1 query: all relevant documents are missing; counted as 0",
    "3 queries: no judgments in any split; not run",
    "three_way: dense had no model in 2 of 2 queries",
]


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    text = files("kb").joinpath("schemas", "eval_report.v1.json").read_text(encoding="utf-8")
    Draft202012Validator.check_schema(json.loads(text))
    return Draft202012Validator(json.loads(text))


def without_baseline() -> EvalReport:
    methods = {name: replace(each, comparisons=None) for name, each in REPORT.methods.items()}
    return replace(REPORT, baseline=None, methods=methods)


def test_the_shape() -> None:
    assert to_dict(REPORT) == {
        "schema_version": "eval_report.v1",
        "data": "reef",
        "split": "test",
        "gain": "linear",
        "queries": 2,
        "documents": 1_200,
        "model": "kb-mini 2",
        "baseline": "lexical",
        "caveats": {
            "unjudged_queries": 3,
            "unanswerable_queries": 0,
            "unknown_documents": ["gone.md"],
            "lost_queries": 1,
        },
        "methods": {
            "lexical": {
                "metrics": {"nDCG@10": 0.6, "MRR": 0.0},
                "intervals": {"nDCG@10": [0.5, 0.7], "MRR": [0.0, 0.0]},
                "latency_ms": {"mean": 1.235, "p50": 1.2, "p95": 2.0},
                "gain_percent": None,
                "difference": None,
                "degraded": [],
            },
            "three_way": {
                "metrics": {"nDCG@10": 0.66, "MRR": 0.333333},
                "intervals": {"nDCG@10": [0.55, 0.77], "MRR": [0.25, 0.5]},
                "latency_ms": {"mean": 120.0, "p50": 118.0, "p95": 143.26},
                "gain_percent": {"nDCG@10": 10.0, "MRR": None},
                "difference": {"nDCG@10": [0.06, 0.0, 0.07], "MRR": [0.333333, 0.25, 0.5]},
                "degraded": [{"part": "dense", "reason": "no_model", "queries": 2}],
            },
        },
        "per_query": None,
    }
    assert "-0.0" not in json.dumps(to_dict(REPORT))


def test_the_values_of_every_query(schema: Draft202012Validator) -> None:
    shape = to_dict(REPORT, per_query=True)
    schema.validate(json.loads(json.dumps(shape)))
    assert shape["per_query"][1] == {
        "query_id": "q2",
        "query": "鲸 <b>",
        "values": {
            "lexical": {"nDCG@10": 0.7, "MRR": 0.0},
            "three_way": {"nDCG@10": 0.77, "MRR": 0.5},
        },
    }


@pytest.mark.parametrize("report", [REPORT, without_baseline()], ids=["baseline", "none"])
def test_the_shape_is_valid(schema: Draft202012Validator, report: EvalReport) -> None:
    schema.validate(json.loads(json.dumps(to_dict(report))))


def broken(**change: Any) -> dict[str, Any]:
    return to_dict(REPORT) | change


@pytest.mark.parametrize(
    "shape",
    [
        broken(extra=1),
        broken(schema_version="eval_report.v2"),
        broken(gain="cubic"),
        broken(queries=0),
        broken(methods={}),
        broken(methods={"m": to_dict(REPORT)["methods"]["lexical"] | {"extra": 1}}),
        broken(methods={"m": to_dict(REPORT)["methods"]["lexical"] | {"metrics": {"MAP": 0.5}}}),
        broken(methods={"m": to_dict(REPORT)["methods"]["lexical"] | {"metrics": {"MRR": 2}}}),
        broken(methods={"m": to_dict(REPORT)["methods"]["lexical"] | {"intervals": {"MRR": [0]}}}),
    ],
)
def test_other_shapes_are_not(schema: Draft202012Validator, shape: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        schema.validate(shape)


def test_the_table() -> None:
    assert to_table(REPORT).splitlines() == [
        "reef, split test: 2 queries, linear gain",
        "searched: 1,200 documents, model kb-mini 2",
        "",
        "nDCG@10         mean  95% interval      gain  difference   95% interval",
        "  lexical      0.600   0.500 0.700  baseline",
        "  three_way    0.660   0.550 0.770    +10.0%      +0.060  -0.000 +0.070",
        "",
        "MRR             mean  95% interval      gain  difference   95% interval",
        "  lexical      0.000   0.000 0.000  baseline",
        "  three_way    0.333   0.250 0.500         -      +0.333  +0.250 +0.500",
        "",
        "latency in ms   mean           p50       p95",
        "  lexical        1.2           1.2       2.0",
        "  three_way    120.0         118.0     143.3",
        "",
        *(f"note: {line}" for line in NOTES),
    ]


def test_caveat_lines() -> None:
    assert caveat_lines(REPORT) == NOTES
    many = tuple(map(str, range(30)))
    sound = replace(without_baseline(), caveats=Caveats(), methods={}, query_ids=many)
    assert caveat_lines(sound) == []
    assert len(caveat_lines(replace(sound, query_ids=many[1:]))) == 1


def test_a_measure_that_covers_all_documents_is_a_caveat() -> None:
    """Recall@100 of twelve documents is 1 for any method that returns them all."""
    deep = (NDCG, MRR, Measure("Recall", 12), Measure("Recall", 11), Measure("Success", 20))
    said = caveat_lines(replace(REPORT, measures=deep, documents=12))
    assert said[1].startswith("Recall@12, Success@20: always 1 for a method")
    assert caveat_lines(replace(REPORT, measures=deep, documents=21)) == NOTES


def test_one_method_is_compared_with_nothing() -> None:
    """Although the first method is its own baseline."""
    alone = replace(REPORT, methods={"lexical": REPORT.methods["lexical"]})
    assert to_table(alone).splitlines()[3:5] == [
        "nDCG@10         mean  95% interval",
        "  lexical      0.600   0.500 0.700",
    ]


def test_search_target() -> None:
    by_words = replace(REPORT, model=None)
    assert to_table(by_words).splitlines()[1] == "searched: 1,200 documents, words only"
    assert "searched: 1,200 documents, model kb-mini 2" in to_markdown(REPORT)
    assert "searched" not in to_table(replace(REPORT, documents=None))


def test_the_table_of_every_query() -> None:
    blocks = to_table(REPORT, per_query=True).split("\n\n")
    assert blocks[-2].splitlines() == [
        "nDCG@10 by query     lexical  three_way",
        "  q1 copper | guard    0.500      0.550",
        "  q2 鲸 <b>            0.700      0.770",
    ]


def test_markdown() -> None:
    text = to_markdown(REPORT, per_query=True)
    assert "| nDCG@10 | mean | 95% interval | gain | difference | 95% interval |" in text
    assert "|---|---:|---:|---:|---:|---:|" in text
    assert "| three\\_way | 0.660 | 0.550 to 0.770 | +10.0% | +0.060 | -0.000 to +0.070 |" in text
    assert "| lexical | 0.600 | 0.500 to 0.700 | baseline |  |  |" in text
    assert "| q1 copper \\| guard | 0.500 | 0.550 |" in text
    assert "\\<b\\>" in text
    assert f"- {NOTES[1]}" in text


def test_the_table_without_a_baseline() -> None:
    lines = to_table(without_baseline()).splitlines()
    assert lines[3] == "nDCG@10         mean  95% interval"
    assert lines[4] == "  lexical      0.600   0.500 0.700"
    assert "baseline" not in to_table(without_baseline())
