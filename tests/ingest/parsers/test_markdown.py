from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.ingest.decode import normalize_text
from kb.ingest.parsers import markdown
from kb.ingest.parsers.markdown import MarkdownParser, _parser
from kb.ports import Parsed, Source
from kb.types import Block
from tests.ingest.documents import MARKDOWN_LINES, check_blocks, documents


def parse(text: str, *, name: str = "some-notes.md", max_chars: int = 1800) -> Parsed:
    return MarkdownParser(max_chars).parse(Source(name, text.encode()))


def blocks_of(text: str, max_chars: int = 1800) -> Sequence[Block]:
    return list(parse(dedent(text).lstrip("\n"), max_chars=max_chars).blocks)


def outline(blocks: Sequence[Block]) -> list[tuple[int | None, int | None, tuple[str, ...]]]:
    return [(block.span.start, block.span.end, block.heading_path) for block in blocks]


def test_headings_make_a_path() -> None:
    blocks = blocks_of("""
        before

        # One
        text
        ## Two
        ### Three
        text
        ## Two again
        # Last
        """)
    assert outline(blocks) == [
        (1, 1, ()),
        (3, 3, ("One",)),
        (4, 4, ("One",)),
        (5, 5, ("One", "Two")),
        (6, 6, ("One", "Two", "Three")),
        (7, 7, ("One", "Two", "Three")),
        (8, 8, ("One", "Two again")),
        (9, 9, ("Last",)),
    ]
    assert [block.boundary for block in blocks] == [
        False,
        True,
        False,
        True,
        True,
        False,
        True,
        True,
    ]


def test_setext_headings() -> None:
    blocks = blocks_of("One\n===\n\ntext\n\nTwo\n---\n")
    assert outline(blocks) == [(1, 2, ("One",)), (4, 4, ("One",)), (6, 7, ("One", "Two"))]


def test_a_level_may_be_left_out() -> None:
    blocks = blocks_of("### Deep\n# Top\n### Deep again\n")
    assert [block.heading_path for block in blocks] == [("Deep",), ("Top",), ("Top", "Deep again")]


@pytest.mark.parametrize(
    ("written", "heading"),
    [
        ("# Plain", "Plain"),
        ("# *Em* and `code`", "Em and code"),
        ("# A [link](http://x.test) #", "A link"),
        ("# ![alt](x.png) text", "alt text"),
        ("# a \\* b &amp; c", "a * b & c"),
        ("# <b>bold</b>", "bold"),
        ("# 見出し **強調**", "見出し 強調"),
        ("Two\nlines\n===", "Two lines"),
        ("# [ref]\n\n[ref]: http://x.test", "ref"),
    ],
)
def test_a_heading_has_no_markup(written: str, heading: str) -> None:
    assert blocks_of(written)[0].heading_path == (heading,)


def test_an_endless_heading_is_cut() -> None:
    block = blocks_of("# " + "[" * 100_000)[0]
    assert len(block.heading_path[0]) == 500


def test_an_empty_heading_has_no_name() -> None:
    assert [block.heading_path for block in blocks_of("#\n\ntext\n")] == [(), ()]


def test_no_heading_inside_a_fence() -> None:
    blocks = blocks_of("# One\n\n```\n# not one\n\ntext\n```\n")
    assert outline(blocks) == [(1, 1, ("One",)), (3, 7, ("One",))]
    assert [block.atomic for block in blocks] == [False, True]


def test_no_heading_inside_a_quotation() -> None:
    assert outline(blocks_of("> # Quoted\n\ntext\n")) == [(1, 1, ()), (3, 3, ())]


@pytest.mark.parametrize(
    "written",
    [
        "```\na\n\nb\n```",
        "~~~ x\na",
        "    a\n\n    b",
        "| a | b |\n|---|---|\n| c | d |",
        "<div>\nx\n</div>",
    ],
)
def test_atomic(written: str) -> None:
    (block,) = parse(written).blocks
    assert block.atomic
    assert block.text == written


def test_a_short_list_is_one_block() -> None:
    assert outline(blocks_of("- a\n- b\n  - c\n")) == [(1, 3, ())]


def test_a_long_list_is_split_into_items() -> None:
    assert outline(blocks_of("- one\n- two\n\n  more\n- three\n", max_chars=22)) == [
        (1, 1, ()),
        (2, 4, ()),
        (5, 5, ()),
    ]


def test_a_long_item_is_split_into_its_content() -> None:
    text = "- one\n\n  ```\n  code\n  code\n  ```\n\n  after\n"
    blocks = blocks_of(text, max_chars=20)
    assert outline(blocks) == [(1, 1, ()), (3, 6, ()), (8, 8, ())]
    assert [block.atomic for block in blocks] == [False, True, False]


def test_a_list_with_a_fence_is_not_cut() -> None:
    (block,) = blocks_of("- one\n  ```\n  code\n  ```\n")
    assert block.atomic


def test_link_definitions_are_text() -> None:
    blocks = blocks_of("see [a]\n\n[a]: http://x.test\n\nend\n")
    assert [block.text for block in blocks] == ["see [a]", "[a]: http://x.test", "end"]


def test_front_matter_counts_as_lines() -> None:
    parsed = parse("---\ntitle: Said\ntags: [a]\n---\n\n# Heading\ntext\n")
    assert parsed.title == "Said"
    assert parsed.attributes.tags == ("a",)
    assert outline(list(parsed.blocks)) == [(6, 6, ("Heading",)), (7, 7, ("Heading",))]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("## Two\n\n# One *em*\n", "One em"),
        ("## Two\n", "some notes"),
        ("", "some notes"),
        ("#\n\n# One\n", "some notes"),
        ("---\ntitle: Said\n---\n# One", "Said"),
    ],
)
def test_title(text: str, title: str) -> None:
    assert parse(text).title == title


def test_a_rule_at_the_top_is_not_front_matter() -> None:
    parsed = parse("---\nwords\n\n---\nmore\n")
    assert not parsed.warnings
    check_blocks("---\nwords\n\n---\nmore\n", list(parsed.blocks))


def test_crlf() -> None:
    parsed = MarkdownParser(1800).parse(Source("a.md", b"# One\r\n\r\ntext\r\n"))
    assert [block.text for block in parsed.blocks] == ["# One", "text"]


@pytest.mark.parametrize(
    "text", [">" * 50_000, "- " * 20_000, "[" * 50_000, "| a " * 20_000, "`" * 50_000]
)
def test_nothing_is_too_deep(text: str) -> None:
    check_blocks(normalize_text(text), list(parse(text).blocks))


@pytest.mark.parametrize("name", ["a.md", "A.MD", "a.markdown", "a.mdx"])
def test_accepts(name: str) -> None:
    assert MarkdownParser(1800).accepts(Source(name, b""))


@given(documents(MARKDOWN_LINES))
def test_every_line_is_in_exactly_one_block(text: str) -> None:
    for max_chars in (10, 1800):
        parsed = parse("\n" + text, max_chars=max_chars)
        check_blocks(normalize_text("\n" + text), list(parsed.blocks))


@pytest.mark.parametrize(("columns", "rows"), [(20_000, 3), (2, 20_000)])
def test_the_cells_of_a_table_take_no_memory(columns: int, rows: int) -> None:
    table = ["|" + "a|" * columns, "|" + "-|" * columns, *["|" + "b|" * columns] * rows]
    tracemalloc.start()
    tokens = _parser().parse("\n".join(table))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [token.map for token in tokens if token.type == "table_open"] == [[0, rows + 2]]
    assert len(tokens) == 2
    assert peak_bytes < 20_000_000


# --- plain paragraphs -----------------------------------------------------------------------------

_LINE_STARTS = st.sampled_from(
    ["", "", " ", "   ", "    ", "\t", "- ", "* ", "+ ", "-  ", "- - ", "1. ", "2) ", "12. ", "> ",
     ">", "  - ", "    - ", "     - ", "      - ", "  1. ", "# ", "```", "~~~ ", "<div>", "<!-- ",
     "[a]: ", "| ", ": ", "-", "\\", "\u00a0", "\u3000"]
)  # fmt: skip
_LINE_ENDS = st.sampled_from(
    ["a", "word and more", "ein Wort", "数据", "a | b", "---", "--|--", "- | -", "===", "=", "-",
     "- ", "* * *", "```", "-->", "</div>", "1. a", "- a", "", " ", "`a`", "é", "ⅷ", "٣. a", "*a*"]
)  # fmt: skip
_lines = st.lists(st.tuples(_LINE_STARTS, _LINE_ENDS).map("".join), max_size=14)


@settings(max_examples=400)
@given(lines=_lines, max_chars=st.sampled_from([5, 20, 2000]))
def test_plain_paragraphs_are_those_of_the_other_rules(lines: list[str], max_chars: int) -> None:
    ruler = markdown._parser().block.ruler
    by_rule = list(markdown._parts(lines, max_chars))
    ruler.disable("plain_paragraph")
    try:
        assert by_rule == list(markdown._parts(lines, max_chars))
    finally:
        ruler.enable("plain_paragraph")


def test_links_and_tags_that_are_left_out_are_reported() -> None:
    many = parse(" ".join(f"[[n{number}]] #tag{number}" for number in range(1_001)))
    assert many.attributes is not None
    assert len(many.attributes.metadata["links_to"]) == 1_000
    assert many.warnings == (
        "has 1,001 links; only the first 1,000 are recorded",
        "has 1,001 tags in its text; only the first 100 are recorded",
    )
    few = parse(" ".join(f"[[n{number}]]" for number in range(1_000)))
    assert not few.warnings
