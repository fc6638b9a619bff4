from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.search.scripts import is_foreign


@pytest.mark.parametrize(
    "text",
    ["超级碗在哪里举行", "東京タワーの高さ", "서울의 인구는", "Где ключи", "Πού είναι", "ที่ไหน",
     "أين", "用 kb 搜索中文笔记", "ＡＢ 超级碗"],
)  # fmt: skip
def test_other_scripts_are_foreign(text: str) -> None:
    assert is_foreign(text, ["Latin"])


@pytest.mark.parametrize(
    "text",
    ["install git", "Où est la clé?", "TNF-α and β-catenin", "αβ T cells", "α", "ΔΨ", "∑ x → ∞",
     "", "?!", "42", "the word 超级 in English text", "ｗｉｄｅ", "𝐛𝐨𝐥𝐝 letters", "5 µm", "Straße"],
)  # fmt: skip
def test_latin_with_symbols_is_not(text: str) -> None:
    assert not is_foreign(text, ["Latin"])


def test_several_scripts() -> None:
    assert not is_foreign("Где ключи", ["Latin", "Cyrillic"])
    assert is_foreign("where are the keys", ["Cyrillic"])


@given(st.text())
def test_a_model_that_names_none_reads_all(text: str) -> None:
    assert not is_foreign(text, ())
    is_foreign(text, ["Latin"])
