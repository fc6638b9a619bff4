"""Reading the BEIR layout, and error messages about it."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from kb.errors import EvalDataError
from kb.evaluation.beir import CorpusDocument, load, read_corpus

QUERIES = (
    '{"_id": "q1", "text": "copper"}\n{"_id": "q2", "text": "鲸"}\n{"_id": "q3", "text": "x"}\n'
)
QRELS = "query-id\tcorpus-id\tscore\nq2\tlib/a b.md\t2\nq1\td1\t1\nq1\td2\t0\nq1\td3\t-1\n"
CORPUS = '{"_id": "d1", "title": "One", "text": "first"}\n{"_id": 2, "text": "second"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "reef"
    (data / "qrels").mkdir(parents=True)
    write(data / "queries.jsonl", QUERIES)
    write(data / "qrels" / "test.tsv", QRELS)
    write(data / "corpus.jsonl", CORPUS)
    return data


def write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))


def error_of(folder: Path, split: str = "test") -> EvalDataError:
    with pytest.raises(EvalDataError) as caught:
        load(folder, split)
    assert caught.value.hint
    return caught.value


def corpus_error_of(path: Path) -> EvalDataError:
    with pytest.raises(EvalDataError) as caught:
        list(read_corpus(path))
    assert caught.value.hint
    return caught.value


# --- reading --------------------------------------------------------------------------------------


def test_a_split(folder: Path) -> None:
    judged = load(folder)
    assert (judged.name, judged.split) == ("reef", "test")
    assert judged.queries == {"q2": "鲸", "q1": "copper"}
    assert judged.qrels == {"q2": {"lib/a b.md": 2}, "q1": {"d1": 1, "d2": 0, "d3": -1}}
    assert judged.corpus_path == folder / "corpus.jsonl"
    assert judged.unjudged_queries == 1


def test_a_query_of_another_split_is_not_unjudged(folder: Path) -> None:
    write(folder / "qrels" / "dev.tsv", "q3\td1\t1\n")
    assert load(folder).unjudged_queries == 0
    assert load(folder, "dev").document_ids() == {"d1"}


def test_a_corpus(folder: Path) -> None:
    assert list(read_corpus(folder / "corpus.jsonl")) == [
        CorpusDocument("d1", "One", "first"),
        CorpusDocument("2", "", "second"),
    ]


def test_gzipped_is_the_same(folder: Path) -> None:
    plain, documents = load(folder), list(read_corpus(folder / "corpus.jsonl"))
    for path in [*folder.glob("*.jsonl"), *folder.glob("qrels/*.tsv")]:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    zipped = load(folder)
    assert zipped.corpus_path == folder / "corpus.jsonl.gz"
    assert (zipped.queries, zipped.qrels) == (plain.queries, plain.qrels)
    assert list(read_corpus(zipped.corpus_path)) == documents


def test_a_corpus_may_be_absent(folder: Path) -> None:
    (folder / "corpus.jsonl").unlink()
    assert load(folder).corpus_path is None


def test_a_corpus_is_streamed(folder: Path) -> None:
    """The first document is returned although a later line is broken: the file is not read
    ahead."""
    write(folder / "corpus.jsonl", CORPUS + "broken\n")
    documents: Iterator[CorpusDocument] = read_corpus(folder / "corpus.jsonl")
    assert [document.doc_id for document in islice(documents, 2)] == ["d1", "2"]
    with pytest.raises(EvalDataError, match=r"corpus\.jsonl:3: not JSON"):
        next(documents)


def test_a_name_comes_from_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert load(".").name == "reef"


@pytest.mark.parametrize(
    "text",
    [
        "q1\td1\t1\n",
        "query-id\tcorpus-id\tscore\r\nq1\td1\t1\r\n",
        "\ufeffquery-id\tcorpus-id\tscore\nq1\td1\t1",
        "\nq1\td1\t+1\n\n",
        "q1\td1\t1\nq1\td1\t1\n",
    ],
    ids=["no header", "CRLF", "byte order mark", "blank lines", "said twice"],
)
def test_the_same_judgment_in_another_form(folder: Path, text: str) -> None:
    write(folder / "qrels" / "test.tsv", text)
    assert load(folder).qrels == {"q1": {"d1": 1}}


# --- rejected input -------------------------------------------------------------------------------


def test_missing_folder(tmp_path: Path) -> None:
    assert error_of(tmp_path / "none").message == f"{tmp_path / 'none'} does not exist"


def test_a_file_instead_of_a_folder(folder: Path) -> None:
    assert "is not a folder" in error_of(folder / "queries.jsonl").message


def test_missing_queries(folder: Path) -> None:
    (folder / "queries.jsonl").unlink()
    assert "no queries.jsonl or queries.jsonl.gz" in error_of(folder).message


def test_missing_judgments(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").unlink()
    assert "no judgments" in error_of(folder).message
    (folder / "qrels").rmdir()
    assert "no judgments" in error_of(folder).message


@pytest.mark.parametrize("split", ["train", "../qrels/test", ""])
def test_an_unknown_split_lists_the_known(folder: Path, split: str) -> None:
    (folder / "qrels" / "dev.tsv.gz").write_bytes(gzip.compress(QRELS.encode()))
    error = error_of(folder, split)
    assert f"no split {split!r}" in error.message
    assert error.hint == "available splits: dev, test"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"_id": "q9", "text": ', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('["q9", "text"]', "not a JSON object"),
        ('{"text": "no id"}', "no _id"),
        ('{"_id": "", "text": "empty id"}', "no _id"),
        ('{"_id": true, "text": "odd id"}', "no _id"),
        ('{"_id": "q9"}', "text is missing"),
        ('{"_id": "q9", "text": null}', "text is not a string"),
        ('{"_id": "q1", "text": "again"}', "_id 'q1' is already used on line 1"),
    ],
)
def test_a_bad_query_line(folder: Path, line: str, problem: str) -> None:
    write(folder / "queries.jsonl", QUERIES + "\n" + line + "\n")
    assert error_of(folder).message.startswith(f"{folder / 'queries.jsonl'}:5: {problem}")


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"_id": "d1", "text": "again"}, "_id 'd1' is already used on line 1"),
        ({"_id": "2", "text": "again"}, "_id '2' is already used on line 2"),
        ({"_id": "d3", "title": "no text"}, "text is missing"),
        ({"_id": "d3", "title": 3, "text": ""}, "title is not a string"),
    ],
)
def test_a_bad_corpus_line(folder: Path, record: dict[str, object], problem: str) -> None:
    path = folder / "corpus.jsonl"
    write(path, CORPUS + json.dumps(record))
    assert corpus_error_of(path).message == f"{path}:3: {problem}"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("q1\td9\tgood", "invalid grade 'good'"),
        ("q1\td9\t1.5", "invalid grade '1.5'"),
        ("q1\td9\t1_0", "invalid grade '1_0'"),
        ("q1\td9\t1001", "invalid grade '1001'"),
        ("q1\td9", "the line does not have three fields"),
        ("q1 0 d9 1", "the line does not have three fields"),
        ("q1\t\t1", "the line does not have three fields"),
        ("q1\td1\t2", "a second grade for 'd1' and this query"),
        ("q7\td1\t2", "unknown query 'q7'"),
    ],
)
def test_a_bad_judgment(folder: Path, line: str, problem: str) -> None:
    path = folder / "qrels" / "test.tsv"
    write(path, QRELS + line + "\n")
    assert error_of(folder).message == f"{path}:6: {problem}"


def test_a_bad_grade_on_the_first_line_is_not_a_header(folder: Path) -> None:
    write(folder / "qrels" / "test.tsv", "q1\td1\thigh\n")
    assert ":1: invalid grade 'high'" in error_of(folder).message


def test_no_judgments_in_the_file(folder: Path) -> None:
    write(folder / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore\n")
    assert error_of(folder).message.endswith("test.tsv: no judgments")


def test_not_utf8(folder: Path) -> None:
    path = folder / "corpus.jsonl"
    path.write_bytes(CORPUS.encode() + b'{"_id": "d3", "text": "caf\xe9"}\n')
    assert corpus_error_of(path).message == f"{path}:3: not UTF-8 text"


@pytest.mark.parametrize("damage", ["cut off", "not gzip", "bits turned"])
def test_damaged_gzip(folder: Path, damage: str) -> None:
    whole = gzip.compress(CORPUS.encode())
    path = folder / "corpus.jsonl.gz"
    path.write_bytes(
        {
            "cut off": whole[:-12],
            "not gzip": CORPUS.encode(),
            "bits turned": whole[:10] + b"\xff" * 20 + whole[30:],
        }[damage]
    )
    assert "damaged gzip file" in corpus_error_of(path).message


def test_a_folder_in_the_place_of_a_file(folder: Path) -> None:
    (folder / "qrels" / "dev.tsv").mkdir()
    assert "cannot be read" in error_of(folder, "dev").message


def test_a_gzipped_line_without_an_end(folder: Path) -> None:
    """It would take all memory."""
    path = folder / "corpus.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * (1 << 26), 1))
    assert "longer than 16,777,216 bytes" in corpus_error_of(path).message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe(folder: Path) -> None:
    path = folder / "corpus.jsonl"
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert "a named pipe" in corpus_error_of(path).message
