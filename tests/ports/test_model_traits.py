from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence, Set
from pathlib import Path

import pytest

from kb import Encoding, KnowledgeBase, ModelSpec
from kb.errors import ModelBroken
from kb.ports import ModelTraits, traits_of
from tests.models.judges import WordJudge
from tests.models.weightless import unexamined


class Lengths:
    """An encoder as another package may define it, with only `spec` and `encode`."""

    spec = ModelSpec("lengths", "1", 2, frozenset({"dense"}))

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        return [Encoding(dense=array("f", [len(text), 1.0])) for text in texts]


class Damaged(ModelTraits, Lengths):
    remote = True
    batch_size = 3

    def check(self) -> None:
        raise ModelBroken("a file is damaged", "restore it")


class LoadedJudge(ModelTraits, WordJudge):
    loads = 0

    def load(self) -> None:
        self.loads += 1


def test_a_model_without_traits_has_the_defaults() -> None:
    for model in (Lengths(), WordJudge()):
        traits = traits_of(model)
        assert (traits.remote, traits.batch_size) == (False, 8)
        traits.check()
        traits.load()


def test_a_model_that_derives_from_traits_has_its_own() -> None:
    traits = traits_of(Damaged())
    assert (traits.remote, traits.batch_size) == (True, 3)
    with pytest.raises(ModelBroken):
        traits.check()


def test_an_encoder_and_a_judge_without_traits_work(tmp_path: Path) -> None:
    judge = WordJudge()
    with KnowledgeBase(
        tmp_path / "kb.sqlite", config=unexamined(), encoder=Lengths(), judge=judge
    ) as kb:
        kb.add("harbour keys")
        assert kb.embed().embedded == 1
        response = kb.search("where is the harbour", rerank="cross-encoder")
        assert response.hits[0].score_kind == "rerank"
        assert judge.read


def test_a_judge_is_loaded_before_it_reranks(tmp_path: Path) -> None:
    judge = LoadedJudge()
    with KnowledgeBase(
        tmp_path / "kb.sqlite", config=unexamined(), encoder="none", judge=judge
    ) as kb:
        kb.add("harbour keys")
        kb.search("where is the harbour", rerank="cross-encoder")
    assert judge.loads
