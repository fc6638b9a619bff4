"""A comparison as a person reads it: a column for each method, or, where the terminal is narrow, a
block; then what the marks stand for, and how many hits every two methods share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from kb.cli.output import Page, columns, cut, visible
from kb.degradation import Cause, degradation_message, group_by_cause
from kb.types import Compared, Comparison, Hit

_GAP = 2
_NARROWEST = 20  # columns that a method needs to stand beside the others
_ALONE = "·"  # the mark of a hit that one method found

Marks = Mapping[int, str]  # of hits that several methods found, by chunk


def comparison_text(found: Comparison, page: Page, width: int | None) -> str:
    """`width` is None where lines are not to be broken."""
    marks = marks_of(found)
    room = 0 if width is None else (width - _RANK) // len(found.methods) - _GAP
    shown = _table(found, page, marks, room) if room >= _NARROWEST else _blocks(found, page, marks)
    parts = [shown, _legend(found, page, marks, width), _overlap(found, page), _times(found)]
    return "\n\n".join(part for part in parts if part)


def told_text(found: Comparison) -> Iterator[str]:
    """What went wrong, each thing once, with the methods that it concerns."""
    parts = group_by_cause(part for method in found.methods.values() for part in method.degraded)
    concerned: dict[Cause, list[str]] = {}
    for name, method in found.methods.items():
        for cause in _causes(method):
            concerned.setdefault(cause, []).append(name)
    for cause, names in concerned.items():
        text = degradation_message(parts[cause], *cause) if cause in parts else cause[1]
        yield f"{', '.join(names)}: {text}"


def _causes(method: Compared) -> Iterator[Cause]:
    """A method that fails for what another does without has the same cause."""
    if method.error is not None:
        yield method.error["code"], method.error["message"]
    yield from group_by_cause(method.degraded)


# --- marks ----------------------------------------------------------------------------------------


def marks_of(found: Comparison) -> dict[int, str]:
    """A letter for every hit that several methods found, in the order they are read."""
    rows = zip_longest(*(method.hits for method in found.methods.values()))
    ids = dict.fromkeys(hit.chunk_id for row in rows for hit in row if hit is not None)
    shared = [chunk_id for chunk_id in ids if found.sharing(chunk_id) > 1]
    return {chunk_id: _letters(at) for at, chunk_id in enumerate(shared)}


def _letters(at: int) -> str:
    """A to Z, then AA."""
    first, last = divmod(at, 26)
    return (_letters(first - 1) if first else "") + chr(ord("A") + last)


def _style(found: Comparison, hit: Hit) -> dict[str, Any]:
    """Found by all that answered, by some, or by one alone."""
    answered = sum(method.error is None for method in found.methods.values())
    by = found.sharing(hit.chunk_id)
    if by == 1:
        return {"dim": True}
    return {"fg": "green", "bold": True} if by == answered else {"fg": "yellow"}


# --- columns --------------------------------------------------------------------------------------

_RANK = 3


def _table(found: Comparison, page: Page, marks: Marks, room: int) -> str:
    methods = list(found.methods.values())
    lines = [
        _row("", [page.style(_fill(name, room), bold=True) for name in found.methods]),
        _row("", [page.style(_fill(_sum(each), room), dim=True) for each in methods]),
    ]
    hits = zip_longest(*(each.hits for each in methods))
    for rank, row in enumerate(hits, start=1):
        lines.append(_row(str(rank), [_cell(found, hit, page, marks, room) for hit in row]))
    return "\n".join(lines)


def _row(rank: str, cells: Sequence[str]) -> str:
    return (rank.ljust(_RANK) + (" " * _GAP).join(cells)).rstrip()


def _cell(found: Comparison, hit: Hit | None, page: Page, marks: Marks, room: int) -> str:
    if hit is None:
        return " " * room
    mark = marks.get(hit.chunk_id, _ALONE)
    text = f"{mark:2}{_short(hit.citation.uri, room - max(2, len(mark)))}"
    return page.style(_fill(text, room), **_style(found, hit))


def _short(uri: str, room: int) -> str:
    """The file's name and the place in it; of a long name, its beginning."""
    name, hash_, place = visible(uri.rsplit("/", 1)[-1]).partition("#")
    return cut(name, max(2, room - columns(place) - len(hash_))) + hash_ + place


def _fill(text: str, room: int) -> str:
    shown = cut(text, room)
    return shown + " " * (room - columns(shown))


def _sum(method: Compared) -> str:
    if method.error is not None:
        return f"error: {method.error['code'].replace('_', ' ')}"
    hits = "1 hit" if len(method.hits) == 1 else f"{len(method.hits)} hits"
    return f"{hits}, {method.latency_ms:.1f} ms"


# --- blocks ---------------------------------------------------------------------------------------


def _blocks(found: Comparison, page: Page, marks: Marks) -> str:
    return "\n\n".join(_block(found, name, page, marks) for name in found.methods)


def _block(found: Comparison, name: str, page: Page, marks: Marks) -> str:
    method = found.methods[name]
    lines = [f"{page.style(name, bold=True)}  {page.style(_sum(method), dim=True)}"]
    wide = max((len(mark) for mark in marks.values()), default=1)
    for hit in method.hits:
        mark = marks.get(hit.chunk_id, _ALONE)
        uri = visible(hit.citation.uri)
        shown = uri if page.width is None else _end(uri, page.width - wide - 6)
        rank = f"{hit.rank}.".ljust(4)
        lines.append(f"{rank}{page.style(f'{mark:{wide}}  {shown}', **_style(found, hit))}")
    return "\n".join(lines)


def _end(uri: str, room: int) -> str:
    if columns(uri) <= room:
        return uri
    while uri and columns(uri) >= room:
        uri = uri[1:]
    return f"…{uri}"


# --- below ----------------------------------------------------------------------------------------


def _legend(found: Comparison, page: Page, marks: Marks, width: int | None) -> str:
    """What the letters stand for."""
    hits = {hit.chunk_id: hit for each in found.methods.values() for hit in each.hits}
    lines = [page.style("Found by several", bold=True)] if marks else []
    for chunk_id, mark in marks.items():
        hit = hits[chunk_id]
        by = f"by {found.sharing(chunk_id)}"
        title = visible(hit.title)
        line = f"{mark:3}{by}  {visible(hit.citation.uri)}  {title}"
        lines.append(line if width is None else cut(line, width))
    return "\n".join(lines)


def _overlap(found: Comparison, page: Page) -> str:
    """How many hits every two share: half a square, since the other half is the same."""
    names = list(dict.fromkeys(name for pair in found.overlap
                               for name in (pair.first, pair.second)))  # fmt: skip
    if not names:
        return ""
    shared = {(pair.first, pair.second): pair.shared for pair in found.overlap}
    wide = max(map(len, names)) + _GAP
    heads = [_HEADS.get(name, name) for name in names[:-1]]
    lines = [page.style("Hits shared", bold=True),
             " " * wide + "".join(f"{head:>8}" for head in heads)]  # fmt: skip
    for at, name in enumerate(names[1:], start=1):
        counts = "".join(f"{shared[other, name]:8}" for other in names[:at])
        lines.append(f"{name:{wide}}{counts}")
    return "\n".join(lines)


_HEADS = {
    "fts5_only": "fts5",
    "dense_only": "dense",
    "sparse_only": "sparse",
    "two_way_hybrid": "2-way",
    "three_way_hybrid": "3-way",
    "three_way_reranked": "reranked",
}


def _times(found: Comparison) -> str:
    return f"{found.wall_ms:.0f} ms in all, of which {found.shared_ms:.0f} ms for what all share"
