"""Experiments: judged data, a store to search, methods by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.config import Config
from kb.errors import EvalDataError, InvalidRequest
from kb.evaluation.beir import load
from kb.evaluation.corpus_store import EvaluationSetup, open_corpus
from kb.evaluation.experiment import METHODS, method_names, parts_needed, run_experiment
from kb.evaluation.metrics import Measure
from kb.index.token_codes import FORMATS
from kb.store.sqlite import vector_pieces
from kb.store.sqlite.store import SqliteStore
from kb.types import COMPARED, Encoding
from tests.evaluation.qrels_folder import write_folder
from tests.models.weightless import Weightless, unexamined

MRR = Measure("MRR")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "reef", splits={"test": range(12), "dev": range(12, 30)})


def test_a_corpus_by_words_and_by_meaning(data: Path) -> None:
    told: list[tuple[str, int, int]] = []
    report = run_experiment(
        data,
        methods=("default", "fts5_only", "dense_only"),
        measures=("MRR", "success@5"),
        config=unexamined(),
        encoder=Weightless(),
        on_progress=lambda *step: told.append(step),
    )
    assert len(report.query_ids) == 12
    assert report.baseline == "default"
    spec = Weightless().spec
    assert (report.documents, report.model) == (40, f"{spec.name} {spec.version}")
    assert all(0.2 < one.scores[MRR].mean <= 1 for one in report.methods.values())
    assert all(one.degraded == {} for one in report.methods.values())
    assert {stage for stage, _, _ in told} == {"embed", "ask"}
    assert report.caveats.unjudged_queries == 10


def test_the_six_of_compare_are_methods() -> None:
    assert set(COMPARED) <= set(METHODS)
    assert set(METHODS) <= set(method_names(Config()))


def test_which_parts_are_computed() -> None:
    config = Config()
    assert parts_needed(["lexical", "match-all", "fts5_only"], config) == frozenset()
    assert parts_needed(["dense_only"], config) == {"dense"}
    assert parts_needed(["fts5_only", "three_way_hybrid"], config) >= {"dense", "sparse"}


class Counting(Weightless):
    """Counts what it encodes."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = self.passages = 0

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        if as_query:
            self.queries += len(texts)
        else:
            self.passages += len(texts)
        return super().encode(texts, as_query=as_query, want=want, on_progress=on_progress)


def test_a_second_run_is_the_same_and_encodes_no_passage(data: Path, tmp_path: Path) -> None:
    reports, passages = [], []
    for _ in range(2):
        encoder = Counting()
        report = run_experiment(
            data,
            measures=["MRR"],
            config=unexamined(),
            encoder=encoder,
            cache=tmp_path / "cache",
        )
        reports.append({name: one.scores for name, one in report.methods.items()})
        passages.append(encoder.passages)
    assert reports[0] == reports[1]
    assert passages[0] >= 40
    assert passages[1] == 1  # the probe of the weights


def test_every_method_pays_for_its_queries(data: Path) -> None:
    """A query that one method has encoded is not cached for the next, and the warm-up query is not
    cached for the method itself."""
    encoder = Counting()
    run_experiment(
        data,
        methods=("dense_only", "default"),
        measures=["MRR"],
        config=unexamined(),
        encoder=encoder,
    )
    assert encoder.queries == 2 * (12 + 1)


def test_degraded_parts_are_counted(data: Path) -> None:
    report = run_experiment(data, methods=("default", "dense_only"), measures=["MRR"])
    assert report.methods["dense_only"].degraded == {("dense", "no_model"): 12}
    assert report.methods["dense_only"].scores[MRR].mean == 0.0


def test_a_query_that_is_a_bad_expression_stops_nothing(data: Path) -> None:
    lines = (data / "queries.jsonl").read_text().splitlines()
    lines[0] = '{"_id": "q0", "text": "\'copper AND (\'"}'
    (data / "queries.jsonl").write_text("\n".join(lines))
    report = run_experiment(data, methods=("lexical",), measures=["MRR"])
    assert report.methods["lexical"].degraded == {("query", "syntax"): 1}
    assert report.methods["lexical"].scores[MRR].values[0] == 0.0


def test_documents_in_a_folder(tmp_path: Path, library: Callable[..., Path]) -> None:
    folder = library({"a.md": "# Copper\n\ncopper guard", "b.md": "# Battery\n\nbattery life"})
    judgments = tmp_path / "mine.csv"
    judgments.write_text("copper,lib/a.md,1\nbattery,lib/b.md,1\nbattery,lib/gone.md,2\n")
    report = run_experiment(
        judgments=judgments, documents=folder, methods=("lexical",), measures=["MRR", "nDCG@10"]
    )
    assert report.methods["lexical"].scores[MRR].mean == 1.0
    # Missing documents still count in the ideal ranking: losing documents improves nothing.
    assert report.methods["lexical"].scores[Measure("nDCG", 10)].values[1] < 0.5
    assert report.caveats.unknown_documents == ("lib/gone.md",)
    assert not (tmp_path / "home").exists()


def test_documents_rank_by_their_best_passage(tmp_path: Path, library: Callable[..., Path]) -> None:
    """A document has one rank, however many of its passages are returned."""
    long = "\n\n".join(f"# Part {at}\n\ncopper copper copper {at}" for at in range(60))
    folder = library({"long.md": long, "short.md": "# Other\n\nan anchor of copper and steel"})
    judgments = tmp_path / "mine.csv"
    judgments.write_text("copper,lib/short.md,1\n")
    report = run_experiment(
        judgments=judgments, documents=folder, methods=("lexical", "default"), measures=["MRR@2"]
    )
    assert [one.scores[Measure("MRR", 2)].mean for one in report.methods.values()] == [0.5, 0.5]


def test_the_users_store(kb: KnowledgeBase, tmp_path: Path, library: Callable[..., Path]) -> None:
    kb.ingest(library({"a.md": "copper guard", "b.md": "battery life"}))
    judgments = tmp_path / "mine.csv"
    judgments.write_text("copper,lib/a.md,1\n")
    report = run_experiment(
        judgments=judgments, store=kb.path, methods=["lexical"], measures=["success@5"]
    )
    assert report.methods["lexical"].scores[Measure("Success", 5)].mean == 1.0


def test_a_store_without_the_judged_documents_is_an_error(
    kb: KnowledgeBase, tmp_path: Path, library: Callable[..., Path]
) -> None:
    kb.ingest(library({"a.md": "copper guard"}))
    judgments = tmp_path / "mine.csv"
    judgments.write_text("copper,other/a.md,1\n")
    with pytest.raises(EvalDataError, match="the store has none of the 1 judged documents"):
        run_experiment(judgments=judgments, store=kb.path)


def test_invalid_arguments(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no method 'nope'"):
        run_experiment(data, methods=["nope"])
    with pytest.raises(InvalidRequest, match="no method is given"):
        run_experiment(data, methods=[])
    with pytest.raises(InvalidRequest, match="no measure is given"):
        run_experiment(data, measures=[])
    with pytest.raises(InvalidRequest, match="either a folder or a CSV file"):
        run_experiment()
    with pytest.raises(InvalidRequest, match="either a folder or a CSV file"):
        run_experiment(data, judgments=tmp_path / "x.csv")
    (data / "corpus.jsonl").unlink()
    with pytest.raises(EvalDataError, match="has no corpus"):
        run_experiment(data)


def test_a_limit(data: Path) -> None:
    report = run_experiment(data, methods=["lexical"], measures=["MRR"], limit_queries=3)
    assert report.query_ids == ("q0", "q1", "q2")


@pytest.mark.parametrize("tokens", ["2-bit", "int8", "none"])
def test_token_vectors_are_stored_in_the_configured_format(data: Path, tokens: str) -> None:
    """An experiment with a reranker measures what a store with these settings contains."""
    config = unexamined({"reranked": {"base": "notes", "rerank": "colbert"}}, tokens=tokens)
    with open_corpus(
        load(data), EvaluationSetup(config, encoder=Weightless()), {"dense", "tokens"}
    ) as store:
        assert isinstance(store, SqliteStore)
        with store._database.reading() as connection:
            ids = [one for (one,) in connection.execute("SELECT chunk_id FROM chunks")]
            stored = vector_pieces.read(connection, "tokens", 1, ids)
        forms: set[str | None] = {FORMATS[data[0]] for data in stored.values()}
        forms = forms or {None}
        assert forms == {None if tokens == "none" else tokens}
    report = run_experiment(
        data, methods=("reranked",), measures=["MRR"], config=config, encoder=Weightless()
    )
    assert report.methods["reranked"].degraded == {}  # a disabled reranker is not reported
