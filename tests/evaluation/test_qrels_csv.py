"""Judgments from a CSV file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb.errors import EvalDataError
from kb.evaluation.qrels import caveats
from kb.evaluation.qrels_csv import load_csv

READ = {
    "how long does a battery last": {"lib/a.md": 3, "lib/b.md": 0},
    "dedupe, key": {"lib/c d.md": 1},
}


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8"))
    return path


@pytest.mark.parametrize(
    "text",
    [
        "how long does a battery last,lib/a.md,3\nhow long does a battery last,lib/b.md,0\n"
        '"dedupe, key",lib/c d.md,1\n',
        "\ufeffquery,document,grade\r\nhow long does a battery last,lib/a.md,3\r\n"
        'how long does a battery last,lib/b.md,0\r\n"dedupe, key",lib/c d.md,1\r\n',
        "Grade;Path;Query\n3;lib/a.md;how long does a battery last\n\n"
        "0; lib/b.md ;how long does a battery last\n1;lib/c d.md;dedupe, key\n",
        '"dedupe, key";"lib/c d.md";1.0\r\nhow long does a battery last;lib/a.md;3,0\r\n'
        "how long does a battery last;lib/b.md;-0.00\r\n",
        "how long does a battery last\tlib/a.md\t3\nhow long does a battery last\tlib/b.md\t0\n"
        "dedupe, key\tlib/c d.md\t1",
    ],
    ids=["plain", "header", "semicolons", "no header", "tabs"],
)
def test_valid_files(tmp_path: Path, text: str) -> None:
    judged = load_csv(write(tmp_path / "mine.csv", text))
    assert judged.qrels == READ
    assert judged.queries == {query: query for query in READ}
    assert (judged.name, judged.corpus_path) == ("mine", None)


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("is it a, b, or c;lib/a.md;1", "is it a, b, or c"),
        ("a; b; c,lib/a.md,1", "a; b; c"),
        ('"a, b; c";lib/a.md;1', "a, b; c"),
        ("a, b;c\tlib/a.md\t1", "a, b;c"),
    ],
)
def test_the_separator_gives_three_columns(tmp_path: Path, line: str, query: str) -> None:
    """The most frequent separator is not always the right one: a question may contain commas."""
    judged = load_csv(write(tmp_path / "mine.csv", line))
    assert judged.qrels == {query: {"lib/a.md": 1}}


def test_paths_are_compared_as_the_store_writes_them(tmp_path: Path) -> None:
    judged = load_csv(write(tmp_path / "mine.csv", "caf\u0065\u0301,lib/re\u0301sume\u0301.md,1"))
    assert judged.qrels == {"café": {"lib/résumé.md": 1}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no judgments"),
        ("query,document,grade\n", "no judgments"),
        ("a,b\n", "mine.csv:1: query, document or grade is missing"),
        ("a,b,1\n\nc,,1\n", "mine.csv:3: query, document or grade is missing"),
        ("a,b,good\n", "mine.csv:1: invalid grade 'good'"),
        ("a,b,1\na,b,2\n", "mine.csv:2: a second grade"),
        ('a,"b,1\n', "mine.csv:1"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(EvalDataError, match=problem) as caught:
        load_csv(write(tmp_path / "mine.csv", text))
    assert caught.value.hint


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(EvalDataError, match="does not exist"):
        load_csv(tmp_path / "none.csv")
    with pytest.raises(EvalDataError, match="is not a file"):
        load_csv(tmp_path)


def test_caveats(tmp_path: Path) -> None:
    text = "a,d1,1\na,gone,2\nb,gone,1\nb,d1,0\nc,d1,0\n"
    judged = load_csv(write(tmp_path / "mine.csv", text))
    found = caveats(judged, {"gone", "never judged"})
    assert found.unknown_documents == ("gone",)
    assert found.lost_queries == 1
    assert found.unanswerable_queries == 1
    assert found.unjudged_queries == 0
