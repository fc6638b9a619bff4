"""Hits as a person reads them: where to open, what it is called, why it was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

from kb.cli.output import Page, columns, visible, visible_text
from kb.text.headings import SEPARATOR
from kb.types import Hit, Retrieval

_INDENT = "    "
_COMMON = 0.0001  # a lexical score below it: FTS5 gives a millionth to a word of most passages

Range = tuple[int, int]  # of characters, the end excluded
Marker = Callable[[str], Iterable[Range]]  # where a text holds what was asked for

# What a character looks like: one letter for each character of a text.
_PLAIN, _TITLE, _DIM, _MATCH = " tdm"
_STYLES: dict[str, dict[str, Any]] = {
    _PLAIN: {},
    _TITLE: {"bold": True},
    _DIM: {"dim": True},
    _MATCH: {"fg": "yellow", "bold": True},
}


def hit_text(
    hit: Hit,
    page: Page,
    marker: Marker,
    *,
    explain: bool = False,
    factors: Mapping[str, float] | None = None,
) -> str:
    """Rank, URI and score; title and headings; the snippet. To explain: how it was found, and the
    `factors` of its score."""
    title, headings = visible(hit.title), _headings(hit)
    snippet = visible_text(hit.snippet)
    lines = [
        _first_line(hit, page),
        *_lines(title + headings, _TITLE * len(title) + _DIM * len(headings), marker, page),
        *_lines(snippet, _PLAIN * len(snippet), marker, page),
    ]
    if explain:
        told = [*_retrieval(hit.retrieval), *_factors(factors or {})]
        lines += [_INDENT + page.style(line, dim=True) for line in told]
    return "\n".join(lines)


def _first_line(hit: Hit, page: Page) -> str:
    uri, score = visible(hit.citation.uri), _number(hit.score, 4)
    rank = f"{hit.rank}.".ljust(len(_INDENT) - 1) + " "
    room = (page.width or 0) - len(rank) - columns(uri) - len(score)
    gap = " " * max(2, room)
    if page.width is not None and room < 2:  # a long path has the line to itself
        gap = "\n" + " " * (page.width - len(score))
    return rank + page.style(uri, fg="cyan", bold=True) + gap + page.style(score, dim=True)


def _headings(hit: Hit) -> str:
    """Those that do not just repeat the title."""
    below = hit.heading_path[1:] if hit.heading_path[:1] == (hit.title,) else hit.heading_path
    return "".join(SEPARATOR + visible(heading) for heading in below)


# --- lines of a terminal --------------------------------------------------------------------------


def _lines(text: str, looks: str, marker: Marker, page: Page) -> list[str]:
    """`text`, indented, in lines that fit the page, with what was asked for marked."""
    if page.colour:
        for start, end in marker(text):
            looks = looks[:start] + _MATCH * (end - start) + looks[end:]
    parts = _ranges(text, None if page.width is None else page.width - len(_INDENT))
    return [_INDENT + _painted(text[a:b], looks[a:b], page) for a, b in parts]


def _ranges(text: str, width: int | None) -> list[Range]:
    """The lines of `text`, each in as many as it takes where there is a width."""
    found: list[Range] = []
    start = 0
    for line in text.split("\n"):
        parts = [(0, len(line))] if width is None else broken(line, width)
        found += [(start + a, start + b) for a, b in parts]
        start += len(line) + 1
    return found


def _painted(text: str, looks: str, page: Page) -> str:
    parts, at = [], 0
    for look, same in groupby(looks):
        end = at + len(list(same))
        parts.append(page.style(text[at:end], **_STYLES[look]))
        at = end
    return "".join(parts)


def broken(text: str, width: int) -> list[Range]:
    """The lines of `text` at most `width` columns wide: cut at a space, or, in scripts without
    spaces and in long words, anywhere."""
    lines: list[Range] = []
    start, space, used = 0, -1, 0
    for at, char in enumerate(text):
        wide = columns(char)
        if char == " ":
            space = at
        while used + wide > width and char != " " and start < at:
            end = space if space > start else at
            lines.append((start, end))
            start = end + 1 if end == space else end
            used = columns(text[start:at])
        used += wide
    if start < len(text):
        lines.append((start, len(text)))
    return lines


# --- explain --------------------------------------------------------------------------------------


def _retrieval(found: Retrieval) -> list[str]:
    lines = []
    for name in ("lexical", "vector", "sparse"):
        rank, score = getattr(found, f"{name}_rank"), getattr(found, f"{name}_score")
        if rank is not None:
            common = name == "lexical" and score < _COMMON
            why = "  only by words that most passages hold" if common else ""
            lines.append(f"{name:8} rank {rank:<4} score {_number(score, 6)}{why}")
    fused = found.fusion_score if found.method == "hybrid" else None  # of one list: its own score
    for name, value in (("fused", fused), ("reranked", found.rerank_score)):
        if value is not None:
            lines.append(f"{name:8} {'':9} score {_number(value, 6)}")
    return lines


def _factors(factors: Mapping[str, float]) -> list[str]:
    return [f"{name:8} {'':9} times {_number(value, 6)}" for name, value in factors.items()]


def _number(value: float, places: int) -> str:
    """With so many places; where those would be zeros alone, by its first digits."""
    small = 0.0 < abs(value) < 10.0**-places
    return f"{value:.1e}" if small else f"{value:.{places}f}"


def explain_text(explain: Mapping[str, Any], timing_ms: Mapping[str, float], page: Page) -> str:
    """The pipeline, then every stage with its time and its facts."""
    lines = [
        page.style("How this was found", bold=True),
        *_behind(f"{_INDENT}profile {explain['profile']}: ", explain["pipeline"], page),
    ]
    for stage in explain["stages"]:
        facts = [_fact(name, value) for name, value in stage.items()
                 if name not in ("stage", "ms") and value not in ([], None, "")]  # fmt: skip
        lines += _behind(_stage(stage["stage"], stage["ms"]), visible("; ".join(facts)), page)
    return "\n".join([*lines, _stage("total", timing_ms["total"]).rstrip()])


def _stage(name: str, ms: float) -> str:
    return f"{_INDENT}{name:10} {ms:8.2f} ms  "


def _behind(start: str, text: str, page: Page) -> list[str]:
    """`text` behind `start`, in lines that fit the page, all of them as far in."""
    if page.width is None or page.width <= 2 * len(start):  # too little room for a column
        return [(start + text).rstrip()]
    parts = broken(text, page.width - len(start)) or [(0, 0)]
    return [((" " * len(start) if a else start) + text[a:b]).rstrip() for a, b in parts]


def _fact(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        value = [f"{key} {each:.3g}" for key, each in value.items()]
    shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{name.replace('_', ' ')}: {shown}"
