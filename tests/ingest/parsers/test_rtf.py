"""RTF: text, breaks, tables, encodings, and groups that are not text."""

from __future__ import annotations

import pytest

from kb.ingest.decode import Unreadable
from kb.ingest.parse import Parsers
from kb.ingest.parsers.rtf import RtfParser
from kb.ports import Parsed, Source
from tests.ingest.parsers.mutations import check_parsed, check_survives

TYPICAL = rb"""{\rtf1\ansi\ansicpg1252\deff0
{\fonttbl{\f0\fswiss Helvetica;}{\f1\fcharset204 Arial;}}
{\colortbl;\red0\green0\blue0;}{\*\generator Riched20 10.0;}
{\info{\title The mooring}{\author Ada Byron}{\creatim\yr2024\mo3\dy9\hr12}{\company Harbour}}
\pard\b Anchors\b0\par
A kedge holds in mud; the caf\'e9 is \u8220?open\u8221?, \'93quoted\'94.\line next line\par
{\field{\*\fldinst HYPERLINK "https://example.org"}{\fldrslt the pilot book}}\par
\trowd\cellx100\cellx200 tide\cell 4 m\cell\row
{\f1 \'cf\'f0\'e8\'e2\'e5\'f2}\par
body{\footnote a remark below}\par
{\pict\pngblip 89504e470d0a}\u-10179?\u-8704?
}"""


def parse(data: bytes) -> Parsed:
    return RtfParser().parse(Source("note.rtf", data))


def test_text_and_properties() -> None:
    parsed = parse(TYPICAL)
    assert (parsed.text or "").split("\n\n") == [
        "Anchors",
        "A kedge holds in mud; the café is “open”, “quoted”.",
        "next line",
        "the pilot book",
        "tide | 4 m",
        "Привет",
        "body",
        "a remark below",
        "\U0001f600",
        "Ada Byron\nHarbour",
    ]
    assert parsed.title == "The mooring"
    assert parsed.attributes.date == "2024-03-09"
    assert parsed.attributes.metadata["author"] == "Ada Byron"
    check_parsed(parsed, TYPICAL)


def test_a_link_is_part_of_its_sentence() -> None:
    data = rb"""{\rtf1 See {\field{\*\fldinst{HYPERLINK "/url/"}}{\fldrslt{\ul
the pilot}}}
, page 3.\par}"""
    assert parse(data).text == "See the pilot, page 3."


def test_multi_byte_characters() -> None:
    data = b"{\\rtf1\\ansi\\ansicpg932 \\'8d\\'60\\'82\\'cc}"
    assert parse(data).text == "港の"


def test_binary_data_is_skipped() -> None:
    assert parse(b"{\\rtf1 a{\\pict\\bin5 }}}}}}b}").text == "ab"


def test_a_file_without_suffix_is_recognized() -> None:
    parser = Parsers(1800, plug_ins=()).detect(Source("letter", TYPICAL))
    assert parser is not None
    assert parser.name == "rtf"


def test_other_files() -> None:
    with pytest.raises(Unreadable, match="not an RTF"):
        parse(b"plain")
    with pytest.raises(Unreadable, match="levels deep"):
        parse(b"{\\rtf1" + b"{" * 100_000)


def test_damaged_files() -> None:
    check_survives(RtfParser(), "a.rtf", TYPICAL)


def test_embedded_files_are_counted() -> None:
    data = rb"{\rtf1 before {\object{\*\objdata 0105}{\result shown}} after}"
    parsed = RtfParser().parse(Source("a.rtf", data))
    assert parsed.text == "before shown after"
    assert parsed.warnings == ("embedded files are not read: 1",)


def test_a_wrong_size_of_binary_data_skips_no_text() -> None:
    parsed = RtfParser().parse(Source("a.rtf", rb"{\rtf1 before \bin99999 after}"))
    assert parsed.text == "before after"
