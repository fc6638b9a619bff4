"""Hits as text: lines fit the width, matches are highlighted, and no text is lost."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import click
from hypothesis import given
from hypothesis import strategies as st

from kb.cli.hit_view import divider_text, explain_text, hit_text, wrap
from kb.cli.output import Console, escape
from kb.types import Citation, Hit, Retrieval, ScoredChunk, Span

RETRIEVAL = Retrieval(
    "hybrid", 0.0315, 0.9, {"lexical": ScoredChunk(1, 0.5, 1), "vector": ScoredChunk(1, 0.7, 2)}
)
HIT = Hit(
    rank=1, score=0.5, score_kind="bm25", chunk_id=1, doc_id=1, doc_path="lib/a.md", title="Title",
    heading_path=("Title", "One", "Two"), section_label="Two", snippet="a retry storm at sea",
    citation=Citation("line", "lib/a.md", "lib/a.md#L3", None, Span("line", 3, 3)),
    retrieval=RETRIEVAL, sources=("fts", "vec"), tags=(),
    type="markdown", kind=None, chunker_version="1", embedding_model=None, indexed_at="2026",
)  # fmt: skip
PLAIN = Console(color=False, width=None)


def marker(text: str) -> list[tuple[int, int]]:
    at = text.find("storm")
    return [(at, at + 5)] if at >= 0 else []


def display_width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(bool(unicodedata.combining(char)) for char in text)


def test_plain() -> None:
    assert hit_text(HIT, PLAIN, marker) == (
        "1.  lib/a.md#L3  0.5000\n    Title › One › Two\n    a retry storm at sea"
    )


def test_passages_without_a_hit_of_their_own() -> None:
    copied = replace(HIT, duplicates=59, duplicate_uris=("lib/b.md#L1",))
    assert hit_text(copied, PLAIN, marker).endswith(
        "\n    and 59 more with the same text; --all shows them"
    )
    both = replace(copied, more_in_document=2)
    assert both.others == "and 59 more with the same text, 2 more in this document"


def test_a_title_that_no_heading_repeats() -> None:
    other = replace(HIT, heading_path=("One",), title="Other")
    assert "    Other › One\n" in hit_text(other, PLAIN, marker)
    assert "    Other\n" in hit_text(replace(other, heading_path=()), PLAIN, marker)


def test_color_changes_no_character() -> None:
    coloured = hit_text(HIT, Console(color=True, width=None), marker)
    assert click.style("storm", fg="yellow", bold=True) in coloured
    assert click.style("lib/a.md#L3", fg="cyan", bold=True) in coloured
    assert click.unstyle(coloured) == hit_text(HIT, PLAIN, marker)


def test_the_score_is_right_aligned() -> None:
    first = hit_text(HIT, Console(color=False, width=60), marker).split("\n")[0]
    assert len(first) == 60
    assert first.endswith("  0.5000")
    long = replace(HIT, citation=replace(HIT.citation, uri="x" * 100))
    lines = hit_text(long, Console(color=False, width=60), marker).split("\n")
    assert lines[:2] == [f"1.  {'x' * 100}", "0.5000".rjust(60)]


def test_relevance_replaces_the_score() -> None:
    hit = replace(HIT, relevance=0.934)
    assert hit_text(hit, PLAIN, marker).startswith("1.  lib/a.md#L3  0.93\n")
    first = hit_text(hit, Console(color=False, width=60), marker).split("\n")[0]
    assert (len(first), first.endswith("  ▰▰▰▰▰ 0.93")) == (60, True)
    assert divider_text([hit, replace(hit, relevance=0.1)], PLAIN) == "--- weak matches ---"


def test_every_retriever_is_explained() -> None:
    assert hit_text(HIT, PLAIN, marker, explain=True).split("\n")[3:] == [
        "    lexical  rank 1    score 0.500000",
        "    vector   rank 2    score 0.700000",
        "    fused              score 0.031500",
        "    reranked           score 0.900000",
    ]


@given(st.text(alphabet="ab 東京\u0301", max_size=200), st.integers(2, 30))
def test_lines_fit_and_nothing_is_lost(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(display_width(text[start:end].strip(" ")) <= width for start, end in lines)
    rest = "".join(text[start:end] for start, end in lines)
    assert rest.replace(" ", "") == text.replace(" ", "")


def test_lines_break_at_spaces() -> None:
    text = "one two three"
    assert [text[start:end] for start, end in wrap(text, 8)] == ["one two", "three"]
    assert wrap("abcdef", 4) == [(0, 4), (4, 6)]
    assert wrap("", 4) == []


@given(st.text())
def test_control_characters_are_escaped(text: str) -> None:
    shown = escape(text)
    assert not any(unicodedata.category(char) == "Cc" and char not in "\n\t" for char in shown)


def test_small_numbers_keep_their_digits() -> None:
    retrieval = Retrieval("hybrid", 0.5, retrievers={"lexical": ScoredChunk(1, 9e-7, 1)})
    faded = replace(HIT, score=4.73e-8, retrieval=retrieval)
    lines = hit_text(
        faded, PLAIN, marker, explain=True, why={"factors": {"decay": 4.73e-8, "type": 0.0}}
    )
    assert lines.split("\n")[0].endswith("  4.7e-08")
    assert lines.split("\n")[3:] == [
        "    lexical  rank 1    score 9.0e-07  only by words that most passages contain",
        "    fused              score 0.500000",
        "    decay              times 4.7e-08",
        "    type               times 0.000000",
    ]


def test_how_it_was_found_fits_the_page() -> None:
    explain = {
        "profile": "default",
        "pipeline": "analyse -> [lexical(match=any) | dense(kb-mini)] -> convex -> cut(top=1)",
        "stages": [{"stage": "fuse", "ms": 0.63, "candidates": 111, "scale": "fused"},
                   {"stage": "hits", "ms": 8.7}],
    }  # fmt: skip
    plain = explain_text(explain, {"total": 9.5}, PLAIN).split("\n")
    assert plain[1:] == [
        f"    profile default: {explain['pipeline']}",
        "    fuse           0.63 ms  candidates: 111; scale: fused",
        "    hits           8.70 ms",
        "    total          9.50 ms",
    ]
    for width in (60, 80, 120):
        told = explain_text(explain, {"total": 9.5}, Console(color=False, width=width))
        assert all(len(line) <= width for line in told.split("\n"))
        assert told.split() == " ".join(plain).split()
    assert "\n                     -> cut(top=1)\n" in explain_text(
        explain, {"total": 9.5}, Console(color=False, width=80)
    )
