"""Chunking: packs blocks into passages of a searchable and readable size.

Pure. Blocks of one section are packed together up to the limit, and only a block that is longer by
itself is split. The text of a chunk is a range of whole lines of the source, unless a single line
had to be split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from kb.ingest.split import split_text
from kb.types import Block, ChunkDraft, Span

CHUNKER = "3"  # changes whenever the same blocks would result in different chunks
HARD_LIMIT_CHARS = 64 * 1024  # a longer block is split, even if it is atomic
HEADING_CHARS = 500  # of one heading in a path; the path is stored with every chunk below it
PATH_CHARS = 1000  # of all headings in a path

_SMALL_CHARS = 200  # a shorter remainder joins the chunk before it
_STRETCH = 1.25  # how far a chunk may exceed the limit to avoid such a remainder
_SMALL_CODE_CHARS = 300  # adjacent definitions share a chunk up to this size


def chunk(blocks: Iterable[Block], max_chars: int) -> list[ChunkDraft]:
    """Pack the blocks of a document into chunks of at most `max_chars` characters.

    A chunk may be a quarter longer to avoid a tiny last chunk. Atomic blocks may be longer still.
    """
    return list(iter_chunks(blocks, max_chars))


def iter_chunks(blocks: Iterable[Block], max_chars: int) -> Iterator[ChunkDraft]:
    """Yield the chunks that `chunk` returns, holding no more than a section in memory."""
    sections = _sections(_units(blocks, max_chars))
    page, passage = None, 0
    for section in _join_small_code(_join_bare_headings(sections)):
        for units in _pack(section, max_chars):
            draft = _chunk_draft(units)
            span = draft.spans[0]
            if span.page is not None:
                passage = passage + 1 if span.page == page else 1
                page = span.page
                if passage > 1:  # so that the passages of a page have different citations
                    draft = replace(draft, spans=(_number(span, passage), *draft.spans[1:]))
            yield draft


def _number(span: Span, passage: int) -> Span:
    return replace(span, extra={**span.extra, "passage": passage})


@dataclass(frozen=True, slots=True)
class _Unit:
    """A block or a part of one, which is not split further."""

    text: str
    span: Span
    path: tuple[str, ...]
    boundary: bool = False
    atomic: bool = False
    broken: bool = False  # a piece of a line, which is not joined with anything


Section = list[_Unit]


# --- blocks into units ----------------------------------------------------------------------------


def _bound_headings(blocks: Iterable[Block]) -> Iterator[Block]:
    """Shorten heading paths. The text of a shortened heading becomes a separate block, unless the
    block below it contains the heading."""
    shortened: set[str] = set()
    full: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    for block in blocks:
        if block.heading_path != full:
            full = block.heading_path
            path = bound_path(full)
        if path is full:
            yield block
            continue
        for heading in full:
            if len(heading) > HEADING_CHARS and heading not in shortened:
                shortened.add(heading)
                if heading not in block.text:
                    span = replace(block.span, end=block.span.start)
                    yield Block(" ".join(heading.split()), span, path, boundary=True)
        yield replace(block, heading_path=path)


def bound_path(path: tuple[str, ...]) -> tuple[str, ...]:
    """Cut long headings, and drop the outermost headings of a path that is still too long."""
    if sum(map(len, path)) <= HEADING_CHARS:
        return path
    kept: list[str] = []
    left_chars = PATH_CHARS
    for heading in reversed(path):
        short = heading[:HEADING_CHARS].rstrip()
        left_chars -= len(short)
        if left_chars < 0:
            break
        kept.append(short)
    bounded = tuple(reversed(kept))
    return path if bounded == path else bounded


def _units(blocks: Iterable[Block], max_chars: int) -> Iterator[_Unit]:
    for block in _bound_headings(blocks):
        atomic = block.atomic and len(block.text) <= HARD_LIMIT_CHARS
        if atomic or len(block.text) <= max_chars:
            if block.text.strip():
                yield _Unit(block.text, block.span, block.heading_path, block.boundary, atomic)
            continue
        boundary = block.boundary
        pieces = list(split_text(block.text, max_chars))
        for number, piece in enumerate(pieces, 1):
            span = _sub_span(block.span, piece.first, piece.last)
            # Without cited lines, the next unit may join the end of a long line.
            broken = piece.broken and not (span.start is None and number == len(pieces))
            yield _Unit(piece.text, span, block.heading_path, boundary, broken=broken)
            boundary = False


def _sub_span(span: Span, first: int, last: int) -> Span:
    """The part of `span` from line `first` to line `last`, counted from 0."""
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
    """Join a heading without text with its first subsection."""
    return _merge_adjacent(
        sections,
        _is_bare_heading,
        lambda above, section: (
            _is_below(section[-1].path, above[-1].path)
            and section[0].span.page == above[-1].span.page
        ),
    )


def _merge_adjacent(
    sections: Iterable[Section],
    is_open: Callable[[Section], bool],
    belong: Callable[[Section, Section], bool],
) -> Iterator[Section]:
    """Join adjacent sections while they belong together. Only an open section may grow: others are
    yielded at once, since a section may be megabytes long."""
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


def _is_below(path: tuple[str, ...], above: tuple[str, ...]) -> bool:
    return len(path) > len(above) and path[: len(above)] == above


def _join_small_code(sections: Iterable[Section]) -> Iterator[Section]:
    """Join short adjacent definitions, so that a file of one-liners does not become a hundred
    hits."""
    return _merge_adjacent(
        sections,
        _is_small_code,
        lambda one, other: _are_near(one, other) and _is_small_code(one + other),
    )


def _is_small_code(section: Section) -> bool:
    if sum(len(unit.text) for unit in section) > _SMALL_CODE_CHARS:
        return False
    return all(unit.span.kind == "code" for unit in section)


def _are_near(one: Section, other: Section) -> bool:
    """Whether both have the same parent, or one is the parent of the other."""
    here, there = one[0].path, other[0].path
    return here[:-1] == there[:-1] or here == there[:-1] or here[:-1] == there


# --- sections into chunks -------------------------------------------------------------------------


def _pack(section: Section, max_chars: int) -> list[Section]:
    """Split the section into runs of units, one for each chunk."""
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
    return _absorb_scrap(runs, max_chars)


def _fits(run: Section, unit: _Unit, grown: int, max_chars: int) -> bool:
    if run[-1].broken or unit.broken:
        return False
    if grown <= max_chars:
        return True
    # A heading is not separated from its text, even if that makes the chunk too long.
    return _is_bare_heading(run) and (unit.atomic or grown <= max_chars * _STRETCH)


def _absorb_scrap(runs: list[Section], max_chars: int) -> list[Section]:
    """Join the last run with the one before it if it is tiny."""
    if len(runs) < 2 or any(unit.broken for unit in (*runs[-2], *runs[-1])):
        return runs
    scrap = _join(runs[-1])
    if len(scrap) < _SMALL_CHARS:
        both = runs[-2] + runs[-1]
        if len(_join(both)) <= max_chars * _STRETCH:
            return [*runs[:-2], both]
    return runs


def _chunk_draft(units: Sequence[_Unit]) -> ChunkDraft:
    first = units[0].span
    if first.kind != "code":
        path = units[-1].path
        return ChunkDraft(_join(units), path, path[-1] if path else None, _spans(units, first))
    # Definitions that share a chunk are cited by their common path, if any.
    path = _common_prefix([unit.path for unit in units if unit.path])
    symbol = ".".join(path) or None
    return ChunkDraft(_join(units), path, symbol, _spans(units, replace(first, symbol=symbol)))


def _common_prefix(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The longest common prefix of the paths."""
    shared = zip(*paths, strict=False)
    return tuple(names[0] for names in takewhile(lambda names: len(set(names)) == 1, shared))


def _spans(units: Sequence[_Unit], named: Span) -> tuple[Span, ...]:
    """One span from the first line to the last, or all distinct spans if they have no lines."""
    first, last = units[0].span, units[-1].span
    if first.start is not None and last.end is not None and first.page is None:
        span = replace(named, start=first.start, end=last.end)
        place = _place(units)
        return (span if place is None else replace(span, extra={**span.extra, "place": place}),)
    spans: list[Span] = []
    for unit in units:
        if unit.span not in spans:
            spans.append(unit.span)
    return tuple(spans)


def _place(units: Sequence[_Unit]) -> str | None:
    """The range from the place of the first unit that is not a heading to that of the last unit.
    Only the first place if it is an anchor, a line of a file, or contains the last one."""
    places = [unit.span.place for unit in units if not unit.boundary and unit.span.place]
    if not places:
        return next((unit.span.place for unit in units if unit.span.place), None)
    contained = (place for place in places if place.startswith((f"{places[0]}:", f"{places[0]}#")))
    if places[-1].startswith((f"{places[0]}:", f"{places[0]}#", f"{places[0]},")):
        return next(contained, places[0])
    if places[0] == places[-1] or "#" in places[0] or ":" in places[0]:
        return places[0]
    sheet, _, cell = places[-1].rpartition("!")
    is_same_sheet = sheet and places[0].startswith(f"{sheet}!")
    return f"{places[0]} – {cell if is_same_sheet else places[-1]}"


def _join(units: Sequence[_Unit]) -> str:
    parts = [units[0].text]
    for before, unit in pairwise(units):
        parts += [_gap(before, unit), unit.text]
    return "".join(parts)


def _gap(before: _Unit, after: _Unit) -> str:
    """The line breaks between two units, as many as in the source."""
    if before.span.end is None or after.span.start is None or before.span.page is not None:
        return "\n\n"
    return "\n" * max(1, after.span.start - before.span.end)
