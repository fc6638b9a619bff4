from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.ingest.chunk import chunk
from kb.ingest.decode import Unreadable, normalize_text
from kb.ingest.parsers.table import TableParser
from kb.ports import Parsed, Source
from kb.types import Block
from tests.ingest.documents import check_blocks, documents
from tests.ingest.parsers.mutations import check_parsed, check_survives

parser = TableParser(1)  # a block for each row
TYPICAL = 'name,note,amount\nA,"one, ""two""",3\nB,"several\n\nlines",4\nC,plain 5" disk,5\n'


def parse(text: str, name: str = "some-rows.csv") -> Parsed:
    return parser.parse(Source(name, text.encode()))


def blocks_of(text: str, name: str = "some-rows.csv") -> list[Block]:
    parsed = parse(text, name)
    blocks = list(parsed.blocks)
    check_blocks(normalize_text(text) if parsed.text is None else parsed.text, blocks)
    return blocks


def test_rows() -> None:
    blocks = blocks_of(TYPICAL)
    assert [(block.span.start, block.span.end) for block in blocks] == [
        (1, 1), (2, 2), (3, 5), (6, 6),
    ]  # fmt: skip
    assert {block.heading_path for block in blocks} == {("name, note, amount",)}
    parsed = parse(TYPICAL)
    assert (parsed.type, parsed.title, parsed.text) == ("table", "some rows", None)


def test_rows_are_packed_and_know_their_columns() -> None:
    rows = "".join(f"{n},{n * n}\n" for n in range(1000))
    chunks = chunk(blocks_of(f"number,square\n{rows}"), 1800)
    assert len(chunks) < 10
    assert {found.heading_path for found in chunks} == {("number, square",)}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("a;b\n1,5;2\n", "a, b"),
        ("a\tb\n1\t2\n", "a, b"),
        ("a|b\n1|2\n", "a, b"),
        ("sep=;\na;b\n1;2\n", "a, b"),
        ('"first, last";age\n"x, y";3\n', "first, last, age"),
        ('"two\nlines",b\n1,2\n', "two lines, b"),
        ("\n\na,b\n1,2\n", "a, b"),
        ("only\nx\ny\n", "only"),
        ("name,,\nx,y,z\n", None),
        ("1,2\n3,4\n", None),
        ("2026-01-01,x\n2026-01-02,y\n", None),
        ("a,a\n1,2\n", None),
        ("a,b\n", None),
    ],
)
def test_columns(text: str, label: str | None) -> None:
    assert blocks_of(text)[-1].heading_path == ((label,) if label else ())


def test_tsv() -> None:
    assert blocks_of("a\tb\n1,2\t3\n", "x.tsv")[-1].heading_path == ("a, b",)


def test_an_unclosed_quote() -> None:
    text = 'a,b\n"open,1\n' + "x,2\n" * 1000
    assert len(blocks_of(text)) == 1002


def test_json_lines() -> None:
    text = "\n".join(json.dumps({"n": n, "t": "x\ny"}) for n in range(3)) + "\n\nnot json\n"
    for name in ("a.jsonl", "a.ndjson"):
        blocks = blocks_of(text, name)
        assert [block.span.start for block in blocks] == [1, 2, 3, 5]
        assert {block.heading_path for block in blocks} == {()}


@pytest.mark.parametrize(
    "text", ["", "\n", '"', ",", '"' * 100_000, "," * 100_000, "x" * 1_000_000, '"a\n' * 5000,
             'a,"' + "x" * 200_000 + '"\n1,2\n', '"\n,' * 3000]
)  # fmt: skip
def test_odd(text: str) -> None:
    blocks_of(text)


def test_wrong_encoding() -> None:
    with pytest.raises(Unreadable, match="line 2"):
        parser.parse(Source("a.csv", b"a,b\ngr\x90\xffe,1\n"))


def test_utf_16_as_spreadsheets_write_it() -> None:
    data = "\ufeffname\tsize\r\ngröße\t1\r\n".encode("utf-16-le")
    blocks = list(parser.parse(Source("a.csv", data)).blocks)
    assert [(block.text, block.heading_path) for block in blocks][1] == (
        "größe\t1", ("name, size",),
    )  # fmt: skip


def test_damage() -> None:
    check_survives(parser, "a.csv", TYPICAL.encode())
    check_survives(parser, "a.jsonl", b'{"a": 1}\n{"b": "x"}\n')


LINES = ("a,b", "1,2", '"x",2', '"x', 'y"', '""', '"a""b",', ";", "", "", "\t", "é,中", ' "x"', ",")


@given(documents(LINES), st.sampled_from(["a.csv", "a.tsv", "a.jsonl"]))
def test_every_line_is_in_exactly_one_block(text: str, name: str) -> None:
    check_parsed(parse(text, name), text.encode())


def test_rows_share_blocks_of_the_size_of_a_chunk() -> None:
    text = "number,square\n" + "".join(f"{n},{n * n}\n" * (n % 3) + "\n" for n in range(1000))
    packed = TableParser(100).parse(Source("a.csv", text.encode()))
    check_parsed(packed, text.encode())
    assert all(len(block.text) <= 100 for block in packed.blocks)
    assert chunk(packed.blocks, 100) == chunk(parse(text).blocks, 100)


@given(documents(LINES), st.sampled_from([5, 20, 1800]))
def test_packed_rows_are_chunked_like_single_rows(text: str, max_chars: int) -> None:
    packed = TableParser(max_chars).parse(Source("a.jsonl", text.encode()))
    assert chunk(packed.blocks, max_chars) == chunk(parse(text, "a.jsonl").blocks, max_chars)


def test_millions_of_rows() -> None:
    parsed = TableParser(1800).parse(Source("a.csv", b"a\n" * 300_000))
    assert len(list(parsed.blocks)) < 400


def test_escapes_in_json_lines() -> None:
    text = (
        json.dumps({"city": "M\u00fcnchen \u6771\u4eac"}) + "\n\n" + json.dumps("one\ntwo\\three")
    )
    parsed = parse(text, "a.jsonl")
    assert parsed.text == '{"city": "M\u00fcnchen \u6771\u4eac"}\n\n"one two\\\\three"'
    assert [block.span.start for block in parsed.blocks] == [1, 3]
    check_parsed(parsed, text.encode())
