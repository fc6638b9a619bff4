"""The pictures of the documentation as SVG, each a function of its data. See pictures.py.

Each picture has light and dark colors and its own background, so that it is readable anywhere. It
loads nothing, and only the shapes of its letters depend on the fonts of a machine. The same data is
also in a table beside the picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

LISTS = {"lexical": "words", "dense": "meaning", "sparse": "weighted terms"}
WIDTH = 760

_STYLE = """
svg { color-scheme: light dark; --ink: #1f2328; --soft: #57606a; --line: #d0d7de; --ground: #ffffff;
  --box: #f3f5f8; --strong: #1f2328;
  --lexical: #0b5fad; --dense: #b54708; --sparse: #1a7f4b; --other: #57606a; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --soft: #9aa6b2; --line: #3d444d;
  --ground: #12161c; --box: #1d232b; --strong: #ffffff;
  --lexical: #6cb2f5; --dense: #f2a164; --sparse: #63cf95; --other: #9aa6b2; } }
text { font: 13px system-ui, "Segoe UI", "Liberation Sans", Helvetica, Arial, sans-serif;
  fill: var(--ink); }
.soft { fill: var(--soft); font-size: 12px; } .head { font-weight: 600; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.box { fill: var(--box); stroke: var(--line); } .line { stroke: var(--line); fill: none; }
.arrow { stroke: var(--soft); fill: none; stroke-width: 1.5; } .tip { fill: var(--soft); }
.lexical { fill: var(--lexical); } .dense { fill: var(--dense); } .sparse { fill: var(--sparse); }
.other { fill: var(--other); } .strong { fill: var(--strong); } .ground { fill: var(--ground); }
.on { fill: var(--ground); font-weight: 600; }
"""


def drawing(title: str, height: int, parts: Iterable[str], width: int = WIDTH) -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}" rx="8"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


# --- parts ----------------------------------------------------------------------------------------


def text(x: float, y: float, words: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{_n(x)}" y="{_n(y)}"{named}>{escape(words)}</text>'


def rect(x: float, y: float, width: float, height: float, kind: str, radius: int = 0) -> str:
    size = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
    return f'<rect {size} rx="{radius}" class="{kind}"/>'


def dot(x: float, y: float, kind: str, radius: int = 5) -> str:
    return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{radius}" class="{kind}"/>'


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}" class="line"/>'


def arrow(x1: float, y1: float, x2: float, y2: float) -> Iterator[str]:
    """An arrow to the right, curved if its ends differ in height."""
    middle = (x1 + x2) / 2
    way = f"M{_n(x1)} {_n(y1)}C{_n(middle)} {_n(y1)} {_n(middle)} {_n(y2)} {_n(x2 - 5)} {_n(y2)}"
    yield f'<path d="{way}" class="arrow"/>'
    yield f'<path d="M{_n(x2)} {_n(y2)}l-7 -4v8z" class="tip"/>'


def badge(x: float, y: float, letter: str, kind: str = "strong") -> Iterator[str]:
    """A letter in a disc, which stands for one passage in the whole picture."""
    yield dot(x, y, kind, 9)
    yield text(x, y + 4.5, letter, "on middle")


def box(x: float, y: float, width: float, lines: Sequence[str], kind: str = "") -> Iterator[str]:
    """A box whose first line is its name."""
    yield rect(x, y, width, 18 + 18 * len(lines), "box", 6)
    if kind:
        yield rect(x, y, 4, 18 + 18 * len(lines), kind, 2)
    for number, words in enumerate(lines):
        yield text(x + 12, y + 22 + 18 * number, words, "soft" if number else "head")


def _n(value: float) -> str:
    """A number in a short form that is the same on every machine."""
    return f"{value:.1f}".removesuffix(".0")


# --- the stages of a search -----------------------------------------------------------------------


def stages(measured: Mapping[str, Any]) -> str:
    """The stages of a search, with the counts of one query."""
    found = measured["found"]
    lists = (
        ("lexical", "words", "an index; BM25"),
        ("dense", "meaning", "vectors; cosine"),
        ("sparse", "weighted terms", "an index; products"),
    )
    parts = [*box(16, 105, 112, ["analyze", "words, runs,", "script"])]
    for row, (name, title, how) in enumerate(lists):
        y = 16 + 92 * row
        parts += box(168, y, 166, [title, how, f"{found[name]} passages"], name)
        parts += [*arrow(128, 141, 168, y + 36), *arrow(334, y + 36, 374, 141)]
    parts += box(374, 105, 130, ["fuse", "one scale, a sum", f"{measured['candidates']} passages"])
    parts += arrow(504, 141, 548, 43)
    parts += box(548, 16, 196, ["boost", "kind, reads, age"])
    parts += box(548, 100, 196, ["rerank", "the first 100 again,", "optional"])
    parts += box(548, 202, 196, ["cut", "the first 10, or above", "a threshold"])
    parts += [*down(646, 70, 100), *down(646, 172, 202)]
    note = "Filters apply inside all three lists, before ranking."
    parts.append(text(168, 300, note, "soft"))
    return drawing("The stages of a search", 316, parts)


def down(x: float, y1: float, y2: float) -> Iterator[str]:
    yield f'<path d="M{_n(x)} {_n(y1)}V{_n(y2 - 5)}" class="arrow"/>'
    yield f'<path d="M{_n(x)} {_n(y2)}l-4 -7h8z" class="tip"/>'


# --- one query ------------------------------------------------------------------------------------


def one_query(measured: Mapping[str, Any]) -> str:
    """Three lists at the top; below, what each adds to the sum of every passage."""
    letters = {each["where"]: each["letter"] for each in measured["passages"]}
    parts = [text(16, 28, f"“{measured['query']}”", "head")]
    for column, (name, title) in enumerate(LISTS.items()):
        parts += _list(16 + 248 * column, 52, name, title, measured, letters)
    below = 112 + 26 * len(measured["lists"]["dense"])
    parts += _sums(below, measured)
    height = below + 72 + 38 * len(measured["passages"])
    return drawing("One query, three lists, one sum", height, parts)


def _list(
    x: float,
    y: float,
    name: str,
    title: str,
    measured: Mapping[str, Any],
    letters: Mapping[str, str],
) -> Iterator[str]:
    """One list; passages that are not at the top of the fused list are dots."""
    entries = measured["lists"][name]
    scale = 84 / max(each["z"] for each in entries)
    yield text(x, y + 12, title, "head")
    yield text(x, y + 30, f"first {len(entries)} of {measured['found'][name]}", "soft")
    yield text(x + 174, y + 30, "score", "soft end")
    yield text(x + 222, y + 30, "z", "soft end")
    for row, each in enumerate(entries):
        level = y + 52 + 26 * row
        known = letters.get(each["where"])
        yield text(x, level + 4, f"{row + 1}", "soft")
        yield from badge(x + 24, level, known) if known else [dot(x + 24, level, "other", 3)]
        yield rect(x + 42, level - 7, max(1, scale * each["z"]), 14, name, 2)
        yield text(x + 174, level + 4, f"{each['score']:.3f}", "end")
        yield text(x + 222, level + 4, f"{each['z']:+.2f}", "soft end")


def _sums(y: float, measured: Mapping[str, Any]) -> Iterator[str]:
    weights = measured["weights"]
    yield line(16, y, WIDTH - 16, y)
    yield text(16, y + 28, "What each list adds: its weight times z", "head")
    x = 16.0
    for name, title in LISTS.items():
        yield rect(x, y + 42, 12, 12, name, 2)
        yield text(x + 18, y + 52, f"{title}, weight {weights[name]:.2f}", "soft")
        x += 160
    yield text(WIDTH - 84, y + 52, "sum", "soft end")
    yield text(WIDTH - 16, y + 52, "score", "soft end")
    scale = 250 / max(each["sum"] for each in measured["passages"])
    for row, each in enumerate(measured["passages"]):
        yield from _sum(y + 82 + 38 * row, each, weights, scale)


def _sum(
    y: float, each: Mapping[str, Any], weights: Mapping[str, float], scale: float
) -> Iterator[str]:
    yield from badge(26, y, each["letter"])
    yield text(46, y - 2, each["title"])
    yield text(46, y + 13, each["where"], "soft")
    right = left = 376.0
    for name in LISTS:
        length = scale * weights[name] * each["lists"][name]["z"]
        if length >= 0:
            yield rect(right, y - 9, length, 18, name, 2)
            right += length
        else:
            left += length
            yield rect(left, y - 9, -length, 18, name, 2)
    yield text(WIDTH - 84, y + 4, f"{each['sum']:+.2f}", "end")
    yield text(WIDTH - 16, y + 4, f"{each['score']:.3f}", "head end")


# --- filters --------------------------------------------------------------------------------------


def filters(measured: Mapping[str, Any]) -> str:
    """Ten hits, filtered after ranking and before it."""
    kept = measured["filtered"]
    first = [place <= 10 for place in kept["places"]]
    parts = [
        text(16, 28, f"“{measured['query']}”  {kept['filter']}", "head"),
        text(16, 62, "Filter after ranking: hits that do not match are dropped", "head"),
    ]
    for place in range(1, 11):
        parts += _place(place, 78, place in kept["places"], f"{place}")
    parts += [
        text(16, 136, f"{sum(first)} of ten hits are left.", "soft"),
        text(
            16, 180, "Filter before ranking, as kb does: only matching passages are ranked", "head"
        ),
    ]
    for number, place in enumerate(kept["places"], start=1):
        parts += _place(number, 196, True, f"{place}")
    note = f"{len(kept['places'])} hits. Numbers are ranks in the unfiltered list."
    parts.append(text(16, 254, note, "soft"))
    return drawing("A filter before ranking and after it", 270, parts)


def _place(number: int, y: float, fits: bool, label: str) -> Iterator[str]:
    x = 16 + 73.2 * (number - 1)
    yield rect(x, y, 68, 38, "sparse" if fits else "box", 5)
    yield text(x + 34, y + 24, label, "on middle" if fits else "soft middle")


# --- figures --------------------------------------------------------------------------------------


def quality(collections: Sequence[str], methods: Mapping[str, Sequence[float]]) -> str:
    """A column for each collection, on its own scale from the lowest figure to the highest."""
    left, step, width = 210, 110, 70
    parts = []
    for column, name in enumerate(collections):
        x = left + step * column
        figures = [row[column] for row in methods.values()]
        low, high = min(figures), max(figures)
        parts.append(text(x + width / 2, 28, name, "head middle"))
        for row, figure in enumerate(figures):
            y = 66 + 40 * row
            place = x + width * (figure - low) / (high - low)
            best = figure == high
            kind = "head middle" if best else "soft middle"
            parts += [line(x, y, x + width, y), dot(place, y, "dense" if best else "other")]
            parts.append(text(place, y - 9, _short(figure), kind))
    for row, name in enumerate(methods):
        parts.append(text(16, 70 + 40 * row, name, "head" if name == "default" else ""))
    return drawing("nDCG@10 by method", 66 + 40 * len(methods) - 8, parts)


def _short(figure: float) -> str:
    return f"{figure:.3f}".removeprefix("0")
