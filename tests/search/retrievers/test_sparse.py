"""The sparse retriever: equal to products computed by hand, and every reason for its absence is
reported."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kb import Filters, KnowledgeBase, wire
from kb.errors import QuerySyntax
from kb.search.retrievers.sparse import product
from kb.types import Degraded, Encoding, Response
from tests.models.weightless import Weightless, unexamined
from tests.schemas import validate
from tests.search.conftest import Failing


def fill(kb: KnowledgeBase) -> None:
    kb.add("the harbour master keeps the keys", title="keys")
    kb.add("a boat in the harbour", title="boat")
    kb.add("flour water salt", title="bread")


def titles(found: Response) -> list[str]:
    return [hit.title for hit in found]


def parts(found: Response) -> list[tuple[str, str]]:
    return [(one.part, one.reason) for one in found.degraded]


class WithoutSparse(Weightless):
    """Returns dense vectors only."""

    def __init__(self) -> None:
        super().__init__()
        self.spec = replace(self.spec, gives=frozenset({"dense"}))


@pytest.fixture
def dense_only(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase(tmp_path / "dense.sqlite", encoder=WithoutSparse()) as kb:
        fill(kb)
        kb.embed()
        yield kb


# --- success --------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["research", "default"])
def test_weighted_terms_alone(hybrid: KnowledgeBase, profile: str) -> None:
    fill(hybrid)
    hybrid.embed()
    found = hybrid.search("harbour keys the the", profile=profile, mode="sparse")
    validate(wire.response(found))
    assert (found.mode, found.degraded, titles(found)) == ("sparse", (), ["keys", "boat"])
    first = found.hits[0]
    assert (first.score_kind, first.sources, first.embedding_model) == (
        "sparse", ("sparse",), "weightless",
    )  # fmt: skip
    query = hybrid._services.searcher._query_encoder.encode("harbour keys the the").sparse
    assert query is not None
    passage = hybrid._store.vectors.sparse_vectors(1, [first.chunk_id])[first.chunk_id]
    assert first.score == product(query, passage) > 1  # bit for bit
    assert first.retrieval.sparse_score == first.score
    assert (first.retrieval.method, first.retrieval.sparse_rank) == ("sparse", 1)
    assert first.retrieval.vector_rank is None
    assert titles(hybrid.search("harbour", mode="sparse", filters=Filters(tags=("x",)))) == []
    assert [hit.title for hit in hybrid.search_sparse("harbour keys")] == ["keys", "boat"]
    for ask in (hybrid.search_sparse, hybrid.search_vector, hybrid.search_lexical,
                hybrid.search_hybrid):  # fmt: skip
        assert ask("harbour keys", top=1) == ask("harbour keys", limit=1)
        assert len(ask("harbour keys", top=1)) == 1


def test_three_ways_are_fused(hybrid: KnowledgeBase, encoder: Failing) -> None:
    fill(hybrid)
    hybrid.embed()
    encoder.calls.clear()
    found = hybrid.search("harbour keys", profile="research", rerank=False, explain=True)
    validate(wire.response(found))
    assert encoder.calls == [("harbour keys",)]  # once, for both
    first, last = found.hits[0], found.hits[-1]
    assert (first.sources, first.retrieval.method) == (("fts", "vec", "sparse"), "hybrid")
    assert (last.title, last.sources) == ("bread", ("vec",))
    assert {"lexical", "dense", "sparse"} <= set(found.timing_ms)
    assert found.explain is not None
    assert set(found.explain["hits"][0]["scores"]) == {"lexical", "dense", "sparse"}
    assert found.explain["pipeline"] == (
        "analyse -> [lexical(match=any) | dense(weightless) | sparse(weightless)] -> "
        "adaptive weights -> rrf(k=60) -> cut(top=20)"
    )


def test_scores_of_what_others_found(hybrid: KnowledgeBase) -> None:
    """With `complete`, every candidate has a sparse score."""
    for number in range(9):
        hybrid.add(f"harbour harbour {number}")
    hybrid.add("the keys of a harbour and of many other places " * 3, title="last")
    hybrid.embed()
    settings = {"candidates": 5, "complete": True, "fusion": "convex", "adaptive": False}
    found = hybrid.search(
        "harbour keys", profile="research", settings=settings, top=5, explain=True, rerank=False
    )
    assert found.explain is not None
    assert all({"dense", "sparse"} <= set(hit["scores"]) for hit in found.explain["hits"])


@pytest.mark.parametrize("fusion", ["rrf", "weighted", "convex"])
def test_every_fusion_takes_three_lists(hybrid: KnowledgeBase, fusion: str) -> None:
    fill(hybrid)
    hybrid.embed()
    settings = {"fusion": fusion, "weights.sparse": 0.5}
    found = hybrid.search("harbour keys", profile="research", settings=settings)
    assert titles(found) == ["keys", "boat", "bread"]
    if fusion == "weighted":
        assert all(hit.retrieval.fusion_score < 3 for hit in found)


@pytest.mark.parametrize("query", ["", "?!", " "])
def test_a_query_without_words_finds_nothing(hybrid: KnowledgeBase, query: str) -> None:
    fill(hybrid)
    hybrid.embed()
    for mode in ("sparse", "hybrid"):
        found = hybrid.search(query, profile="research", mode=mode, rerank=False)
        assert (found.hits, found.degraded) == ((), ())


def test_an_expression_is_searched_by_words_only(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    hybrid.embed()
    found = hybrid.search("'harbour NOT boat'", profile="research")
    assert titles(found) == ["keys"]
    assert [(one.part, one.reason) for one in found.degraded] == [("query", "expression")]
    assert set(titles(hybrid.search("'harbour NOT boat'", mode="sparse"))) == {"keys", "boat"}
    with pytest.raises(QuerySyntax):
        hybrid.search("'harbour AND'", mode="sparse")


# --- failures -------------------------------------------------------------------------------------


def test_switched_off_by_choice(kb: KnowledgeBase) -> None:
    fill(kb)
    found = kb.search("harbour", profile="research")
    assert (found.mode, parts(found)) == ("lexical", [])
    found = kb.search("harbour", mode="sparse")
    assert (found.hits, parts(found)) == ((), [("sparse", "no_model")])
    both = kb.search("harbour", profile="research", settings={"retrievers": "dense,sparse"})
    assert parts(both) == [("dense", "no_model"), ("sparse", "no_model")]


def test_switched_off_with_vectors(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    hybrid.embed()
    with KnowledgeBase(hybrid.path, encoder="none") as kb:
        found = kb.search("harbour keys", profile="research", rerank=False)
        assert parts(found) == [("dense", "no_model"), ("sparse", "no_model")]
        assert titles(found) == ["keys", "boat"]
        # A vector in the request is a dense one.
        vector = [1.0] * 64
        hits = kb.search_hybrid("harbour", embedding=vector, profile="research", rerank=False)
        assert {source for hit in hits for source in hit.sources} == {"fts", "vec"}


def test_a_model_without_term_weights(dense_only: KnowledgeBase) -> None:
    why = Degraded("sparse", "no_model", "weightless does not produce sparse vectors")
    found = dense_only.search("harbour keys", profile="research", rerank=False)
    validate(wire.response(found))
    assert (titles(found)[0], found.degraded) == ("keys", (why,))
    assert dense_only.search("harbour keys", mode="sparse").degraded == (why,)


def test_words_get_the_weight_of_missing_terms(
    dense_only: KnowledgeBase,
) -> None:
    found = dense_only.search("harbour keys", explain=True, settings={"word_match": False})
    assert found.explain is not None
    (fuse,) = (stage for stage in found.explain["stages"] if stage["stage"] == "fuse")
    assert fuse["weights"] == {"lexical": 0.25, "dense": 0.6}


THREE_WAY = {"retrievers": ["lexical", "dense", "sparse"], "rerank": "colbert"}


def test_missing_outputs_are_reported_if_the_profile_is_named(tmp_path: Path) -> None:
    """The report is the same before and after embedding, because embedding cannot add the
    output."""
    config = unexamined({"default": THREE_WAY})
    sparse = Degraded("sparse", "no_model", "weightless does not produce sparse vectors")
    rerank = Degraded("rerank", "no_model", "weightless does not produce token vectors")
    with KnowledgeBase(tmp_path / "kb.sqlite", config=config, encoder=WithoutSparse()) as kb:
        fill(kb)
        for told in ((Degraded("dense", "pending", 3),), ()):
            assert kb.search("harbour keys").degraded == told
            assert kb.search("harbour keys", profile="default").degraded == (*told, sparse, rerank)
            assert kb.search("harbour keys", rerank=True).degraded == (*told, rerank)
            kb.embed()


def test_a_disabled_encoder_is_not_reported_even_if_the_profile_is_named(tmp_path: Path) -> None:
    config = unexamined({"default": THREE_WAY})
    with KnowledgeBase(tmp_path / "kb.sqlite", config=config, encoder="none") as kb:
        fill(kb)
        assert kb.search("harbour keys", profile="default").degraded == ()
        why = Degraded("rerank", "no_model", "the encoder is disabled")
        assert kb.search("harbour keys", rerank="colbert").degraded == (why,)


def test_some_are_pending(hybrid: KnowledgeBase, dense_only: KnowledgeBase) -> None:
    fill(hybrid)
    found = hybrid.search("flour", profile="research", rerank=False)
    assert found.degraded == (Degraded("dense", "pending", 3), Degraded("sparse", "pending", 3))
    hybrid.embed(limit=2)
    found = hybrid.search("flour", profile="research", rerank=False)
    assert found.degraded == (Degraded("dense", "pending", 1), Degraded("sparse", "pending", 1))
    # Vectors from before the model returned sparse ones, and a passage without any.
    dense_only.add("new flour")
    with KnowledgeBase(dense_only.path, encoder=Weightless()) as kb:
        found = kb.search("flour", profile="research", rerank=False)
        assert found.degraded == (Degraded("dense", "pending", 1), Degraded("sparse", "pending", 4))
        assert kb.search("flour", mode="sparse").hits == ()


def test_passages_that_failed(hybrid: KnowledgeBase, encoder: Failing) -> None:
    fill(hybrid)
    encoder.fails_on = frozenset({"flour"})
    for _ in range(3):
        hybrid.embed()
    found = hybrid.search("harbour", profile="research", rerank=False)
    told = "1 passage could not be embedded"
    assert found.degraded == (Degraded("dense", "failed", told), Degraded("sparse", "failed", told))


def test_failed_terms_are_not_pending(tmp_path: Path) -> None:
    class Partly(Weightless):
        """Returns no term weights for texts with the word poison."""

        def encode(self, texts: Sequence[str], **options: Any) -> list[Encoding]:
            return [
                replace(one, sparse=None) if "poison" in text and one.sparse else one
                for text, one in zip(texts, super().encode(texts, **options), strict=True)
            ]

    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Partly()) as kb:
        kb.add("poison")
        kb.add("salt water")
        for _ in range(2):
            kb.embed()
            found = kb.search("salt", mode="sparse", profile="notes")
            assert found.degraded == (Degraded("sparse", "pending", 1),)
        kb.embed()
        found = kb.search("salt", mode="sparse", profile="notes")
        assert found.degraded == (
            Degraded("sparse", "failed", "1 passage could not be embedded"),
        )  # fmt: skip
        assert kb.search("salt", mode="vector", profile="notes").degraded == ()


def test_another_model_than_the_store_s(hybrid: KnowledgeBase) -> None:
    fill(hybrid)
    hybrid.embed()
    with KnowledgeBase(hybrid.path, encoder=Weightless(version="2")) as kb:
        found = kb.search("harbour", profile="research", rerank=False)
        assert parts(found) == [("dense", "model_mismatch"), ("sparse", "model_mismatch")]


def test_a_declared_output_that_is_missing(
    hybrid: KnowledgeBase, encoder: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    """Its dense vector is still used."""
    fill(hybrid)
    hybrid.embed()
    dense = Weightless().encode(["harbour"])[0].dense
    encoder.encode = lambda *_, **__: [Encoding(dense=dense)]  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING, "kb"):
        found = hybrid.search("harbour", profile="research", rerank=False)
    told = "weightless returned no usable sparse vector"
    assert found.degraded == (Degraded("sparse", "failed", told),)
    assert found.hits[0].retrieval.vector_rank is not None
    assert f"search degraded: sparse failed ({told})" in caplog.text


def test_an_unreadable_query_is_reported_once(tmp_path: Path) -> None:
    encoder = Weightless(max_tokens=4)
    encoder.spec = replace(encoder.spec, scripts=("Latin",))
    with KnowledgeBase(tmp_path / "latin.sqlite", encoder=encoder) as kb:
        fill(kb)
        kb.embed()
        long = kb.search("one two three four five", profile="research", rerank=False)
        cut = "1 token of the query left out"
        assert long.degraded == (Degraded("dense", "truncated", cut),)
        alone = kb.search("one two three four five", mode="sparse")
        assert alone.degraded == (Degraded("sparse", "truncated", cut),)
        foreign = kb.search("超级碗", profile="research", rerank=False)
        assert parts(foreign) == [("dense", "language"), ("sparse", "language")]
