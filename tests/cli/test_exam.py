"""Messages about a model that fails the exam."""

from __future__ import annotations

import pytest

from kb.cli.models import _exam_results, _is_unfit
from kb.degradation import GUESSES, degradation_message
from kb.types import ExamMark, ModelInfo


def test_a_search_reports_a_failed_exam_on_one_line() -> None:
    detail = "weightless failed kb's exam: 0 of 12 correct in English"
    parts = ["dense", "sparse"]
    assert degradation_message(parts, "unfit", detail) == f"dense and sparse not used: {detail}"
    used = detail + GUESSES
    assert degradation_message(["dense"], "unfit", used) == f"dense: {used}"


@pytest.mark.parametrize(
    ("known", "unfit"), [((12, 0), False), ((5, 0), False), ((4, 3), True), ((0, 0), True)]
)
def test_verify_shows_the_exam_results(known: tuple[int, int], unfit: bool) -> None:
    marks = (ExamMark("dense", "LATIN", known[0], 12), ExamMark("dense", "CJK", known[1], 8))
    model = ModelInfo("some", marks=marks)
    assert _is_unfit(model) is unfit
    results = f"dense: {known[0]} of 12 correct in English, {known[1]} of 8 correct in Chinese"
    assert _exam_results(model) == f" ({results})"


def test_without_an_exam_nothing_is_shown() -> None:
    for marks in (None, ()):
        assert not _is_unfit(ModelInfo("some", marks=marks))
        assert _exam_results(ModelInfo("some", marks=marks)) == ""
