"""Snippets: the stretch of a chunk that shows best why it was found. Pure.

Cut here rather than by FTS5's snippet(), which counts words where the limit is in characters,
sees one of the three lexical tables, and knows nothing of a hit that was found by meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kb import deadline
from kb.search.query.analysis import Analysis
from kb.text.normalize import find_identifiers
from kb.text.tokenize import tokenize

_HEADINGS = re.compile(r"\A(?:#{1,6}[ \t].*(?:\n+|\Z))+")
# Keys of front matter that are text, down to the line that ends it.
_FRONT = re.compile(
    r"\A(?:[\w-][\w -]*+:(?:[ \t].*+)?+\n(?:(?!---)[ \t#-].*+\n)*+)++(?:---|\.\.\.)[ \t]*+\n+"
)
_LONGEST_READ = 70_000  # characters of a chunk that are looked at: only a huge table is longer
_MOST_LINES = 6  # of code: ten hits are to fit on a page or two
_TAB = 4
ELLIPSIS = "…"

Match = tuple[int, int, str]  # start, end, what was found


def snippet(text: str, analysis: Analysis, limit: int) -> str:
    """At most `limit` characters around the densest matches, or the beginning of the text."""
    flat = " ".join(text[:_LONGEST_READ].split())
    if len(flat) <= limit:
        return flat
    start, end = _densest(match_ranges(flat, analysis), limit - 2 * len(ELLIPSIS))
    return _cut(flat, start, end, limit)


def code_snippet(text: str, analysis: Analysis, limit: int) -> str:
    """The same of code, line by line as it status there: at most six lines from the one above the
    densest matches on, without blank ones and without the indentation they have in common."""
    lines = [line.expandtabs(_TAB).rstrip() for line in text[:_LONGEST_READ].splitlines()]
    lines = [line for line in lines if line]
    whole = "\n".join(lines)
    room = limit - 2 * len(ELLIPSIS) - 2  # and two ends of lines
    first = 0
    if len(whole) > room or len(lines) > _MOST_LINES:
        start, _ = _densest(match_ranges(whole, analysis), room)
        first = max(0, whole.count("\n", 0, start) - 1)
    kept = _dedent(lines[first : first + _MOST_LINES])
    while len(kept) > 1 and len("\n".join(kept)) > room:
        kept.pop()
    shown = "\n".join(kept)
    if len(shown) > room:  # a line that is longer: the place in it counts
        return snippet(text, analysis, limit)
    before = f"{ELLIPSIS}\n" if first else ""
    return f"{before}{shown}" + (f"\n{ELLIPSIS}" if first + len(kept) < len(lines) else "")


def _dedent(lines: list[str]) -> list[str]:
    indent = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return [line[indent:] for line in lines]


def without_headings(text: str) -> str:
    """A Markdown chunk without the headings it begins with: a hit shows them by itself."""
    return _HEADINGS.sub("", text) or text


def without_front_matter(text: str, analysis: Analysis) -> str:
    """A chunk without the front matter it begins with, unless the query is about that."""
    front = _FRONT.match(text)
    if front is None or match_ranges(front[0], analysis):
        return text
    return text[front.end() :] or text


def match_ranges(text: str, analysis: Analysis) -> list[Match]:
    """Where the query's terms stand in `text`, in order."""
    deadline.check()
    found = [*_words(text, analysis), *_fragments(text, analysis.fragments)]
    return sorted(found) or sorted(_inside_words(text, analysis.long_words()))


def merge_ranges(found: Iterable[Match]) -> list[tuple[int, int]]:
    """The marks, which are in order, as stretches that do not overlap."""
    merged: list[tuple[int, int]] = []
    for start, end, _ in found:
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
    """Where terms stand inside of longer words, as the last tier finds them."""
    folded = text.lower()
    if len(folded) == len(text):  # else the places would not be those of `text`
        yield from _fragments(folded, (term.lower() for term in terms))


def _fragments(text: str, fragments: Iterable[str]) -> Iterable[Match]:
    for fragment in fragments:
        at = text.find(fragment)
        while at >= 0:
            yield at, at + len(fragment), fragment
            at = text.find(fragment, at + len(fragment))


def _densest(found: list[Match], width: int) -> tuple[int, int]:
    """The window with the most distinct terms, then with the most of them, the first of equals."""
    best, best_value = (0, 0), (0, 0)
    inside: dict[str, int] = {}
    first = 0
    for last, (_, end, term) in enumerate(found):
        inside[term] = inside.get(term, 0) + 1
        while end - found[first][0] > width and first < last:
            inside[found[first][2]] -= 1
            if not inside[found[first][2]]:
                del inside[found[first][2]]
            first += 1
        value = (len(inside), last - first + 1)
        if value > best_value:
            best, best_value = (found[first][0], end), value
    return best


def _cut(text: str, start: int, end: int, limit: int) -> str:
    """The window widened to the limit, a third of the room before it, at word boundaries. Where
    there is no room for more than the signs of a cut, they are left out."""
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
