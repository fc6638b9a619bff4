"""The exam: whether an encoder knows what a text is about, before its word counts in a search.

Vectors come from anywhere: a model that was never trained, one whose weights are damaged, one made
for another language, an endpoint that serves another model than it says. What they find is noise,
and where a model gives dense and sparse vectors the two bear each other out, so that no agreement
between lists gives it away. A few questions do: a model that reads finds the answer among all
answers and decoys, and one that does not falls for decoys, which have more words in common with
the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

from kb.errors import KbError, ModelBroken, ModelError
from kb.index.normalize import normalize
from kb.logs import logger
from kb.models.exam_questions import QUESTIONS, Question
from kb.ports import Encoder
from kb.types import Encoding, ExamMark, ModelSpec

PROBE = "a text that every model can take"
_DENSE = frozenset({"dense"})
_LARGEST = 3.4e38  # what numbers are stored as has no larger one
_MEND = "see: kb models verify; models.exam = false holds no exam"
_Terms = Mapping[Any, float]  # by term or by dimension
_log = logger("kb.embed")

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
    passages = _encoded(encoder, texts, parts, as_query=False)
    asked = _encoded(encoder, [one.asked for one in questions], parts, as_query=True)
    return [
        ExamMark(part, script, _known(encoder.spec, asked, passages, part), len(questions))
        for part in sorted(parts)
    ]


def _known(
    spec: ModelSpec, asked: Sequence[Encoding], passages: Sequence[Encoding], part: str
) -> int:
    """To how many questions the answer, which stands at the same place, is the nearest of all."""
    queries, texts = ([_terms(spec, one, part) for one in each] for each in (asked, passages))
    known = 0
    for number, query in enumerate(queries):
        scores = [_likeness(query, text) for text in texts]
        own = scores.pop(number)
        known += own > max(scores)
    return known


def _likeness(query: _Terms, passage: _Terms) -> float:
    return fsum(weight * passage.get(term, 0.0) for term, weight in query.items())


# --- encoders that may be code of others ----------------------------------------------------------


def _encoded(
    encoder: Encoder, texts: list[str], want: frozenset[str], *, as_query: bool
) -> list[Encoding]:
    """One encoding a text, empty where there is none to be had: each text is tried alone, where
    they fail together. Raises `ModelError` where the model gives nothing for any text: a server
    that went away has not failed an exam."""
    try:
        return _asked(encoder, texts, want, as_query=as_query)
    except ModelError:
        _asked(encoder, [PROBE], _DENSE, as_query=as_query)
    found = []
    for text in texts:
        try:
            found += _asked(encoder, [text], want, as_query=as_query)
        except ModelError as error:
            _asked(encoder, [PROBE], _DENSE, as_query=as_query)
            _log.warning("%s has no answer to %r: %s", encoder.spec.name, text, error.message)
            found.append(Encoding())
    return found


def _asked(
    encoder: Encoder, texts: list[str], want: frozenset[str], *, as_query: bool
) -> list[Encoding]:
    try:
        found = list(encoder.encode(texts, as_query=as_query, want=want))
    except KbError:
        raise
    # What an encoder of others raises is told as what it is: a model that failed.
    except Exception as error:
        name, why = encoder.spec.name, f"{type(error).__name__}: {error}"
        raise ModelError(f"{name} failed in kb's exam: {why}", _MEND) from error
    if len(found) != len(texts):
        count = f"{len(found)} encodings of {len(texts)} texts"
        raise ModelBroken(f"{encoder.spec.name} gave {count}", _MEND)
    return found


def _terms(spec: ModelSpec, encoding: Encoding, part: str) -> _Terms:
    """What a part says of each term, or of each dimension at length 1, as it will be stored; none
    where it could not be."""
    try:
        if part == "sparse":
            return {term: _finite(weight) for term, weight in (encoding.sparse or {}).items()}
        numbers = [_finite(one) for one in (() if encoding.dense is None else encoding.dense)]
        return dict(enumerate(normalize(numbers))) if len(numbers) == spec.dimension else {}
    except (AttributeError, TypeError, ValueError, OverflowError):
        return {}


def _finite(number: float) -> float:
    found = float(number)
    if abs(found) < _LARGEST:  # which a NaN is not
        return found
    raise ValueError(number)
