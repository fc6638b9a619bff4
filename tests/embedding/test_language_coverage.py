from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.embedding.language_coverage import suggestion
from kb.types import ModelSpec

LATIN = ModelSpec("kb-mini", "1", 384, frozenset({"dense"}), scripts=("Latin",))
ENGLISH = replace(LATIN, languages=("en",))
OTHER = replace(LATIN, name="other", languages=("de", "en", "fr", "ja", "ko", "th", "zh"))
ANY = ModelSpec("m3", "1", 384, frozenset({"dense"}))
ASIAN = ModelSpec(
    "use", "1", 512, frozenset({"dense"}), scripts=("Latin", "CJK", "Hiragana", "Hangul")
)


@pytest.mark.parametrize(
    ("languages", "named"),
    [
        ({"zh": 1}, "1 of 1 document is in Chinese"),
        ({"zh": 2, "ja": 1, None: 3}, "3 of 6 documents are in Chinese and Japanese"),
        ({"zh": 1, "ja": 1, "ko": 1}, "3 of 3 documents are in Chinese, Japanese and Korean"),
        ({"ko": 20, "en": 80}, "20 of 100 documents are in Korean"),
    ],
)
def test_suggestions(languages: dict[str | None, int], named: str) -> None:
    text = suggestion(languages, LATIN, OTHER)
    assert text.startswith(f"{named}, which kb-mini 1 does not read")
    assert text.endswith("kb reindex --model other")
    assert suggestion(languages, LATIN, replace(OTHER, languages=("en",))) == "", (
        "the other does not read it either"
    )
    for spec in (ANY, ASIAN):
        assert suggestion(languages, spec, OTHER) == ""


def test_a_language_in_the_same_script() -> None:
    languages: dict[str | None, int] = {"de": 3, "en": 2, "fr": 1}
    text = suggestion(languages, ENGLISH, OTHER)
    start = "4 of 6 documents are in French and German, which kb-mini 1 does not read"
    assert text.startswith(start)
    assert suggestion({"en": 5, "de": 1}, ENGLISH, OTHER) == "", "too few"


@pytest.mark.parametrize("languages", [{}, {"en": 3}, {"ko": 19, "en": 81}, {"th": 5}])
def test_no_suggestions(languages: dict[str | None, int]) -> None:
    assert suggestion(languages, LATIN, OTHER) == ""


class Latin:
    """An encoder that reads one script; it encodes nothing here."""

    spec = LATIN

    def encode(self, *_: object, **__: object) -> list[object]:
        raise AssertionError("it is suggested, not used")


def test_an_ingest_suggests_a_model_once(tmp_path: Path) -> None:
    root = tmp_path / "lib"
    root.mkdir()
    (root / "a.md").write_text("数据库备份，保留最近七天的副本。", encoding="utf-8")
    (root / "b.md").write_text("tide tables", encoding="utf-8")
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Latin()) as kb:  # type: ignore[arg-type]
        assert kb.ingest(root, dry_run=True).notes == ()
        (told,) = kb.ingest(root).notes
        assert told.startswith("1 of 2 documents are in Chinese")
        assert kb.ingest(root).notes == ()  # there is nothing new
    with KnowledgeBase(tmp_path / "off.sqlite", encoder="none") as kb:
        assert kb.ingest(root).notes == ()
    with KnowledgeBase(tmp_path / "gone.sqlite", encoder="no-such-model") as kb:
        assert kb.ingest(root).notes == ()
