"""Judged data: queries, and which documents answer them how well; and the lines it is read from.

The bottom of the readers: `beir` reads folders into a `Judged`, `judged_csv` a file. Whatever
cannot be read is an EvalDataError that says where.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from kb.errors import EvalDataError
from kb.evaluation.metrics import Judgments

MAX_GRADE = 1_000  # 2^grade - 1, the exponential gain, has to fit a float

# A table that held an empty cell once writes its whole numbers as 1.0, or 1,0 in some countries.
_WHOLE = re.compile(r"([+-]?[0-9]{1,9})(?:[.,]0*)?")


@dataclass(frozen=True, slots=True)
class Judged:
    """Queries and what is known to be relevant to them. Holds the judged queries only."""

    name: str
    split: str
    queries: Mapping[str, str]  # query id -> text
    qrels: Mapping[str, Judgments]  # query id -> document id -> grade
    corpus_path: Path | None = None
    unjudged_queries: int = 0  # asked in the data, but judged in no split

    def document_ids(self) -> set[str]:
        """Every document that is named, whatever its grade."""
        return {doc_id for judgments in self.qrels.values() for doc_id in judgments}


@dataclass(frozen=True, slots=True)
class Caveats:
    """What is doubtful about judged data. None of it can make a figure better: what is not there
    counts as not found, and what was not judged counts as wrong."""

    unjudged_queries: int = 0  # left out: nothing is known about them
    unanswerable_queries: int = 0  # no judgment above 0, so that they count as 0 in every mean
    unknown_documents: tuple[str, ...] = ()  # judged, but not there to be found
    lost_queries: int = 0  # of which every relevant document is unknown


def caveats(judged: Judged, unknown: Set[str] = frozenset()) -> Caveats:
    """`unknown` are documents that are not there."""
    relevant = [
        {doc_id for doc_id, grade in judgments.items() if grade > 0}
        for judgments in judged.qrels.values()
    ]
    return Caveats(
        unjudged_queries=judged.unjudged_queries,
        unanswerable_queries=sum(not each for each in relevant),
        unknown_documents=tuple(sorted(unknown & judged.document_ids())),
        lost_queries=sum(bool(each) and each <= unknown for each in relevant),
    )


class Line(NamedTuple):
    """A line and where it stands, for the error that may have to name it."""

    path: Path
    number: int
    text: str

    def error(self, what: str, hint: str) -> EvalDataError:
        return EvalDataError(f"{self.path}:{self.number}: {what}", hint)


def open_plain_or_gzipped(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))  # it is one, but not declared as one
    return path.open("rb")


def lines(path: Path) -> Iterator[Line]:
    """The lines of a file that are not blank."""
    number = 0
    try:
        with open_plain_or_gzipped(path) as file:
            for number, raw in enumerate(file, start=1):
                # Decoded line by line: an error then has a line number.
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if text.strip():
                    yield Line(path, number, text)
    except UnicodeDecodeError as error:
        raise EvalDataError(f"{path}:{number}: not UTF-8 text", "save the file as UTF-8") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise EvalDataError(
            f"{path}: damaged gzip file after line {number}: {error}", "fetch the file again"
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
        raise line.error(
            f"grade {text!r} cannot be used", f"a grade is a whole number, {MAX_GRADE} at most"
        )
    return grade


def _grade(text: str) -> int | None:
    whole = _WHOLE.fullmatch(text)
    return int(whole[1]) if whole and abs(int(whole[1])) <= MAX_GRADE else None
