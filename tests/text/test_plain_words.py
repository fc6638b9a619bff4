"""Words with soft hyphens, ligatures and invisible characters are found by their plain form."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.search.query.analysis import analyze
from kb.search.results.snippets import match_ranges, merge_ranges
from kb.text.normalize import subwords, unspaced_ngrams
from kb.text.plain_words import (
    has_plain_form,
    plain_form,
    plain_offsets,
    plain_query,
    plain_words,
)
from kb.text.tokenize import tokenize

INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff\u200e"
LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬆ": "st"}
WORDS = st.text("abcdefghijklmnopqrstuvwxyzäé", min_size=2, max_size=12)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("plain", "plain"),
        ("Müller", "Müller"),
        ("oﬃ\u00adce", "office"),
        ("Ver\u00adsiche\u00adrung", "Versicherung"),
        ("a\u200bb\u2060c\ufeffd", "abcd"),
        ("ＡＢＣ１２", "ABC12"),
        ("می\u200cخواهم", "میخواهم"),
        ("\ufefb", "لا"),
    ],
)
def test_plain_form(text: str, plain: str) -> None:
    assert plain_form(text) == plain
    assert has_plain_form(text) is (text != plain)


@given(WORDS, st.sampled_from(INVISIBLE), st.integers(1, 11))
def test_a_word_is_indexed_in_its_plain_form(word: str, char: str, at: int) -> None:
    at = min(at, len(word) - 1)
    written = f"one, {word[:at]}{char}{word[at:]}! two"
    (stem,) = {stem for *_, stem in tokenize(word)}
    assert stem in {stem for *_, stem in tokenize(subwords("", written))}
    assert stem in {stem for *_, stem in tokenize(subwords(written, ""))}
    assert {stem} == analyze(plain_query(f"{word[:at]}{char}{word[at:]}")).stems or char in "\u200e"
    ranges = merge_ranges(match_ranges(written, analyze(word)))
    if stem in analyze(word).stems:
        assert (5, 5 + len(word) + 1) in ranges


@given(st.text(max_size=60))
def test_offsets_lead_back_to_the_text(text: str) -> None:
    plain, offsets = plain_offsets(text)
    assert plain == plain_form(text)
    assert len(plain) == len(offsets)
    assert offsets == sorted(offsets)
    assert all(
        text[at] == char or has_plain_form(text[at])
        for char, at in zip(plain, offsets, strict=True)
    )


@given(st.text(max_size=60))
def test_a_plain_text_has_no_other_form(text: str) -> None:
    assert not has_plain_form(plain_form(text))
    assert plain_form(plain_form(text)) == plain_form(text)
    assert plain_words(plain_form(text)) == []


def test_a_zero_width_space_separates_words_of_scripts_without_spaces() -> None:
    query = "ภาษา\u200bไทย"
    assert plain_query(query) == query
    assert analyze(query).lexical.runs == ("ภาษา", "ไทย")
    assert "าไ" in unspaced_ngrams(query).split(" ")  # joined, in case it was only a line break
    assert plain_query("sea\u200brch") == "search"


def test_marks_cover_the_written_word() -> None:
    text = "The oﬃ\u00adce is closed"
    ((start, end),) = merge_ranges(match_ranges(text, analyze("office")))
    assert text[start:end] == "oﬃ\u00adce"


def test_long_texts_take_linear_time() -> None:
    started = time.thread_time()
    for text in ("a" * 500_000 + "\u00ad", "\u00ad" * 500_000, "ﬁ" * 500_000, "a\u00ad" * 250_000):
        plain_words(text)
        plain_offsets(text)
        plain_query(text)
    assert time.thread_time() - started < 10
