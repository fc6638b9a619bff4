from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import snowballstemmer
from hypothesis import given
from hypothesis import strategies as st

from kb.models.tokenizer import Tokenizer, stem, token_terms, word_terms
from tests.models import tiny


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    return Tokenizer(tiny_folder / "tokenizer.json", tiny.MAX_TOKENS)


def kept(tokenizer: Tokenizer, text: str, prefix: str = "") -> list[str]:
    tokens = tokenizer.tokens(text, prefix)
    return [tokens.texts[position] for position in tokens.kept]


def test_words_count_and_signs_do_not(tokenizer: Tokenizer) -> None:
    assert kept(tokenizer, "Retry, the storms!") == ["retry", "the", "storm", "##s"]
    assert kept(tokenizer, "!?...") == []
    assert kept(tokenizer, "") == []
    assert tokenizer.tokens("").texts == ["[CLS]", "[SEP]"]


def test_what_the_vocabulary_lacks_does_not_count(tokenizer: Tokenizer) -> None:
    assert tokenizer.tokens("retry 東京").texts == ["[CLS]", "retry", "[UNK]", "[UNK]", "[SEP]"]
    assert kept(tokenizer, "retry 東京") == ["retry"]


def test_a_text_cannot_speak_to_the_model(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.tokens("radio [SEP] buoy [PAD]")
    assert tokens.texts.count("[SEP]") == 1
    assert "[PAD]" not in tokens.texts


def test_the_prefix_is_seen_and_does_not_count(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.tokens("search for salt", tiny.PREFIX)
    assert tokens.texts[1:4] == ["search", "for", ":"]
    assert kept(tokenizer, "search for salt", tiny.PREFIX) == ["search", "for", "salt"]
    assert kept(tokenizer, "", tiny.PREFIX) == []


def test_truncation_counts_everything_that_is_shown(tokenizer: Tokenizer) -> None:
    room = tiny.MAX_TOKENS - 2
    whole = tokenizer.tokens(" ".join(["buoy"] * room))
    assert (len(whole.ids), whole.truncated) == (tiny.MAX_TOKENS, 0)
    cut = tokenizer.tokens(" ".join(["buoy"] * (room + 5)))
    assert (len(cut.ids), cut.truncated) == (tiny.MAX_TOKENS, 5)
    assert cut.ids == whole.ids
    as_query = tokenizer.tokens(" ".join(["buoy"] * room), tiny.PREFIX)
    assert (len(as_query.ids), as_query.truncated, len(as_query.kept)) == (
        tiny.MAX_TOKENS,
        3,
        room - 3,
    )


def test_a_model_without_room(tiny_folder: Path) -> None:
    with pytest.raises(ValueError, match="no room"):
        Tokenizer(tiny_folder / "tokenizer.json", 2)


@given(text=st.text(st.characters(), max_size=300), prefix=st.sampled_from(["", tiny.PREFIX]))
def test_any_text(tokenizer: Tokenizer, text: str, prefix: str) -> None:
    tokens = tokenizer.tokens(text, prefix)
    assert 2 <= len(tokens.ids) == len(tokens.texts) <= tiny.MAX_TOKENS
    assert tokens.kept == sorted(set(tokens.kept))
    assert all(0 < position < len(tokens.ids) - 1 for position in tokens.kept)
    assert tokens == tokenizer.tokens(text, prefix)


def test_composed_and_decomposed_are_one_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.tokens("d\u00e9rive") == tokenizer.tokens("de\u0301rive")
    assert tokenizer.tokens("half \ud800 a character").ids


def test_what_pieces_count_for() -> None:
    pieces = ["", "many", "ze", "##bra", "##s", ",", "2", "##6", "running", ""]
    assert word_terms(pieces) == [
        (), ("mani",), ("zebra", "ze"), ("zebra", "##bra"), ("zebra", "##s"), (),
        ("26", "2"), ("26", "##6"), ("run",), (),
    ]  # fmt: skip


def test_a_text_that_starts_inside_a_word() -> None:
    assert word_terms(["##bra", "##s"]) == [("##bra", "##bra"), ("##bra", "##s")]
    assert word_terms([]) == []


@given(st.lists(st.sampled_from(["", "a", "##b", "cats", ".", "##", "七", "##七"])))
def test_every_piece_has_its_place(pieces: list[str]) -> None:
    terms = word_terms(pieces)
    assert len(terms) == len(pieces)
    assert all(len(each) <= 2 for each in terms)
    assert token_terms(pieces) == [(p,) if re.search(r"\w", p) else () for p in pieces]


@given(st.from_regex(r"[a-z]{1,12}(s|ed|ing|ational|iveness)?", fullmatch=True))
def test_stems_are_those_of_the_package(word: str) -> None:
    """Only the stemmer itself is loaded."""
    assert stem(word) == snowballstemmer.stemmer("porter").stemWord(word)


def test_stems_are_the_same_from_every_thread() -> None:
    """The stemmer keeps the current word as its state."""
    words = [f"{word}{end}" for word in ("walk", "read", "index") for end in ("s", "ing", "ed")]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(stem.__wrapped__, words * 300))
    assert found == [stem(word) for word in words] * 300
