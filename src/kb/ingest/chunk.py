"""Chunking: blocks into passages of a size that can be searched and read.

Third stage of ingest; pure. Blocks of one section are packed together up to the limit, and cut
only where they are longer themselves. A chunk's text is its source's lines as they stand, first to
last; only a piece of a line that had to be cut is less than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from kb.ingest.split import cut
from kb.types import Block, ChunkDraft, Span

CHUNKER = "1"  # changes whenever the same blocks would give other chunks
HARD_LIMIT_CHARS = 64 * 1024  # a longer block is cut, atomic or not

_SMALL_CHARS = 200  # a leftover that had better stay with what is before it
_STRETCH = 1.25  # how much longer than the limit a chunk may get, to avoid such a leftover
_SMALL_CODE_CHARS = 300  # definitions that are shorter together share a chunk


def chunk(blocks: Iterable[Block], max_chars: int) -> list[ChunkDraft]:
    """The blocks of a document as chunks of at most `max_chars` characters, a quarter more where
    that avoids a scrap. Atomic blocks may be longer."""
    return list(stream(blocks, max_chars))


def stream(blocks: Iterable[Block], max_chars: int) -> Iterator[ChunkDraft]:
    """The same, one after the other: no more than a section is held."""
    sections = _sections(_units(blocks, max_chars))
    for section in _join_small_code(_join_bare_headings(sections)):
        for units in _packed(section, max_chars):
            yield _draft(units)


@dataclass(frozen=True, slots=True)
class _Unit:
    """A block, or a part of one, that is not cut any more."""

    text: str
    span: Span
    path: tuple[str, ...]
    boundary: bool = False
    atomic: bool = False
    broken: bool = False  # a piece of a line: not joined with anything


Section = list[_Unit]


# --- blocks into units ----------------------------------------------------------------------------


def _units(blocks: Iterable[Block], max_chars: int) -> Iterator[_Unit]:
    for block in blocks:
        atomic = block.atomic and len(block.text) <= HARD_LIMIT_CHARS
        if atomic or len(block.text) <= max_chars:
            if block.text.strip():
                yield _Unit(block.text, block.span, block.heading_path, block.boundary, atomic)
            continue
        boundary = block.boundary
        pieces = list(cut(block.text, max_chars))
        for number, piece in enumerate(pieces, 1):
            span = _shifted(block.span, piece.first, piece.last)
            # Where no lines are cited, what follows a long line may join its end.
            broken = piece.broken and not (span.start is None and number == len(pieces))
            yield _Unit(piece.text, span, block.heading_path, boundary, broken=broken)
            boundary = False


def _shifted(span: Span, first: int, last: int) -> Span:
    """The part of `span` from its line `first` to its line `last`, counted from 0."""
    if span.start is None:
        return span
    return replace(span, start=span.start + first, end=span.start + last)


# --- units into sections --------------------------------------------------------------------------


def _sections(units: Iterable[_Unit]) -> Iterator[Section]:
    section: Section = []
    for unit in units:
        if section and (section[-1].path != unit.path or unit.boundary):
            yield section
            section = []
        section.append(unit)
    if section:
        yield section


def _join_bare_headings(sections: Iterable[Section]) -> Iterator[Section]:
    """A heading without text goes to the section below it, if that is a part of its own."""
    return _merged(
        sections,
        _is_bare_heading,
        lambda above, section: (
            _lies_below(section[-1].path, above[-1].path)
            and section[0].span.page == above[-1].span.page
        ),
    )


def _merged(
    sections: Iterable[Section],
    is_open: Callable[[Section], bool],
    belong: Callable[[Section, Section], bool],
) -> Iterator[Section]:
    """Neighbours as one section for as long as they belong together. Only one that is open may
    get more: the others are passed on at once, since a section may be megabytes."""
    held: Section | None = None
    for section in sections:
        if held is not None and not belong(held, section):
            yield held
            held = None
        held = section if held is None else held + section
        if not is_open(held):
            yield held
            held = None
    if held is not None:
        yield held


def _is_bare_heading(section: Section) -> bool:
    return all(unit.boundary and not unit.broken for unit in section)


def _lies_below(path: tuple[str, ...], above: tuple[str, ...]) -> bool:
    return len(path) > len(above) and path[: len(above)] == above


def _join_small_code(sections: Iterable[Section]) -> Iterator[Section]:
    """Short definitions side by side share a chunk: a file of one-liners is not a hundred hits."""
    return _merged(
        sections,
        _is_small_code,
        lambda one, other: _are_near(one, other) and _is_small_code(one + other),
    )


def _is_small_code(section: Section) -> bool:
    if sum(len(unit.text) for unit in section) > _SMALL_CODE_CHARS:
        return False
    return all(unit.span.kind == "code" for unit in section)


def _are_near(one: Section, other: Section) -> bool:
    """Beside each other in the same definition, or one right inside the other."""
    here, there = one[0].path, other[0].path
    return here[:-1] == there[:-1] or here == there[:-1] or here[:-1] == there


# --- sections into chunks -------------------------------------------------------------------------


def _packed(section: Section, max_chars: int) -> list[Section]:
    """The section in runs of units that each make a chunk."""
    runs: list[Section] = []
    size = 0
    for unit in section:
        grown = size + len(_gap(runs[-1][-1], unit)) + len(unit.text) if runs else 0
        if runs and _fits(runs[-1], unit, grown, max_chars):
            runs[-1].append(unit)
            size = grown
        else:
            runs.append([unit])
            size = len(unit.text)
    return _without_scrap(runs, max_chars)


def _fits(run: Section, unit: _Unit, grown: int, max_chars: int) -> bool:
    if run[-1].broken or unit.broken:
        return False
    if grown <= max_chars:
        return True
    # A heading never stays behind alone when its text is what makes the chunk too long.
    return _is_bare_heading(run) and (unit.atomic or grown <= max_chars * _STRETCH)


def _without_scrap(runs: list[Section], max_chars: int) -> list[Section]:
    """The last run, if it is just a scrap, goes to the one before it."""
    if len(runs) < 2 or any(unit.broken for unit in (*runs[-2], *runs[-1])):
        return runs
    scrap = _joined(runs[-1])
    if len(scrap) < _SMALL_CHARS:
        both = runs[-2] + runs[-1]
        if len(_joined(both)) <= max_chars * _STRETCH:
            return [*runs[:-2], both]
    return runs


def _draft(units: Sequence[_Unit]) -> ChunkDraft:
    first = units[0].span
    if first.kind != "code":
        path = units[-1].path
        return ChunkDraft(_joined(units), path, path[-1] if path else None, _spans(units, first))
    # Definitions that share a chunk are cited by what they have in common, if anything.
    path = _common([unit.path for unit in units if unit.path])
    symbol = ".".join(path) or None
    return ChunkDraft(_joined(units), path, symbol, _spans(units, replace(first, symbol=symbol)))


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What all the paths begin with."""
    shared = zip(*paths, strict=False)
    return tuple(names[0] for names in takewhile(lambda names: len(set(names)) == 1, shared))


def _spans(units: Sequence[_Unit], named: Span) -> tuple[Span, ...]:
    """One span from the first line to the last; where there are no lines, each different one."""
    first, last = units[0].span, units[-1].span
    if first.start is not None and last.end is not None and first.page is None:
        return (replace(named, start=first.start, end=last.end),)
    spans: list[Span] = []
    for unit in units:
        if unit.span not in spans:
            spans.append(unit.span)
    return tuple(spans)


def _joined(units: Sequence[_Unit]) -> str:
    parts = [units[0].text]
    for before, unit in pairwise(units):
        parts += [_gap(before, unit), unit.text]
    return "".join(parts)


def _gap(before: _Unit, after: _Unit) -> str:
    """The line ends between two units: as many as there are in the source."""
    if before.span.end is None or after.span.start is None or before.span.page is not None:
        return "\n\n"
    return "\n" * max(1, after.span.start - before.span.end)
