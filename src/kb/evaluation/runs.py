"""Runs every method over the judged queries, then times, scores and compares them.

`metrics` scores the rankings, `bootstrap` computes the confidence intervals, and `report` formats
the resulting `EvalReport`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from statistics import fmean
from time import perf_counter

from kb.errors import EvalDataError, InvalidRequest, check_choice
from kb.evaluation.bootstrap import RESAMPLES, Interval, interval, percentile, resampled_means
from kb.evaluation.metrics import GAINS, Measure, distinct, per_query
from kb.evaluation.qrels import Caveats, Collection, caveats
from kb.ports import Clock

# (query text, k) -> the ids of up to k documents, best first
Ranker = Callable[[str, int], Sequence[str]]
# (stage, queries done, total)
OnProgress = Callable[[str, int, int], None]

UNCUT_DEPTH = 100  # the cut-off of measures without one, such as plain MRR


@dataclass(frozen=True, slots=True)
class Score:
    """A method's mean of one measure with its interval. `values` has one value per query, in the
    order of `EvalReport.query_ids`."""

    mean: float
    interval: Interval
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference between a method's mean and the baseline's, paired by query. `gain_percent` is
    None if the baseline's mean is 0."""

    difference: float
    interval: Interval
    gain_percent: float | None


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds per query."""

    mean_ms: float
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class MethodResult:
    """The results of one method. `comparisons` is None for the baseline itself, and if there is no
    baseline. `degraded` counts the queries in which a part was degraded, by part and reason."""

    scores: Mapping[Measure, Score]
    comparisons: Mapping[Measure, Comparison] | None
    latency: Latency
    degraded: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvalReport:
    """The results of an evaluation: `eval_report.v1`, and the values of every query."""

    data: str
    split: str
    gain: str
    measures: tuple[Measure, ...]
    query_ids: tuple[str, ...]
    baseline: str | None
    methods: Mapping[str, MethodResult]
    queries: Mapping[str, str] = field(default_factory=dict)  # query id -> text
    caveats: Caveats = field(default_factory=Caveats)
    documents: int | None = None  # how many were searched
    model: str | None = None  # the encoder; None for lexical search only


def evaluate(
    methods: Mapping[str, Ranker],
    collection: Collection,
    measures: Iterable[Measure],
    gain: str = "linear",
    *,
    baseline: str | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    unknown: Set[str] = frozenset(),
    on_progress: OnProgress | None = None,
    clock: Clock = perf_counter,
) -> EvalReport:
    """Run every method over every judged query, and compare the methods with `baseline`, if one is
    named. `unknown` lists judged documents that no method can find, because they are missing.

    The same rankings and the same seed give the same results, except for latency.
    """
    measures = tuple(dict.fromkeys(measures))
    _check(methods, collection, measures, gain, baseline, resamples)
    runs = _run_queries(methods, collection, _depth(measures), on_progress, clock)
    values = {
        (name, measure): tuple(
            per_query(measure, run.top(measure), collection.qrels, gain).values()
        )
        for name, run in runs.items()
        for measure in measures
    }
    trials = _Trials(measures, values, resampled_means(values, resamples=resamples, seed=seed))
    return EvalReport(
        data=collection.name,
        split=collection.split,
        gain=gain,
        measures=measures,
        query_ids=tuple(collection.qrels),
        baseline=baseline,
        methods={
            name: trials.result(name, baseline, _latency(run.seconds)) for name, run in runs.items()
        },
        queries={query_id: collection.queries[query_id] for query_id in collection.qrels},
        caveats=caveats(collection, unknown),
    )


def _check(
    methods: Mapping[str, Ranker],
    collection: Collection,
    measures: Sequence[Measure],
    gain: str,
    baseline: str | None,
    resamples: int,
) -> None:
    check_choice("gain", gain, GAINS)
    if not methods:
        raise InvalidRequest("no method to evaluate", "give at least one method or profile")
    if not measures:
        raise InvalidRequest("no measure to evaluate with", "give at least one, such as nDCG@10")
    if resamples < 1:
        raise InvalidRequest(f"{resamples} resamples cannot give an interval", "use 1,000 or more")
    if baseline is not None:
        check_choice("baseline", baseline, tuple(methods))
    if not collection.qrels:
        raise EvalDataError(
            f"{collection.name} has no judgments", "add some for at least one query"
        )
    if unknown := sorted(collection.qrels.keys() - collection.queries.keys()):
        raise EvalDataError(
            f"{collection.name}: no text for judged query {unknown[0]!r}", "add it to the queries"
        )


def _depth(measures: Iterable[Measure]) -> int:
    """The number of documents to retrieve: the cut-off of the deepest measure."""
    return max(UNCUT_DEPTH if measure.k is None else measure.k for measure in measures)


# --- running --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    """The rankings and latencies of one method."""

    rankings: dict[str, Sequence[str]]
    seconds: list[float]

    def top(self, measure: Measure) -> dict[str, Sequence[str]]:
        """The rankings down to the measure's cut-off; without one, down to `UNCUT_DEPTH`, even if
        another measure needs more."""
        depth = UNCUT_DEPTH if measure.k is None else measure.k
        return {query_id: ranked[:depth] for query_id, ranked in self.rankings.items()}


def _run_queries(
    methods: Mapping[str, Ranker],
    collection: Collection,
    depth: int,
    on_progress: OnProgress | None,
    clock: Clock,
) -> dict[str, _Run]:
    """Run each query with every method before the next query, starting with a different method each
    time, so that a busy machine slows all methods alike."""
    runs = {name: _Run({}, []) for name in methods}
    names, total = list(methods), len(collection.qrels)
    for at, query_id in enumerate(collection.qrels):
        turn = at % len(names)
        for name in (*names[turn:], *names[:turn]):
            start = clock()
            ranked = methods[name](collection.queries[query_id], depth)
            runs[name].seconds.append(clock() - start)
            # Cut, so that a method gains nothing by returning more than requested.
            runs[name].rankings[query_id] = distinct(ranked)[:depth]
        if on_progress is not None:
            on_progress("ask", at + 1, total)
    return runs


def _latency(seconds: Sequence[float]) -> Latency:
    ordered = sorted(1_000 * each for each in seconds)
    return Latency(fmean(ordered), percentile(ordered, 0.50), percentile(ordered, 0.95))


# --- comparing ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Trials:
    """The values of all methods and measures, per query and per resample."""

    measures: tuple[Measure, ...]
    values: Mapping[tuple[str, Measure], tuple[float, ...]]
    resampled: Mapping[tuple[str, Measure], Sequence[float]]

    def result(self, method: str, baseline: str | None, latency: Latency) -> MethodResult:
        scores = {measure: self._score(method, measure) for measure in self.measures}
        if baseline is None or baseline == method:
            return MethodResult(scores, None, latency)
        compared = {each: self._comparison(method, each, baseline) for each in self.measures}
        return MethodResult(scores, compared, latency)

    def _score(self, method: str, measure: Measure) -> Score:
        values = self.values[method, measure]
        sure = interval(self.resampled[method, measure], queries=len(values))
        return Score(fmean(values), sure, values)

    def _comparison(self, method: str, measure: Measure, baseline: str) -> Comparison:
        queries = len(self.values[method, measure])
        mean = fmean(self.values[method, measure])
        base = fmean(self.values[baseline, measure])
        pairs = zip(self.resampled[method, measure], self.resampled[baseline, measure], strict=True)
        return Comparison(
            difference=mean - base,
            interval=interval([ours - theirs for ours, theirs in pairs], queries=queries),
            gain_percent=100 * (mean - base) / base if base else None,
        )
