"""The bundled judge is installed, complete, small enough, and sensible."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kb import KnowledgeBase
from kb.config import Config, ModelsConfig
from kb.errors import InvalidRequest, ModelBroken, ModelMissing
from kb.models import encoder, judge, manifest, verify
from kb.models.onnx_judge import PAIR_TOKENS, PASSAGE_TOKENS, QUERY_TOKENS, OnnxJudge
from tests.models.test_kb_mini import NOTES

LIMIT_BYTES = 20_000_000
ASKED = (
    ("every client retried at the same moment", 0),
    ("where does a sourdough starter rise", 1),
    ("how wide are the radio slots", 2),
    ("python read the lines of a file", 3),
)


@pytest.fixture(scope="module")
def kb_judge() -> OnnxJudge:
    found = judge(Config())
    assert isinstance(found, OnnxJudge)
    return found


def test_its_files_are_what_the_manifest_says(kb_judge: OnnxJudge) -> None:
    manifest.check_hashes(kb_judge.manifest)
    assert verify(Config(), "kb-judge").in_use
    assert kb_judge.manifest.size_bytes <= LIMIT_BYTES
    assert kb_judge.spec.is_judge
    folder = kb_judge.manifest.folder
    assert sum(each.stat().st_size for each in folder.iterdir()) <= LIMIT_BYTES
    assert kb_judge.manifest.path("tokenizer.json").parent.name == "kb_mini"  # not shipped twice


def test_it_finds_the_right_passage(kb_judge: OnnxJudge) -> None:
    for query, right in ASKED:
        assert np.argmax(kb_judge.scores(query, NOTES)) == right


def test_a_pair_in_any_company_and_from_any_thread(kb_judge: OnnxJudge) -> None:
    query = ASKED[2][0]
    alone = [kb_judge.scores(query, [note])[0] for note in NOTES]
    assert kb_judge.scores(query, NOTES[::-1])[::-1] == alone
    with ThreadPoolExecutor(4) as pool:
        assert all(
            each == alone for each in pool.map(lambda _: kb_judge.scores(query, NOTES), "xyz")
        )


def test_long_texts_are_cut(kb_judge: OnnxJudge) -> None:
    pairs = kb_judge.loaded().tokenizer
    short, long = "harbour keys", "harbour keys " * 500
    for query, passage, tokens in (
        (short, short, 2 + 2),
        (short, long, 2 + PASSAGE_TOKENS),
        (long, short, QUERY_TOKENS + 2),
        (long, long, PAIR_TOKENS),
    ):
        ids, kinds = pairs.pair(pairs.query(query), passage)
        assert len(ids) == len(kinds) == tokens + 3
        assert kinds == sorted(kinds)
        assert sum(kinds) <= PASSAGE_TOKENS + 1
    assert kb_judge.scores(short, [long]) == kb_judge.scores(short, [long + " and more"])


def test_a_text_may_say_what_is_special(kb_judge: OnnxJudge) -> None:
    pairs = kb_judge.loaded().tokenizer
    ids, _ = pairs.pair(pairs.query("a [SEP] b"), "[CLS] [SEP]")
    special = pairs.pair(pairs.query(""), "")[0]
    assert [ids.count(each) for each in special] == [special.count(each) for each in special]


@pytest.mark.parametrize("text", ["", "   ", "\0", "鑰匙", "🙂" * 3000, "a" * 100_000])
def test_any_text_has_a_score(kb_judge: OnnxJudge, text: str) -> None:
    for query, passage in ((text, NOTES[0]), (NOTES[0], text), (text, text)):
        (score,) = kb_judge.scores(query, [passage])
        assert np.isfinite(score)


def test_nothing_and_a_single_text(kb_judge: OnnxJudge) -> None:
    assert kb_judge.scores("x", []) == []
    with pytest.raises(InvalidRequest):
        kb_judge.scores("x", "one passage")


def test_a_copy_with_a_byte_changed_is_refused(kb_judge: OnnxJudge, tmp_path: Path) -> None:
    source = kb_judge.manifest.folder
    folder = Path(shutil.copytree(source, tmp_path / "kb_judge"))
    (tmp_path / "kb_mini").mkdir()
    shared = kb_judge.manifest.path("tokenizer.json")
    shutil.copy(shared, tmp_path / "kb_mini")
    settings = replace(Config(), models=ModelsConfig(judge=str(folder)))
    whole = judge(settings)
    assert whole is not None
    assert whole.scores(*("x", NOTES)) == kb_judge.scores("x", NOTES)
    data = bytearray((folder / "model.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "model.onnx").write_bytes(data)
    broken = judge(settings)
    assert broken is not None
    with pytest.raises(ModelBroken, match="has been changed"):
        broken.scores("x", NOTES)
    shutil.rmtree(tmp_path / "kb_mini")
    with pytest.raises(ModelMissing, match="tokenizer"):
        judge(settings).scores("x", NOTES)  # type: ignore[union-attr]


# --- both models in a search ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    path = tmp_path_factory.mktemp("notes") / "kb.sqlite"
    with KnowledgeBase(path, config=Config(), encoder=encoder(Config())) as opened:
        for note in NOTES:
            opened.add(note)
        opened.embed()
        yield opened


@pytest.mark.parametrize("name", ["colbert", "cross-encoder"])
@pytest.mark.parametrize("blend", ["0.5", "1"])
def test_a_search_that_is_reranked(notes: KnowledgeBase, name: str, blend: str) -> None:
    for query, right in ASKED:
        found = notes.search(query, rerank=name, settings={"rerank_blend": blend})
        assert not found.degraded
        assert {hit.score_kind for hit in found} == {"rerank"}
        assert notes.chunk(found.hits[0].chunk_id).text == NOTES[right]
