"""The exam: whether an encoder knows what a text is about, before its word counts in a search.

Vectors come from anywhere: a model that was never trained, one whose weights are damaged, one made
for another language, an endpoint that serves another model than it says. What they find is noise,
and where a model gives dense and sparse vectors the two bear each other out, so that no agreement
between lists gives it away. A few questions do: a model that reads finds the answer among all
answers and decoys, and one that does not falls for decoys, which have more words in common with
the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from kb.models.exam_questions import QUESTIONS, Question
from kb.ports import Encoder
from kb.types import Encoding, ExamMark

EXAMINED = frozenset({"dense", "sparse"})  # token vectors are asked for what these have found


def examine(encoder: Encoder) -> tuple[ExamMark, ...]:
    """The marks of every part that the encoder gives, in the scripts that it says it reads, or in
    all where it does not say."""
    said = {script.upper() for script in encoder.spec.scripts}
    parts = EXAMINED & encoder.spec.gives
    return tuple(
        mark
        for script, questions in QUESTIONS.items()
        if parts and (not said or script in said)
        for mark in _marks(encoder, script, questions, parts)
    )


def _marks(
    encoder: Encoder, script: str, questions: Sequence[Question], parts: frozenset[str]
) -> list[ExamMark]:
    texts = [one.answer for one in questions] + [one.decoy for one in questions]
    passages = encoder.encode(texts, want=parts)
    asked = encoder.encode([one.asked for one in questions], as_query=True, want=parts)
    return [
        ExamMark(part, script, _known(asked, passages, part), len(asked)) for part in sorted(parts)
    ]


def _known(asked: Sequence[Encoding], passages: Sequence[Encoding], part: str) -> int:
    """To how many questions the answer, which stands at the same place, is the nearest of all."""
    known = 0
    for number, query in enumerate(asked):
        scores = [_likeness(query, passage, part) for passage in passages]
        own = scores.pop(number)
        known += own > max(scores)
    return known


def _likeness(query: Encoding, passage: Encoding, part: str) -> float:
    if part == "sparse":
        weights = passage.sparse or {}
        terms = (query.sparse or {}).items()
        return fsum(weight * weights.get(term, 0.0) for term, weight in terms)
    if query.dense is None or passage.dense is None:
        return 0.0
    return fsum(one * other for one, other in zip(query.dense, passage.dense, strict=True))
