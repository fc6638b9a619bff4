"""Snippets: the part of a chunk that matches the query best. Pure.

FTS5's snippet() counts words rather than characters, reads only one of the three lexical tables,
and has no snippet for a hit of another retriever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kb import deadline
from kb.search.query.analysis import Analysis
from kb.text.normalize import find_identifiers
from kb.text.tokenize import tokenize

_HEADINGS = re.compile(r"\A(?:#{1,6}[ \t].*(?:\n+|\Z))+")
# Front matter without its first line, up to the line that ends it.
_FRONT = re.compile(
    r"\A(?:[\w-][\w -]*+:(?:[ \t].*+)?+\n(?:(?!---)[ \t#-].*+\n)*+)++(?:---|\.\.\.)[ \t]*+\n+"
)
_MAX_CHARS = 70_000  # of a chunk that are searched: only huge tables are longer
_MAX_LINES = 6  # of code, so that ten hits fit on two pages
_TAB = 4
ELLIPSIS = "…"

Match = tuple[int, int, str]  # start, end, term


def snippet(text: str, analysis: Analysis, limit: int) -> str:
    """At most `limit` characters around the densest matches, or from the start of the text."""
    flat = " ".join(text[:_MAX_CHARS].split())
    if len(flat) <= limit:
        return flat
    start, end = _densest(match_ranges(flat, analysis), limit - 2 * len(ELLIPSIS))
    return _cut(flat, start, end, limit)


def code_snippet(text: str, analysis: Analysis, limit: int) -> str:
    """A snippet of code: at most six lines, from the one above the densest matches on, without
    blank lines and common indentation."""
    lines = [line.expandtabs(_TAB).rstrip() for line in text[:_MAX_CHARS].splitlines()]
    lines = [line for line in lines if line]
    whole = "\n".join(lines)
    room = limit - 2 * len(ELLIPSIS) - 2  # and two line ends
    first = 0
    if len(whole) > room or len(lines) > _MAX_LINES:
        start, _ = _densest(match_ranges(whole, analysis), room)
        first = max(0, whole.count("\n", 0, start) - 1)
    kept = _dedent(lines[first : first + _MAX_LINES])
    while len(kept) > 1 and len("\n".join(kept)) > room:
        kept.pop()
    shown = "\n".join(kept)
    if len(shown) > room:  # a long line: cut around the matches in it
        return snippet(text, analysis, limit)
    before = f"{ELLIPSIS}\n" if first else ""
    return f"{before}{shown}" + (f"\n{ELLIPSIS}" if first + len(kept) < len(lines) else "")


def _dedent(lines: list[str]) -> list[str]:
    indent = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return [line[indent:] for line in lines]


def without_headings(text: str) -> str:
    """Remove the headings at the start of a Markdown chunk, because a hit shows them separately."""
    return _HEADINGS.sub("", text) or text


def without_front_matter(text: str, analysis: Analysis) -> str:
    """Remove the front matter at the start of a chunk, unless it matches the query."""
    front = _FRONT.match(text)
    if front is None or match_ranges(front[0], analysis):
        return text
    return text[front.end() :] or text


def match_ranges(text: str, analysis: Analysis) -> list[Match]:
    """The matches of the query's terms in `text`, in order."""
    deadline.check()
    matches = [*_words(text, analysis), *_fragments(text, analysis.fragments)]
    return sorted(matches) or sorted(_inside_words(text, analysis.long_words()))


def merge_ranges(matches: Iterable[Match]) -> list[tuple[int, int]]:
    """Merge matches, which are in order, into ranges that do not overlap."""
    merged: list[tuple[int, int]] = []
    for start, end, _ in matches:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _words(text: str, analysis: Analysis) -> Iterable[Match]:
    if not analysis.stems:
        return
    yield from tokenize(text, analysis.stems)
    for start, end, parts in find_identifiers(text):
        if inside := tokenize(" ".join(parts), analysis.stems):
            yield start, end, inside[0][2]


def _inside_words(text: str, terms: Iterable[str]) -> Iterable[Match]:
    """The matches of terms inside longer words, as in the last lexical tier."""
    folded = text.lower()
    if len(folded) == len(text):  # otherwise the positions would differ from those in `text`
        yield from _fragments(folded, (term.lower() for term in terms))


def _fragments(text: str, fragments: Iterable[str]) -> Iterable[Match]:
    for fragment in fragments:
        at = text.find(fragment)
        while at >= 0:
            yield at, at + len(fragment), fragment
            at = text.find(fragment, at + len(fragment))


def _densest(matches: list[Match], width: int) -> tuple[int, int]:
    """The window with the most distinct terms, then the most matches; the first of equals."""
    best, best_value = (0, 0), (0, 0)
    inside: dict[str, int] = {}
    first = 0
    for last, (_, end, term) in enumerate(matches):
        inside[term] = inside.get(term, 0) + 1
        while end - matches[first][0] > width and first < last:
            inside[matches[first][2]] -= 1
            if not inside[matches[first][2]]:
                del inside[matches[first][2]]
            first += 1
        value = (len(inside), last - first + 1)
        if value > best_value:
            best, best_value = (matches[first][0], end), value
    return best


def _cut(text: str, start: int, end: int, limit: int) -> str:
    """Widen the window to the limit at word boundaries, with a third of the extra room before it.
    The ellipses are left out if there is no room for them."""
    room = limit - 2 * len(ELLIPSIS)
    if room < 1:
        return text[start : start + limit].strip()
    begin = max(0, min(start - max(0, room - (end - start)) // 3, len(text) - room))
    if begin > 0 and (space := text.find(" ", begin, start)) >= 0:
        begin = space + 1
    stop = min(len(text), begin + room)
    if stop < len(text) and (space := text.rfind(" ", max(end, begin + room // 2), stop)) > 0:
        stop = space
    before = ELLIPSIS if begin > 0 else ""
    after = ELLIPSIS if stop < len(text) else ""
    return f"{before}{text[begin:stop].strip()}{after}"
