"""A comparison as text: a column per method, or a block per method on a narrow terminal; then a
legend of the letters, and the number of hits that each pair of methods shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from kb.cli.output import Console, display_width, escape, truncate
from kb.degradation import Cause, degradation_message, group_by_cause
from kb.types import Compared, Comparison, Hit

_GAP = 2
_MIN_COLUMN = 20  # narrower columns are replaced by blocks
_UNIQUE = "·"  # instead of a letter, for a hit of only one method

Letters = Mapping[int, str]  # the letter of each shared hit, by chunk id


def comparison_text(comparison: Comparison, console: Console, width: int | None) -> str:
    """Return the whole comparison. `width` is None if lines must not be wrapped."""
    letters = shared_letters(comparison)
    columns = 0 if width is None else (width - _RANK_COLUMNS) // len(comparison.methods) - _GAP
    if columns >= _MIN_COLUMN:
        hits = _table(comparison, console, letters, columns)
    else:
        hits = _blocks(comparison, console, letters)
    parts = [
        hits,
        _legend(comparison, console, letters, width),
        _overlap(comparison, console),
        _timing(comparison),
    ]
    return "\n\n".join(part for part in parts if part)


def problem_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a line for each problem, with the methods that it affects."""
    parts = group_by_cause(
        part for method in comparison.methods.values() for part in method.degraded
    )
    affected: dict[Cause, list[str]] = {}
    for name, method in comparison.methods.items():
        for cause in _causes(method):
            affected.setdefault(cause, []).append(name)
    for cause, names in affected.items():
        text = degradation_message(parts[cause], *cause) if cause in parts else cause[1]
        yield f"{', '.join(names)}: {text}"


def _causes(method: Compared) -> Iterator[Cause]:
    """Yield the causes of a method's failure and degradation, which may be the same."""
    if method.error is not None:
        yield method.error["code"], method.error["message"]
    yield from group_by_cause(method.degraded)


# --- letters --------------------------------------------------------------------------------------


def shared_letters(comparison: Comparison) -> dict[int, str]:
    """Assign letters to the hits that several methods return, in reading order."""
    rows = zip_longest(*(method.hits for method in comparison.methods.values()))
    ids = dict.fromkeys(hit.chunk_id for row in rows for hit in row if hit is not None)
    shared = [chunk_id for chunk_id in ids if comparison.sharing(chunk_id) > 1]
    return {chunk_id: _letter(number) for number, chunk_id in enumerate(shared)}


def _letter(number: int) -> str:
    """Return A to Z, then AA, AB and so on."""
    first, last = divmod(number, 26)
    return (_letter(first - 1) if first else "") + chr(ord("A") + last)


def _style(comparison: Comparison, hit: Hit) -> dict[str, Any]:
    """Style a hit by whether one, some or all successful methods return it."""
    successful = sum(method.error is None for method in comparison.methods.values())
    methods = comparison.sharing(hit.chunk_id)
    if methods == 1:
        return {"dim": True}
    return {"fg": "green", "bold": True} if methods == successful else {"fg": "yellow"}


# --- columns --------------------------------------------------------------------------------------

_RANK_COLUMNS = 3


def _table(comparison: Comparison, console: Console, letters: Letters, columns: int) -> str:
    methods = list(comparison.methods.values())
    lines = [
        _row("", [console.style(_pad(name, columns), bold=True) for name in comparison.methods]),
        _row("", [console.style(_pad(_summary(each), columns), dim=True) for each in methods]),
    ]
    hits = zip_longest(*(each.hits for each in methods))
    for rank, row in enumerate(hits, start=1):
        lines.append(
            _row(str(rank), [_cell(comparison, hit, console, letters, columns) for hit in row])
        )
    return "\n".join(lines)


def _row(rank: str, cells: Sequence[str]) -> str:
    return (rank.ljust(_RANK_COLUMNS) + (" " * _GAP).join(cells)).rstrip()


def _cell(
    comparison: Comparison, hit: Hit | None, console: Console, letters: Letters, columns: int
) -> str:
    if hit is None:
        return " " * columns
    letter = letters.get(hit.chunk_id, _UNIQUE)
    text = f"{letter:2}{_short_uri(hit.citation.uri, columns - max(2, len(letter)))}"
    return console.style(_pad(text, columns), **_style(comparison, hit))


def _short_uri(uri: str, columns: int) -> str:
    """Return the file name and the lines, with a long name shortened."""
    name, hash_, fragment = escape(uri.rsplit("/", 1)[-1]).partition("#")
    return truncate(name, max(2, columns - display_width(fragment) - len(hash_))) + hash_ + fragment


def _pad(text: str, columns: int) -> str:
    text = truncate(text, columns)
    return text + " " * (columns - display_width(text))


def _summary(method: Compared) -> str:
    if method.error is not None:
        return f"error: {method.error['code'].replace('_', ' ')}"
    hits = "1 hit" if len(method.hits) == 1 else f"{len(method.hits)} hits"
    return f"{hits}, {method.latency_ms:.1f} ms"


# --- blocks ---------------------------------------------------------------------------------------


def _blocks(comparison: Comparison, console: Console, letters: Letters) -> str:
    return "\n\n".join(_block(comparison, name, console, letters) for name in comparison.methods)


def _block(comparison: Comparison, name: str, console: Console, letters: Letters) -> str:
    method = comparison.methods[name]
    lines = [f"{console.style(name, bold=True)}  {console.style(_summary(method), dim=True)}"]
    letter_width = max((len(letter) for letter in letters.values()), default=1)
    for hit in method.hits:
        letter = letters.get(hit.chunk_id, _UNIQUE)
        uri = escape(hit.citation.uri)
        shown = uri if console.width is None else _keep_end(uri, console.width - letter_width - 6)
        rank = f"{hit.rank}.".ljust(4)
        lines.append(
            f"{rank}{console.style(f'{letter:{letter_width}}  {shown}', **_style(comparison, hit))}"
        )
    return "\n".join(lines)


def _keep_end(uri: str, columns: int) -> str:
    if display_width(uri) <= columns:
        return uri
    while uri and display_width(uri) >= columns:
        uri = uri[1:]
    return f"…{uri}"


# --- legend ---------------------------------------------------------------------------------------


def _legend(comparison: Comparison, console: Console, letters: Letters, width: int | None) -> str:
    """List the hits that the letters stand for."""
    hits = {hit.chunk_id: hit for each in comparison.methods.values() for hit in each.hits}
    lines = [console.style("Shared hits", bold=True)] if letters else []
    for chunk_id, letter in letters.items():
        hit = hits[chunk_id]
        methods = comparison.sharing(chunk_id)
        title = escape(hit.title)
        line = f"{letter:3}{methods} methods  {escape(hit.citation.uri)}  {title}"
        lines.append(line if width is None else truncate(line, width))
    return "\n".join(lines)


def _overlap(comparison: Comparison, console: Console) -> str:
    """Count the shared hits of each pair: a triangle, since the table is symmetric."""
    names = list(dict.fromkeys(name for pair in comparison.overlap
                               for name in (pair.first, pair.second)))  # fmt: skip
    if not names:
        return ""
    shared = {(pair.first, pair.second): pair.shared for pair in comparison.overlap}
    name_width = max(map(len, names)) + _GAP
    heads = [_COLUMN_HEADS.get(name, name) for name in names[:-1]]
    lines = [console.style("Hits in common", bold=True),
             " " * name_width + "".join(f"{head:>8}" for head in heads)]  # fmt: skip
    for row, name in enumerate(names[1:], start=1):
        counts = "".join(f"{shared[other, name]:8}" for other in names[:row])
        lines.append(f"{name:{name_width}}{counts}")
    return "\n".join(lines)


_COLUMN_HEADS = {
    "fts5_only": "fts5",
    "dense_only": "dense",
    "sparse_only": "sparse",
    "two_way_hybrid": "2-way",
    "three_way_hybrid": "3-way",
    "three_way_reranked": "reranked",
}


def _timing(comparison: Comparison) -> str:
    shared = f"{comparison.shared_ms:.0f} ms of it shared by all methods"
    return f"{comparison.wall_ms:.0f} ms in total, {shared}"
