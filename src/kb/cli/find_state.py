"""The state of `kb find`: the query, its hits, and what is on the screen. Pure: no terminal.

The screen is a list of lines of (text, style) parts, so that it can be drawn by any terminal and
checked by tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kb import relevance
from kb.cli.hit_view import wrap
from kb.cli.output import display_width, escape, escape_lines, truncate
from kb.types import TYPES, Filters, Hit, SearchRequest

PLAIN, TITLE, DIM, MATCH, SELECTED = "plain", "title", "dim", "match", "selected"
_LEAST_ROWS, _LEAST_COLUMNS = 6, 20
MAX_QUERY_CHARS = 1_000
_WIDE = 110  # from this many columns on, the preview is beside the list
_HELP = "↑↓ select  Enter open  ^Y copy  ^T format  ^U clear  PgUp/PgDn scroll  Esc quit"

Range = tuple[int, int]
Highlighter = Callable[[str], Iterable[Range]]


class Part(NamedTuple):
    """A piece of a line."""

    text: str
    style: str = PLAIN


Line = tuple[Part, ...]


@dataclass(slots=True)
class FindState:
    """What the user has typed and selected. `serial` counts changes of the query or the filter, so
    that late results can be recognized."""

    query: str = ""
    hits: Sequence[Hit] = ()
    selected: int = 0
    scroll: int = 0
    type: str | None = None
    message: str = ""
    searching: bool = False
    took_ms: float | None = None
    serial: int = 0
    types: Sequence[str] = field(default_factory=lambda: TYPES)

    def request(self) -> SearchRequest:
        """The search for the current query."""
        filters = Filters(type=(self.type,)) if self.type else None
        return SearchRequest(
            self.query, top=30, filters=filters, include_text=True, malformed="empty"
        )

    @property
    def hit(self) -> Hit | None:
        """The selected hit."""
        return self.hits[self.selected] if self.hits else None

    def edit(self, query: str) -> None:
        """Change the query. It is cut to a length that fits on a screen."""
        query = query[:MAX_QUERY_CHARS]
        if query != self.query:
            self.query, self.message = query, ""
            self._restart()

    def next_type(self) -> None:
        """Show only hits of the next format; after the last format, show all hits."""
        order = [None, *self.types]
        self.type = order[(order.index(self.type) + 1) % len(order)]
        self._restart()

    def _restart(self) -> None:
        self.serial += 1
        self.searching = bool(self.query.strip())
        if not self.searching:
            self.results((), None, self.serial)

    def results(self, hits: Sequence[Hit], took_ms: float | None, serial: int) -> None:
        """Show the results of a search, unless the query has changed since."""
        if serial != self.serial:
            return
        self.hits, self.took_ms, self.searching = hits, took_ms, False
        self.selected = self.scroll = 0

    def move(self, by: int) -> None:
        """Select another hit."""
        if self.hits:
            self.selected = max(0, min(len(self.hits) - 1, self.selected + by))
            self.scroll = 0

    def scroll_by(self, lines: int) -> None:
        """Scroll the preview."""
        self.scroll = max(0, self.scroll + lines)


def screen(
    state: FindState, columns: int, rows: int, highlighter: Highlighter | None = None
) -> list[Line]:
    """The screen: exactly `rows` lines of at most `columns` columns."""
    if rows < _LEAST_ROWS or columns < _LEAST_COLUMNS:
        text = truncate("the window is too small", columns)
        return [(Part(text),), *[() for _ in range(rows - 1)]][:rows]
    prompt = (Part("> ", TITLE), Part(_end(escape(state.query), columns - 3)))
    status = (Part(truncate(_status(state), columns), DIM),)
    room = rows - 3
    if columns >= _WIDE:
        body = _side_by_side(state, columns, room, highlighter)
    else:
        above = max(3, min(len(state.hits), room * 2 // 5)) if state.hits else room
        body = [
            *_list(state, columns, above),
            (Part("─" * columns, DIM),),
            *_preview(state, columns, room - above - 1, highlighter),
        ][:room]
    body += [()] * (room - len(body))
    return [prompt, status, *body, (Part(truncate(state.message or _HELP, columns), DIM),)]


def _status(state: FindState) -> str:
    shown = f"only {state.type} · " if state.type else ""
    if state.searching:
        return f"{shown}searching …"
    if not state.query.strip():
        return f"{shown}type to search"
    if not state.hits:
        return f"{shown}nothing found"
    good = sum(not relevance.is_weak(hit) for hit in state.hits)
    kind = f"{good} of {len(state.hits)} relevant" if good else "nothing relevant; weak matches"
    return f"{shown}{kind}" + ("" if state.took_ms is None else f" · {state.took_ms:.0f} ms")


def _list(state: FindState, columns: int, rows: int) -> list[Line]:
    first = max(0, min(state.selected - rows // 2, len(state.hits) - rows))
    lines: list[Line] = []
    for number, hit in enumerate(state.hits[first : first + rows], start=first):
        bar = relevance.bar(hit.relevance) if hit.relevance is not None else " " * 5
        mark = "▸ " if number == state.selected else "  "
        title = truncate(escape(hit.title or hit.doc_path), max(8, columns * 2 // 5))
        left = columns - display_width(mark) - 6 - display_width(title) - 2
        place = truncate(escape(hit.citation.uri), max(0, left))
        style = SELECTED if number == state.selected else PLAIN
        weak = DIM if relevance.is_weak(hit) and style == PLAIN else style
        lines.append(
            (Part(mark, style), Part(f"{bar} ", DIM), Part(title, weak), Part(f"  {place}", DIM))
        )
    return lines


def _preview(
    state: FindState, columns: int, rows: int, highlighter: Highlighter | None
) -> list[Line]:
    """The selected passage, wrapped, with the words of the query highlighted."""
    if state.hit is None or rows < 1:
        return []
    text = escape_lines(state.hit.text or state.hit.snippet)
    matched = list(highlighter(text)) if highlighter is not None else []
    ranges: list[Range] = []
    start = 0
    for line in text.split("\n"):
        ranges += [(start + a, start + b) for a, b in wrap(line, columns) or [(0, 0)]]
        start += len(line) + 1
    state.scroll = min(state.scroll, max(0, len(ranges) - rows))
    shown = ranges[state.scroll : state.scroll + rows]
    return [tuple(_parts(text, begin, end, matched)) for begin, end in shown]


def _parts(text: str, start: int, end: int, matched: Sequence[Range]) -> Iterable[Part]:
    at = start
    for first, last in matched:
        first, last = max(first, start), min(last, end)
        if first >= last:
            continue
        if first > at:
            yield Part(text[at:first])
        yield Part(text[first:last], MATCH)
        at = last
    if at < end:
        yield Part(text[at:end])


def _side_by_side(
    state: FindState, columns: int, rows: int, highlighter: Highlighter | None
) -> list[Line]:
    left = columns * 2 // 5
    listed = _list(state, left, rows)
    preview = _preview(state, columns - left - 3, rows, highlighter)
    lines: list[Line] = []
    for number in range(rows):
        parts = listed[number] if number < len(listed) else ()
        used = sum(display_width(part.text) for part in parts)
        beside = preview[number] if number < len(preview) else ()
        lines.append((*parts, Part(" " * (left - used)), Part(" │ ", DIM), *beside))
    return lines


def _end(text: str, columns: int) -> str:
    """Keep the end of a text, where the user is typing."""
    while display_width(text) > columns:
        text = text[1:]
    return text
