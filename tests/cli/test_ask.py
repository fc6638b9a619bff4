"""`kb ask`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb import KnowledgeBase
from tests.cli.conftest import Run
from tests.schemas import validate


@pytest.mark.usefixtures("here")
def test_sentences_with_citations(run: Run) -> None:
    result = run("ask", "what", "is", "a", "retry", "storm")
    assert result.status == 0
    assert result.lines[0].startswith("1.  ")
    assert any(line.strip().startswith("library/") and "#L" in line for line in result.lines)


@pytest.mark.usefixtures("here")
def test_nothing_answers(run: Run) -> None:
    result = run("ask", "which emperor introduced paper money")
    assert result.out == "nothing here answers that\n"
    assert result.status == 0


@pytest.mark.usefixtures("here")
def test_json(run: Run) -> None:
    result = run("ask", "what is a retry storm", "--json", "-n", "2")
    validate(result.json)
    assert result.json["answered"]
    assert len(result.json["sentences"]) == 2


def test_an_empty_store_says_how_to_fill_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KnowledgeBase(tmp_path / "new.sqlite") as kb:
        kb.create()
    monkeypatch.chdir(tmp_path)
    result = run("--store", tmp_path / "new.sqlite", "ask", "anything")
    assert result.out == "nothing here answers that\n"
    assert "kb ingest" in result.err


@pytest.mark.usefixtures("here")
def test_a_wrong_number_is_an_error(run: Run) -> None:
    assert run("ask", "x", "-n", "0").status == 2
