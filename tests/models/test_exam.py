"""The exam: models that can read pass it; word counters, random and constant vectors do not."""

from __future__ import annotations

import random
import re
from array import array
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import Any

import pytest

from kb import models
from kb.config import Config
from kb.errors import ModelError
from kb.models.exam import examine
from kb.models.exam_questions import QUESTIONS
from kb.types import Encoding, ExamMark, ModelSpec
from tests.models.weightless import Weightless

SCRIPTS = tuple(QUESTIONS)


class Made:
    """A `ports.Encoder` whose vectors a function returns."""

    def __init__(self, dense: Callable[[str], Sequence[float]], *scripts: str) -> None:
        width = len(dense("of any text"))
        self.spec = ModelSpec("made", "1", width, frozenset({"dense"}), scripts=scripts)
        self._dense = dense

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        return [Encoding(dense=array("f", self._dense(text))) for text in texts]


def knowing(text: str) -> list[float]:
    """Vectors that are near for texts that belong together, and for no others."""
    pairs = [one for questions in QUESTIONS.values() for one in questions]
    return [float(text in (one.text, one.answer)) for one in pairs]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_model_that_knows_every_answer_has_full_marks(script: str) -> None:
    count = len(QUESTIONS[script])
    assert ExamMark("dense", script, count, count) in examine(Made(knowing))


def test_the_bundled_encoder_passes() -> None:
    encoder = models.encoder(Config(), "kb-mini")
    assert encoder is not None
    marks = {(mark.part, mark.script): mark for mark in examine(encoder)}
    assert {script for _, script in marks} == set(SCRIPTS)
    assert all(marks["dense", script].passed for script in SCRIPTS)
    assert marks["dense", "LATIN"].known == marks["dense", "LATIN"].asked
    assert marks["sparse", "LATIN"].passed


@pytest.mark.parametrize("dimension", [64, 384, 4096])
def test_a_word_counter_fails(dimension: int) -> None:
    marks = examine(Weightless(dimension))
    assert {(mark.part, mark.script) for mark in marks} == {
        (part, script) for part in ("dense", "sparse") for script in SCRIPTS
    }
    assert not any(mark.passed for mark in marks)


def test_a_letter_counter_fails() -> None:
    """Also in scripts without spaces, where there are no words to count."""
    letters = sorted({char for each in QUESTIONS.values() for one in each for char in "".join(one)})

    def counted(text: str) -> list[float]:
        counts = [float(text.count(letter)) for letter in letters]
        length = sum(count * count for count in counts) ** 0.5 or 1.0
        return [count / length for count in counts]

    marks = examine(Made(counted))
    assert [mark.script for mark in marks] == list(SCRIPTS)
    assert not any(mark.passed for mark in marks)


@pytest.mark.parametrize("seed", range(20))
def test_random_vectors_fail(seed: int) -> None:
    chance = random.Random(seed)
    guesses = examine(Made(lambda _text: [chance.gauss(0, 1) for _ in range(8)]))
    assert not any(mark.passed for mark in guesses)


def test_constant_vectors_fail() -> None:
    assert {mark.known for mark in examine(Made(lambda _text: [1.0, 0.0]))} == {0}


def test_lengths_of_vectors_do_not_count() -> None:
    """They are normalized before they are stored."""
    longer = Made(lambda text: [number * len(text) ** 2 for number in knowing(text)])
    assert all(mark.known == mark.asked for mark in examine(longer) if mark.script == "LATIN")


class Odd(Made):
    """An encoder that returns something else for these `texts` of the exam."""

    def __init__(self, odd: Callable[[], object], texts: Set[str]) -> None:
        super().__init__(knowing, "Latin")
        self._odd, self._texts = odd, texts

    def encode(self, texts: Sequence[str], **options: Any) -> list[Encoding]:
        made = super().encode(texts, **options)
        for at, text in enumerate(texts):
            if text in self._texts:
                given: Any = self._odd()
                made[at] = Encoding(dense=given)
        return made


def fail() -> object:
    raise ZeroDivisionError("of this text")


@pytest.mark.parametrize(
    "odd",
    [
        fail,
        lambda: None,
        lambda: [1.0],
        lambda: [float("nan")] * 36,
        lambda: [1e300, -1e300] * 18,
        lambda: ["x"] * 36,
        lambda: 7,
    ],
)
def test_an_invalid_vector_is_a_wrong_answer(odd: Callable[[], object]) -> None:
    """An encoder may be third-party code, and may fail on the exam's texts."""
    assert len(knowing("")) == 36
    count = len(QUESTIONS["LATIN"])
    for texts in ({QUESTIONS["LATIN"][0].text}, {QUESTIONS["LATIN"][0].answer}):
        assert examine(Odd(odd, texts)) == (ExamMark("dense", "LATIN", count - 1, count),)


def test_an_unreachable_model_has_not_failed() -> None:
    class Gone(Made):
        def encode(self, texts: Sequence[str], **options: Any) -> list[Encoding]:
            if options.get("as_query"):
                raise ConnectionError("nobody there")
            return super().encode(texts, **options)

    with pytest.raises(ModelError, match="made failed during kb's exam: ConnectionError: nobody"):
        examine(Gone(knowing))


def test_after_too_few_vectors_texts_are_encoded_one_by_one() -> None:
    class Few(Made):
        def encode(self, texts: Sequence[str], **options: Any) -> list[Encoding]:
            return super().encode(texts, **options)[: max(1, len(texts) - 1)]

    assert all(mark.known == mark.asked for mark in examine(Few(knowing)))


def test_questions_are_in_the_scripts_that_a_model_reads() -> None:
    assert {mark.script for mark in examine(Made(knowing, "Latin", "Hangul"))} == {
        "LATIN",
        "HANGUL",
    }
    assert examine(Made(knowing, "Cyrillic")) == ()


def test_a_model_without_vectors_for_search_takes_no_exam() -> None:
    encoder = Weightless()
    encoder.spec = replace(encoder.spec, gives=frozenset({"tokens"}))
    assert examine(encoder) == ()


def test_decoys_have_more_words_of_the_question_than_answers() -> None:
    for one in QUESTIONS["LATIN"]:
        asked, answer, decoy = (set(re.findall(r"\w+", text.lower())) for text in one)
        assert len(asked & decoy) > len(asked & answer), one.text
        assert asked & answer, one.text  # so that term weights can find it too


def test_no_text_is_encoded_twice() -> None:
    texts = [text for questions in QUESTIONS.values() for one in questions for text in one]
    assert len(texts) == len(set(texts))
