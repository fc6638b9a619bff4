"""Reads judgments about a store from one CSV file: query, document, grade.

    query,document,grade
    how long does a battery last,library/guides/firmware-power-budget.md,3

A header is optional, and may name the columns in another order. A query is its own id;
`document_lookup` explains how documents are named. Commas, semicolons and tabs are accepted as
separators.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from kb.errors import EvalDataError
from kb.evaluation.qrels import Collection, Line, is_grade, lines, read_grade
from kb.text.normalize import nfc

COLUMNS = ("query", "document", "grade")
_NAMES = {
    "query": {"query", "question", "text", "query text"},
    "document": {"document", "doc", "path", "doc_path", "document id", "corpus-id"},
    "grade": {"grade", "score", "relevance", "rel", "label"},
}
_HINT = "a row is: query, document, grade; such as: dedupe key,library/a.md,2"
_SEPARATORS = (",", ";", "\t")


def load_csv(path: str | Path) -> Collection:
    """The queries and judgments of a CSV file, about the documents of a store."""
    path = Path(path)
    if not path.is_file():
        problem = "is not a file" if path.exists() else "does not exist"
        raise EvalDataError(f"{path} {problem}", "give a CSV file with query, document and grade")
    qrels: dict[str, dict[str, int]] = {}
    for row, (query, document, grade) in _rows(path):
        graded = read_grade(row, grade)
        if qrels.setdefault(query, {}).setdefault(document, graded) != graded:
            raise row.error(f"a second grade for {document!r} and this query", "keep one of them")
    if not qrels:
        raise EvalDataError(f"{path}: no judgments", _HINT)
    return Collection(
        name=path.stem, split="all", queries={query: query for query in qrels}, qrels=qrels
    )


def _rows(path: Path) -> Iterator[tuple[Line, tuple[str, str, str]]]:
    """Yield each row's line and its three values in the order of COLUMNS."""
    read = lines(path)
    line = next(read, None)
    if line is None:
        return
    separator = _separator(line.text)

    def texts(first: Line) -> Iterator[str]:
        nonlocal line
        for line in chain([first], read):
            yield line.text + "\n"

    order, is_first = (0, 1, 2), True
    try:
        for fields in csv.reader(texts(line), delimiter=separator, strict=True):
            cells = [nfc(field).strip() for field in fields]
            named = _header_columns(cells) if is_first else None
            is_first = False
            if named is not None:
                order = named
                continue
            if len(cells) <= max(order) or not all(cells[at] for at in order):
                raise line.error("query, document or grade is missing", _HINT)
            yield line, (cells[order[0]], cells[order[1]], cells[order[2]])
    except csv.Error as error:
        raise line.error(str(error), _HINT) from error


def _separator(line: str) -> str:
    """The separator that makes the first line a header or a judgment; else the most frequent one. A
    question may contain more commas than there are columns."""

    def looks_right(separator: str) -> bool:
        try:
            [fields] = csv.reader([line], delimiter=separator, strict=True)
        except csv.Error:
            return False
        cells = [field.strip() for field in fields]
        return _header_columns(cells) is not None or (
            len(cells) == len(COLUMNS) and is_grade(cells[-1])
        )

    fitting = [separator for separator in _SEPARATORS if looks_right(separator)]
    return max(fitting or _SEPARATORS, key=line.count)


def _header_columns(cells: list[str]) -> tuple[int, int, int] | None:
    """The positions of the columns if this is a header."""
    lowered = [cell.lower() for cell in cells]
    query, document, grade = (
        next((at for at, cell in enumerate(lowered) if cell in _NAMES[column]), None)
        for column in COLUMNS
    )
    if query is None or document is None or grade is None:
        return None
    return query, document, grade
