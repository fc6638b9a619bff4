from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given

from kb.ingest.decode import Unreadable, normalize_text
from kb.ingest.parsers.asciidoc import AsciidocParser, heading_text
from kb.ports import Parsed, Source
from kb.types import Block
from tests.ingest.documents import check_blocks, documents
from tests.ingest.parsers.mutations import check_parsed, check_survives

TYPICAL = dedent("""\
    = The title
    A. Writer <a@x.test>
    v1.2, 2026-03-01
    :lang: en
    :keywords: radio, slots

    Words.

    [#first]
    == First `code`

    [source,python]
    .Width
    ----
    = not a heading

    def f(): pass
    ----

    ====
    An example.

    == also not a heading
    ====

    === Deeper

    |===
    | a | b

    | c | d
    |===

    == Second ==

    * item
    * item
    """)


def parse(text: str, max_chars: int = 1800) -> Parsed:
    return AsciidocParser(max_chars).parse(Source("some-notes.adoc", text.encode()))


def blocks_of(text: str, max_chars: int = 1800) -> list[Block]:
    parsed = parse(text, max_chars)
    assert parsed.text is None
    blocks = list(parsed.blocks)
    check_blocks(normalize_text(text), blocks)
    return blocks


def test_sections() -> None:
    headings = [block for block in blocks_of(TYPICAL) if block.boundary]
    assert [(block.span.start, block.heading_path) for block in headings] == [
        (1, ("The title",)),
        (10, ("The title", "First code")),
        (26, ("The title", "First code", "Deeper")),
        (34, ("The title", "Second")),
    ]


def test_atomic_blocks() -> None:
    atomic = [(block.span.start, block.span.end) for block in blocks_of(TYPICAL) if block.atomic]
    assert atomic == [(12, 18), (20, 24), (28, 32)]


def test_a_long_block_is_split_into_its_inner_blocks() -> None:
    text = "====\n" + "word\n\n" * 20 + "== no\n\n----\ncode\n\ncode\n----\n====\n\n== Yes\n"
    blocks = blocks_of(text, max_chars=50)
    assert [block.text for block in blocks if block.atomic] == ["----\ncode\n\ncode\n----"]
    assert [block.heading_path for block in blocks if block.boundary] == [("Yes",)]


def test_attributes() -> None:
    parsed = parse(TYPICAL)
    assert (parsed.type, parsed.title, parsed.lang) == ("asciidoc", "The title", "en")
    assert parsed.attributes.date == "2026-03-01"
    assert parsed.attributes.metadata == {"keywords": "radio, slots"}


def test_underlined_headings() -> None:
    text = "git-add(1)\n==========\n\nNAME\n----\ngit-add - x\n\nOPTIONS\n~~~~~~~\ntext\n"
    assert [block.heading_path for block in blocks_of(text) if block.boundary] == [
        ("git-add(1)",), ("git-add(1)", "NAME"), ("git-add(1)", "NAME", "OPTIONS"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "=no\n", "======= seven\n", "text\nmore\n====\n", "[source]\n--------\nx\n--------\n",
        ".Title\n------\nx\n------\n", "a long line\n----\nx\n----\n", " == indented\n",
        "....\n== x\n....\n",
        "```\n# x\n```\n", "////\n== x\n////\n", "- item\n------\n",
    ],
)  # fmt: skip
def test_no_heading(text: str) -> None:
    assert not [block for block in blocks_of(text) if block.boundary]


def test_an_open_delimiter_is_a_line() -> None:
    blocks = blocks_of("----\ncode\n\n== Head\n\ntext\n")
    assert [block.heading_path for block in blocks][-1] == ("Head",)


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("`code` and *strong* _em_", "code and strong em"),
        ("[[id]]Words", "Words"),
        ("See <<x,there>>", "See there"),
        ("A link:http://x.test[link]", "A link"),
        ("snake_case and C++", "snake_case and C"),
        ("**", "**"),
    ],
)
def test_a_heading_has_no_markup(markup: str, text: str) -> None:
    assert heading_text(markup) == text


@pytest.mark.parametrize(
    "text", ["", "\n", "=", "= ", "--", "x" * 1_000_000, "= " + "x" * 1_000_000]
)
def test_odd(text: str) -> None:
    blocks_of(text)


@pytest.mark.parametrize("line", ["----\n", "====\n", "[x]\n", ".x\n", "--\n====\n****\n"])
def test_many(line: str) -> None:
    blocks_of(line * 3000, max_chars=100)


def test_nested_delimiters() -> None:
    marks = ["=" * n for n in range(4, 400)]
    blocks_of("\n".join([*marks, "deep", *reversed(marks)]), max_chars=100)


def test_accepts() -> None:
    parser = AsciidocParser(1800)
    assert parser.accepts(Source("a.adoc", b""))
    assert parser.accepts(Source("a.asc", b"= Title"))
    assert not parser.accepts(Source("a.asc", b"-----BEGIN PGP SIGNATURE-----"))


def test_wrong_encoding() -> None:
    with pytest.raises(Unreadable, match="line 2"):
        AsciidocParser(1800).parse(Source("a.adoc", b"fine\ngr\x90\xffe\n"))


def test_damage() -> None:
    check_survives(AsciidocParser(1800), "a.adoc", TYPICAL.encode())


LINES = (
    "= One", "== Two", "=== Three ===", "Title", "=====", "-----", "~~~~~", "----", "....", "====",
    "****", "--", "|===", "| a", "```", "```c", "[source]", ".Title", ":key: x", "// note", "////",
    "text", "", "", "* item", "+", "é中", "++++", "____", "term:: x",
)  # fmt: skip


@given(documents(LINES))
def test_every_line_is_in_exactly_one_block(text: str) -> None:
    for max_chars in (10, 1800):
        check_parsed(parse("\n" + text, max_chars), ("\n" + text).encode())
