"""Seed 002 (Neo Alexandria, phase 8): three-way search, R2 to R5. One test per acceptance
criterion, named after its label: R1.2 is `test_r1_2_...`."""

from __future__ import annotations

import logging
from array import array
from operator import mul
from pathlib import Path
from typing import Any

import pytest

from kb import Filters, KnowledgeBase
from kb.search.results.trace import Trace
from kb.types import Encoding, Response
from tests.conformance.seed_002 import LONG, WAYS, ByHand, ranks_of, three_way, toward, weights_of
from tests.models.judges import WordJudge
from tests.models.weightless import Weightless
from tests.store.builders import sqlite_store

# --- R2: three retrievers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "retriever"), [("R2.1", "lexical"), ("R2.2", "dense"), ("R2.3", "sparse")]
)
def test_r2_1_to_3_a_hundred_candidates_of_each(
    judged: KnowledgeBase, label: str, retriever: str
) -> None:
    """130 passages would be found by each; 100 of them are fused."""
    assert label
    found = three_way(judged, top=20, explain=True)
    assert found.explain is not None
    (stage,) = (each for each in found.explain["stages"] if each["stage"] == retriever)
    assert stage["found"] == 100
    ranks = [getattr(hit.retrieval, f"{WAYS[retriever]}_rank") for hit in found]
    assert any(rank is not None for rank in ranks)


def test_r2_4_how_long_each_took_is_told(judged: KnowledgeBase) -> None:
    """`make bench` measures that it is below 150 ms."""
    timing = three_way(judged).timing_ms
    assert {"lexical", "dense", "sparse", "fuse", "total"} <= set(timing)


@pytest.mark.parametrize("retriever", WAYS)
def test_r2_5_one_that_fails_leaves_the_others_and_is_logged(
    judged: KnowledgeBase,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    retriever: str,
) -> None:
    calls = {"lexical": "match", "dense": "nearest_dense", "sparse": "nearest_sparse"}
    port = judged._store.fulltext if retriever == "lexical" else judged._store.vectors

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("bang")

    monkeypatch.setattr(port, calls[retriever], fails)
    with caplog.at_level(logging.WARNING, "kb.search"):
        found = three_way(judged)
    assert found.returned == 20
    assert [(part.part, part.reason) for part in found.degraded] == [(retriever, "failed")]
    assert f"search degraded: {retriever} failed (RuntimeError: bang)" in caplog.text
    others = {"lexical": "fts", "dense": "vec", "sparse": "sparse"}
    del others[retriever]
    assert {source for hit in found for source in hit.sources} == set(others.values())


@pytest.fixture
def weighed(known: Any) -> KnowledgeBase:
    """Passages with given term weights, and the query `light heavy` with the weights 1 and 10."""
    kb: KnowledgeBase = known(
        ByHand(
            {
                "light heavy": Encoding(dense=toward(1.0), sparse={"light": 1.0, "heavy": 10.0}),
                "first": Encoding(sparse={"light": 3.0}),
                "second": Encoding(sparse={"heavy": 1.0}),
                "third": Encoding(dense=toward(0.9), sparse={"light": 2.0, "heavy": 0.5}),
                "fourth": Encoding(sparse={"other": 9.0}),
            }
        )
    )
    for text in ("first", "second", "third", "fourth"):
        kb.add(text)
    kb.embed()
    return kb


def test_r2_3_weights_of_query_and_passage_are_multiplied(weighed: KnowledgeBase) -> None:
    found = weighed.search_sparse("light heavy")
    scores = [(weighed.chunk(hit.chunk_id).text, hit.score) for hit in found]
    assert scores == [("second", 10.0), ("third", 7.0), ("first", 3.0)]


@pytest.mark.parametrize("backend", ["numpy", "python"])
def test_r2_3_by_every_backend(weighed: KnowledgeBase, backend: str) -> None:
    found = sqlite_store(weighed).vectors.nearest_sparse(
        1, {"light": 1.0, "heavy": 10.0}, filters=Filters(), now="2026-05-28", limit=9,
        backend=backend,
    )  # fmt: skip
    assert found.backend == backend
    assert [(one.chunk_id, one.score) for one in found.chunks] == [(2, 10.0), (3, 7.0), (1, 3.0)]


def test_r2_3_scores_of_what_others_found_are_the_same(weighed: KnowledgeBase) -> None:
    """A profile with `complete` scores candidates that only other retrievers returned. Here the
    second passage is the best by terms and the third is the nearest, whose sparse score is computed
    separately."""
    settings = {"retrievers": "dense,sparse", "complete": True, "candidates": 1}
    found = weighed.search(
        "light heavy", profile="research", rerank=False, top=2, settings=settings, explain=True
    )
    assert found.explain is not None
    scores = {each["chunk_id"]: each["scores"] for each in found.explain["hits"]}
    assert {chunk: each["sparse"] for chunk, each in scores.items()} == {2: 10.0, 3: 7.0}


@pytest.fixture
def crowded(known: Any, tmp_path: Path) -> KnowledgeBase:
    """400 passages that suit the query better than the five with a tag, by every retriever."""
    better = "".join(f"# Harbour {number}\n\nharbour keys\n\n" for number in range(400))
    few = "".join(f"# Note {number}\n\nkeys and many other words\n\n" for number in range(5))
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "better.md").write_text(better, encoding="utf-8")
    (folder / "few.md").write_text(f"---\ntags: [kept]\n---\n{few}", encoding="utf-8")
    kb: KnowledgeBase = known(Weightless())
    kb.ingest(folder)
    kb.embed()
    return kb


@pytest.mark.parametrize("mode", ["lexical", "vector", "sparse", "hybrid"])
def test_r2_1_to_3_a_filter_is_no_cut_of_the_best(crowded: KnowledgeBase, mode: str) -> None:
    """The hundred candidates of each retriever all match the filter."""
    asked: dict[str, Any] = {"mode": mode, "rerank": False, "profile": "research"}
    every = crowded.search("harbour keys", top=100, **asked)
    assert {hit.doc_path for hit in every} == {"lib/better.md"}
    kept = Filters(tags=("kept",))
    found = crowded.search("harbour keys", top=5, filters=kept, settings={"candidates": 5}, **asked)
    assert [hit.doc_path for hit in found] == ["lib/few.md"] * 5


@pytest.mark.parametrize("backend", ["numpy", "python"])
def test_r2_3_nor_in_any_backend(crowded: KnowledgeBase, backend: str) -> None:
    few = {chunk.chunk_id for chunk in crowded.chunks("lib/few.md")}
    found = sqlite_store(crowded).vectors.nearest_sparse(
        1, {"harbour": 1.0, "keys": 1.0}, filters=Filters(tags=("kept",)), now="2026-05-28",
        limit=5, backend=backend,
    )  # fmt: skip
    assert {one.chunk_id for one in found.chunks} == few


def test_r2_1_any_word_is_enough(judged: KnowledgeBase) -> None:
    (stage,) = (
        each
        for each in (three_way(judged, "harbour nosuchword", explain=True).explain or {})["stages"]
        if each["stage"] == "lexical"
    )
    assert stage["found"] == 100


# --- R3: fusion -----------------------------------------------------------------------------------


def test_r3_1_one_score_for_each_document_found(judged: KnowledgeBase) -> None:
    found = three_way(judged, top=130)
    assert len({hit.chunk_id for hit in found}) == found.returned == 130
    assert all(hit.retrieval.fusion_score is not None for hit in found)


@pytest.mark.parametrize("query", ["harbour keys boat3", "why is boat3 in the harbour", "f(boat3)"])
def test_r3_2_the_formula(judged: KnowledgeBase, query: str) -> None:
    found = three_way(judged, query, explain=True)
    weights = weights_of(found)
    for hit in found:
        expected = sum(weights[name] / (60 + rank) for name, rank in ranks_of(hit).items())
        assert hit.score == pytest.approx(expected)


def test_r3_3_sorted_by_it(judged: KnowledgeBase) -> None:
    scores = [hit.score for hit in three_way(judged, top=100)]
    assert scores == sorted(scores, reverse=True)


def test_r3_4_three_lists_of_a_hundred(judged: KnowledgeBase) -> None:
    """`make bench` measures that it takes less than 5 ms."""
    found = three_way(judged, explain=True)
    assert found.explain is not None
    (stage,) = (each for each in found.explain["stages"] if each["stage"] == "fuse")
    assert stage["candidates"] >= 100
    assert found.timing_ms["fuse"] == stage["ms"]


def test_r3_5_scores_from_all_lists_are_combined(judged: KnowledgeBase) -> None:
    found = three_way(judged, explain=True)
    weights = weights_of(found)
    several = [hit for hit in found if len(ranks_of(hit)) == 3]
    assert several
    for hit in several:
        name, rank = next(iter(ranks_of(hit).items()))
        assert hit.score > weights[name] / (60 + rank)


def test_r3_3_ties_are_ordered_by_chunk_id(known: Any) -> None:
    """The words of the query are in neither passage. One is first by meaning and second by terms,
    the other the reverse."""
    kb = known(
        ByHand(
            {
                "asked": Encoding(dense=toward(1.0), sparse={"term": 1.0}),
                "one": Encoding(dense=toward(0.5), sparse={"term": 2.0}),
                "two": Encoding(dense=toward(0.9), sparse={"term": 1.0}),
            }
        )
    )
    for text in ("one", "two"):
        kb.add(text)
    kb.embed()
    found = three_way(kb, "asked", settings={"adaptive": False})
    assert [ranks_of(hit) for hit in found] == [
        {"dense": 2, "sparse": 1},
        {"dense": 1, "sparse": 2},
    ]
    assert found.hits[0].score == found.hits[1].score
    assert [hit.chunk_id for hit in found] == [1, 2]


# --- R4: weights that follow the query ------------------------------------------------------------


PLAIN = "harbour keys of boats"


def share(kb: KnowledgeBase, query: str, retriever: str) -> float:
    """The weight of a retriever relative to one that no rule has raised."""
    weights = weights_of(three_way(kb, query, explain=True))
    return weights[retriever] / min(weights.values())


@pytest.mark.parametrize("query", ["harbour", "harbour keys", "harbour keys boats"])
def test_r4_1_three_words_or_fewer_raise_words_by_half(judged: KnowledgeBase, query: str) -> None:
    assert share(judged, query, "lexical") == pytest.approx(1.5)
    assert share(judged, PLAIN, "lexical") == pytest.approx(1.0)


def test_r4_2_more_than_ten_words_raise_dense_by_half(judged: KnowledgeBase) -> None:
    words = LONG.split()
    shares = {count: share(judged, " ".join(words[:count]), "dense") for count in (9, 10, 11, 12)}
    assert shares == pytest.approx({9: 1.0, 10: 1.0, 11: 1.5, 12: 1.5})


@pytest.mark.parametrize("query", ["get_boat of the harbour keys", "the boats of n ≤ 5 keys"])
def test_r4_3_technical_marks_raise_sparse_by_half(judged: KnowledgeBase, query: str) -> None:
    assert share(judged, query, "sparse") == pytest.approx(1.5)
    assert share(judged, PLAIN, "sparse") == pytest.approx(1.0)


@pytest.mark.parametrize("word", ["Who", "What", "When", "Where", "Why", "How"])
def test_r4_4_question_words_raise_dense_by_thirty_percent(
    judged: KnowledgeBase, word: str
) -> None:
    assert share(judged, f"{word} keeps the harbour keys", "dense") == pytest.approx(1.3)
    assert share(judged, f"{word} {LONG}", "dense") == pytest.approx(1.8)
    # Not at the start.
    assert share(judged, f"the harbour keys {word}", "dense") == pytest.approx(1.0)


@pytest.mark.parametrize("query", ["harbour", PLAIN, LONG, "how is get_boat called", "boats()"])
def test_r4_5_they_sum_up_to_one(
    judged: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """Also over the remaining retrievers if one did not run."""
    assert sum(weights_of(three_way(judged, query, explain=True)).values()) == pytest.approx(1.0)

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("bang")

    monkeypatch.setattr(judged._store.vectors, "nearest_dense", fails)
    weights = weights_of(three_way(judged, query, explain=True))
    assert set(weights) == {"lexical", "sparse"}
    assert sum(weights.values()) == pytest.approx(1.0)


# --- R5: reranking --------------------------------------------------------------------------------


RERANKERS = ("colbert", "cross-encoder")


def reranked(kb: KnowledgeBase, name: str, **settings: Any) -> Response:
    return kb.search("harbour keys boat3", profile="research", rerank=name, top=130,
                     settings=settings)  # fmt: skip


@pytest.mark.parametrize("name", RERANKERS)
def test_r5_1_the_first_hundred_candidates_are_reranked(judged: KnowledgeBase, name: str) -> None:
    found = reranked(judged, name)
    read = [hit.retrieval.rerank_score is not None for hit in found]
    assert read == [True] * 100 + [False] * 30
    fused = judged.search("harbour keys boat3", profile="research", rerank=False, top=130)
    assert {hit.chunk_id for hit in found.hits[:100]} == {hit.chunk_id for hit in fused.hits[:100]}


def test_r5_2_a_score_for_each_pair(judged: KnowledgeBase, judge: WordJudge) -> None:
    """The cross-encoder reads the query and a passage together."""
    found = reranked(judged, "cross-encoder")
    assert len(judge.read) == 100
    for hit in found.hits[:100]:
        text = judged.chunk(hit.chunk_id).text
        assert any(passage.endswith(text) for passage in judge.read)


@pytest.mark.parametrize(("pair_ms", "read"), [(7.0, 100), (20.0, 45)])
def test_r5_3_within_a_second(
    judged: KnowledgeBase,
    judge: WordJudge,
    monkeypatch: pytest.MonkeyPatch,
    pair_ms: float,
    read: int,
) -> None:
    """`make bench` measures the time for 100 passages. On a machine that is too slow, fewer are
    read within a second, and the response reports it."""
    monkeypatch.setattr(Trace, "elapsed_ms", lambda _: len(judge.read) * pair_ms)
    found = judged.search("harbour", profile="research", rerank="cross-encoder", budget_ms=1_000)
    assert read <= len(judge.read) <= 1_000 / pair_ms
    assert [part.reason for part in found.degraded] == ["timeout"] * (len(judge.read) < 100)


@pytest.mark.parametrize("name", RERANKERS)
@pytest.mark.parametrize("blend", [0.3, 1.0])
def test_r5_4_sorted_by_the_reranking_score(judged: KnowledgeBase, name: str, blend: float) -> None:
    found = reranked(judged, name, rerank_blend=blend)
    scores = [hit.retrieval.rerank_score for hit in found.hits[:100]]
    assert scores == sorted((score for score in scores if score is not None), reverse=True)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert {hit.score_kind for hit in found} == {"rerank"}


def test_r5_4_the_order_is_the_cross_encoders(judged: KnowledgeBase, judge: WordJudge) -> None:
    """With a blend of 1, the candidates are ordered by its scores, and ties by the fused order."""
    fused = three_way(judged, top=100).hits
    judge.read.clear()
    texts = {hit.chunk_id: judged.chunk(hit.chunk_id).text for hit in fused}
    by_judge = {
        chunk: judge.scores("harbour keys boat3", [text])[0] for chunk, text in texts.items()
    }
    expected = sorted((hit.chunk_id for hit in fused), key=lambda chunk: -by_judge[chunk])
    assert expected != [hit.chunk_id for hit in fused]
    found = reranked(judged, "cross-encoder", rerank_blend=1)
    assert [hit.chunk_id for hit in found.hits[:100]] == expected


def test_r5_4_the_order_is_that_of_late_interaction(known: Any) -> None:
    """Alone, by the mean over the query's words of the nearest word in the passage: not by how
    often a word occurs there, nor by one of the query's words."""
    kb = known(Weightless())
    passages = (
        "keys keys keys keys",
        "harbour boats keys",
        f"harbour boats keys lantern {'and other words that nobody has asked for ' * 5}",
        "lantern",
        "flour",
    )
    for text in passages:
        kb.add(text)
    kb.embed()
    query = "harbour boats keys lantern"
    fused = [hit.chunk_id for hit in kb.search(query, profile="research", rerank=False)]
    found = kb.search(query, profile="research", rerank="colbert", settings={"rerank_blend": 1})
    encoder = Weightless()
    expected = {}
    for number, text in enumerate(passages, start=1):
        asked, tokens = (_rows(encoder, each) for each in (query, text))
        nearest = [max(sum(map(mul, one, other)) for other in tokens) for one in asked]
        expected[number] = sum(nearest) / len(nearest)
    order = sorted(expected, key=lambda number: -expected[number])
    assert [hit.chunk_id for hit in found] == order
    assert order[0] == 3
    assert order != fused


def _rows(encoder: Weightless, text: str) -> list[array[float]]:
    tokens = encoder.encode([text], want={"tokens"})[0].tokens
    assert tokens is not None
    width = tokens.dimension
    return [array("f", tokens.data[at : at + width]) for at in range(0, len(tokens.data), width)]


@pytest.mark.parametrize("name", RERANKERS)
def test_r5_4_the_fused_score_counts_for_the_rest(judged: KnowledgeBase, name: str) -> None:
    """At a blend of 0, the reranker has no effect: the order is the fused one, and the scores fall
    with the fused scores. In between, both count."""
    fused = three_way(judged, top=100).hits
    none, half = (reranked(judged, name, rerank_blend=blend).hits[:100] for blend in (0, 0.5))
    assert [hit.chunk_id for hit in none] == [hit.chunk_id for hit in fused]
    distinct = {round(hit.score, 12) for hit in fused}
    assert len({round(hit.score, 12) for hit in none}) == len(distinct) > 10
    alone = reranked(judged, name, rerank_blend=1).hits[:100]
    orders = {tuple(hit.chunk_id for hit in hits) for hits in (none, half, alone)}
    assert len(orders) == 3


def test_r5_1_reranking_is_what_the_profile_does(judged: KnowledgeBase) -> None:
    """The profile `research` reranks, and returns twenty hits."""
    found = judged.search("harbour keys boat3", profile="research")
    assert {hit.score_kind for hit in found} == {"rerank"}
    assert found.returned == 20
    order = [hit.chunk_id for hit in found]
    assert order == [hit.chunk_id for hit in reranked(judged, "colbert").hits[:20]]
    assert order != [hit.chunk_id for hit in three_way(judged)]


@pytest.mark.parametrize("way", ["raises", "nan", "short"])
def test_r5_5_disabled_or_failed_is_the_fused_order(
    judged: KnowledgeBase, judge: WordJudge, way: str
) -> None:
    disabled = reranked(judged, "none")
    assert {hit.score_kind for hit in disabled} == {"rrf"}
    assert disabled.degraded == ()
    scores = [hit.retrieval.fusion_score for hit in disabled]
    assert scores == sorted((score for score in scores if score is not None), reverse=True)
    judge.fail = way
    failed = reranked(judged, "cross-encoder")
    assert failed.hits == disabled.hits
    assert [(part.part, part.reason) for part in failed.degraded] == [("rerank", "failed")]
