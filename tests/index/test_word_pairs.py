"""Signatures of adjacent words: no chunk with a phrase is excluded."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kb.index import word_pairs
from kb.index.word_pairs import may_contain, sign

WORDS = st.sampled_from(["boat", "buoy", "red", "run", "straße", "移行", "x1"])
TEXTS = st.lists(st.lists(WORDS, max_size=30), min_size=1, max_size=40)


def signatures_of(texts: list[list[str]]) -> word_pairs.Signatures:
    words = [word for text in texts for word in text]
    places = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    return sign([(word_pairs.hash_terms(words), places)], len(texts))


@given(TEXTS, st.lists(WORDS, min_size=1, max_size=4), st.sampled_from([0, 256]))
def test_chunks_with_a_phrase_are_kept(texts: list[list[str]], phrase: list[str], few: int) -> None:
    usual, word_pairs._FEW = word_pairs._FEW, few
    try:
        places = np.arange(len(texts), dtype=np.uint32)
        kept = set(may_contain(signatures_of(texts), places, phrase).tolist())
    finally:
        word_pairs._FEW = usual
    for place, text in enumerate(texts):
        pairs = set(pairwise(text))
        if all(pair in pairs for pair in pairwise(phrase)):
            assert place in kept
    if len(phrase) == 1:
        assert kept == set(range(len(texts)))


@given(TEXTS, st.lists(WORDS, min_size=2, max_size=4))
def test_few_and_many_chunks_are_checked_alike(texts: list[list[str]], phrase: list[str]) -> None:
    signatures, places = signatures_of(texts), np.arange(len(texts), dtype=np.uint32)
    few = may_contain(signatures, places, phrase)
    many = may_contain(signatures, np.tile(places, 300), phrase)
    assert few.tolist() * 300 == many.tolist()


def test_a_chunk_without_the_pairs_is_excluded() -> None:
    signatures = signatures_of([["red", "boat"], ["boat", "red"], ["red"]])
    places = np.arange(3, dtype=np.uint32)
    assert may_contain(signatures, places, ["red", "boat"]).tolist() == [0]
