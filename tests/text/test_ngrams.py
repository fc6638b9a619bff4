"""The n-gram index has the same words as the FTS5 index in the SQLite store."""

from __future__ import annotations

import re
from typing import Any

import apsw
from hypothesis import given
from hypothesis import strategies as st

from kb.text import normalize
from kb.text.normalize import unspaced_ngrams
from kb.text.tokenize import split_ngrams
from tests.text.fts5 import characters

_ARGUMENTS = ["remove_diacritics", "0", "categories", "L* N* M* Co"]
_tokenizer: Any = apsw.Connection(":memory:").fts5_tokenizer("unicode61", _ARGUMENTS)
UNSPACED = [char for char in characters(0x30000) if re.match(normalize._RUN, char)]


def by_fts5(text: str) -> list[str]:
    return [word for *_, word in _tokenizer(text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None)]


def test_every_character_of_unspaced_scripts() -> None:
    wrong = [char for char in UNSPACED if split_ngrams(char) != by_fts5(char)]
    assert len(UNSPACED) > 40_000
    assert wrong == []


@given(st.text(st.sampled_from([*"ab ⼀⺀字゛東京한국ภาษา", *UNSPACED[::997]])))
def test_ngrams(text: str) -> None:
    ngrams = unspaced_ngrams("", text)
    assert split_ngrams(ngrams) == by_fts5(ngrams)
