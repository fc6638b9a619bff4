"""The sentences that answer a question."""

from __future__ import annotations

import pytest

from kb import KnowledgeBase, wire
from kb.errors import InvalidRequest
from tests.schemas import validate

GATEWAY = """# Gateway

The gateway was installed in March. It retries a failed
upload at most seven times. The mast stands on the north pier.

## How long does it wait?

The pause doubles after each attempt.

| slot | width |
|---|---|
| radio | 40 ms |
| sensor | 12 ms |

- the watchdog restarts it after ten minutes
"""


@pytest.fixture
def filled(kb: KnowledgeBase) -> KnowledgeBase:
    for number in range(12):  # so that words of the question are rare
        kb.add(f"Dinghy {number} is stored in the winter shed beside the crane.")
    kb.add(GATEWAY, title="Gateway")
    return kb


def test_the_answering_sentence_is_first(filled: KnowledgeBase) -> None:
    answer = filled.ask("How many times does the gateway retry a failed upload?")
    assert answer.answered
    assert answer.sentences[0].text == "It retries a failed upload at most seven times."
    assert [each.rank for each in answer.sentences] == [1, 2, 3][: len(answer.sentences)]
    validate(wire.answer(answer))


def test_a_sentence_is_cited_by_its_own_lines(filled: KnowledgeBase) -> None:
    (first, *_) = filled.ask("How many times does the gateway retry a failed upload?").sentences
    assert first.citation.uri.endswith("#L3-L4")
    opened = filled.get(first.citation.uri)
    assert opened.state == "exact"
    assert "at most seven times" in opened.text


def test_a_row_of_a_table_has_its_header(filled: KnowledgeBase) -> None:
    (first, *_) = filled.ask("how wide is the radio slot of the gateway").sentences
    assert first.text == "| slot | width |\n| radio | 40 ms |"
    assert filled.get(first.citation.uri).text == "| radio | 40 ms |"


def test_a_heading_that_asks_is_answered_by_the_sentence_below(filled: KnowledgeBase) -> None:
    found = filled.ask("How long does the gateway wait?", sentences=10).sentences
    assert not any(each.text.startswith("#") for each in found)
    assert found[0].text == "The pause doubles after each attempt."


def test_nothing_answers(filled: KnowledgeBase) -> None:
    answer = filled.ask("Which emperor introduced paper money in the eleventh century?")
    assert not answer.answered
    assert answer.sentences == ()
    validate(wire.answer(answer))


@pytest.mark.parametrize("question", ["", "?", "'", "the of and", "\ud800"])
def test_a_question_without_words_has_no_answer(filled: KnowledgeBase, question: str) -> None:
    assert not filled.ask(question).answered


def test_an_empty_store_has_no_answer(kb: KnowledgeBase) -> None:
    kb.create()
    answer = kb.ask("anything")
    assert (answer.answered, answer.closest) == (False, ())


def test_the_same_sentence_is_quoted_once(filled: KnowledgeBase) -> None:
    filled.add("Copied: something else. It retries a failed upload at most seven times.")
    found = filled.ask("how often does the gateway retry a failed upload", sentences=10).sentences
    texts = [each.text for each in found]
    assert texts.count("It retries a failed upload at most seven times.") == 1


def test_the_number_of_sentences(filled: KnowledgeBase) -> None:
    question = "gateway retries failed upload"
    assert len(filled.ask(question, sentences=1).sentences) == 1
    for wrong in (0, -1, 21):
        with pytest.raises(InvalidRequest):
            filled.ask(question, sentences=wrong)


def test_filters(filled: KnowledgeBase) -> None:
    from kb import Filters

    answer = filled.ask("how many times is a failed upload retried", filters=Filters(tags=("x",)))
    assert not answer.answered


def test_a_list_item_has_no_marker(filled: KnowledgeBase) -> None:
    (first, *_) = filled.ask("after how many minutes does the watchdog restart it").sentences
    assert first.text == "the watchdog restarts it after ten minutes"
    assert filled.get(first.citation.uri).text == f"- {first.text}"
