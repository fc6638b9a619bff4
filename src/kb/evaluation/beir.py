"""Reads collections in the layout of BEIR; each file is plain or gzipped.

    corpus.jsonl        {"_id": ..., "title": ..., "text": ...}     one document per line
    queries.jsonl       {"_id": ..., "text": ...}                   one query per line
    qrels/<split>.tsv   query-id <tab> corpus-id <tab> score        header optional

`load` reads queries and judgments for `runs`; `read_corpus` streams the documents to index. Without
a corpus, the judgments are about the user's store, and document paths are the ids. Data that cannot
be read raises `EvalDataError` with its location.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kb.errors import EvalDataError
from kb.evaluation.qrels import Collection, Line, lines, read_grade
from kb.types import JsonDict

DEFAULT_SPLIT = "test"

_LAYOUT = "a data folder has queries.jsonl, qrels/<split>.tsv and, optionally, corpus.jsonl"
_QREL = "a line is: query id, tab, document id, tab, grade"
_HEADER_GRADES = ("score", "grade", "relevance", "rel", "label")


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """A document of a corpus."""

    doc_id: str
    title: str
    text: str


def load(folder: str | Path, split: str = DEFAULT_SPLIT) -> Collection:
    """Load the queries and judgments of one split, and locate its corpus."""
    folder = Path(folder)
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise EvalDataError(f"{folder} {problem}", _LAYOUT)
    texts = _read_queries(_existing(folder, "queries.jsonl"))
    qrels = _read_qrels(_split_path(folder, split), texts)
    return Collection(
        name=folder.resolve().name,
        split=split,
        queries={query_id: texts[query_id] for query_id in qrels},
        qrels=qrels,
        corpus_path=_plain_or_gzipped(folder, "corpus.jsonl"),
        unjudged_queries=len(texts.keys() - _judged_anywhere(folder)),
    )


def read_corpus(path: Path) -> Iterator[CorpusDocument]:
    """Yield the documents of a corpus file. `title` may be missing."""
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


def splits(folder: Path) -> dict[str, Path]:
    """The files of judgments by split."""
    qrels = folder / "qrels"
    qrels_paths = sorted(qrels.glob("*.tsv.gz")) + sorted(qrels.glob("*.tsv"))  # the plain one wins
    return {path.name.removesuffix(".gz").removesuffix(".tsv"): path for path in qrels_paths}


def _judged_anywhere(folder: Path) -> set[str]:
    """The judged queries of all splits: only the others count as unjudged."""
    return {line.text.split("\t")[0].strip() for path in splits(folder).values()
            for line in lines(path)}  # fmt: skip


def _split_path(folder: Path, split: str) -> Path:
    """The file of a split. Only existing files are considered, so a name cannot be a path."""
    there = splits(folder)
    if not there:
        raise EvalDataError(f"{folder} has no judgments: no qrels/*.tsv or qrels/*.tsv.gz", _LAYOUT)
    if split not in there:
        raise EvalDataError(
            f"{folder / 'qrels'} has no split {split!r}",
            f"available splits: {', '.join(sorted(there))}",
        )
    return there[split]


# --- JSON lines -----------------------------------------------------------------------------------


def _records(path: Path) -> Iterator[tuple[str, Line, JsonDict]]:
    """Yield the objects of a JSON Lines file with their `_id`, which must be unique."""
    first_lines: dict[str, int] = {}
    for line in lines(path):
        record = _parse(line)
        doc_id = _id(line, record)
        first = first_lines.setdefault(doc_id, line.number)
        if first != line.number:
            raise line.error(
                f"_id {doc_id!r} is already used on line {first}", "give every line a unique id"
            )
        yield doc_id, line, record


def _parse(line: Line) -> JsonDict:
    hint = 'each line is one JSON object, such as {"_id": "1", "text": "..."}'
    try:
        record = json.loads(line.text)
    except (ValueError, RecursionError) as error:
        raise line.error(f"not JSON: {error}", hint) from error
    if not isinstance(record, dict):
        raise line.error("not a JSON object", hint)
    return record


def _id(line: Line, record: JsonDict) -> str:
    """The id as text. Numbers are accepted, because judgments write them the same way."""
    value = record.get("_id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value:
        return value
    raise line.error("no _id", "each line needs an _id: a string that is not empty, or a number")


def _string(line: Line, record: JsonDict, field: str) -> str:
    value = record.get(field)
    if isinstance(value, str):
        return value
    problem = "is not a string" if field in record else "is missing"
    raise line.error(f"{field} {problem}", f"give every line a string as its {field}")


def _read_queries(path: Path) -> dict[str, str]:
    return {query_id: _string(line, record, "text") for query_id, line, record in _records(path)}


# --- judgments ------------------------------------------------------------------------------------


def _read_qrels(path: Path, texts: Mapping[str, str]) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for line in lines(path):
        fields = [field.strip() for field in line.text.split("\t")]
        if line.number == 1 and fields[-1].lower() in _HEADER_GRADES:
            continue
        if len(fields) != 3 or not all(fields):
            raise line.error("the line does not have three fields", _QREL)
        query_id, doc_id, grade = fields[0], fields[1], read_grade(line, fields[2])
        if query_id not in texts:
            raise line.error(f"unknown query {query_id!r}", "add its text to queries.jsonl")
        # A repeated line does no harm, but contradicting lines cannot be resolved.
        if qrels.setdefault(query_id, {}).setdefault(doc_id, grade) != grade:
            raise line.error(f"a second grade for {doc_id!r} and this query", "keep one of the two")
    if not qrels:
        raise EvalDataError(f"{path}: no judgments", _QREL)
    return qrels
