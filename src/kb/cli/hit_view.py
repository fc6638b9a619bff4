"""Hits as text: citation, title and headings, snippet, and how the hit was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from kb import relevance
from kb.cli.output import Console, display_width, escape, escape_lines
from kb.search.retrievers.registry import LEXICAL
from kb.text.headings import SEPARATOR
from kb.types import LINE_TYPES, Hit, Retrieval
from kb.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.types import Passage

_INDENT = "    "
_COMMON = 0.0001  # FTS5 gives a word that most passages contain a score of about 1e-6

Range = tuple[int, int]  # start and end in characters; the end is excluded
Highlighter = Callable[[str], Iterable[Range]]  # finds the query terms in a text

# The style of each character, as a string of the same length as the text.
_PLAIN, _TITLE, _DIM, _MATCH = " tdm"
_STYLES: dict[str, dict[str, Any]] = {
    _PLAIN: {},
    _TITLE: {"bold": True},
    _DIM: {"dim": True},
    _MATCH: {"fg": "yellow", "bold": True},
}


def hit_text(
    hit: Hit,
    console: Console,
    highlighter: Highlighter,
    *,
    explain: bool = False,
    why: Mapping[str, Any] | None = None,
) -> str:
    """Return a hit: rank, URI and relevance, or its score if that is unknown; title and headings;
    the snippet, or the whole passage if the hit has it. With `explain`, also how it was found;
    `why` is its entry in the explanation of the response."""
    title = escape(hit.title)
    headings = _headings(hit.title, hit.heading_path) + _place(hit)
    snippet = escape_lines(hit.snippet if hit.text is None else hit.text)
    lines = [
        _first_line(hit, console),
        *_lines(title + headings, _TITLE * len(title) + _DIM * len(headings), highlighter, console),
        *_lines(snippet, _PLAIN * len(snippet), highlighter, console),
    ]
    if hit.others:
        lines.append(_INDENT + console.style(f"{hit.others}; --all shows them", dim=True))
    if explain:
        details = [*_retrieval(hit.retrieval), *_reasons(why or {})]
        lines += [_INDENT + console.style(line, dim=True) for line in details]
    return "\n".join(lines)


def _first_line(hit: Hit, console: Console) -> str:
    uri, score = escape(hit.citation.uri), _relevance(hit, console)
    rank = f"{hit.rank}.".ljust(len(_INDENT) - 1) + " "
    room = (console.width or 0) - len(rank) - display_width(uri) - len(score)
    gap = " " * max(2, room)
    if console.width is not None and room < 2:  # a long path gets a separate line
        gap = "\n" + " " * (console.width - len(score))
    place = console.link(console.style(uri, fg="cyan", bold=True), hit.citation.link)
    return rank + place + gap + console.style(score, dim=True)


def _relevance(hit: Hit, console: Console) -> str:
    """Return the relevance, with a bar on a terminal. A hit without a relevance shows its score."""
    if hit.relevance is None:
        return _format_score(hit.score, 4)
    bar = f"{relevance.bar(hit.relevance)} " if console.width is not None else ""
    return f"{bar}{hit.relevance:.2f}"


def divider_text(hits: Sequence[Hit], console: Console) -> str:
    """Return the line above the weak matches."""
    return console.style(f"--- {relevance.divider(hits)} ---", dim=True)


def _headings(title: str, heading_path: tuple[str, ...]) -> str:
    """Return the headings, without a first one that repeats the title."""
    below = heading_path[1:] if heading_path[:1] == (title,) else heading_path
    return "".join(SEPARATOR + escape(heading) for heading in below)


def _place(hit: Hit) -> str:
    """Return where the passage is in the original file, unless its line or page shows that."""
    place = hit.citation.place
    if not place or any(place.casefold() in heading.casefold() for heading in hit.heading_path):
        return ""
    return f" ({escape(place)})"


def heading_line(title: str, heading_path: tuple[str, ...]) -> str:
    """Return the title and the headings below it on one line."""
    return escape(title) + _headings(title, heading_path)


def styled_lines(text: str, console: Console, highlighter: Highlighter) -> list[str]:
    """Return `text` indented, wrapped to the console, with the query terms highlighted."""
    return _lines(text, _PLAIN * len(text), highlighter, console)


# --- wrapping and styling -------------------------------------------------------------------------


def _lines(text: str, styles: str, highlighter: Highlighter, console: Console) -> list[str]:
    """Return `text` indented, wrapped to the console, with the query terms highlighted."""
    if console.color:
        for start, end in highlighter(text):
            styles = styles[:start] + _MATCH * (end - start) + styles[end:]
    parts = _line_ranges(text, None if console.width is None else console.width - len(_INDENT))
    return [_INDENT + _apply_styles(text[a:b], styles[a:b], console) for a, b in parts]


def _line_ranges(text: str, width: int | None) -> list[Range]:
    """Return the lines of `text`, wrapped if there is a width."""
    ranges: list[Range] = []
    start = 0
    for line in text.split("\n"):
        parts = [(0, len(line))] if width is None else wrap(line, width)
        ranges += [(start + a, start + b) for a, b in parts]
        start += len(line) + 1
    return ranges


def _apply_styles(text: str, styles: str, console: Console) -> str:
    parts, at = [], 0
    for style, same in groupby(styles):
        end = at + len(list(same))
        parts.append(console.style(text[at:end], **_STYLES[style]))
        at = end
    return "".join(parts)


def wrap(text: str, width: int) -> list[Range]:
    """Wrap `text` to `width` columns: at a space, or anywhere in long words and in scripts without
    spaces."""
    lines: list[Range] = []
    start, space, used = 0, -1, 0
    for at, char in enumerate(text):
        wide = display_width(char)
        if char == " ":
            space = at
        while used + wide > width and char != " " and start < at:
            end = space if space > start else at
            lines.append((start, end))
            start = end + 1 if end == space else end
            used = display_width(text[start:at])
        used += wide
    if start < len(text):
        lines.append((start, len(text)))
    return lines


def passage_text(passage: Passage, console: Console) -> str:
    """Return the escaped text of a passage. On a terminal, the paragraphs of extracted text are
    wrapped between words; other lines are those of the file."""
    text = escape_lines(passage.text.removesuffix("\n"))
    if console.width is None or passage.document.type in LINE_TYPES:
        return text
    return "\n".join(text[start:end] for start, end in _line_ranges(text, console.width))


# --- explain --------------------------------------------------------------------------------------


def _retrieval(retrieval: Retrieval) -> list[str]:
    lines = []
    for name, chunk in retrieval.retrievers.items():
        if chunk is not None:
            common = name == LEXICAL and chunk.score < _COMMON
            why = "  only by words that most passages contain" if common else ""
            score = _format_score(chunk.score, 6)
            lines.append(f"{name:8} rank {chunk.rank:<4} score {score}{why}")
    # With a single retriever, the fusion score repeats the score above.
    fused = retrieval.fusion_score if retrieval.method == "hybrid" else None
    for name, value in (("fused", fused), ("reranked", retrieval.rerank_score)):
        if value is not None:
            lines.append(f"{name:8} {'':9} score {_format_score(value, 6)}")
    return lines


def _reasons(why: Mapping[str, Any]) -> list[str]:
    """Return why the hit was moved up, and the factors of its score."""
    literal = why.get("literal")
    lines = [] if literal is None else [f"{'literal':8} {literal}"]
    factors = why.get("factors", {})
    return lines + [
        f"{name:8} {'':9} times {_format_score(value, 6)}" for name, value in factors.items()
    ]


def _format_score(value: float, places: int) -> str:
    """Format with `places` decimals, or in scientific notation if they would all be zero."""
    small = 0.0 < abs(value) < 10.0**-places
    return f"{value:.1e}" if small else f"{value:.{places}f}"


def explain_text(
    explain: Mapping[str, Any], timing_ms: Mapping[str, float], console: Console
) -> str:
    """Return the pipeline, then each stage with its time and details."""
    lines = [
        console.style("How this was found", bold=True),
        *_hanging_indent(f"{_INDENT}profile {explain['profile']}: ", explain["pipeline"], console),
    ]
    for stage in explain["stages"]:
        facts = [_fact_text(name, value) for name, value in stage.items()
                 if name not in ("stage", "ms") and value not in ([], None, "")]  # fmt: skip
        lines += _hanging_indent(
            _stage(stage["stage"], stage["ms"]), escape("; ".join(facts)), console
        )
    return "\n".join([*lines, _stage("total", timing_ms["total"]).rstrip()])


def _stage(name: str, ms: float) -> str:
    return f"{_INDENT}{name:10} {ms:8.2f} ms  "


def _hanging_indent(start: str, text: str, console: Console) -> list[str]:
    """Return `text` after `start`, wrapped, with further lines indented by the width of `start`."""
    if console.width is None or console.width <= 2 * len(start):  # too narrow for a column
        return [(start + text).rstrip()]
    parts = wrap(text, console.width - len(start)) or [(0, 0)]
    return [((" " * len(start) if a else start) + text[a:b]).rstrip() for a, b in parts]


def _fact_text(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        value = [f"{key} {each:.3g}" for key, each in value.items()]
    shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{name.replace('_', ' ')}: {shown}"
