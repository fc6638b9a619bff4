"""Tables as text: CSV and TSV by row, JSON Lines by line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from kb.ingest import file_names
from kb.ingest.decode import decode
from kb.ingest.parser_support.extract import one_line
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parser_support.sections import line_block
from kb.ports import Parsed, Source
from kb.types import Block

_SEPARATED = frozenset({".csv", ".tab", ".tsv"})
_LINES = frozenset({".jsonl", ".ndjson"})
_DELIMITERS = ",;\t|"
_SAMPLE_ROWS = 20
_CELL_LINES = 200  # a cell with more lines is a quotation mark that nobody closed
_LABEL_CHARS = 300
_NUMBER = re.compile(r"[-+]?[.,]*\d[\d.,]*+(?:[eE][-+]?\d+)?%?|\d{4}-\d{2}-\d{2}.*")
_SEP_LINE = re.compile(r"sep=(.)", re.IGNORECASE)  # how some spreadsheets say it


class TableParser(FormatParser):
    name = "table"
    version = "1"

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) in _SEPARATED | _LINES

    def parse(self, source: Source) -> Parsed:
        lines = decode(source.data).split("\n")
        separated = file_names.suffix_of(source.name) in _SEPARATED
        blocks = _separated(lines) if separated else _by_line(lines)
        return Parsed(type="table", blocks=list(blocks), title=file_names.title_of(source.name))


def _by_line(lines: Sequence[str]) -> Iterator[Block]:
    for number, line in enumerate(lines):
        if line and (block := line_block(lines, number, number + 1)) is not None:
            yield block


def _separated(lines: Sequence[str]) -> Iterator[Block]:
    """Each row a block, under the names of the columns."""
    delimiter, label = _delimiter(lines), None
    for start, end in _rows(lines, delimiter):
        if label is None and not _SEP_LINE.fullmatch(lines[start]):
            label = _label(lines, start, delimiter)
        path = (label,) if label else ()
        if (block := line_block(lines, start, end, heading_path=path)) is not None:
            yield block


# --- rows -----------------------------------------------------------------------------------------


def _rows(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, int]]:
    """The lines of each row: more than one where a quoted cell has several."""
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
    """Behind the line on which no quoted cell is open any more; the next line if there is none."""
    is_open = False
    for number in range(at, min(at + _CELL_LINES, len(lines))):
        is_open = _is_open_after(lines[number], opens, is_open)
        if not is_open:
            return number + 1
    return at + 1


def _is_open_after(line: str, opens: re.Pattern[str], is_open: bool) -> bool:
    """Whether a quoted cell goes on behind the end of `line`. `""` in it stands for a quote."""
    at = 0
    while True:
        if not is_open:
            found = opens.search(line, at)
            if found is None:
                return False
            at, is_open = found.end(), True
        closing = line.find('"', at)
        while closing >= 0 and line.startswith('""', closing):
            closing = line.find('"', closing + 2)
        if closing < 0:
            return True
        at, is_open = closing + 1, False


# --- columns --------------------------------------------------------------------------------------


def _delimiter(lines: Sequence[str]) -> str:
    """The character that parts most rows into the same number of cells, and into the most."""
    if lines and (said := _SEP_LINE.fullmatch(lines[0])):
        return said[1]
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
    except (csv.Error, ValueError):  # a cell without end, or parted by what cannot part cells
        return []


def _label(lines: Sequence[str], start: int, delimiter: str) -> str:
    """The names of the columns, if the first row has names; nothing if it looks like the others."""
    first = next((row for row in _rows(lines[start : start + _CELL_LINES], delimiter)), (0, 1))
    cells = [one_line(cell) for cell in _cells(lines, start, start + first[1], delimiter)]
    named = [cell for cell in cells if cell]
    is_header = (
        len(named) * 2 > len(cells)
        and len(set(named)) == len(named)
        and not any(_NUMBER.fullmatch(cell) for cell in named)
        and any(lines[start + first[1] :])
    )
    return ", ".join(named)[:_LABEL_CHARS] if is_header else ""
