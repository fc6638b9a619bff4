"""Queries with relevance judgments, and helpers to read them from files.

`beir` reads folders and `qrels_csv` reads CSV files into a `Collection`. Errors are `EvalDataError`
with the file and line.
"""

from __future__ import annotations

import gzip
import re
import stat
import zlib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from kb.errors import EvalDataError
from kb.evaluation.metrics import Judgments

MAX_LINE_BYTES = 1 << 24  # a gzipped file may hold any number of zeros
MAX_GRADE = 1_000  # 2^grade - 1, the exponential gain, has to fit a float

# Spreadsheets may write integers as 1.0, or 1,0 in some locales.
_WHOLE = re.compile(r"([+-]?[0-9]{1,9})(?:[.,]0*)?")


@dataclass(frozen=True, slots=True)
class Collection:
    """A test collection: the judged queries and their relevant documents."""

    name: str
    split: str
    queries: Mapping[str, str]  # query id -> text
    qrels: Mapping[str, Judgments]  # query id -> document id -> grade
    corpus_path: Path | None = None
    unjudged_queries: int = 0  # without judgments in any split

    def document_ids(self) -> set[str]:
        """Every judged document, whatever its grade."""
        return {doc_id for judgments in self.qrels.values() for doc_id in judgments}


@dataclass(frozen=True, slots=True)
class Caveats:
    """Weaknesses of a collection. They can only lower the results: a missing document counts as not
    found, and an unjudged one as irrelevant."""

    unjudged_queries: int = 0  # left out
    unanswerable_queries: int = 0  # no grade above 0; they count as 0 in every mean
    unknown_documents: tuple[str, ...] = ()  # judged, but missing from the store
    lost_queries: int = 0  # whose relevant documents are all unknown


def caveats(collection: Collection, unknown: Set[str] = frozenset()) -> Caveats:
    """The weaknesses of `collection`; the documents `unknown` are missing from the store."""
    relevant = [
        {doc_id for doc_id, grade in judgments.items() if grade > 0}
        for judgments in collection.qrels.values()
    ]
    return Caveats(
        unjudged_queries=collection.unjudged_queries,
        unanswerable_queries=sum(not each for each in relevant),
        unknown_documents=tuple(sorted(unknown & collection.document_ids())),
        lost_queries=sum(bool(each) and each <= unknown for each in relevant),
    )


class Line(NamedTuple):
    """A line of a file with its position, for error messages."""

    path: Path
    number: int
    text: str

    def error(self, what: str, hint: str) -> EvalDataError:
        return EvalDataError(f"{self.path}:{self.number}: {what}", hint)


def open_plain_or_gzipped(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))  # its declared return type is too narrow
    return path.open("rb")


def lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a file that are not blank."""
    number = 0
    try:
        if stat.S_ISFIFO(path.stat().st_mode):  # opening it would wait for its writer
            raise EvalDataError(f"{path}: a named pipe", "give a regular file")
        with open_plain_or_gzipped(path) as file:
            for number, raw in enumerate(iter(partial(file.readline, MAX_LINE_BYTES), b""), 1):
                if len(raw) == MAX_LINE_BYTES:
                    raise EvalDataError(
                        f"{path}:{number}: longer than {MAX_LINE_BYTES:,} bytes", "split the line"
                    )
                # Decode each line by itself, so that an error has a line number.
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if text.strip():
                    yield Line(path, number, text)
    except UnicodeDecodeError as error:
        raise EvalDataError(f"{path}:{number}: not UTF-8 text", "save the file as UTF-8") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise EvalDataError(
            f"{path}: damaged gzip file after line {number}: {error}", "download the file again"
        ) from error
    except OSError as error:
        raise EvalDataError(
            f"{path}: cannot be read: {error.strerror or error}", "check the file's permissions"
        ) from error


def is_grade(text: str) -> bool:
    return _grade(text) is not None


def read_grade(line: Line, text: str) -> int:
    grade = _grade(text)
    if grade is None:
        raise line.error(f"invalid grade {text!r}", f"use an integer of at most {MAX_GRADE}")
    return grade


def _grade(text: str) -> int | None:
    whole = _WHOLE.fullmatch(text)
    return int(whole[1]) if whole and abs(int(whole[1])) <= MAX_GRADE else None
