from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.ingest.chunk import HARD_LIMIT_CHARS, chunk
from kb.ingest.decode import normalize_text
from kb.ingest.parse import Parsers
from kb.ports import Source
from kb.types import Block, ChunkDraft, Span
from tests.ingest.documents import CODE_LINES, MARKDOWN_LINES, check_chunks, documents


def line_block(text: str, start: int, **fields: object) -> Block:
    span = Span("line", start, start + text.count("\n"))
    return Block(text, span, **fields)  # type: ignore[arg-type]  # tests give the right ones


def code_block(text: str, start: int, *path: str) -> Block:
    symbol = ".".join(path) or None
    span = Span("code", start, start + text.count("\n"), symbol=symbol, lang="python")
    return Block(text, span, path)


def chunks_of(name: str, text: str, max_chars: int) -> list[ChunkDraft]:
    source = Source(name, text.encode())
    parser = Parsers(max_chars, []).detect(source)
    assert parser is not None
    return chunk(parser.parse(source).blocks, max_chars)


def markdown(text: str, max_chars: int = 100) -> list[tuple[str, str]]:
    """(text, section label) of every chunk."""
    return [(draft.text, draft.section_label or "") for draft in chunks_of("a.md", text, max_chars)]


# --- packing --------------------------------------------------------------------------------------


def test_blocks_of_a_section_share_a_chunk() -> None:
    assert markdown("# One\n\ntext\n\n\nmore\n") == [("# One\n\ntext\n\n\nmore", "One")]


def test_sections_do_not_share_a_chunk() -> None:
    assert markdown("# One\ntext\n# Two\ntext\n") == [
        ("# One\ntext", "One"),
        ("# Two\ntext", "Two"),
    ]


def test_two_sections_of_the_same_name_do_not_share_a_chunk() -> None:
    assert len(markdown("# One\ntext\n# One\ntext\n")) == 2


def test_a_chunk_ends_where_the_next_block_does_not_fit() -> None:
    one, two, three = "a" * 300, "b" * 300, "c" * 300
    assert [text for text, _ in markdown(f"{one}\n\n{two}\n\n{three}\n", 700)] == [
        f"{one}\n\n{two}",
        three,
    ]


def test_a_heading_without_text_joins_its_subsection() -> None:
    assert markdown("# One\n\n## Two\n\n### Three\ntext\n") == [
        ("# One\n\n## Two\n\n### Three\ntext", "Three")
    ]


def test_a_heading_without_text_does_not_join_its_sibling() -> None:
    assert markdown("## One\n## Two\ntext\n") == [("## One", "One"), ("## Two\ntext", "Two")]


def test_a_heading_stays_with_a_text_that_fills_the_chunk() -> None:
    text = "x" * 95
    assert markdown(f"## Heading\n{text}\n") == [(f"## Heading\n{text}", "Heading")]


def test_a_heading_stays_with_a_table_that_is_too_long() -> None:
    table = "| a | b |\n|---|---|\n" + "| c | d |\n" * 50
    assert markdown(f"## Heading\n\n{table}") == [(f"## Heading\n\n{table.strip()}", "Heading")]


def test_a_short_remainder_joins_the_chunk_before_it() -> None:
    long, scrap = "x" * 1700, "y" * 150
    assert markdown(f"{long}\n\n{scrap}", 1800) == [(f"{long}\n\n{scrap}", "")]


def test_a_short_remainder_does_not_join_a_full_chunk() -> None:
    assert len(markdown("x" * 95 + "\n\n" + "y" * 90, 100)) == 2


def test_the_heading_path_is_complete() -> None:
    (_, draft) = chunks_of("a.md", "# One\ntext\n## Two\ntext\n", 100)
    assert draft.heading_path == ("One", "Two")
    assert draft.spans == (Span("line", 3, 4),)


# --- splitting ------------------------------------------------------------------------------------


def test_a_long_paragraph_is_cut_between_lines() -> None:
    line = "x" * 60
    assert chunks_of("a.txt", f"{line}\n{line}\n{line}\n", 130) == [
        ChunkDraft(f"{line}\n{line}", (), None, (Span("line", 1, 2),)),
        ChunkDraft(line, (), None, (Span("line", 3, 3),)),
    ]


def test_a_long_line_is_cut_and_keeps_its_number() -> None:
    drafts = chunks_of("a.txt", "before\n\n" + "word " * 50 + "\n\nafter\n", 100)
    assert [draft.spans[0].start for draft in drafts] == [1, 3, 3, 3, 5]


def test_a_line_of_one_megabyte() -> None:
    text = "word " * 200_000
    for name in ("a.txt", "a.md", "a.py", "a.yaml"):
        check_chunks(normalize_text(text), chunks_of(name, text, 1800), 1800)


def test_an_atomic_block_is_kept_whole() -> None:
    fence = "```\n" + "x\n\n" * 300 + "```"
    assert [text for text, _ in markdown(f"before\n\n{fence}\n\nafter\n")] == [
        "before",
        fence,
        "after",
    ]


def test_an_atomic_block_has_a_limit() -> None:
    fence = "```\n" + "x" * 79 + "\n" + ("y" * 79 + "\n") * (HARD_LIMIT_CHARS // 80) + "```"
    drafts = chunks_of("a.md", fence, 1800)
    assert max(len(draft.text) for draft in drafts) <= 1800
    check_chunks(fence, drafts, 1800)


# --- code -----------------------------------------------------------------------------------------


def test_definitions_have_their_own_chunks() -> None:
    one, two = "def one():\n" + "    pass\n" * 20, "def two():\n" + "    pass\n" * 20
    drafts = chunks_of("a.py", f"{one}\n\n{two}", 1800)
    assert [draft.section_label for draft in drafts] == ["one", "two"]
    assert drafts[0].spans == (Span("code", 1, 21, symbol="one", lang="python"),)


def test_a_long_definition_is_cut_and_keeps_its_name() -> None:
    drafts = chunks_of("a.py", "def one():\n" + ("    pass\n" * 10 + "\n") * 20, 400)
    assert len(drafts) > 3
    assert {draft.section_label for draft in drafts} == {"one"}


def test_small_neighbours_share_a_chunk() -> None:
    text = "\n".join(f"def f{number}(): return {number}\n" for number in range(100))
    drafts = chunks_of("a.py", text, 1800)
    assert 5 < len(drafts) < 20
    assert drafts[0].section_label is None  # it would be wrong for all but one of them
    check_chunks(text, drafts, 1800)


def test_small_code_of_different_parents_does_not() -> None:
    blocks = [code_block("a", 1, "A", "m"), code_block("b", 2, "B", "n")]
    assert len(chunk(blocks, 1800)) == 2


def test_small_code_has_the_first_name() -> None:
    blocks = [code_block("import a", 1), code_block("def f(): pass", 3, "f")]
    (draft,) = chunk(blocks, 1800)
    assert draft == ChunkDraft(
        "import a\n\ndef f(): pass", ("f",), "f", (Span("code", 1, 3, symbol="f", lang="python"),)
    )


# --- other spans ----------------------------------------------------------------------------------


def test_pages() -> None:
    pages = [Block(f"text {page}", Span("page", page=page)) for page in (1, 1, 2)]
    (draft,) = chunk(pages, 1800)
    assert draft.text == "text 1\n\ntext 1\n\ntext 2"
    assert draft.spans == (Span("page", page=1), Span("page", page=2))


def test_spans_of_other_kinds_are_carried_through() -> None:
    span = Span("time", extra={"from_s": 1.5})
    assert chunk([Block("said", span)], 1800)[0].spans == (span,)


def test_blank_blocks_are_nothing() -> None:
    assert chunk([line_block("  ", 1)], 1800) == []
    assert chunk([], 1800) == []


# --- properties -----------------------------------------------------------------------------------

limits = st.sampled_from([10, 30, 80, 1800])


@given(documents(MARKDOWN_LINES), limits)
def test_markdown_chunks_are_its_lines(text: str, max_chars: int) -> None:
    text = "\n" + text  # no front matter
    check_chunks(normalize_text(text), chunks_of("a.md", text, max_chars), max_chars)


@pytest.mark.parametrize("name", ["a.py", "a.ts", "a.cpp", "a.sh"])
@given(documents(CODE_LINES), limits)
def test_code_chunks_are_its_lines(name: str, text: str, max_chars: int) -> None:
    drafts = chunks_of(name, text, max_chars)
    check_chunks(normalize_text(text), drafts, max_chars)
    assert all(len(draft.text) <= max_chars * 1.25 for draft in drafts)


@given(st.text(alphabet="ab. 中。\n\n\n"), limits)
def test_text_chunks_are_its_lines(text: str, max_chars: int) -> None:
    drafts = chunks_of("a.txt", text, max_chars)
    check_chunks(normalize_text(text), drafts, max_chars)
    assert all(len(draft.text) <= max_chars * 1.25 for draft in drafts)
    assert all(draft.text.strip("\n") == draft.text for draft in drafts)


def test_long_headings_are_cut_and_their_words_kept_once() -> None:
    heading = "word " * 5000 + "zacharias"
    lines = [Block("text", Span("line", n, n), (heading, "below")) for n in range(1, 1000)]
    chunks = chunk(lines, 1800)
    assert sum("zacharias" in draft.text for draft in chunks) == 1
    assert max(sum(map(len, draft.heading_path)) for draft in chunks) <= 1000
    assert chunks[-1].heading_path == (("word " * 100).rstrip(), "below")


def test_a_heading_that_is_in_the_text_is_not_added_to_it() -> None:
    heading = "word " * 500 + "zacharias"
    (draft,) = chunk([Block(heading, Span("line", 1, 1), (heading,), boundary=True)], 9000)
    assert draft.text == heading


def test_deep_paths_keep_their_innermost_headings() -> None:
    path = tuple(f"{number} " + "x" * 100 for number in range(200))
    (draft,) = chunk([Block("text", Span("line", 1, 1), path)], 1800)
    assert draft.heading_path == path[-9:]
