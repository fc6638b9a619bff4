"""Tuning: fitted settings are written only if they are better on another split."""

from __future__ import annotations

import json
import tomllib
from array import array
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from pathlib import Path

import pytest

from kb.errors import EvalDataError, InvalidRequest
from kb.evaluation.beir import load
from kb.evaluation.candidate_lists import retrieve_all
from kb.evaluation.corpus_store import EvaluationSetup, open_corpus
from kb.evaluation.experiment import run_experiment
from kb.evaluation.metrics import parse_measure
from kb.evaluation.qrels import Collection
from kb.evaluation.tuning import CURRENT, TUNED, Scoreboard, by_fold, folds_of, tune
from kb.evaluation.tuning_report import tuning_to_dict, tuning_to_text, verdict
from kb.search.profiles import resolve
from kb.types import Encoding
from tests.evaluation.qrels_folder import write_folder
from tests.models.weightless import Weightless, unexamined
from tests.schemas import validate

NDCG = parse_measure("nDCG@10")


class Noise(Weightless):
    """An encoder whose vectors are noise."""

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        scrambled = [f"{text[::-1]} {as_query}".replace(" ", "") for text in texts]
        return super().encode(scrambled, as_query=as_query, want=want, on_progress=on_progress)


class Contrary(Weightless):
    """An encoder whose dense vectors are far apart for similar texts; its terms and token vectors
    are good."""

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        made = super().encode(texts, as_query=as_query, want=want, on_progress=on_progress)
        if as_query:
            return made
        return [
            replace(one, dense=one.dense and array("f", (-value for value in one.dense)))
            for one in made
        ]


def silent(_stage: str, _done: int, _total: int) -> None:
    """Ignore the progress."""


def by_noise(**profiles: dict[str, object]) -> EvaluationSetup:
    return EvaluationSetup(unexamined(profiles), encoder=Noise())


# A profile that relies on noise, so that tuning can improve it.
MISLED: dict[str, object] = {
    "retrievers": ["lexical", "dense"],
    "weights": {"lexical": 0.02, "dense": 0.98},
    "rerank": "none",
    "literal": False,
    "collapse": False,
    "per_document": 0,
}
MISLED_AND_RERANKED: dict[str, object] = {
    "retrievers": ["lexical", "dense", "sparse"],
    "weights": {"lexical": 0.02, "dense": 0.96, "sparse": 0.02},
    "agreement": False,
    "rerank": "colbert",
    "rerank_blend": 0.5,
    "literal": False,
    "collapse": False,
    "per_document": 0,
}


@pytest.fixture
def two_splits(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "reef", splits={"dev": range(20), "test": range(20, 40)})


@pytest.fixture
def one_split(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "reef", splits={"test": range(40)})


def test_a_real_improvement_is_found(two_splits: Path) -> None:
    tuning = tune(two_splits, profile="misled", setup=by_noise(misled=MISLED))
    assert (tuning.split, tuning.report_split, tuning.folds) == ("dev", "test", None)
    assert (tuning.queries, len(tuning.report.query_ids)) == (20, 20)
    assert tuning.fit_tuned > tuning.fit_current
    assert tuning.settings["weights"]["lexical"] > 0.3
    assert tuning.better
    assert verdict(tuning).startswith("better on other queries")


def test_it_is_measured_by_real_searches(two_splits: Path) -> None:
    """The figures are those of `kb eval run` for the profile as it would be written."""
    tuning = tune(two_splits, profile="misled", setup=by_noise(misled=MISLED))
    written = {**MISLED, **tuning.settings}
    report = run_experiment(
        two_splits,
        methods=("misled", "written"),
        measures=["nDCG@10"],
        config=unexamined({"misled": MISLED, "written": written}),
        encoder=Noise(),
    )
    for ours, theirs in ((CURRENT, "misled"), (TUNED, "written")):
        values = tuning.report.methods[ours].scores[NDCG].values
        assert values == report.methods[theirs].scores[NDCG].values


def test_reranking_is_left_as_it_is(two_splits: Path) -> None:
    """Three lists are fitted without the reranker, and measured with it."""
    setup = EvaluationSetup(unexamined({"misled": MISLED_AND_RERANKED}), encoder=Contrary())
    tuning = tune(two_splits, profile="misled", setup=setup)
    assert tuning.better
    assert not [key for key in tuning.settings if key.startswith("rerank")]
    assert tuning.settings["weights"]["dense"] < 0.7
    told = "note: reranking (colbert) is unchanged: fitted without it, measured with it"
    assert told in tuning_to_text(tuning).split("\n")
    assert tuning_to_dict(tuning, None)["rerank"] == "colbert"
    plain = {"misled": {**MISLED_AND_RERANKED, "rerank": "none"}}
    other = tune(two_splits, profile="misled", setup=replace(setup, config=unexamined(plain)))
    assert (other.fit_current, other.settings) == (tuning.fit_current, tuning.settings)
    ours, theirs = (each.report.methods[CURRENT].scores[NDCG].mean for each in (tuning, other))
    assert ours > theirs
    assert "reranking" not in tuning_to_text(other)


@pytest.mark.parametrize("name", ["default", "notes", "research"])
def test_the_fit_agrees_with_real_searches(one_split: Path, name: str) -> None:
    """Fusing the candidates again gives the same figures as the pipeline."""
    off = {"rerank": "none", "literal": False, "collapse": False, "per_document": 0}
    config = unexamined({name: off})
    tuning = tune(one_split, profile=name, setup=EvaluationSetup(config, encoder=Weightless()))
    measure_methods = tuning.report.methods[CURRENT].scores[NDCG].mean
    assert tuning.fit_current == pytest.approx(measure_methods)


def test_one_split_is_cut_into_folds(one_split: Path) -> None:
    tuning = tune(one_split, profile="misled", setup=by_noise(misled=MISLED))
    assert (tuning.split, tuning.report_split, tuning.folds) == ("test", None, 5)
    assert len(tuning.report.query_ids) == 40
    assert tuning.better
    assert "note: the written settings are fitted to all 40 queries" in tuning_to_text(tuning)


def test_folds_do_not_share_a_query() -> None:
    texts = {f"q{at}": f"Query  {at // 2}" if at % 2 else f"query {at // 2}" for at in range(30)}
    folds = folds_of(Collection("reef", "test", texts, {query: {"d": 1} for query in texts}))
    assert len(folds) == 5
    assert sorted(query for fold in folds for query in fold) == sorted(texts)
    asked = [{texts[query].lower().split()[1] for query in fold} for fold in folds]
    assert sum(map(len, asked)) == 15  # the same text, but for spaces and case, is in one fold


def test_a_query_does_not_affect_its_own_settings(one_split: Path) -> None:
    """The judgments of a fold's queries do not affect the settings that they are measured with."""
    judged, setup = load(one_split), by_noise(misled=MISLED)
    base, folds = resolve("misled", setup.config.profiles), folds_of(judged)
    with open_corpus(judged, setup, {"dense"}) as store:
        searcher = setup.searcher(store)
        retrieved = retrieve_all(searcher, judged, base, 10, silent)
        searcher.close()
    wrong = {
        query: {retrieved[query].fuse(base)[0]: 1} if query in folds[0] else judgments
        for query, judgments in judged.qrels.items()
    }
    boards = [
        Scoreboard(each, retrieved, base, NDCG, "linear", silent)
        for each in (judged, replace(judged, qrels=wrong))
    ]
    ours, theirs = (by_fold(board, base, folds) for board in boards)
    texts = [judged.queries[query] for query in folds[0]]
    assert [ours(text) for text in texts] == [theirs(text) for text in texts]
    # Otherwise this would prove nothing.
    assert boards[0].fitted(folds[0]) != boards[1].fitted(folds[0])


def test_chance_is_not_written(one_split: Path) -> None:
    """If nothing can be gained, the best fit by chance is not better on other queries."""
    setup = EvaluationSetup(unexamined({"good": {"fusion": "rrf"}}), encoder=Weightless())
    tuning = tune(one_split, profile="good", setup=setup, measure="success@1")
    assert not tuning.better
    assert tuning.fit_tuned >= tuning.fit_current
    assert "nothing to write" in verdict(tuning) or "not written" in verdict(tuning)


def test_queries_of_the_other_split_are_not_fitted_to(tmp_path: Path) -> None:
    data = write_folder(tmp_path / "reef", splits={"dev": range(20), "test": range(15, 40)})
    tuning = tune(data, setup=EvaluationSetup(unexamined(), encoder=Weightless()))
    # Query n and query n + 10 ask for other pairs of words, so only those that are the same go.
    assert tuning.left_out == 5
    assert tuning.queries == 15
    assert "5 queries excluded from the fit" in tuning_to_text(tuning)


def test_the_shape(two_splits: Path) -> None:
    tuning = tune(two_splits, profile="misled", setup=by_noise(misled=MISLED))
    shape = json.loads(json.dumps(tuning_to_dict(tuning, "config.toml")))
    validate(shape)
    assert shape["better"] is True
    assert set(shape["report"]["methods"]) == {CURRENT, TUNED}


def test_the_best_settings_are_shown_as_toml(two_splits: Path) -> None:
    tuning = tune(two_splits, profile="misled", setup=by_noise(misled=MISLED))
    shown = tuning_to_text(tuning).split("best settings:\n")[1].split("\n\n")[0]
    assert tomllib.loads(shown) == tuning.settings


def test_invalid_arguments(two_splits: Path, tmp_path: Path) -> None:
    setup = EvaluationSetup(unexamined())
    with pytest.raises(InvalidRequest, match="has one retriever"):
        tune(two_splits, profile="lexical", setup=setup)
    with pytest.raises(InvalidRequest, match="profile cannot be 'nope'"):
        tune(two_splits, profile="nope", setup=setup)
    with pytest.raises(EvalDataError, match="would overstate the result"):
        tune(two_splits, split="dev", report_split="dev", setup=setup)
    with pytest.raises(EvalDataError, match="too few queries in dev to fit to: 5"):
        tune(two_splits, limit_queries=5, setup=setup)
    with pytest.raises(EvalDataError, match="no split 'nope'"):
        tune(two_splits, split="nope", setup=setup)
    (tmp_path / "mine.csv").write_text("".join(f"copper {n},a.md,1\n" for n in range(10)))
    for split, report_split in (("dev", None), (None, "dev")):
        with pytest.raises(InvalidRequest, match="has no split 'dev'"):
            tune(
                judgments=tmp_path / "mine.csv",
                split=split,
                report_split=report_split,
                setup=setup,
            )


def test_few_queries_to_measure_on_prove_nothing(tmp_path: Path) -> None:
    """One query that gains has an interval above zero, without any width."""
    data = write_folder(tmp_path / "reef", splits={"dev": range(20), "test": range(30, 31)})
    with pytest.raises(EvalDataError, match="too few queries in test to measure on: 1"):
        tune(data, profile="misled", setup=by_noise(misled=MISLED))


def chosen(data: Path, split: str | None = None, report_split: str | None = None) -> object:
    setup = EvaluationSetup(unexamined(), encoder=Weightless())
    tuning = tune(data, split=split, report_split=report_split, setup=setup)
    return tuning.split, tuning.report_split, tuning.folds


@pytest.mark.parametrize(
    ("there", "split", "expected"),
    [
        (("dev", "test"), None, ("dev", "test", None)),
        (("test", "train"), None, ("train", "test", None)),
        (("test", "zebra"), None, ("zebra", "test", None)),
        (("dev", "train"), None, ("train", "dev", None)),
        (("dev", "train"), "train", ("train", "dev", None)),
        (("dev", "train"), "dev", ("dev", None, 5)),
        (("test",), None, ("test", None, 5)),
        (("test",), "test", ("test", None, 5)),
        (("dev",), "dev", ("dev", None, 5)),
    ],
)
def test_the_splits_for_fitting_and_measuring(
    tmp_path: Path, there: tuple[str, ...], split: str | None, expected: object
) -> None:
    cut = {name: range(12 * at, 12 * at + 12) for at, name in enumerate(there)}
    assert chosen(write_folder(tmp_path / "reef", splits=cut), split) == expected


@pytest.mark.parametrize("report_split", [None, "dev"])
def test_the_test_split_is_not_fitted_to(two_splits: Path, report_split: str | None) -> None:
    with pytest.raises(EvalDataError, match="test is for measuring") as caught:
        chosen(two_splits, "test", report_split)
    assert caught.value.hint == "available splits: dev"


def test_the_verdicts(two_splits: Path) -> None:
    tuning = tune(two_splits, setup=EvaluationSetup(unexamined(), encoder=Weightless()))
    told = tuning_to_text(tuning)
    assert "profile default" in told
    assert verdict(tuning) in told
