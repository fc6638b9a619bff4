from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.text.stem import stem
from tests.text import fts5

LIBRARY = Path(__file__).parents[2] / "examples" / "library"
SUFFIXES = """
    s ss es sses ies ed eed ing y e ll
    at bl iz ated bled ized tting lling zzing ssed
    ational tional enci ency anci ancy izer logi logy bli bly alli ally entli ently eli ely ousli
    ously ization ation ator alism iveness fulness ousness aliti ality iviti ivity biliti bility
    ical ness icate iciti icity ful ative alize
    al ance ence er ic able ible ant ement ment ent ion sion tion ou ism ate iti ity ous ive ize
""".split()
PREFIXES = [
    "",
    *"abcey",
    *"ab ba by yy oy bab tre str hop tann fall 日 \u4000 ё abba trouble".split(),
]

letters = st.text(st.sampled_from("aeiouybcdlstwxz日ё\u4000"), max_size=8)
words = st.builds(
    lambda start, suffixes: start + "".join(suffixes),
    letters,
    st.lists(st.sampled_from(SUFFIXES), max_size=3),
)


def fts5_stems(text: str) -> list[str]:
    return [token_stem for *_, token_stem in fts5.tokenize(text)]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("installing", "instal"),
        ("relational", "relat"),
        ("sensibility", "sensibl"),
        ("hoping", "hope"),
        ("is", "is"),
        ("days", "dai"),
        ("x" * 61 + "ing", "x" * 61 + "ing"),
        ("o" * 61 + "ing", "o" * 61),
        ("o" * 62 + "ing", "o" * 62 + "ing"),
        ("ёs", "ё"),
        ("a\u4000ing", "a\ufffd"),  # SQLite cuts the last of two equal bytes
    ],
)
def test_stems(word: str, expected: str) -> None:
    assert stem(word) == expected
    assert fts5_stems(word) == [expected]


def test_all_suffixes_after_all_kinds_of_beginnings() -> None:
    made = [
        f"{prefix}{first}{second}"
        for prefix in PREFIXES
        for first in ("", *SUFFIXES)
        for second in SUFFIXES
    ]
    assert [stem(word) for word in made] == fts5_stems(" ".join(made))


def test_the_words_of_the_example_library() -> None:
    text = " ".join(path.read_text() for path in sorted(LIBRARY.rglob("*.md"))).lower()
    vocabulary = sorted(set(re.findall("[a-z]+", text)))
    assert len(vocabulary) > 500
    assert [stem(word) for word in vocabulary] == fts5_stems(" ".join(vocabulary))


@given(words.filter(bool))
def test_any_word(word: str) -> None:
    assert [stem(word)] == fts5_stems(word)


@given(words.filter(bool))
def test_a_stem_begins_like_its_word(word: str) -> None:
    """`kb.text.tokenize` finds words by the beginning of their stems."""
    found = stem(word)
    assert word.startswith(found[: max(1, len(found) - 2)])
