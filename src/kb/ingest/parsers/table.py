"""Tables in text files: CSV and TSV by row, JSON Lines by line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from kb.ingest import file_names
from kb.ingest.decode import decode
from kb.ingest.escapes import unescape
from kb.ingest.parser_support.extract import one_line
from kb.ingest.parser_support.format_parser import SMALL_BYTES, FormatParser
from kb.ingest.parser_support.sections import line_block
from kb.ports import Parsed, Source
from kb.types import Block

_SEPARATED = frozenset({".csv", ".tab", ".tsv"})
_LINES = frozenset({".jsonl", ".ndjson"})
_DELIMITERS = ",;\t|"
_SAMPLE_ROWS = 20
_CELL_LINES = 200  # a cell with more lines has an unclosed quote
_LABEL_CHARS = 300
_NUMBER = re.compile(r"[-+]?[.,]*\d[\d.,]*+(?:[eE][-+]?\d+)?%?|\d{4}-\d{2}-\d{2}.*")
_SEP_LINE = re.compile(r"sep=(.)", re.IGNORECASE)  # how some spreadsheets declare the delimiter


class TableParser(FormatParser):
    name = "table"
    version = "2"
    max_local_bytes = SMALL_BYTES

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) in _SEPARATED | _LINES

    def parse(self, source: Source) -> Parsed:
        text = decode(source.data)
        if file_names.suffix_of(source.name) in _SEPARATED:
            lines = text.split("\n")
            blocks = list(self._pack_rows(lines, _rows_with_label(lines)))
            return Parsed(type="table", blocks=blocks, title=file_names.title_of(source.name))
        decoded = unescape(source.name, text)
        lines = decoded.split("\n")
        rows = ((number, number + 1, "") for number, line in enumerate(lines) if line)
        return Parsed(
            type="table",
            blocks=list(self._pack_rows(lines, rows)),
            title=file_names.title_of(source.name),
            text=None if decoded is text else decoded,
        )

    def _pack_rows(
        self, lines: Sequence[str], rows: Iterable[tuple[int, int, str]]
    ) -> Iterator[Block]:
        """Pack rows into blocks of the chunk size: one block per row would take gigabytes for
        millions of rows."""
        first = last = chars = 0
        above: str | None = None
        for start, end, label in rows:
            added = sum(len(lines[number]) + 1 for number in range(last, end))
            if above is not None and (label != above or chars + added > self._max_chars + 1):
                yield from _block(lines, first, last, above)
                above = None
            if above is None:
                first, chars = start, 0
                added = sum(len(lines[number]) + 1 for number in range(start, end))
            last, chars, above = end, chars + added, label
        if above is not None:
            yield from _block(lines, first, last, above)


def _block(lines: Sequence[str], start: int, end: int, label: str) -> Iterator[Block]:
    block = line_block(lines, start, end, heading_path=(label,) if label else ())
    if block is not None:
        yield block


def _rows_with_label(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the line range of each row, with the column names."""
    delimiter, label = _delimiter(lines), None
    for start, end in _rows(lines, delimiter):
        if label is None and not _SEP_LINE.fullmatch(lines[start]):
            label = _label(lines, start, delimiter)
        yield start, end, label or ""


# --- rows -----------------------------------------------------------------------------------------


def _rows(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, int]]:
    """Yield the line range of each row: several lines if a quoted cell has line breaks."""
    opens = re.compile(rf'(?:^|{re.escape(delimiter)})[ ]*"')
    at = 0
    while at < len(lines):
        if not lines[at]:
            at += 1
            continue
        end = _row_end(lines, at, opens) if '"' in lines[at] else at + 1
        yield at, end
        at = end


def _row_end(lines: Sequence[str], at: int, opens: re.Pattern[str]) -> int:
    """The end of the row: after the line that closes its quoted cells, or after its first line."""
    is_open = False
    for number in range(at, min(at + _CELL_LINES, len(lines))):
        is_open = _is_open_after(lines[number], opens, is_open)
        if not is_open:
            return number + 1
    return at + 1


def _is_open_after(line: str, opens: re.Pattern[str], is_open: bool) -> bool:
    """Whether a quoted cell continues after `line`. Inside a cell, `""` stands for a quote."""
    at = 0
    while True:
        if not is_open:
            match = opens.search(line, at)
            if match is None:
                return False
            at, is_open = match.end(), True
        closing = line.find('"', at)
        while closing >= 0 and line.startswith('""', closing):
            closing = line.find('"', closing + 2)
        if closing < 0:
            return True
        at, is_open = closing + 1, False


# --- columns --------------------------------------------------------------------------------------


def _delimiter(lines: Sequence[str]) -> str:
    """The delimiter that splits most rows into the same number of cells, preferably many."""
    if lines and (match := _SEP_LINE.fullmatch(lines[0])):
        return match[1]
    best, best_score = ",", (0.0, 0)
    for delimiter in _DELIMITERS:
        rows = islice(_rows(lines, delimiter), _SAMPLE_ROWS)
        counts = [len(_cells(lines, start, end, delimiter)) for start, end in rows]
        usual = max(set(counts), key=counts.count, default=1)
        share = counts.count(usual) / len(counts) if counts else 0.0
        if usual > 1 and (share, usual) > best_score:
            best, best_score = delimiter, (share, usual)
    return best


def _cells(lines: Sequence[str], start: int, end: int, delimiter: str) -> list[str]:
    try:
        return next(csv.reader(["\n".join(lines[start:end])], delimiter=delimiter), [])
    except (csv.Error, ValueError):  # an unclosed cell, or an invalid delimiter
        return []


def _label(lines: Sequence[str], start: int, delimiter: str) -> str:
    """The column names, if the first row looks like a header; otherwise an empty string."""
    first = next((row for row in _rows(lines[start : start + _CELL_LINES], delimiter)), (0, 1))
    cells = [one_line(cell) for cell in _cells(lines, start, start + first[1], delimiter)]
    names = [cell for cell in cells if cell]
    is_header = (
        len(names) * 2 > len(cells)
        and len(set(names)) == len(names)
        and not any(_NUMBER.fullmatch(cell) for cell in names)
        and any(islice(lines, start + first[1], None))
    )
    return ", ".join(names)[:_LABEL_CHARS] if is_header else ""
