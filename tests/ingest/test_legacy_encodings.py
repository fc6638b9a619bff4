"""Text in encodings older than UTF-8."""

from __future__ import annotations

import gzip
import io
import zipfile

import pytest

from kb.ingest.decode import decode
from kb.ingest.legacy_encodings import (
    decode_guessed,
    encoding_note,
    is_utf8,
    legacy_encoding,
)
from kb.ingest.parse import Parsers
from kb.ingest.parsed_document import parse_and_chunk
from kb.ingest.parsers.text import TextParser
from kb.ports import Source

JAPANESE = "データベースの索引は、検索を速くするために使われます。\n資料を読んでください。\n"
CHINESE = "数据库的索引用来加快查询速度。\n更多内容请阅读文档，谢谢。\n"
TRADITIONAL = "資料庫的索引可以加快查詢速度。\n更多內容請閱讀文件，謝謝。\n"
KOREAN = "데이터베이스의 색인은 검색을 빠르게 합니다.\n자세한 내용은 문서를 읽으세요.\n"
RUSSIAN = "Сколько строк в файле, и где они находятся? Ответ – в третьей главе «Руководства».\n"
UKRAINIAN = "Скільки рядків у файлі, і де вони знаходяться? Відповідь у третьому розділі.\n"
CAPITALS = "ВНИМАНИЕ! ЭТО ВАЖНОЕ СООБЩЕНИЕ ДЛЯ ВСЕХ ПОЛЬЗОВАТЕЛЕЙ СИСТЕМЫ\n"
HEBREW = "כמה שורות יש בקובץ הזה והיכן הן נמצאות? התשובה נמצאת בפרק השלישי של המדריך.\n"
GREEK = "Πόσες γραμμές έχει το αρχείο και πού βρίσκονται; Η απάντηση είναι στο τρίτο κεφάλαιο.\n"
WESTERN = "Grüße aus Köln: schöne Straßen, “naïve” façades – und 20 €.\n"


@pytest.mark.parametrize(
    ("text", "codec", "name"),
    [
        (JAPANESE, "shift_jis", "Shift-JIS"),
        (JAPANESE, "euc_jp", "EUC-JP"),
        (CHINESE, "gb18030", "GB18030"),
        (TRADITIONAL, "big5", "Big5"),
        (KOREAN, "euc_kr", "EUC-KR"),
        (WESTERN, "cp1252", "Windows-1252"),
        ("déjà vu à l'été, señor\n", "latin-1", "Windows-1252"),
        ("凯撒 2013, 测试期刊\n", "gb2312", "GB18030"),  # all of it is Korean syllables in EUC-KR
        ("김철수, 박영희\n", "euc_kr", "EUC-KR"),
        (JAPANESE, "iso2022_jp", "ISO-2022-JP"),
        (KOREAN, "iso2022_kr", "ISO-2022-KR"),
        (RUSSIAN, "cp1251", "Windows-1251"),
        (RUSSIAN, "mac_cyrillic", "Mac Cyrillic"),
        (CAPITALS, "cp1251", "Windows-1251"),
        (CAPITALS, "koi8_r", "KOI8-U"),
        (CAPITALS, "cp866", "IBM866"),
        (UKRAINIAN, "cp1251", "Windows-1251"),
        (UKRAINIAN, "koi8_u", "KOI8-U"),
        (UKRAINIAN, "iso8859_5", "ISO-8859-5"),
        (HEBREW, "cp1255", "Windows-1255"),
        (HEBREW, "iso8859_8", "Windows-1255"),
        (GREEK, "cp1253", "Windows-1253"),
        (GREEK.replace("Πόσες", "Άπειρες"), "iso8859_7", "ISO-8859-7"),
    ],
)
def test_encodings(text: str, codec: str, name: str) -> None:
    for data in (text.encode(codec), f"plain ASCII around it\n{text}".encode(codec) * 3000):
        encoding = legacy_encoding(data)
        assert encoding is not None
        assert encoding.name == name
        assert text in decode(data)
        assert encoding_note(data) == f"not UTF-8: read as {name}"


@pytest.mark.parametrize(
    ("text", "codec", "name"),
    [
        (JAPANESE, "shift_jis", "Shift-JIS"),
        ("# Сколько строк в файле, и где они\n", "koi8_r", "KOI8-U"),
        ("# Πόσες γραμμές έχει το αρχείο\n", "cp1253", "Windows-1253"),
    ],
)
def test_a_text_after_much_ascii(text: str, codec: str, name: str) -> None:
    data = b"x = 1  # count\n" * 9000 + text.encode(codec)
    assert encoding_note(data) == f"not UTF-8: read as {name}"
    assert text in decode(data)


@pytest.mark.parametrize("text", ["LETTERS = 'äöüÄÖÜß'", "'àáâãäå', 'èéêë'", "Crème brûlée à gogo"])
def test_letters_of_western_languages(text: str) -> None:
    data = f"{'x = 1  # count' * 900}\n{text}\n".encode("cp1252")
    assert encoding_note(data) == "not UTF-8: read as Windows-1252"


@pytest.mark.parametrize("text", [JAPANESE, CHINESE, KOREAN, WESTERN, "ASCII"])
def test_utf_8_has_no_note(text: str) -> None:
    assert is_utf8(text.encode() * 50_000)
    assert encoding_note(text.encode()) is None


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\x90" * 20,
        bytes(range(128, 256)),
        (WESTERN * 20).encode() + b"\xe9",
        "كم عدد الأسطر في هذا الملف وأين توجد؟\n".encode("cp1256"),
        b"a\0b\xe9",
        b"x = 1  # count\n" * 900 + "كم عدد الأسطر في هذا الملف وأين توجد؟\n".encode("cp1256"),
    ],
)
def test_bytes_of_no_known_encoding(data: bytes) -> None:
    assert legacy_encoding(data) is None


def test_a_text_of_ascii_bytes_has_a_note_too() -> None:
    source = Source("a.txt", JAPANESE.encode("iso2022_jp"))
    document = parse_and_chunk(TextParser(), source, 1800)
    assert document.warnings == ("not UTF-8: read as ISO-2022-JP",)
    assert [chunk.text for chunk in document.chunks] == [JAPANESE.strip()]


@pytest.mark.parametrize(
    "text", ["\x1b[31mred\x1b[0m\n", "the sequence \x1b$B begins kanji", "\x1b$"]
)
def test_other_escape_sequences_are_text(text: str) -> None:
    assert is_utf8(text.encode())
    assert decode(text.encode()) == text


def test_the_note_is_a_warning_of_the_document() -> None:
    source = Source("a.txt", WESTERN.encode("cp1252"))
    document = parse_and_chunk(TextParser(), source, 1800)
    assert document.warnings == ("not UTF-8: read as Windows-1252",)
    assert [chunk.text for chunk in document.chunks] == [WESTERN.strip()]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nGrüße\n"),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nGrüße\n"),
        ("a.1", ".TH A 1\n.SH NAME\nGrüße\n"),
        ("a.canvas", '{"nodes": [{"type": "text", "text": "Grüße"}]}'),
        ("a.ipynb", '{"cells": [{"cell_type": "markdown", "source": "Grüße"}]}'),
        ("a.html", "<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><DT><A HREF='x'>Grüße</A></DL>"),
        ("conversations.json", '[{"mapping": {}, "title": "Grüße"}]'),
        ("2026-01-31.json", '[{"type": "message", "user": "U", "text": "Grüße", "ts": "1.0"}]'),
    ],
)
def test_formats_that_show_a_rendering_have_the_note_too(name: str, text: str) -> None:
    """Also in archives, and compressed."""
    data = text.encode("cp1252")
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("plain.txt", "Grüße aus Köln".encode("cp1252"))
        archive.writestr(name, data)
    note = "not UTF-8: read as Windows-1252"
    assert warnings(name, data) == (note,)
    assert warnings("a.zip", zipped.getvalue()) == tuple(
        f"{each}: {note}" for each in sorted((name, "plain.txt"))
    )
    assert warnings("plain.txt.gz", gzip.compress("Grüße aus Köln".encode("cp1252"))) == (note,)
    assert warnings(name, text.encode()) == ()


def warnings(name: str, data: bytes) -> tuple[str, ...]:
    parsers = Parsers(1800)
    source = Source(name, data)
    parser = parsers.detect(source)
    assert parser is not None
    document = parse_and_chunk(parser, source, 1800)
    assert "Grüße" in "".join(chunk.text for chunk in document.chunks)
    return document.warnings


@pytest.mark.parametrize("text", [JAPANESE, CHINESE, KOREAN, WESTERN * 3])
def test_one_wrong_byte_in_a_page_or_mail(text: str) -> None:
    """The rest of the text is UTF-8, not Windows-1252."""
    decoded, note = decode_guessed(text.encode() + b"\xe9 x")
    assert (decoded, note) == (f"{text}\ufffd x", None)


def test_a_page_or_mail_in_a_guessed_encoding() -> None:
    assert decode_guessed(WESTERN.encode()) == (WESTERN, None)
    assert decode_guessed(JAPANESE.encode("iso2022_jp"))[0] == JAPANESE
    decoded, note = decode_guessed(CHINESE.encode("gb18030"))
    assert (decoded, note) == (CHINESE, "not UTF-8: read as GB18030")
    unknown = "كم عدد الأسطر في هذا الملف وأين توجد؟\n".encode("cp1256")
    assert decode_guessed(unknown)[1] == "not UTF-8: read as Windows-1252"
