"""Seed 002 (Neo Alexandria, phase 8): metrics, speed and compare, R6 to R8. One test per acceptance
criterion, named after its label: R1.2 is `test_r1_2_...`."""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase, models, wire
from kb.config import Config, SearchConfig
from kb.evaluation.experiment import run_experiment
from kb.evaluation.metrics import Measure, ndcg, per_query, precision, recall
from kb.ports import traits_of
from tests.conformance.seed_002 import LONG, ranks_of, three_way
from tests.evaluation.qrels_folder import write_folder
from tests.models.judges import WordJudge
from tests.models.weightless import Weightless, unexamined
from tests.schemas import validate

# --- R6: evaluation -------------------------------------------------------------------------------


RANKED, GRADES = ["d3", "d1", "d9", "d2"], {"d1": 3, "d2": 1, "d3": 0, "d4": 2}


def test_r6_1_ndcg_at_20_of_ranked_results_and_judgments() -> None:
    found = 3 / math.log2(3) + 1 / math.log2(5)
    ideal = 3 + 2 / math.log2(3) + 1 / math.log2(4)
    assert ndcg(RANKED, GRADES, 20) == pytest.approx(found / ideal)


def test_r6_1_the_best_possible_is_cut_at_k_too() -> None:
    """Three relevant documents, and room for two: both found in the best order is a full score."""
    assert ndcg(["d1", "d4", "d2"], GRADES, 2) == pytest.approx(1.0)
    assert ndcg(["d4", "d1", "d2"], GRADES, 1) == pytest.approx(2 / 3)


def test_r6_1_only_the_first_k_count() -> None:
    assert ndcg(["d9", "d1"], GRADES, 1) == 0.0


def test_r6_2_recall_is_of_all_that_are_relevant() -> None:
    """The divisor is the number of relevant documents, even if k is smaller."""
    assert recall(["d1"], GRADES, 1) == pytest.approx(1 / 3)


def test_r6_2_recall_at_k() -> None:
    assert [recall(RANKED, GRADES, k) for k in (1, 2, 4)] == pytest.approx([0, 1 / 3, 2 / 3])


def test_r6_3_precision_at_k() -> None:
    assert [precision(RANKED, GRADES, k) for k in (1, 2, 4)] == pytest.approx([0, 1 / 2, 1 / 2])


def test_r6_3_precision_divides_by_k() -> None:
    """Missing results count as not relevant."""
    assert precision(["d1", "d2"], GRADES, 10) == pytest.approx(2 / 10)


def test_r6_4_a_query_without_an_answer_counts() -> None:
    values = per_query(Measure("MRR"), {"b": ["d1"]}, {"a": GRADES, "b": GRADES})
    assert values == {"a": 0.0, "b": 1.0}


def test_r6_4_mean_reciprocal_rank() -> None:
    values = per_query(Measure("MRR"), {"a": RANKED, "b": ["d1"]}, {"a": GRADES, "b": GRADES})
    assert sum(values.values()) / len(values) == pytest.approx(3 / 4)


def test_r6_5_the_gain_over_two_way_hybrid_is_reported(tmp_path: Path) -> None:
    """How large it is depends on the data: `kb eval run` measures it, and `make quality` does on
    public collections."""
    data = write_folder(tmp_path / "reef", splits={"test": range(10)})
    report = run_experiment(
        data,
        methods=("two_way_hybrid", "three_way_reranked"),
        measures=["nDCG@20"],
        baseline="two_way_hybrid",
        config=unexamined(),
        encoder=Weightless(),
        judge=WordJudge,
    )
    compared = report.methods["three_way_reranked"].comparisons
    assert compared is not None
    assert compared[Measure("nDCG", 20)].gain_percent is not None
    assert report.methods["three_way_reranked"].degraded == {}


# --- R7: speed ------------------------------------------------------------------------------------


def test_r7_1_the_answer_says_how_long_it_took(judged: KnowledgeBase) -> None:
    """`make bench` measures that 95 of 100 searches take less than 200 ms."""
    assert three_way(judged).timing_ms["total"] > 0


def test_r7_2_the_latency_of_each_search_is_logged(
    judged: KnowledgeBase, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "kb.search"):
        for _ in range(2):
            three_way(judged)
    told = [each.getMessage() for each in caplog.records if "search took" in each.getMessage()]
    assert len(told) == 2
    assert all(f"'{name}':" in line for line in told for name in ("lexical", "dense", "sparse"))


def test_r7_3_the_three_run_at_the_same_time(
    judged: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits until the other two have started: in sequence, none would return."""
    monkeypatch.setattr("kb.search.retrievers.model_retriever.SLOW_FROM", 100)
    begun = threading.Barrier(3, timeout=30)
    vectors = judged._store.vectors
    ports: list[tuple[Any, str]] = [
        (judged._store.fulltext, "match"), (vectors, "nearest_dense"), (vectors, "nearest_sparse"),
    ]  # fmt: skip
    for port, name in ports:
        real = getattr(port, name)

        def together(*asked: Any, _real: Any = real, **more: Any) -> Any:
            begun.wait()
            return _real(*asked, **more)

        monkeypatch.setattr(port, name, together)
    found = three_way(judged)
    assert (found.degraded, found.returned) == ((), 20)


def test_r7_4_a_slow_one_is_a_warning_with_its_query(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert SearchConfig().slow_ms == 500
    config = replace(unexamined(), search=SearchConfig(slow_ms=-1))  # everything is slow
    with KnowledgeBase(tmp_path / "slow.sqlite", config=config, encoder=Weightless()) as kb:
        kb.add("harbour keys")
        kb.embed()
        with caplog.at_level(logging.WARNING, "kb.search"):
            three_way(kb, "harbour keys")
    (record,) = (each for each in caplog.records if each.name == "kb.search")
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("slow search, ")
    assert record.getMessage().endswith("ms: 'harbour keys'")


@pytest.mark.parametrize("gpu", ["CUDAExecutionProvider", "ROCMExecutionProvider"])
def test_r7_5_a_gpu_is_used_where_there_is_one(
    gpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The encoder and the judge run on the GPU that `models.provider` names. By default, int8
    graphs stay on the CPU, where they are faster, and torch runs kb-mini on a GPU
    (tests/models/test_device.py). A fake runtime reports a GPU here; the test checks the requested
    provider and computes on the CPU."""
    import onnxruntime

    real, asked = onnxruntime.InferenceSession, []

    class Pretending:
        def __init__(self, path: str, options: Any, providers: list[str], **_: object) -> None:
            asked.append((Path(path).parent.name, *providers))
            self.inner = real(path, options, providers=["CPUExecutionProvider"])
            self.get_providers = lambda: providers

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Pretending)
    cpu = "CPUExecutionProvider"
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [gpu, cpu])
    config = Config(models=replace(Config().models, provider=gpu))
    encoder, judge = models.encoder(config), models.judge(config)
    assert encoder is not None
    assert judge is not None
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=encoder, judge=judge) as kb:
        kb.add("harbour keys")
        kb.embed()
        hits = kb.search("where are the harbour keys", rerank="cross-encoder").hits
        assert hits[0].score_kind == "rerank"
    assert asked == [("kb_mini", gpu, cpu), ("kb_judge", gpu, cpu)]
    assert traits_of(encoder).batch_size == 32  # and 8 on a CPU [R9.2]


# --- R8: compare ----------------------------------------------------------------------------------


METHODS = (
    "fts5_only", "dense_only", "sparse_only", "two_way_hybrid", "three_way_hybrid",
    "three_way_reranked",
)  # fmt: skip


def test_r8_1_results_of_all_six(judged: KnowledgeBase) -> None:
    found = judged.compare("harbour keys boat3", top=20)
    assert tuple(found.methods) == METHODS
    assert all(len(method.hits) == 20 for method in found.methods.values())
    kinds = {name: method.hits[0].score_kind for name, method in found.methods.items()}
    assert kinds == dict(
        zip(METHODS, ("bm25", "cosine", "sparse", "rrf", "rrf", "rerank"), strict=True)
    )
    sources = {
        name: {source for hit in method.hits for source in hit.sources}
        for name, method in found.methods.items()
    }
    assert sources["two_way_hybrid"] == {"fts", "vec"}
    assert sources["three_way_hybrid"] == {"fts", "vec", "sparse"}


def test_r8_2_all_for_the_same_query(judged: KnowledgeBase) -> None:
    found = judged.compare("harbour keys boat3", top=20)
    assert found.query == "harbour keys boat3"
    assert found.methods["three_way_hybrid"].hits == three_way(judged).hits
    words = judged.search_lexical("harbour keys boat3", match="any")
    assert found.methods["fts5_only"].hits == words


@pytest.mark.parametrize("query", ["harbour", "why is boat3 in the harbour", LONG, "f(boat3)"])
def test_r8_1_the_two_way_baseline_is_not_adaptive(judged: KnowledgeBase, query: str) -> None:
    """Words and meaning have the same weight for every query."""
    for hit in judged.compare(query).methods["two_way_hybrid"].hits:
        expected = sum(1 / (60 + rank) for rank in ranks_of(hit).values())
        assert hit.score == pytest.approx(expected)
        assert "sparse" not in hit.sources


def test_r8_1_the_last_method_is_the_reranked_search(judged: KnowledgeBase) -> None:
    found = judged.compare("harbour keys boat3", top=20).methods
    order = [hit.chunk_id for hit in found["three_way_reranked"].hits]
    research = judged.search("harbour keys boat3", profile="research")
    assert order == [hit.chunk_id for hit in research]
    assert order != [hit.chunk_id for hit in found["three_way_hybrid"].hits]


def test_r8_3_by_the_name_of_the_method(judged: KnowledgeBase) -> None:
    shape = wire.comparison(judged.compare("harbour keys boat3"))
    validate(shape)
    assert shape["schema_version"] == "compare.v1"
    assert tuple(shape["methods"]) == METHODS


def test_r8_4_how_long_all_took(judged: KnowledgeBase) -> None:
    """`make bench` measures that it is below a second."""
    found = judged.compare("harbour keys boat3")
    spent = sum(method.latency_ms for method in found.methods.values())
    assert found.wall_ms >= found.shared_ms + spent > 0


def test_r8_5_counts_and_latency_of_each(judged: KnowledgeBase) -> None:
    shape = wire.comparison(judged.compare("harbour keys boat3", top=7))
    for method in shape["methods"].values():
        assert method["count"] == len(method["hits"]) == 7
        assert method["latency_ms"] > 0
