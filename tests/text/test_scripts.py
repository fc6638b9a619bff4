from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.text import scripts
from kb.text.scripts import is_cjk, unsupported_scripts


@pytest.mark.parametrize(
    "text",
    ["超级碗在哪里举行", "東京タワーの高さ", "서울의 인구는", "Где ключи", "Πού είναι", "ที่ไหน",
     "أين", "用 kb 搜索中文笔记", "ＡＢ 超级碗"],
)  # fmt: skip
def test_other_scripts_are_foreign(text: str) -> None:
    assert unsupported_scripts(text, ["Latin"])


@pytest.mark.parametrize(
    "text",
    ["install git", "Où est la clé?", "TNF-α and β-catenin", "αβ T cells", "α", "ΔΨ", "∑ x → ∞",
     "", "?!", "42", "the word 超级 in English text", "ｗｉｄｅ", "𝐛𝐨𝐥𝐝 letters", "5 µm", "Straße",
     "donʼt", "ℵ₀ sets"],
)  # fmt: skip
def test_latin_with_symbols_is_not_foreign(text: str) -> None:
    assert not unsupported_scripts(text, ["Latin"])


@pytest.mark.parametrize("text", ["itemprop 속성", "CSS를 이용한 HTML", "HTTP 헤더 쿠키 response",
                                  "what does 知识库 mean", "the word книга here"])  # fmt: skip
def test_one_unreadable_word_makes_a_query_unreadable(text: str) -> None:
    assert unsupported_scripts(text, ["Latin"])


def test_japanese_is_one_language_of_several_scripts() -> None:
    scripts = ["Latin", "CJK", "Hiragana", "Katakana"]
    for text in ("データベースの移行", "人々の様々な", "東京タワー"):
        assert not unsupported_scripts(text, scripts)
        assert unsupported_scripts(text, (), {"HIRAGANA"})
        assert not unsupported_scripts(text, (), {"CJK"})
    assert unsupported_scripts("超级碗", (), {"CJK"})
    assert not unsupported_scripts("超级碗", (), {"HIRAGANA"})


def test_failed_scripts_are_not_read_though_they_are_named() -> None:
    assert unsupported_scripts("install git", ["Latin"], {"LATIN"})
    assert not unsupported_scripts("超级碗", ["Latin", "CJK"], {"LATIN"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [("install git", False), ("超级碗", True), ("東京タワー", True), ("서울의 인구", True),
     ("ที่ไหน", True), ("Где ключи", False), ("", False), ("CSS를 이용한 HTML", True),
     ("the word 超级 in English text", False)],
)  # fmt: skip
def test_where_two_letters_are_a_word(text: str, expected: bool) -> None:
    assert is_cjk(text) is expected


def test_several_scripts() -> None:
    assert not unsupported_scripts("Где ключи", ["Latin", "Cyrillic"])
    assert unsupported_scripts("where are the keys", ["Cyrillic"])


@given(st.text())
def test_a_model_that_names_none_reads_all(text: str) -> None:
    assert not unsupported_scripts(text, ())
    unsupported_scripts(text, ["Latin"])


def test_a_long_query_is_examined_once_and_not_to_its_end() -> None:
    """NFKC makes this one 18 times as long, and each stage of a search asks about it again."""
    query = "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * 50_000
    before = scripts._script.cache_info()
    for _ in range(3):
        assert unsupported_scripts(query, ["Latin"]) == {"ARABIC"}
        assert not is_cjk(query)
    after = scripts._script.cache_info()
    assert after.hits + after.misses - before.hits - before.misses <= 20_000
