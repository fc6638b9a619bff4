from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.search.results.layout import LINE, ROW, SENTENCE, lay_out, sentence_ends


def shown(text: str) -> list[tuple[str, str]]:
    layout = lay_out(text)
    return [(unit.kind, layout.text[unit.start : unit.end]) for unit in layout.units]


def sentences(text: str) -> list[str]:
    starts = [0, *sentence_ends(text)]
    return [text[a:b].strip() for a, b in pairwise(starts)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One here. Two there! Three?", ["One here.", "Two there!", "Three?"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        (
            "See e.g. Smith et al. 2001. It holds.",
            ["See e.g. Smith et al. 2001.", "It holds."],
        ),
        ("J. R. Smith wrote it. Dr. No read it.", ["J. R. Smith wrote it.", "Dr. No read it."]),
        ("version 3.11 is out. use it", ["version 3.11 is out. use it"]),
        ("第一句。第二句！第三句", ["第一句。", "第二句！", "第三句"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_prose_is_one_line_of_sentences() -> None:
    layout = lay_out("First one\nhere. Second\n\nThird.")
    assert layout.text == "First one here. Second Third."
    assert shown("First one\nhere. Second\n\nThird.") == [
        (SENTENCE, "First one here."), (SENTENCE, "Second"), (SENTENCE, "Third."),
    ]  # fmt: skip


def test_a_list_keeps_its_items_and_joins_their_lines() -> None:
    assert shown("Steps:\n\n- open the\n  lid\n- close it\n  1. gently\n\nDone.") == [
        (SENTENCE, "Steps:"), (LINE, "- open the lid"), (LINE, "- close it"),
        (LINE, "  1. gently"), (SENTENCE, "Done."),
    ]  # fmt: skip


def test_a_table_keeps_its_rows_without_the_rule() -> None:
    table = "| key | value |\n|---|---:|\n| top | 10 |\n| chars | 220 |"
    assert shown(table) == [
        (ROW, "| key | value |"), (ROW, "| top | 10 |"), (ROW, "| chars | 220 |"),
    ]  # fmt: skip
    assert [unit.header for unit in lay_out(f"Text.\n\n{table}").units] == [None, 1, 1, 1]


def test_an_underlined_heading_opens_no_fence() -> None:
    text = "``lock()``\n~~~~~~~~~~\n\nIt locks the\nrows. It waits\nfor others.\n"
    layout = lay_out(text)
    assert [layout.text[unit.start : unit.end] for unit in layout.units] == [
        "``lock()``", "It locks the rows.", "It waits for others.",
    ]  # fmt: skip


def test_a_fence_below_prose_is_no_underline() -> None:
    layout = lay_out("Run this:\n~~~\na. b\nc. d\n~~~\n")
    assert layout.text == "Run this:\na. b\nc. d"


def test_fenced_code_keeps_its_lines_without_the_fences() -> None:
    text = "Run this:\n\n```sh\nif true; then\n\techo - yes\nfi\n```\nThen wait."
    assert shown(text) == [
        (SENTENCE, "Run this:"), (LINE, "if true; then"), (LINE, "    echo - yes"), (LINE, "fi"),
        (SENTENCE, "Then wait."),
    ]  # fmt: skip


def test_a_literal_block_of_restructuredtext_keeps_its_lines() -> None:
    assert shown("Like this::\n\n    a = 1\n    b = 2\n\nAnd so on.") == [
        (SENTENCE, "Like this::"), (LINE, "    a = 1"), (LINE, "    b = 2"),
        (SENTENCE, "And so on."),
    ]  # fmt: skip


def test_code_under_a_directive_keeps_its_lines() -> None:
    text = "Use it:\n\n.. code-block:: python\n\n    def f():\n        return 1\n\nIt works."
    assert shown(text) == [
        (SENTENCE, "Use it:"), (LINE, "    def f():"), (LINE, "        return 1"),
        (SENTENCE, "It works."),
    ]  # fmt: skip


def test_by_lines_keeps_every_line() -> None:
    assert lay_out("a,b\n\n1,2\n", by_lines=True).text == "a,b\n1,2"


@given(st.text(alphabet="ab.| -`~1#:\n\t。A*", max_size=120), st.booleans())
def test_units_are_in_order_and_cover_the_text(text: str, by_lines: bool) -> None:
    layout = lay_out(text, by_lines=by_lines)
    at = 0
    for unit in layout.units:
        assert layout.text[at : unit.start].strip() == ""
        assert unit.start <= unit.end
        at = unit.end
    assert at == len(layout.text)


@given(st.text(max_size=200))
def test_no_word_is_lost_or_added(text: str) -> None:
    """The lines that open and close a fenced block are an exception."""
    if "```" not in text and "~~~" not in text:
        words = [word for word in text.split() if any(map(str.isalnum, word))]
        assert [word for word in lay_out(text).text.split() if any(map(str.isalnum, word))] == words
