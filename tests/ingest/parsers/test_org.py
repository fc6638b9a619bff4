from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given

from kb.ingest.decode import Unreadable, normalize_text
from kb.ingest.parsers.org import OrgParser
from kb.ports import Parsed, Source
from kb.types import Block
from tests.ingest.documents import check_blocks, documents
from tests.ingest.parsers.mutations import check_parsed, check_survives

parser = OrgParser()
TYPICAL = dedent("""\
    #+TITLE: The title
    #+DATE: <2026-03-01 Sun>
    #+FILETAGS: :radio:slots:
    #+LANGUAGE: de
    #+TODO: OPEN(o) | SHUT(s)

    Before.

    * TODO [#A] First =code= [1/2]          :work:@home:
      SCHEDULED: <2026-03-02 Mon>
      :PROPERTIES:
      :ID: 42
      :END:
      Words.
    ** OPEN Deeper [[http://x.test][link]]
    #+BEGIN_SRC python
    ,* not a heading

    * not one either
    #+END_SRC

    | a | b |
    |---+---|
    | c | d |
    * Second
    Text.
    """)


def parse(text: str) -> Parsed:
    return parser.parse(Source("some-notes.org", text.encode()))


def blocks_of(text: str) -> list[Block]:
    parsed = parse(text)
    assert parsed.text is None
    blocks = list(parsed.blocks)
    check_blocks(normalize_text(text), blocks)
    return blocks


def test_headlines() -> None:
    headings = [block for block in blocks_of(TYPICAL) if block.boundary]
    assert [(block.span.start, block.heading_path) for block in headings] == [
        (9, ("First code",)),
        (15, ("First code", "Deeper link")),
        (25, ("Second",)),
    ]


def test_drawers_stay_with_the_text() -> None:
    (drawer,) = [block for block in blocks_of(TYPICAL) if ":ID: 42" in block.text]
    assert (drawer.span.start, drawer.span.end) == (10, 14)
    assert drawer.heading_path == ("First code",)


def test_atomic_blocks() -> None:
    atomic = [(block.span.start, block.span.end) for block in blocks_of(TYPICAL) if block.atomic]
    assert atomic == [(16, 20), (22, 24)]


def test_attributes() -> None:
    parsed = parse(TYPICAL)
    assert (parsed.type, parsed.title, parsed.lang) == ("org", "The title", "de")
    assert parsed.attributes.date == "2026-03-01"
    assert parsed.attributes.tags == ("radio", "slots")


def test_titles() -> None:
    assert parse("** Two\n* DONE One\n").title == "One"
    assert parse("text\n").title == "some notes"


@pytest.mark.parametrize(
    ("headline", "heading"),
    [
        ("* TODO Words", "Words"),
        ("* TODOS Words", "TODOS Words"),
        ("* Words :tag:", "Words"),
        ("* a:b: c", "a:b: c"),
        ("* *bold* /it/ ~x~", "bold it x"),
        ("* a/b/c 1/2", "a/b/c 1/2"),
        ("* DONE [#B] x [50%]", "x"),
        ("* [[file.org]]", "file.org"),
        ("* TODO", ""),
        ("* 見出し :タグ:", "見出し"),
    ],
)
def test_a_headline_has_no_markup(headline: str, heading: str) -> None:
    (block,) = blocks_of(headline)
    assert block.heading_path == ((heading,) if heading else ())
    assert block.boundary


@pytest.mark.parametrize("text", ["*bold*\n", " * item\n", "#+BEGIN_X\n* a\n#+end_x\n", "*\n"])
def test_no_headline(text: str) -> None:
    assert not [block for block in blocks_of(text) if block.boundary]


def test_an_open_block_is_text() -> None:
    blocks = blocks_of("#+BEGIN_SRC\ncode\n* Head\ntext\n")
    assert [block.boundary for block in blocks] == [False, True, False]


@pytest.mark.parametrize("text", ["", "\n", "*", "x" * 1_000_000, "* " + "x" * 1_000_000])
def test_odd(text: str) -> None:
    blocks_of(text)


@pytest.mark.parametrize("line", ["#+begin_a\n", "#+end_a\n", "* x\n", "|\n", "* " + "*a" * 200])
def test_many(line: str) -> None:
    blocks_of(line * 3000)


def test_wrong_encoding() -> None:
    with pytest.raises(Unreadable, match="line 2"):
        parser.parse(Source("a.org", b"fine\ngr\x90\xffe\n"))


def test_damage() -> None:
    check_survives(parser, "a.org", TYPICAL.encode())


LINES = (
    "* One", "** TODO Two :tag:", "*** x", "#+BEGIN_SRC c", "#+END_SRC", "#+begin_quote",
    "#+end_quote", "#+BEGIN: x", "#+END:", "| a | b |", "|---+---|", ":PROPERTIES:", ":END:",
    "- item", "  text", "text", "", "", "#+TITLE: x", "# note", ": fixed", "é中", "*bold*",
)  # fmt: skip


@given(documents(LINES))
def test_every_line_is_in_exactly_one_block(text: str) -> None:
    check_parsed(parse("\n" + text), ("\n" + text).encode())
