"""Running methods over judged data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from kb.errors import EvalDataError, InvalidRequest
from kb.evaluation.metrics import Measure, parse_measure
from kb.evaluation.qrels import Caveats, Collection
from kb.evaluation.runs import Ranker, evaluate

MEASURES = [parse_measure(text) for text in ("nDCG@10", "Recall@20", "MRR")]
MRR = Measure("MRR")
JUDGED = Collection(
    name="reef",
    split="test",
    queries={f"q{n}": f"query {n}" for n in range(40)},
    qrels={f"q{n}": {f"d{n}": 1} for n in range(40)},
)


def finds_at(rank: int) -> Ranker:
    """A method that always has the right document at this rank."""

    def ranker(text: str, k: int) -> list[str]:
        wrong = [f"wrong{n}" for n in range(k)]
        return [*wrong[: rank - 1], f"d{text.split()[1]}", *wrong[rank - 1 :]][:k]

    return ranker


def finds_nothing(text: str, k: int) -> Sequence[str]:
    return ()


def test_means_per_query_values_and_comparison() -> None:
    report = evaluate({"old": finds_at(4), "new": finds_at(2)}, JUDGED, MEASURES, baseline="old")
    assert (report.data, report.split, report.gain) == ("reef", "test", "linear")
    assert report.query_ids == tuple(JUDGED.qrels)
    assert report.methods["old"].scores[MRR].mean == pytest.approx(0.25)
    new = report.methods["new"]
    assert new.scores[MRR].values == (0.5,) * 40
    assert new.scores[MRR].interval == pytest.approx((0.5, 0.5))
    assert new.comparisons is not None
    assert new.comparisons[MRR].difference == pytest.approx(0.25)
    assert new.comparisons[MRR].gain_percent == pytest.approx(100.0)
    assert new.comparisons[MRR].interval == pytest.approx((0.25, 0.25))


def test_the_baseline_is_not_compared_with_itself() -> None:
    report = evaluate({"old": finds_at(4), "new": finds_at(2)}, JUDGED, MEASURES, baseline="old")
    assert report.methods["old"].comparisons is None


def test_without_a_baseline_nothing_is_compared() -> None:
    report = evaluate({"old": finds_at(4), "new": finds_at(2)}, JUDGED, MEASURES)
    assert report.baseline is None
    assert [result.comparisons for result in report.methods.values()] == [None, None]


def test_no_gain_over_nothing() -> None:
    report = evaluate({"old": finds_nothing, "new": finds_at(1)}, JUDGED, [MRR], baseline="old")
    compared = report.methods["new"].comparisons
    assert compared is not None
    assert compared[MRR].gain_percent is None
    assert compared[MRR].difference == 1.0


def test_the_difference_is_paired() -> None:
    """A little better on every second query, with very different queries: the intervals of the
    means overlap, and that of the difference excludes 0."""

    def ranker(rank_if_hard: int) -> Ranker:
        def rank(text: str, k: int) -> Sequence[str]:
            hard = int(text.split()[1]) % 2
            return finds_at(rank_if_hard if hard else 1)(text, k)

        return rank

    report = evaluate({"worse": ranker(4), "better": ranker(3)}, JUDGED, [MRR], baseline="worse")
    worse, better = report.methods["worse"], report.methods["better"]
    assert better.scores[MRR].interval.low < worse.scores[MRR].interval.high
    assert better.comparisons is not None
    assert better.comparisons[MRR].interval.low > 0


def test_a_method_under_two_names_does_not_differ() -> None:
    """Sums are equal to the last bit: a difference of almost zero would count as better."""

    def uneven(text: str, k: int) -> Sequence[str]:
        return finds_at(1 + int(text.split()[1]) % 7)(text, k)

    report = evaluate({"one": uneven, "other": uneven}, JUDGED, MEASURES, baseline="one")
    compared = report.methods["other"].comparisons
    assert compared is not None
    for each in compared.values():
        assert (each.difference, each.interval, each.gain_percent) == (0.0, (0.0, 0.0), 0.0)


def test_equal_runs_give_equal_figures() -> None:
    def uneven(text: str, k: int) -> Sequence[str]:
        return finds_at(1 + int(text.split()[1]))(text, k)

    def report(seed: int) -> object:
        return evaluate({"m": uneven}, JUDGED, MEASURES, seed=seed, clock=lambda: 0.0)

    assert report(1) == report(1)
    assert report(1) != report(2)


def test_the_gain_reaches_ndcg() -> None:
    judged = Collection("reef", "test", {"q": "query 1"}, {"q": {"d1": 1, "d2": 3}})
    values = {
        gain: evaluate({"m": finds_at(1)}, judged, MEASURES, gain).methods["m"].scores
        for gain in ("linear", "exp")
    }
    assert values["linear"][MEASURES[0]].mean > values["exp"][MEASURES[0]].mean
    assert values["linear"][MRR] == values["exp"][MRR]


@pytest.mark.parametrize(
    ("texts", "depth"),
    [(["nDCG@10"], 10), (["nDCG@10", "Recall@200", "MRR"], 200), (["nDCG@10", "MRR"], 100)],
)
def test_methods_retrieve_as_deep_as_the_measures_need(texts: list[str], depth: int) -> None:
    asked: set[int] = set()

    def ranker(text: str, k: int) -> list[str]:
        asked.add(k)
        return []

    evaluate({"m": ranker}, JUDGED, map(parse_measure, texts))
    assert asked == {depth}


def test_returning_more_than_requested_gains_nothing() -> None:
    report = evaluate({"m": lambda text, k: finds_at(101)(text, 1_000)}, JUDGED, [MRR])
    assert report.methods["m"].scores[MRR].mean == 0.0


def test_a_measure_does_not_depend_on_other_measures() -> None:
    """Without a cut-off it uses a hundred documents, even if another measure needs more."""
    plain, deep = (
        evaluate({"m": finds_at(150)}, JUDGED, [parse_measure(text) for text in texts])
        for texts in (["MRR", "nDCG"], ["MRR", "nDCG", "Recall@200"])
    )
    assert deep.methods["m"].scores[parse_measure("Recall@200")].mean == 1.0
    for measure in plain.measures:
        assert plain.methods["m"].scores[measure].mean == 0.0
        assert deep.methods["m"].scores[measure] == plain.methods["m"].scores[measure]


def test_latency_is_per_query() -> None:
    now = 0.0
    costs = [0.001 * n for n in range(1, 41)]
    calls = count()

    def ranker(text: str, k: int) -> list[str]:
        nonlocal now
        now += costs[next(calls)]
        return []

    report = evaluate({"m": ranker}, JUDGED, [MRR], clock=lambda: now)
    latency = report.methods["m"].latency
    assert latency.mean_ms == pytest.approx(20.5)
    assert latency.p50_ms == pytest.approx(20.5)
    assert latency.p95_ms == pytest.approx(38.05)


def test_progress_is_reported_query_by_query() -> None:
    told: list[tuple[str, int, int]] = []
    methods = {"a": finds_nothing, "b": finds_nothing}
    evaluate(methods, JUDGED, [MRR], on_progress=lambda *step: told.append(step))
    assert told == [("ask", done, 40) for done in range(1, 41)]


def test_methods_take_turns() -> None:
    """A busy machine slows all methods alike, and no method is always the first to load what a
    query needs."""
    asked: list[str] = []

    def named(name: str) -> Ranker:
        return lambda text, k: asked.append(name) or []  # type: ignore[func-returns-value]

    evaluate({name: named(name) for name in "abc"}, JUDGED, [MRR])
    assert asked[:9] == list("abcbcacab")
    assert len(asked) == 3 * 40


def test_a_measure_named_twice_counts_once() -> None:
    assert evaluate({"m": finds_at(1)}, JUDGED, [MRR, Measure("MRR")]).measures == (MRR,)


@pytest.mark.parametrize(
    ("methods", "measures", "gain", "baseline", "resamples", "problem"),
    [
        ({}, [MRR], "linear", None, 10, "no method"),
        ({"m": finds_nothing}, [], "linear", None, 10, "no measure"),
        ({"m": finds_nothing}, [MRR], "cubic", None, 10, "gain cannot be 'cubic'"),
        ({"m": finds_nothing}, [MRR], "linear", "n", 10, "baseline cannot be 'n'"),
        ({"m": finds_nothing}, [MRR], "linear", None, 0, "0 resamples"),
    ],
)
def test_invalid_arguments_are_refused_before_the_run(
    methods: dict[str, Ranker],
    measures: list[Measure],
    gain: str,
    baseline: str | None,
    resamples: int,
    problem: str,
) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        evaluate(methods, JUDGED, measures, gain, baseline=baseline, resamples=resamples)


def test_judgments_without_queries_are_refused() -> None:
    with pytest.raises(EvalDataError, match="no judgments"):
        evaluate({"m": finds_nothing}, Collection("reef", "test", {"q": "x"}, {}), [MRR])
    with pytest.raises(EvalDataError, match="no text for judged query 'q'"):
        evaluate({"m": finds_nothing}, Collection("reef", "test", {}, {"q": {"d": 1}}), [MRR])


# --- intervals ------------------------------------------------------------------------------------


def finds_mostly(share: float, seed: int) -> Ranker:
    """A method that has the right document first in this share of the queries, else nowhere."""
    found = {f"query {n}" for n in range(40) if Random(f"{seed} {n}").random() < share}
    return lambda text, k: [f"d{text.split()[1]}"] if text in found else []


def test_identical_methods_do_not_differ() -> None:
    methods = {"one": finds_mostly(0.6, 1), "same": finds_mostly(0.6, 1)}
    compared = evaluate(methods, JUDGED, [MRR], baseline="one").methods["same"].comparisons
    assert compared is not None
    assert compared[MRR].interval == (0.0, 0.0)


def test_methods_that_are_equally_good_may_not_differ() -> None:
    """Both methods are correct equally often, but on different queries: the interval includes zero
    and is wider than zero."""
    methods = {"one": finds_mostly(0.5, 1), "other": finds_mostly(0.5, 3)}
    compared = evaluate(methods, JUDGED, [MRR], baseline="one").methods["other"].comparisons
    assert compared is not None
    low, high = compared[MRR].interval
    assert low < 0 < high


def test_a_planted_difference_is_seen() -> None:
    methods = {"one": finds_mostly(0.3, 1), "better": finds_mostly(0.8, 1)}
    compared = evaluate(methods, JUDGED, [MRR], baseline="one").methods["better"].comparisons
    assert compared is not None
    assert compared[MRR].interval.low > 0


def test_caveats_are_counted_and_gain_nothing() -> None:
    judged = replace(JUDGED, unjudged_queries=2, qrels={**JUDGED.qrels, "q0": {"d0": 0}})
    report = evaluate({"m": finds_at(1)}, judged, [MRR], unknown={"d1", "elsewhere"})
    assert report.methods["m"].scores[MRR].mean == pytest.approx(39 / 40)
    assert report.caveats == Caveats(2, 1, ("d1",), 1)
    assert report.queries["q3"] == "query 3"
