from __future__ import annotations

import codecs
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.ingest.decode import (
    Unreadable,
    Unsupported,
    decode,
    looks_binary,
    normalize_text,
    text_windows,
)

TEXT = "Größe 大きさ\nsecond line\n"


def test_utf_8() -> None:
    assert decode(TEXT.encode()) == TEXT


def test_utf_8_with_byte_order_mark() -> None:
    assert decode(codecs.BOM_UTF8 + TEXT.encode()) == TEXT


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("marked", [True, False])
def test_utf_16(encoding: str, marked: bool) -> None:
    data = ("\ufeff" * marked + TEXT).encode(encoding)
    assert decode(data) == TEXT
    assert not looks_binary(data)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_of_another_script_without_mark(encoding: str) -> None:
    text = "一二三四五六七八九十\n" * 3  # its first character has a zero byte on the other side
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text",
    [
        "Цапля стоит на берегу и ждёт рыбу.\nОна не спит.\n",
        "さぎはかわのそばでさかなをまっている。\nねむらない。\n",
        "クジラはウミのナカをオヨグ。\n",
        "苍鹭站在岸边等鱼。\n它不睡觉，也不飞走。\n",
        "왜가리가 물가에서 물고기를 기다린다.\n",
        "Ο ερωδιός περιμένει στην όχθη.\n",
        "Der Reiher wartet am Ufer — Größe: 90 cm.\n",
    ],
)
def test_utf_16_of_other_scripts_without_mark(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
@pytest.mark.parametrize("at", [4, 5, 27, 28])
def test_text_with_a_zero_is_not_read_as_utf_16(encoding: str, at: int) -> None:
    """It became a passage of Chinese characters, without a warning."""
    text = "Le héron attend près du café, sur la berge du fleuve.\n"
    for data in (text.encode(encoding), f" {text}".encode(encoding)):
        with pytest.raises(Unsupported, match="binary"):
            decode(data[:at] + b"\0" + data[at:])


@pytest.mark.parametrize(
    "text", ["Цапля стоит на берегу.\n", "苍鹭站在岸边等鱼。\n", "Ο ερωδιός περιμένει.\n"]
)
def test_utf_8_with_a_zero_is_not_read_as_utf_16(text: str) -> None:
    data = text.encode()
    for at in range(len(data)):
        with pytest.raises((Unsupported, Unreadable)):
            decode(data[:at] + b"\0" + data[at:])


def test_utf_32_with_byte_order_mark() -> None:
    assert decode(TEXT.encode("utf-32")) == TEXT


def test_utf_16_that_breaks_off() -> None:
    with pytest.raises(Unreadable, match="UTF-16-LE"):
        decode(codecs.BOM_UTF16_LE + b"a\0b")


def test_crlf_and_cr_become_lf() -> None:
    assert decode(b"a\r\nb\rc\n\r\nd") == "a\nb\nc\n\nd"


def test_blank_lines_lose_their_spaces() -> None:
    assert decode(b"a\n \t\n\f\nb  \n") == "a\n\n\nb  \n"


def test_nfc() -> None:
    assert decode("cafe\u0301".encode()) == "café"


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"a\0b",
        b"text\0",
        b"tex\0",
        b"one\0two\0",
        bytes(range(256)),
    ],
)
def test_nul_bytes_are_binary(data: bytes) -> None:
    with pytest.raises(Unsupported, match="binary"):
        decode(data)


def test_invalid_utf_8_names_the_line() -> None:
    with pytest.raises(Unreadable, match="line 3") as caught:
        decode(b"one\ntwo\r\n\xc3\xa4\xff\x90\n")
    assert caught.value.reason == str(caught.value)


@given(st.binary(max_size=64))
def test_bytes_decode_or_are_refused(data: bytes) -> None:
    try:
        text = decode(data)
    except (Unreadable, Unsupported):
        return
    assert "\r" not in text
    assert normalize_text(text) == text


@given(st.text())
def test_every_text_survives(text: str) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    if b"\0" not in data:
        assert decode(data) == normalize_text(text.removeprefix("\ufeff"))


# --- long files -----------------------------------------------------------------------------------


@given(st.lists(st.text(alphabet="ab \n\ré中\u0301", max_size=30)), st.integers(1, 40))
def test_windows_are_the_text(parts: list[str], size: int) -> None:
    """The text is split at line ends or not at all. The joined windows equal the result of
    `decode`."""
    data = "\n".join(parts).encode()
    found = list(text_windows(data, size))
    if b"\r" not in data:
        assert "".join(text for _, text in found) == decode(data)
    for (before, text), (after, _) in pairwise(found):
        assert text.endswith("\n")
        assert after == before + text.count("\n")


def test_a_bad_byte_far_behind_names_its_line() -> None:
    data = b"line\n" * 100 + b"bad \x90\xff\n"
    with pytest.raises(Unreadable, match="line 101"):
        list(text_windows(data, 50))


def test_windows_of_a_legacy_encoding_are_one() -> None:
    data = "schöne Straßen\n".encode("cp1252") * 100
    assert list(text_windows(data, 50)) == [(0, "schöne Straßen\n" * 100)]


@pytest.mark.parametrize(
    "data",
    [
        "Grüße aus Köln\n".encode() + b"caf\xe9",  # damaged UTF-8
        b"text \x90\xff\x81 text, and more text\n",
    ],
)
def test_bytes_without_a_known_encoding(data: bytes) -> None:
    with pytest.raises(Unreadable, match="not valid UTF-8 at line"):
        decode(data)
