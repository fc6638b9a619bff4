"""Snippets: the part of a chunk that answers the query best. Pure.

A snippet is a run of sentences, or of lines in a list, a table or code. The best run contains the
most of the query's words, weighted by their rarity in the passage, and the sentence whose meaning
is nearest to the query, if the passage has token vectors.

FTS5's snippet() counts words rather than characters, reads only one of the three lexical tables,
and has no snippet for a hit of another retriever.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Sequence
from math import log1p

from kb import deadline
from kb.search.query.analysis import Analysis
from kb.search.results.layout import SENTENCE, Layout, Unit, lay_out
from kb.text.normalize import find_identifiers
from kb.text.patterns import compile_later
from kb.text.plain_words import has_plain_form, plain_offsets
from kb.text.tokenize import stems_of, tokenize
from kb.values import NamedTuple

_HEADINGS = compile_later(r"\A(?:#{1,6}[ \t].*(?:\n+|\Z))+")
# A line between, or above, lines of one punctuation mark.
_UNDERLINED = compile_later(r"\A(?:([^\w\s])\1{2,}[ \t]*\n)?(.+)\n([^\w\s])\3{2,}[ \t]*\n+")
# Front matter without its first line, up to the line that ends it.
_FRONT = compile_later(
    r"\A(?:[\w-][\w -]*+:(?:[ \t].*+)?+\n(?:(?!---)[ \t#-].*+\n)*+)++(?:---|\.\.\.)[ \t]*+\n+"
)
_MAX_CHARS = 70_000  # characters of a chunk to search; only huge tables are longer
_MAX_LINES = 6  # lines of code, lists and tables to show, so that ten hits fit on two pages
_LEAST_CHARS = 40  # with less room, only the matches themselves fit
_WORDS_SUFFICE = 2 / 3  # the share of the query's words that makes token vectors unnecessary
_MEANING = 2.0  # the weight of the nearest sentence if the passage has none of the words
_TAB = 4
ELLIPSIS = "…"

Match = tuple[int, int, str]  # start, end, term


class SnippetDraft(NamedTuple):
    """A passage before its snippet is chosen. `coverage` is the share of the query's words that it
    contains."""

    layout: Layout
    matches: Sequence[Match]
    coverage: float
    limit: int

    @classmethod
    def of(
        cls, text: str, analysis: Analysis, limit: int, *, by_lines: bool = False
    ) -> SnippetDraft:
        """The draft of a snippet of at most `limit` characters. `by_lines` keeps every line."""
        text = text[:_MAX_CHARS]
        layout = lay_out(text, by_lines=by_lines)
        if limit < _LEAST_CHARS or not layout.units:
            flat = " ".join(text.split())
            layout = Layout(flat, (Unit(0, len(flat)),))
        if fits(layout.text, limit):
            return cls(layout, (), 1.0, limit)
        matches = match_ranges(layout.text, analysis)
        words = {term for _, _, term in matches}
        coverage = len(words & analysis.stems) / len(analysis.stems) if analysis.stems else 1.0
        return cls(layout, matches, coverage, limit)

    @property
    def needs_meaning(self) -> bool:
        """Whether token vectors help to choose, because the words of the query do not decide."""
        return self.coverage < _WORDS_SUFFICE

    def render(self, near: Sequence[float] = ()) -> str:
        """The snippet. `near` has the similarity of each unit to the query, if it is known."""
        layout, limit = self.layout, self.limit
        if fits(layout.text, limit):
            return layout.text
        room = limit - 2 * len(ELLIPSIS)
        meaning = _MEANING * (1.0 - self.coverage)
        first, last = best_window(layout, self.matches, room - 2, near, meaning)
        unit = layout.units[first]
        if unit.end - unit.start <= room - 2:
            return _render(layout, first, last, room - 2)  # without two line ends
        inside = [
            (start - unit.start, end - unit.start, term)
            for start, end, term in self.matches
            if unit.start <= start and end <= unit.end
        ]
        shown = _cut(layout.text[unit.start : unit.end], *_densest(inside, room), limit)
        before = ELLIPSIS * (unit.start > 0 and not shown.startswith(ELLIPSIS))
        after = ELLIPSIS * (unit.end < len(layout.text) and not shown.endswith(ELLIPSIS))
        return f"{before}{shown}{after}" if room > 0 else shown


def snippet(text: str, analysis: Analysis, limit: int, *, by_lines: bool = False) -> str:
    """At most `limit` characters: the sentences or lines that answer best, or the first ones."""
    return SnippetDraft.of(text, analysis, limit, by_lines=by_lines).render()


def fits(text: str, room: int) -> bool:
    """Whether a snippet may show the whole text."""
    return len(text) <= room and text.count("\n") < _MAX_LINES


def best_window(
    layout: Layout,
    matches: Sequence[Match],
    room: int,
    near: Sequence[float] = (),
    meaning: float = 1.0,
) -> tuple[int, int]:
    """The first and the last unit of the run that answers best; among equally good runs, the
    shortest, then the first. `meaning` is the weight of the nearest unit, compared with all words
    of the query. A unit that is longer than `room` is a run of its own."""
    units = layout.units
    terms = _terms_by_unit(units, matches)
    weights = rarity(terms)
    total = sum(weights.values()) or 1.0
    near = _scale(near)
    best, best_value, best_size = (0, 0), 0.0, 0
    for first, unit in enumerate(units):
        if not terms[first] and not near:
            continue  # a run without this unit is as good, and shorter
        inside: set[str] = set()
        share = nearest = 0.0
        for last in range(first, min(len(units), first + _MAX_LINES)):
            size = units[last].end - unit.start
            if last > first and size > room:
                break
            if terms[last]:
                for term in terms[last] - inside:
                    share += weights[term] / total
                inside |= terms[last]
            if near and near[last] > nearest:
                nearest = near[last]
            value = round(share + meaning * nearest, 9)
            if value > best_value or (value == best_value > 0 and size < best_size):
                best, best_value, best_size = (first, last), value, size
    return best


def _terms_by_unit(units: Sequence[Unit], matches: Iterable[Match]) -> list[set[str]]:
    starts = [unit.start for unit in units]
    terms: list[set[str]] = [set() for _ in units]
    for start, _, term in matches:
        terms[max(0, bisect_right(starts, start) - 1)].add(term)
    return terms


def rarity(terms: Sequence[Iterable[str]]) -> dict[str, float]:
    """The weight of each term: the fewer units contain it, the higher."""
    counts: dict[str, int] = {}
    for inside in terms:
        for term in inside:
            counts[term] = counts.get(term, 0) + 1
    return {term: log1p(len(terms) / count) for term, count in counts.items()}


def _scale(near: Sequence[float]) -> Sequence[float]:
    """The similarities, scaled so that the farthest unit has 0 and the nearest has 1."""
    if not near:
        return ()
    least = min(near)
    width = max(near) - least
    return [(one - least) / width for one in near] if width > 1e-9 else ()


def _render(layout: Layout, first: int, last: int, room: int) -> str:
    """Render the window, extended by the units after it and, at the end of the text, by those
    before it. The first row of a table is put above a later row, if it fits."""
    text, units = layout.text, layout.units
    above = _table_header(layout, first)
    if above and len(above) + units[last].end - units[first].start > room:
        above = ""
    room -= len(above)
    while not above and first and fits(text[units[first - 1].start :], room):
        first -= 1
    start, stop = units[first].start, units[last].end
    for unit in units[last + 1 :]:
        if not fits(text[start : unit.end], room):
            if unit.kind == SENTENCE and text[stop : stop + 1] == " ":
                stop = max(stop, text.rfind(" ", start, start + room + 1))
            break
        stop = unit.end
    skipped = first > 0 and not above.endswith(f"{ELLIPSIS}\n") and units[first].header != first - 1
    before = (ELLIPSIS if units[first].kind == SENTENCE else f"{ELLIPSIS}\n") * skipped
    after = (ELLIPSIS if _is_prose_at(units, stop) else f"\n{ELLIPSIS}") * (stop < len(text))
    return f"{before}{above}{text[start:stop].rstrip()}{after}"


def _is_prose_at(units: Sequence[Unit], at: int) -> bool:
    return next(unit.kind == SENTENCE for unit in units if unit.end >= at)


def _table_header(layout: Layout, first: int) -> str:
    """The first row of the table, as lines to put above the unit `first`, if that is a later
    row."""
    header = layout.units[first].header
    if header is None or header == first:
        return ""
    row = layout.text[layout.units[header].start : layout.units[header].end]
    return f"{row}\n" if header == first - 1 else f"{row}\n{ELLIPSIS}\n"


def code_snippet(text: str, analysis: Analysis, limit: int) -> str:
    """A snippet of code: at most six lines, starting with the one above the densest matches,
    without blank lines and common indentation."""
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


def without_headings(text: str, headings: Container[str] = ()) -> str:
    """Remove the headings at the start of a chunk, because a hit shows them separately: those of
    Markdown, and underlined lines that are among `headings`."""
    underlined = _UNDERLINED.match(text)
    if underlined is not None and underlined[2].strip() in headings:
        return text[underlined.end() :] or text
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
    if has_plain_form(text):
        matches = list({*matches, *_plain_matches(text, analysis)})
    return sorted(matches) or sorted(_inside_words(text, analysis.long_words()))


def _plain_matches(text: str, analysis: Analysis) -> Iterable[Match]:
    """The matches in the plain form of `text`, with their place in `text`."""
    plain, offsets = plain_offsets(text)
    for start, end, term in (*_words(plain, analysis), *_fragments(plain, analysis.fragments)):
        yield offsets[start], offsets[end - 1] + 1, term


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
        inside = next((stem for stem in stems_of(" ".join(parts)) if stem in analysis.stems), None)
        if inside is not None:
            yield start, end, inside


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
