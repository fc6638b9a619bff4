from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given

from kb.ingest.decode import Unreadable, normalize_text
from kb.ingest.parsers.rst import RstParser, heading_text
from kb.ports import Parsed, Source
from kb.types import Block
from tests.ingest.documents import check_blocks, documents
from tests.ingest.parsers.mutations import check_parsed, check_survives

parser = RstParser()
TYPICAL = dedent("""\
    =========
    The title
    =========
    :Author: A. Writer
    :Date: 2026-03-01

    Words with ``code``.

    .. _label:

    First
    =====

    For example::

        literal

        more

    .. code-block:: python
       :linenos:

       def f():

           return 1

    .. note::

       A paragraph.

       Another::

          literal

    Deeper
    ------

    ====  ====
    a     b
    ====  ====
    c

    d     e
    ====  ====

    +---+---+
    | a | b |
    +---+---+

    Second :ref:`one <x>`
    =====================

    >>> 1 + 1
    2

    ----

    The end.
    """)


def parse(text: str, name: str = "some-notes.rst") -> Parsed:
    return parser.parse(Source(name, text.encode()))


def blocks_of(text: str) -> list[Block]:
    parsed = parse(text)
    assert parsed.text is None
    blocks = list(parsed.blocks)
    check_blocks(normalize_text(text), blocks)
    return blocks


def test_sections() -> None:
    headings = [block for block in blocks_of(TYPICAL) if block.boundary]
    assert [(block.span.start, block.span.end, block.heading_path) for block in headings] == [
        (1, 3, ("The title",)),
        (9, 12, ("The title", "First")),
        (35, 36, ("The title", "First", "Deeper")),
        (50, 51, ("The title", "Second one")),
    ]


@pytest.mark.parametrize("markup", [".. note:: x", ".. _label:", "see :ref:`x`", "  .. _a b: c"])
def test_text_files_with_headings_and_markup(markup: str) -> None:
    text = f"Title\n=====\n\nText.\n\n{markup}\n".encode()
    assert parser.accepts(Source("notes.txt", text))
    # Cut inside a character of two bytes.
    assert parser.accepts(Source("notes.txt", text + "é".encode() * 5000))
    assert not parser.accepts(Source("notes.log", text))
    assert not parser.accepts(Source("notes.txt", b"x" * 8192 + text))


@pytest.mark.parametrize(
    "text",
    [
        "Title\n=====\n\nText.\n",  # a plain text may have headings, too
        "Text.\n\n.. note:: x\n",
        "Title\n=====\n\nat 12:30:`x`, std::vector, wait .. what:: x\n",
        "Title\n=====\n\n..\n.. text::text\n",
        "",
    ],
)
def test_other_text_files(text: str) -> None:
    assert not parser.accepts(Source("notes.txt", text.encode()))


def test_atomic_blocks() -> None:
    atomic = [block.text.split("\n")[0].strip() for block in blocks_of(TYPICAL) if block.atomic]
    assert atomic == [
        "literal", ".. code-block:: python", "literal", "====  ====", "+---+---+", ">>> 1 + 1",
    ]  # fmt: skip


def test_attributes() -> None:
    parsed = parse(TYPICAL)
    assert (parsed.type, parsed.title) == ("rst", "The title")
    assert parsed.attributes.date == "2026-03-01"
    assert parsed.attributes.metadata == {"author": "A. Writer"}


def test_front_matter_as_in_other_notes() -> None:
    parsed = parse("---\ntitle: Said\ntags: [a]\n---\n\nHead\n====\n")
    assert (parsed.title, parsed.attributes.tags) == ("Said", ("a",))
    assert [block.span.start for block in parsed.blocks] == [6]


@pytest.mark.parametrize(
    "text",
    [
        "text\nmore\n====\n",  # in the middle of a paragraph
        "  indented\n  ====\n",
        "text\n\n----\n\ntext\n",  # a transition
        "long title\n==\n",
        "text::\n\n    Not one\n    =======\n",
        "..\n   Not one\n   =======\n",
        "====\n====\n",
        "=====  =====\na      b\n=====  =====\nc      d\n=====  =====\n",
        "text\n::\n\n   x\n",
    ],
)
def test_no_heading(text: str) -> None:
    assert not [block for block in blocks_of(text) if block.boundary]


@pytest.mark.parametrize(
    "text",
    ["A\n=\n", "Title\n====\n", "見出し\n======\n", ".. _x:\nTitle\n=====\n", "!\n!!\nA\n~\n"],
)
def test_heading(text: str) -> None:
    assert [block for block in blocks_of(text) if block.boundary]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("``code`` and *em*", "code and em"),
        ("**Strong** :mod:`os.path`", "Strong os.path"),
        ("A `link <http://x.test>`_ here", "A link here"),
        (":doc:`Words </a/b>`", "Words"),
        ("2 * 3 and a_b", "2 * 3 and a_b"),
        (r"\*args", "*args"),
    ],
)
def test_a_heading_has_no_markup(markup: str, text: str) -> None:
    assert heading_text(markup) == text


def test_an_open_simple_table_is_text() -> None:
    assert len(blocks_of("===  ===\na    b\n\ntext\n")) == 2


@pytest.mark.parametrize("text", ["", "\n", "=", "::", "..", "x" * 1_000_000, "=" * 1_000_000])
def test_odd(text: str) -> None:
    blocks_of(text)


@pytest.mark.parametrize(
    "line", ["a::\n\n", "== ==\n", "== ==\nx\n", "+-+\n", ".. code::\n", ">>> x\n"]
)
def test_many(line: str) -> None:
    blocks_of(line * 5000)


def test_wrong_encoding() -> None:
    with pytest.raises(Unreadable, match="line 2"):
        parser.parse(Source("a.rst", b"fine\ngr\x90\xffe\n"))


def test_damage() -> None:
    check_survives(parser, "a.rst", TYPICAL.encode())


LINES = (
    "Title", "=====", "-----", "~", "text", "text::", "::", "", "", "    indented", "  two",
    "- item", ".. note::", ".. code-block:: c", "   :option: x", "== ==", "=== ===  ===", "+--+--+",
    "| a| b|", ">>> x", ".. _l:", "..", ":Date: 2026-01-01", "\ttab", "é中", "#####", "---",
)  # fmt: skip


@given(documents(LINES))
def test_every_line_is_in_exactly_one_block(text: str) -> None:
    check_parsed(parse("\n" + text), ("\n" + text).encode())


def test_a_label_belongs_to_the_heading_below_it() -> None:
    labels = ".. highlight:: c\n\n.. _here:\n\n"
    text = f"{labels}:mod:`!first` things\n====================\n\nSome words.\n"
    found = blocks_of(text)
    assert found[0].heading_path == ("first things",)
    assert (found[0].span.start, found[0].span.end) == (1, 6)
