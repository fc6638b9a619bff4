"""The questions about documentation, without the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.questions import QUESTIONS, Answer, Question, main, rank, read_questions

from kb import KnowledgeBase


def test_there_are_fifty_questions() -> None:
    questions = read_questions(QUESTIONS)
    assert len(questions) == len({each.query for each in questions}) == 50
    assert all(each.answers for each in questions)


def test_an_answer_is_a_file_and_a_phrase() -> None:
    answer = Answer("git/git-stash.html", "Stash the changes")
    assert answer.fits("trees/git/git-stash.html", "git-stash -\n  stash THE changes away")
    assert not answer.fits("trees/git/git.html", "Stash the changes")
    assert not answer.fits("trees/git/git-stash.html", "Part of the suite")


def test_the_rank_of_the_first_right_passage(tmp_path: Path) -> None:
    folder = tmp_path / "trees"
    folder.mkdir()
    (folder / "a.md").write_text("# Boats\n\nBoats lie in the harbour.\n", encoding="utf-8")
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        kb.ingest(folder)
        assert rank(kb, Question("boats", (Answer("a.md", "harbour"),)), "lexical") == 1
        assert rank(kb, Question("boats", (Answer("b.md", "harbour"),)), "lexical") is None


def test_without_the_documentation_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KB_TREES", raising=False)
    assert main() == 0
    assert "set KB_TREES" in capsys.readouterr().out
