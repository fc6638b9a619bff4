"""Fits the fusion of a profile to judged queries, and measures it on others.

    retrieve once -> fit on one split -> measure on the other by real searches -> better, or not

The fit is about the fused order. Later stages (literal matches, reranking, duplicates) do not
change, and affect only the measurement.

If there is only one split, its queries are divided into folds. Each fold is measured with the
settings fitted to the other folds, so that no query is measured with settings that it helped to
fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from kb.config import Config
from kb.errors import EvalDataError, check_choice
from kb.evaluation.beir import splits
from kb.evaluation.candidate_lists import QueryCandidates, retrieve_all
from kb.evaluation.corpus_store import EvaluationSetup, OnProgress, open_corpus
from kb.evaluation.document_lookup import resolve_documents
from kb.evaluation.experiment import OptionsByQuery, SearchOptions, load_collection, measure_methods
from kb.evaluation.grid import Setting, fit
from kb.evaluation.metrics import Measure, parse_measure
from kb.evaluation.qrels import Collection
from kb.evaluation.runs import UNCUT_DEPTH, Comparison, EvalReport
from kb.search.profiles import Profile, profile_names, resolve

CURRENT, TUNED = "current", "tuned"
FIT_SPLITS = ("dev", "train", "validation", "valid")  # tried in this order if none is given
REPORT_SPLIT = "test"
REPORT_SPLITS = (REPORT_SPLIT, "dev", "validation", "valid")
FOLDS = 5
LEAST_QUERIES = 10


@dataclass(frozen=True, slots=True)
class Tuning:
    """The result of a fit. `settings` is empty if no setting is better than the current ones.
    `left_out` counts queries that are also in the report's split and were excluded from the fit.
    `rerank` is the profile's reranker, and `rearranged` is whether literal matches or duplicates
    change the order; both affect the report but not the fit."""

    data: str
    split: str
    report_split: str | None
    folds: int | None
    queries: int
    left_out: int
    profile: str
    rerank: str
    measure: Measure
    gain: str
    tried: int
    fit_current: float
    fit_tuned: float
    settings: Mapping[str, Any]
    report: EvalReport
    rearranged: bool = False

    @property
    def comparison(self) -> Comparison:
        compared = self.report.methods[TUNED].comparisons
        assert compared is not None  # the baseline is the other one
        return compared[self.measure]

    @property
    def better(self) -> bool:
        """Whether the interval of the difference is above zero."""
        return bool(self.settings) and self.comparison.interval.low > 0


def tune(
    data: Path | None = None,
    *,
    judgments: Path | None = None,
    documents: Path | None = None,
    split: str | None = None,
    report_split: str | None = None,
    profile: str = "default",
    measure: str = "nDCG@10",
    gain: str = "linear",
    limit_queries: int | None = None,
    setup: EvaluationSetup | None = None,
    on_progress: OnProgress = lambda _stage, _done, _total: None,
) -> Tuning:
    """Fit the fusion of `profile`. `split` defaults to the dev or train split; `report_split`
    defaults to `test`, or to cross-validation folds if there is none."""
    setup = replace(setup or EvaluationSetup(Config()), documents=documents)
    check_choice("profile", profile, profile_names(setup.config.profiles))
    base = resolve(profile, setup.config.profiles)
    wanted = parse_measure(measure)
    split, report_split = _choose_splits(data, split, report_split)
    collection = load_collection(data, judgments, split, limit_queries)
    held_out = None if report_split is None else load_collection(data, judgments, report_split)
    collection, left_out = _without(collection, held_out)
    with open_corpus(collection, setup, base.model_outputs(), on_progress) as store:
        collection, _ = resolve_documents(collection, store, exact=setup.has_corpus_of(collection))
        searcher = setup.searcher(store)
        try:
            depth = wanted.k or UNCUT_DEPTH
            retrieved = retrieve_all(searcher, collection, base, depth, on_progress)
        finally:
            searcher.close()
        board = Scoreboard(collection, retrieved, base, wanted, gain, on_progress)
        best = board.fitted(collection.qrels)
        options: dict[str, SearchOptions | OptionsByQuery] = {
            CURRENT: _search_options(base, None),
            TUNED: _search_options(base, best),
        }
        folds = None
        if held_out is None:
            folds = folds_of(collection)
            options[TUNED] = by_fold(board, base, folds)
        report = measure_methods(
            store, setup, held_out or collection, options, [wanted], gain,
            baseline=CURRENT, on_progress=on_progress,
        )  # fmt: skip
    return Tuning(
        data=collection.name,
        split=collection.split,
        report_split=report_split,
        folds=None if folds is None else len(folds),
        queries=len(collection.qrels),
        left_out=left_out,
        profile=profile,
        rerank=base.rerank,
        measure=wanted,
        gain=gain,
        tried=board.tried,
        fit_current=board.mean(None, collection.qrels),
        fit_tuned=board.mean(best, collection.qrels),
        settings={} if best is None else best.settings(),
        report=report,
        rearranged=base.literal or base.collapse or base.per_document > 0,
    )


# --- data -----------------------------------------------------------------------------------------


def _choose_splits(
    data: Path | None, split: str | None, report_split: str | None
) -> tuple[str | None, str | None]:
    """The splits for fitting and for measuring, if there are two. `test` is used for fitting only
    if there is no other split, since results on it could not be reported afterwards."""
    if data is None:  # a CSV file has no splits
        return split, report_split
    there = splits(data)
    if report_split is None and len(there) > 1:
        others = (name for name in REPORT_SPLITS if name in there and name != split)
        report_split = next(others, None)
    if split is None:
        named = (name for name in (*FIT_SPLITS, *sorted(there)) if name in there)
        split = next((name for name in named if name != report_split), REPORT_SPLIT)
    if split == REPORT_SPLIT and (others_there := sorted(there.keys() - {REPORT_SPLIT})):
        raise EvalDataError(
            f"{REPORT_SPLIT} is for measuring; another split is available for fitting",
            f"available splits: {', '.join(others_there)}",
        )
    if report_split == split:
        raise EvalDataError(
            f"fitting and measuring on the same split {split} would overstate the result",
            "give two splits, or omit --report-split to use cross-validation",
        )
    return split, report_split


def _without(collection: Collection, held_out: Collection | None) -> tuple[Collection, int]:
    """Remove the queries that are measured later; also return their number."""
    later = set() if held_out is None else set(map(_plain, held_out.queries.values()))
    kept = {
        query_id: judgments
        for query_id, judgments in collection.qrels.items()
        if _plain(collection.queries[query_id]) not in later
    }
    _check_enough(collection, len(kept), "fit to")
    if held_out is not None:
        _check_enough(held_out, len(held_out.qrels), "measure on")
    return replace(collection, qrels=kept), len(collection.qrels) - len(kept)


def _check_enough(collection: Collection, queries: int, purpose: str) -> None:
    """Raise an error if there are too few queries: the interval would be meaningless."""
    if queries < LEAST_QUERIES:
        raise EvalDataError(
            f"{collection.name}: too few queries in {collection.split} to {purpose}: {queries}",
            f"use at least {LEAST_QUERIES}, preferably a hundred; kb eval run accepts fewer",
        )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def folds_of(collection: Collection) -> list[list[str]]:
    """Split the query ids at random, reproducibly. Queries with the same text stay together."""
    by_text: dict[str, list[str]] = {}
    for query_id in collection.qrels:
        by_text.setdefault(_plain(collection.queries[query_id]), []).append(query_id)
    texts = sorted(by_text)
    Random(0).shuffle(texts)
    cut = [[query_id for text in texts[at::FOLDS] for query_id in by_text[text]]
           for at in range(FOLDS)]  # fmt: skip
    return [fold for fold in cut if fold]


# --- fitting --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Scoreboard:
    """The score of every setting for every query; None stands for the unchanged profile."""

    collection: Collection
    retrieved: Mapping[str, QueryCandidates]
    base: Profile
    measure: Measure
    gain: str
    on_progress: OnProgress
    _values: dict[Setting | None, dict[str, float]] = field(default_factory=dict)

    @property
    def tried(self) -> int:
        return len(self._values)

    def mean(self, setting: Setting | None, query_ids: Iterable[str]) -> float:
        values = self._of(setting)
        return fmean(values[query_id] for query_id in query_ids)

    def fitted(self, query_ids: Iterable[str]) -> Setting | None:
        """The best setting for these queries; None if the unchanged profile is best."""
        chosen = list(query_ids)
        best = fit(lambda setting: self.mean(setting, chosen), self.base.retrievers)
        return best if self.mean(best, chosen) > self.mean(None, chosen) else None

    def _of(self, setting: Setting | None) -> dict[str, float]:
        if setting not in self._values:
            profile = with_setting(self.base, setting)
            self._values[setting] = {
                query_id: self._score(query_id, each.fuse(profile))
                for query_id, each in self.retrieved.items()
            }
            self.on_progress("fit", self.tried, 0)
        return self._values[setting]

    def _score(self, query_id: str, fused: Sequence[str]) -> float:
        top = fused[: self.measure.k or UNCUT_DEPTH]
        return self.measure.score(top, self.collection.qrels[query_id], self.gain)


def with_setting(base: Profile, setting: Setting | None) -> Profile:
    if setting is None:
        return base
    return replace(
        base,
        fusion=setting.fusion,
        adaptive=False,
        k=base.k if setting.k is None else setting.k,
        normalisation=setting.normalisation or base.normalisation,
        weights=dict(setting.weights),
    )


def _search_options(base: Profile, setting: Setting | None) -> SearchOptions:
    settings = {} if setting is None else setting.settings()
    return {"profile": base.name, "settings": settings}


def by_fold(board: Scoreboard, base: Profile, folds: Sequence[Sequence[str]]) -> OptionsByQuery:
    """The setting for each query, fitted to the folds that do not contain it."""
    options: dict[str, SearchOptions] = {}
    for fold in folds:
        others = [query_id for each in folds if each is not fold for query_id in each]
        for_fold = _search_options(base, board.fitted(others))
        options |= {board.collection.queries[query_id]: for_fold for query_id in fold}
    return options.__getitem__
