"""Judged data on disk, in the layout of BEIR; each file plain or gzipped.

    corpus.jsonl        {"_id": ..., "title": ..., "text": ...}     one document a line
    queries.jsonl       {"_id": ..., "text": ...}                   one query a line
    qrels/<split>.tsv   query-id <tab> corpus-id <tab> score        header optional

The door of evaluation: `load` reads queries and judgments for `runs`, `read_corpus` streams the
documents to whoever indexes them. Without a corpus the judgments are about a store the user has,
with document paths as ids. Whatever cannot be read is an EvalDataError that says where.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from kb.errors import EvalDataError
from kb.evaluation.metrics import Judgments
from kb.types import JsonDict

DEFAULT_SPLIT = "test"
MAX_GRADE = 1_000  # 2^grade - 1, the exponential gain, has to fit a float

_LAYOUT = "a data folder has queries.jsonl, qrels/<split>.tsv and, optionally, corpus.jsonl"
_QREL = "a line is: query id, tab, document id, tab, grade"
_HEADER_GRADES = ("score", "grade", "relevance", "rel", "label")
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Judged:
    """Queries and what is known to be relevant to them. Holds the judged queries only."""

    name: str
    split: str
    queries: Mapping[str, str]  # query id -> text
    qrels: Mapping[str, Judgments]  # query id -> document id -> grade
    corpus_path: Path | None = None


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """A document of a judged corpus."""

    doc_id: str
    title: str
    text: str


class _Line(NamedTuple):
    """A line and where it stands, for the error that may have to name it."""

    path: Path
    number: int
    text: str

    def error(self, what: str, hint: str) -> EvalDataError:
        return EvalDataError(f"{self.path}:{self.number}: {what}", hint)


def load(folder: str | Path, split: str = DEFAULT_SPLIT) -> Judged:
    """The queries and judgments of one split, and where its corpus is."""
    folder = Path(folder)
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise EvalDataError(f"{folder} {problem}", _LAYOUT)
    texts = _read_queries(_existing(folder, "queries.jsonl"))
    qrels = _read_qrels(_split_path(folder, split), texts)
    return Judged(
        name=folder.resolve().name,
        split=split,
        queries={query_id: texts[query_id] for query_id in qrels},
        qrels=qrels,
        corpus_path=_plain_or_gzipped(folder, "corpus.jsonl"),
    )


def read_corpus(path: Path) -> Iterator[CorpusDocument]:
    """The documents of a corpus file, one at a time. `title` may be missing."""
    for doc_id, line, record in _records(path):
        yield CorpusDocument(
            doc_id=doc_id,
            title=_string(line, record, "title") if record.get("title") is not None else "",
            text=_string(line, record, "text"),
        )


# --- files ----------------------------------------------------------------------------------------


def _plain_or_gzipped(folder: Path, name: str) -> Path | None:
    candidates = (folder / name, folder / f"{name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def _existing(folder: Path, name: str) -> Path:
    path = _plain_or_gzipped(folder, name)
    if path is None:
        raise EvalDataError(f"{folder} has no {name} or {name}.gz", _LAYOUT)
    return path


def _split_path(folder: Path, split: str) -> Path:
    """By comparison with the files there are, so that a split can only ever name one of them."""
    qrels = folder / "qrels"
    found = sorted(qrels.glob("*.tsv.gz")) + sorted(qrels.glob("*.tsv"))  # the plain one wins
    splits = {path.name.removesuffix(".gz").removesuffix(".tsv"): path for path in found}
    if not splits:
        raise EvalDataError(f"{folder} has no judgments: no qrels/*.tsv or qrels/*.tsv.gz", _LAYOUT)
    if split not in splits:
        raise EvalDataError(
            f"{qrels} has no split {split!r}", f"splits there: {', '.join(sorted(splits))}"
        )
    return splits[split]


def _open(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))  # it is one, but not declared as one
    return path.open("rb")


def _lines(path: Path) -> Iterator[_Line]:
    """The lines of a file that are not blank."""
    number = 0
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, start=1):
                # Decoded line by line: an error then has a line number.
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if text.strip():
                    yield _Line(path, number, text)
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


# --- JSON lines -----------------------------------------------------------------------------------


def _records(path: Path) -> Iterator[tuple[str, _Line, JsonDict]]:
    """The objects of a JSON Lines file with their `_id`, which is there and there only once."""
    first_lines: dict[str, int] = {}
    for line in _lines(path):
        record = _parse(line)
        doc_id = _id(line, record)
        first = first_lines.setdefault(doc_id, line.number)
        if first != line.number:
            raise line.error(
                f"_id {doc_id!r} was used on line {first} already",
                "give every line an id of its own",
            )
        yield doc_id, line, record


def _parse(line: _Line) -> JsonDict:
    hint = 'each line is one JSON object, such as {"_id": "1", "text": "..."}'
    try:
        record = json.loads(line.text)
    except (ValueError, RecursionError) as error:
        raise line.error(f"not JSON: {error}", hint) from error
    if not isinstance(record, dict):
        raise line.error("not a JSON object", hint)
    return record


def _id(line: _Line, record: JsonDict) -> str:
    """Numbers are taken as text, since judgments are text and name them alike."""
    value = record.get("_id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value:
        return value
    raise line.error("no _id", "each line needs an _id: a string that is not empty, or a number")


def _string(line: _Line, record: JsonDict, field: str) -> str:
    value = record.get(field)
    if isinstance(value, str):
        return value
    problem = "is not a string" if field in record else "is missing"
    raise line.error(f"{field} {problem}", f"each line needs its {field} as a string")


def _read_queries(path: Path) -> dict[str, str]:
    return {query_id: _string(line, record, "text") for query_id, line, record in _records(path)}


# --- judgments ------------------------------------------------------------------------------------


def _read_qrels(path: Path, texts: Mapping[str, str]) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for line in _lines(path):
        fields = [field.strip() for field in line.text.split("\t")]
        if line.number == 1 and fields[-1].lower() in _HEADER_GRADES:
            continue
        if len(fields) != 3 or not all(fields):
            raise line.error("not three fields", _QREL)
        query_id, doc_id, grade = fields[0], fields[1], _grade(line, fields[2])
        if query_id not in texts:
            raise line.error(f"unknown query {query_id!r}", "queries.jsonl has to have its text")
        # A repeated line does no harm; one that contradicts an earlier one cannot be decided here.
        if qrels.setdefault(query_id, {}).setdefault(doc_id, grade) != grade:
            raise line.error(f"a second grade for {doc_id!r} and this query", "keep one of the two")
    if not qrels:
        raise EvalDataError(f"{path}: no judgments", _QREL)
    return qrels


def _grade(line: _Line, text: str) -> int:
    if _INTEGER.fullmatch(text) and abs(int(text)) <= MAX_GRADE:
        return int(text)
    raise line.error(
        f"grade {text!r} cannot be used", f"a grade is a whole number, {MAX_GRADE} at most"
    )
