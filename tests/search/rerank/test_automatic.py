"""The automatic blend: which queries are reranked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.search.rerank.automatic import BLENDS, automatic_blend
from kb.types import Response
from tests.models.judges import WordJudge
from tests.models.weightless import Weightless, unexamined


@pytest.mark.parametrize(
    ("first_by_retriever", "blend"),
    [
        ((1, 1, 1), 0.0),
        ((1, 2, 1), 0.0),
        ((1, 2, 3), 0.2),
        ((2, 2, 2), 0.2),
        ((1, None, None), 0.2),
        ((1,), 0.2),
        ((), 0.2),
    ],
)
def test_late_interaction_reranks_where_retrievers_disagree(
    first_by_retriever: tuple[int | None, ...], blend: float
) -> None:
    automatic = automatic_blend("colbert", "harbour keys", 1, first_by_retriever)
    assert automatic.blend == blend
    assert bool(automatic.reason) == (blend == 0.0)


def test_late_interaction_leaves_long_queries_alone() -> None:
    four = "one two three four"
    assert automatic_blend("colbert", four, 1, (2, 3)).blend == 0.2
    assert automatic_blend("colbert", f"{four} five", 1, (2, 3)).blend == 0.0


@pytest.mark.parametrize(
    ("text", "blend"),
    [
        ("how do I restore a backup", 0.3),
        ("鑰匙在哪裡", 0.3),
        ("restore backup", 0.0),
        ("smoking lowers the risk of asthma", 0.0),
        ("how to call os.path.join()", 0.0),
    ],
)
def test_the_cross_encoder_reranks_questions_in_prose(text: str, blend: float) -> None:
    automatic = automatic_blend("cross-encoder", text, 1, (1, 1))
    assert automatic.blend == blend
    assert bool(automatic.reason) == (blend == 0.0)


@given(
    st.sampled_from(["colbert", "cross-encoder"]),
    st.text(max_size=40),
    st.lists(st.integers(1, 3) | st.none(), max_size=4),
)
def test_the_blend_is_the_measured_one_or_none(
    name: str, text: str, first_by_retriever: list[int | None]
) -> None:
    assert automatic_blend(name, text, 1, first_by_retriever).blend in (0.0, BLENDS[name])


@pytest.fixture
def judge() -> WordJudge:
    return WordJudge()


@pytest.fixture
def kb(tmp_path: Path, judge: WordJudge) -> Iterator[KnowledgeBase]:
    config = unexamined()
    path = tmp_path / "kb.sqlite"
    with KnowledgeBase(path, config=config, encoder=Weightless(), judge=judge) as opened:
        for number in range(20):
            opened.add(f"harbour {'keys ' * (number % 4)}boat{number} and other words")
        opened.embed()
        yield opened


def stage(found: Response) -> dict[str, object]:
    assert found.explain is not None
    (rerank,) = (one for one in found.explain["stages"] if one["stage"] == "rerank")
    return dict(rerank)


def test_a_query_on_which_retrievers_agree_keeps_its_order(kb: KnowledgeBase) -> None:
    found = kb.search("boat7", rerank="colbert", explain=True)
    assert stage(found)["blend"] == 0.0
    assert stage(found)["reason"] == "retrievers agree on the first hit"
    assert found.hits == kb.search("boat7").hits
    assert found.degraded == ()


def test_one_retriever_alone_is_reranked(kb: KnowledgeBase) -> None:
    found = kb.search("boat7", mode="vector", rerank="colbert", explain=True)
    assert stage(found)["blend"] == 0.2
    assert found.hits[0].score_kind == "rerank"


def test_the_judge_reads_nothing_unless_the_query_is_a_question(
    kb: KnowledgeBase, judge: WordJudge
) -> None:
    assert kb.search("harbour keys", rerank="cross-encoder").hits == kb.search("harbour keys").hits
    assert judge.read == []
    found = kb.search("where are the harbour keys", rerank="cross-encoder", explain=True)
    assert len(judge.read) == 20
    assert stage(found)["blend"] == 0.3


def test_a_blend_that_is_set_always_reranks(kb: KnowledgeBase) -> None:
    found = kb.search("boat7", rerank="colbert", settings={"rerank_blend": 0.5})
    assert found.hits[0].score_kind == "rerank"
    auto = kb.search("boat7", rerank="colbert", settings={"rerank_blend": "auto"})
    assert auto.hits == kb.search("boat7").hits
