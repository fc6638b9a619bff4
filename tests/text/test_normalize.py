from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.text.normalize import (
    bigrams,
    nfc,
    split_identifier,
    subwords,
    unspaced_ngrams,
    without_unspaced_runs,
)


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("targetHost", ["target", "host"]),
        ("HTTPServer", ["http", "server"]),
        ("parseJSON", ["parse", "json"]),
        ("sleepUntilNextWindow", ["sleep", "until", "next", "window"]),
        ("plain", []),
        ("NASA", []),
        ("café", []),
        ("Müller", []),
        ("Ångström", []),
        ("Россия", []),
        ("getMüller", ["get", "müller"]),
        ("", []),
    ],
)
def test_identifier_parts(word: str, parts: list[str]) -> None:
    assert split_identifier(word) == parts


def test_subwords_are_only_what_the_tokenizer_does_not_see() -> None:
    assert subwords("", "call targetHost, target_host and HOST") == "target host"


def test_ngrams_are_bigrams_and_single_characters() -> None:
    assert bigrams("数据库") == ["数据", "据库"]
    assert bigrams("库") == ["库"]
    assert unspaced_ngrams("用 kb 搜索") == "用 搜 索 搜索"


def test_half_width_katakana_is_found_by_full_width() -> None:
    assert unspaced_ngrams("ｶﾞ") == unspaced_ngrams("ガ") == "ガ"


def test_unspaced_script_becomes_a_space() -> None:
    assert without_unspaced_runs("用kb搜索").split() == ["kb"]


@pytest.mark.parametrize("marks", ["\u0301\u0327", "\u0f74\u0f72", "\u0f73", "\ufe20\u302a"])
def test_a_stack_of_marks_is_cut(marks: str) -> None:
    """Composing it takes quadratic time, whatever the marks."""
    assert len(nfc("a" + marks * 1000 + "b")) <= 62
    assert nfc("a" + marks * 10) == unicodedata.normalize("NFC", "a" + marks * 10)
    assert nfc("—" * 1000) == "—" * 1000


@given(st.text())
def test_any_text_has_an_nfc_form_that_utf8_can_write(text: str) -> None:
    normal = nfc(text)
    assert normal == unicodedata.normalize("NFC", normal)
    normal.encode("utf-8")


@given(st.text())
def test_ngrams_occur_in_the_text(text: str) -> None:
    for gram in unspaced_ngrams(text).split():
        assert len(gram) <= 2
