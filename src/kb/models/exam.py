"""The exam: tests whether an encoder works before its vectors are used in searches.

A model may be untrained, damaged or made for another language, and an endpoint may serve a model
other than the configured one. The results are then noise. Comparing dense and sparse results does
not reveal this, because both come from the same model. A few questions do: a good model ranks the
right answer above all other answers and decoys; a bad one prefers decoys, which share more words
with the question.
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
_LARGEST = 3.4e38  # the largest float32
_HINT = "see: kb models verify; to skip the exam, set models.exam = false"
_Terms = Mapping[Any, float]  # by term or by dimension
_log = logger("kb.embed")

EXAMINED = frozenset({"dense", "sparse"})  # token vectors only rerank what these find


def examine(encoder: Encoder) -> tuple[ExamMark, ...]:
    """Run the exam for dense and sparse vectors, in the scripts that the encoder declares, or in
    all scripts if it declares none. Raises `ModelError` if the model fails altogether."""
    declared = {script.upper() for script in encoder.spec.scripts}
    parts = EXAMINED & encoder.spec.gives
    return tuple(
        mark
        for script, questions in QUESTIONS.items()
        if parts and (not declared or script in declared)
        for mark in _examine_script(encoder, script, questions, parts)
    )


def _examine_script(
    encoder: Encoder, script: str, questions: Sequence[Question], parts: frozenset[str]
) -> list[ExamMark]:
    texts = [one.answer for one in questions] + [one.decoy for one in questions]
    passages = _encode_all(encoder, texts, parts, as_query=False)
    queries = _encode_all(encoder, [one.text for one in questions], parts, as_query=True)
    return [
        ExamMark(
            part, script, _count_correct(encoder.spec, queries, passages, part), len(questions)
        )
        for part in sorted(parts)
    ]


def _count_correct(
    spec: ModelSpec, queries: Sequence[Encoding], passages: Sequence[Encoding], part: str
) -> int:
    """For how many questions the right answer, which has the same index, scores highest."""
    texts = [_terms(spec, passage, part) for passage in passages]
    correct = 0
    for index, query in enumerate(queries):
        terms = _terms(spec, query, part)
        scores = [_similarity(terms, text) for text in texts]
        own = scores.pop(index)
        correct += own > max(scores)
    return correct


def _similarity(query: _Terms, passage: _Terms) -> float:
    return fsum(weight * passage.get(term, 0.0) for term, weight in query.items())


# --- third-party encoders -------------------------------------------------------------------------


def _encode_all(
    encoder: Encoder, texts: list[str], want: frozenset[str], *, as_query: bool
) -> list[Encoding]:
    """Encode all texts; if that fails, each alone, with an empty encoding for those that fail.
    Raises `ModelError` if the model fails altogether: an unreachable server is not a failed
    exam."""
    try:
        return _encode(encoder, texts, want, as_query=as_query)
    except ModelError:
        _encode(encoder, [PROBE], _DENSE, as_query=as_query)
    encodings = []
    for text in texts:
        try:
            encodings += _encode(encoder, [text], want, as_query=as_query)
        except ModelError as error:
            _encode(encoder, [PROBE], _DENSE, as_query=as_query)
            _log.warning("%s cannot encode %r: %s", encoder.spec.name, text, error.message)
            encodings.append(Encoding())
    return encodings


def _encode(
    encoder: Encoder, texts: list[str], want: frozenset[str], *, as_query: bool
) -> list[Encoding]:
    try:
        encodings = list(encoder.encode(texts, as_query=as_query, want=want))
    except KbError:
        raise
    # A third-party encoder may raise anything: it means that the model failed.
    except Exception as error:
        name, reason = encoder.spec.name, f"{type(error).__name__}: {error}"
        raise ModelError(f"{name} failed during kb's exam: {reason}", _HINT) from error
    if len(encodings) != len(texts):
        count = f"{len(encodings)} encodings for {len(texts)} texts"
        raise ModelBroken(f"{encoder.spec.name} returned {count}", _HINT)
    return encodings


def _terms(spec: ModelSpec, encoding: Encoding, part: str) -> _Terms:
    """The weights by term, or the normalized vector by dimension, as they would be stored; empty if
    they could not be."""
    try:
        if part == "sparse":
            return {term: _finite(weight) for term, weight in (encoding.sparse or {}).items()}
        numbers = [_finite(one) for one in (() if encoding.dense is None else encoding.dense)]
        return dict(enumerate(normalize(numbers))) if len(numbers) == spec.dimension else {}
    except (AttributeError, TypeError, ValueError, OverflowError):
        return {}


def _finite(number: float) -> float:
    value = float(number)
    if abs(value) < _LARGEST:  # false for a NaN
        return value
    raise ValueError(number)
