from __future__ import annotations

import gzip
import json
import re
import sys
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kb.text import unicode61
from kb.text.tokenize import fold, has_phrase, stem_word, stems_of, tokenize
from tests.text import fts5

COLLECTIONS = Path(__file__).parents[3] / "shared" / "data"

marks = st.sampled_from(f"{unicode61.MARKS}\u0345\u0483\u3099")
folded = st.sampled_from(unicode61.FOLDED_FROM)
english = st.sampled_from("ing ed s ational ness cat Hopping relate'd e- _x".split())
texts = st.lists(
    st.one_of(
        st.text(), st.text(st.characters(max_codepoint=0x250)), marks, folded, english,
        st.sampled_from("\0 \ud800 \ufffd \ufffe \U000e0001 \U0010ffff ａＢ Ǆ İ ß ﬁ".split(" ")),
        st.integers(60, 70).map(lambda length: "o" * length),
    )
).map("".join)  # fmt: skip


@given(texts)
@example("\u0301a e\u0301 \u0301\u0301 \ud800\u0301a -\u0301- \u4e2d\u0301")
@example("".join(chr(code) for code in range(0xA0, 0x400)))
def test_tokens_equal_those_of_the_index(text: str) -> None:
    assert tokenize(text) == fts5.tokenize(text)


@given(texts, st.sets(st.sampled_from("cat hop relat e o ness u".split())), st.data())
def test_wanted_stems(text: str, wanted: set[str], data: st.DataObject) -> None:
    tokens = fts5.tokenize(text)
    if stems := sorted({stem for *_, stem in tokens}):
        wanted |= data.draw(st.sets(st.sampled_from(stems)))
    expected = [token for token in tokens if token[2] in wanted]
    assert tokenize(text, wanted) == expected
    many = wanted | {f"{number}unused" for number in range(20)}
    assert tokenize(text, many) == expected


def test_wanted_words_with_combining_marks() -> None:
    assert tokenize("re\u0301sume\u0301 a\u0301lbums", {"resum", "album"}) == [
        (0, 8, "resum"), (9, 16, "album"),
    ]  # fmt: skip


def test_an_empty_stem_is_not_a_word() -> None:
    assert tokenize("a b", {""}) == []


def test_offsets_are_characters() -> None:
    text = "Ünï — café déjà installing"
    tokens = tokenize(text)
    assert [text[start:end] for start, end, _ in tokens] == ["Ünï", "café", "déjà", "installing"]
    assert [stem for *_, stem in tokens] == ["uni", "cafe", "deja", "instal"]


@pytest.mark.parametrize("pattern", ["{} ", "a{} "], ids=["alone", "after a letter"])
@pytest.mark.parametrize(
    "stop", [0x3100, pytest.param(sys.maxunicode + 1, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_every_character(pattern: str, stop: int) -> None:
    text = "".join(map(pattern.format, fts5.characters(stop)))
    without_marks = re.sub(f"[{unicode61.MARKS}]", "", fold(text))
    assert without_marks.split() == [word for *_, word in fts5.tokenize(text, stemmed=False)]


def test_folded_characters_are_not_folded_again() -> None:
    """Therefore they can be replaced one after another."""
    assert set(unicode61.FOLDED_FROM).isdisjoint(unicode61.FOLDED_TO)


@pytest.mark.skipif(not COLLECTIONS.is_dir(), reason="the judged collections are not here")
@pytest.mark.parametrize("name", ["cosqa", "jsquad", "mdn-ko-heading", "scifact", "xquad-zh"])
def test_judged_collections(name: str) -> None:
    with gzip.open(COLLECTIONS / name / "corpus.jsonl.gz", "rt") as lines:
        for line in islice(lines, 500):
            text = json.loads(line)["text"]
            tokens = fts5.tokenize(text)
            assert tokenize(text) == tokens
            wanted = {stem for *_, stem in tokens[:5]}
            assert tokenize(text, wanted) == [token for token in tokens if token[2] in wanted]


suffixes = st.sampled_from(
    "ational tional ency ancy izer logi bly ably ally ently ely ously ization ation ator alism "
    "iveness fulness ousness ality ivity bility ability ical ness icate icity ful ative alize al "
    "ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize s es sses ies ed "
    "ing eed y e ll at bl iz".split()
)
words = st.lists(st.one_of(suffixes, st.text("abeilostyx", max_size=4))).map("".join)


@given(words)
@example("capability")
@example("sizing")
def test_a_word_begins_like_its_stem(word: str) -> None:
    """Apart from the last letter of a stem of several; `tokenize` and `has_phrase` rely on it."""
    found = stem_word(word)
    assert word.startswith(found[:-1] or found)


@given(
    st.lists(st.lists(words, max_size=6).map(" ".join), min_size=1, max_size=3),
    st.lists(st.lists(words.filter(bool), min_size=1, max_size=3), max_size=3),
    st.data(),
)
def test_phrases_of_stems(texts: list[str], others: list[list[str]], data: st.DataObject) -> None:
    stems = [stems_of(text) for text in texts]
    phrases = [[stem_word(word) for word in phrase] for phrase in others]
    if any(stems):
        inside = data.draw(st.sampled_from([each for each in stems if each]))
        start = data.draw(st.integers(0, len(inside) - 1))
        phrases.append(inside[start : start + data.draw(st.integers(1, 3))])
    for phrase in phrases:
        expected = any(
            each[at : at + len(phrase)] == phrase for each in stems for at in range(len(each))
        )
        for more in ("", " žž"):  # a word with accents that no phrase has
            assert has_phrase([text + more for text in texts], [phrase]) == expected
    assert has_phrase(texts, phrases) == any(has_phrase(texts, [phrase]) for phrase in phrases)


def test_no_phrase_goes_from_one_text_to_the_next() -> None:
    assert has_phrase(["red boats", "sail"], [["red", "boat"]])
    assert not has_phrase(["red boats", "sail"], [["boat", "sail"]])
    assert not has_phrase(["réd boats", "sail"], [["boat", "sail"]])
