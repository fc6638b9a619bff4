"""`kb ask`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb import KnowledgeBase
from tests.chat_endpoint import Endpoint, endpoint
from tests.cli.conftest import Run
from tests.schemas import validate

__all__ = ["endpoint"]  # a fixture


@pytest.mark.usefixtures("here")
def test_sentences_with_citations(run: Run) -> None:
    result = run("ask", "what", "is", "a", "retry", "storm")
    assert result.status == 0
    assert result.lines[0].startswith("1.  ")
    assert any(line.strip().startswith("library/") and "#L" in line for line in result.lines)


@pytest.mark.usefixtures("here")
def test_nothing_answers(run: Run) -> None:
    result = run("ask", "which emperor introduced paper money")
    assert result.out == "no document answers this question\n"
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
    assert result.out == "no document answers this question\n"
    assert "kb ingest" in result.err


@pytest.mark.usefixtures("here")
def test_a_wrong_number_is_an_error(run: Run) -> None:
    assert run("ask", "x", "-n", "0").status == 2


# --- with a language model ------------------------------------------------------------------------


@pytest.fixture
def written(
    endpoint: Endpoint,
    here: Path,  # the store to search
    monkeypatch: pytest.MonkeyPatch,
) -> Endpoint:
    monkeypatch.setenv("KB_ASK_ENDPOINT_URL", endpoint.url)
    monkeypatch.setenv("KB_ASK_ENDPOINT_MODEL", "tiny")
    return endpoint


def test_a_written_answer_has_its_citations(run: Run, written: Endpoint) -> None:
    written.say("A retry storm is many retries at once. [1]", " It is \x1b[31mred. [99]")
    result = run("ask", "what is a retry storm")
    assert result.lines[0] == "A retry storm is many retries at once. [1]"
    assert "! cites a passage that does not exist" in result.out
    assert "[1] library/" in result.out
    assert "\x1b" not in result.out


def test_what_was_sent_is_shown(run: Run, written: Endpoint) -> None:
    written.say("Yes. [1]")
    result = run("ask", "--sent", "what is a retry storm")
    assert "--- sent: system ---" in result.err
    assert "Question: what is a retry storm" in result.err


def test_quoting_sends_nothing(run: Run, written: Endpoint) -> None:
    assert run("ask", "--quote", "what is a retry storm").lines[0].startswith("1.  ")
    assert written.requests == []


def test_written_json(run: Run, written: Endpoint) -> None:
    written.say("A retry storm is many retries at once. [1]")
    result = run("ask", "--json", "what is a retry storm")
    validate(result.json)
    assert [each["state"] for each in result.json["written"]] == ["unchecked"]


def test_further_questions(run: Run, written: Endpoint) -> None:
    written.say("Yes. [1]")
    result = run("ask", "-i", "what is a retry storm", stdin=b"and a retry budget\n\n")
    assert result.out.count("Yes. [1]") == 2
    assert len(written.requests[1]["messages"]) == 4


def test_an_empty_answer_is_an_error(run: Run, written: Endpoint) -> None:
    """The documents may answer the question."""
    written.say()
    result = run("ask", "what is a retry storm")
    assert (result.status, result.out) == (2, "")
    assert "is empty" in result.err


def test_a_failure_is_an_error(run: Run, written: Endpoint) -> None:
    written.status = 500
    result = run("ask", "what is a retry storm")
    assert result.status != 0
    assert "refused the request: HTTP 500" in result.err


def test_a_folder_cannot_name_an_endpoint(run: Run, here: Path, endpoint: Endpoint) -> None:
    settings = f'[ask]\nendpoint_url = "{endpoint.url}"\nendpoint_model = "m"\n'
    (here / ".kb" / "config.toml").write_text(settings)
    result = run("ask", "what is a retry storm")
    assert result.lines[0].startswith("1.  ")
    assert "ask.endpoint_url" in result.err
    assert endpoint.requests == []
