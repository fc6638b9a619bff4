from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from kb.ingest.split import Piece, split_line, split_text


def test_by_paragraph() -> None:
    assert list(split_text("one\ntwo\n\nthree", 8)) == [
        Piece("one\ntwo", 0, 1),
        Piece("three", 3, 3),
    ]


def test_a_long_paragraph_by_line() -> None:
    assert list(split_text("one\ntwo\n\nthree", 5)) == [
        Piece("one", 0, 0),
        Piece("two", 1, 1),
        Piece("three", 3, 3),
    ]


def test_a_long_line_after_a_sentence() -> None:
    line = "First one here. Second one. Third one is here."
    assert list(split_line(line, 30)) == ["First one here. Second one.", "Third one is here."]


def test_a_sentence_may_end_at_the_limit() -> None:
    assert list(split_line("Four five. Six seven", 10)) == ["Four five.", "Six seven"]


def test_a_sentence_in_a_script_without_spaces() -> None:
    assert list(split_line("今日は晴れです。明日は雨です。明後日は？", 16)) == [
        "今日は晴れです。明日は雨です。",
        "明後日は？",
    ]


def test_a_dot_inside_a_word_ends_nothing() -> None:
    assert list(split_line("alpha kb.ingest.split beta", 22)) == ["alpha kb.ingest.split", "beta"]


def test_a_long_sentence_between_words() -> None:
    assert list(split_line("one two three four", 10)) == ["one two", "three four"]


def test_a_long_word_between_characters() -> None:
    assert list(split_line("x" * 25, 10)) == ["x" * 10, "x" * 10, "x" * 5]


def test_an_accent_stays_on_its_letter() -> None:
    line = "x" * 9 + "q\u0323\u0307" + "x" * 9
    assert not any(unicodedata.combining(piece[0]) for piece in split_line(line, 10))


def test_a_line_of_one_megabyte() -> None:
    for line in ("x" * 1_000_000, "word " * 200_000, "。" * 1_000_000, "\u0301" * 1_000_000):
        pieces = list(split_line(line, 1800))
        assert "".join(pieces).replace(" ", "") == line.replace(" ", "")
        assert max(map(len, pieces)) <= 1800


@given(st.text(alphabet="ab.!。？ \t'\u0301"), st.integers(1, 20))
def test_pieces_are_the_line(line: str, limit: int) -> None:
    pieces = list(split_line(line, limit))
    assert "".join("".join(pieces).split()) == "".join(line.split())
    assert all(0 < len(piece) <= limit and piece == piece.strip() for piece in pieces)


@given(st.text(alphabet="ab. \n"), st.integers(1, 20))
def test_pieces_know_their_lines(text: str, limit: int) -> None:
    lines = text.split("\n")
    for piece in split_text(text, limit):
        source = "\n".join(lines[piece.first : piece.last + 1])
        assert piece.text in source if piece.broken else piece.text == source
        assert len(piece.text) <= limit


def test_a_list_without_spaces_between_its_entries() -> None:
    assert list(split_line("id,one,two,three,four", 10)) == ["id,one,", "two,three,", "four"]


@given(st.text("ab1_,;=[ é\u0301語", max_size=200), st.integers(8, 40))
def test_no_word_is_cut_that_fits(line: str, limit: int) -> None:
    pieces = " ".join(split_line(line, limit))
    words = {word for word in re.findall(r"[\w\u0301]+", line) if len(word) <= limit}
    assert words <= set(re.findall(r"[\w\u0301]+", pieces))
