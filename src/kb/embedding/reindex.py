"""Switches to another model without interrupting searches: new vectors are built beside the old
ones, one write makes searches use them, and the old ones are dropped last.

A run can be stopped or killed at any moment, and the next one continues. Documents that are added
in the meantime are embedded with both models, and the switch waits for their new vectors. Workers
may share the work; the process that writes the last vectors makes the switch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace
from itertools import chain, repeat

from kb.embedding.embedder import Embedder, OnEmbedded
from kb.errors import ModelUnfit
from kb.models.exam import examine
from kb.ports import Encoder, Store
from kb.types import EmbedReport, ExamMark, ModelSpec, StoredModel

GRACE_S = 5.0  # by then, searches that began with the old vectors have ended


def reindex(
    store: Store,
    encoder: Encoder,
    *,
    source: str | None,
    want: Set[str],
    exam: bool = False,
    keep_old: bool = False,
    force: bool = False,
    grace_s: float = GRACE_S,
    stop: Callable[[], bool] = lambda: False,
    on_progress: OnEmbedded | None = None,
) -> tuple[EmbedReport, bool]:
    """Embed all passages with `encoder`, and switch to it. Returns the report, and whether searches
    use the new vectors now.

    The switch waits while passages are pending, because the run was stopped or other jobs work on
    them. Passages that only the old model could embed block the switch too, unless `force` is set.
    `EmbedReport.held` has the reason. Raises `ModelUnfit` if the model fails the exam.
    """
    # The first run retries recent failures at once, because the user asked; later runs do not.
    first, then = (
        Embedder(store, encoder, want=want, patient=one, exam=exam) for one in (False, True)
    )
    first.probe()
    marks = examine(encoder) if exam else None
    if not force:
        _check_exam(encoder.spec, marks or ())
    drop(store)  # remains of an earlier switch
    model = store.vectors.begin_switch(encoder.spec, source, keep_old=keep_old)
    if marks is not None:
        store.vectors.set_exam_marks(model.model_id, marks)
        model = replace(model, marks=marks)
    drop(store)  # vectors of a switch that was abandoned
    report = _build(chain([first], repeat(then)), model, stop, on_progress)
    if stop() or not store.vectors.switch(model.model_id, force=force):
        return replace(report, held=_blocked_by(store, model.model_id, report)), False
    if any(one.role == "gone" for one in store.vectors.models()):
        time.sleep(grace_s)
        drop(store)
    return report, True


def _check_exam(spec: ModelSpec, marks: Iterable[ExamMark]) -> None:
    """Raise `ModelUnfit` for a model that failed in every script."""
    dense = [mark for mark in marks if mark.part == "dense"]
    if dense and not any(mark.passed for mark in dense):
        best = max(dense, key=lambda mark: mark.known / mark.asked)
        raise ModelUnfit(
            f"{spec.name} failed kb's exam: at best {best.known} of {best.asked} answers correct",
            "the old vectors stay in use; to use this model anyway, add --force, or set "
            "models.exam = false",
        )


def _blocked_by(store: Store, model_id: int, report: EmbedReport) -> str:
    """Why the old vectors stay in use, and what to do about it."""
    if not any(one.model_id == model_id and one.role == "next" for one in store.vectors.models()):
        return "a switch to another model has replaced this one"
    name = f"{report.model} {report.version}"
    if failed := report.given_up + min(report.failed, report.left):
        retry = "run kb jobs retry, " if report.given_up else ""
        return (
            f"{name} could not embed {_passages(failed)} ({report.last_error}): fix the cause, "
            f"{retry}and run the command again, or add --force to switch without their vectors"
        )
    if report.elsewhere:
        return (
            f"other workers are embedding {_passages(report.elsewhere)}: run the command again "
            "when they have finished; a running server switches by itself"
        )
    return f"{_passages(report.left)} left: run the command again"


def _passages(count: int) -> str:
    return "1 passage" if count == 1 else f"{count} passages"


def _build(
    embedders: Iterator[Embedder],
    model: StoredModel,
    stop: Callable[[], bool],
    on_progress: OnEmbedded | None,
) -> EmbedReport:
    """Embed until nothing is left to try, including passages that are added in the meantime."""
    total = EmbedReport(model.name, model.version)
    while True:
        done = next(embedders).run(model=model, stop=stop, on_progress=on_progress)
        total = replace(
            done,
            embedded=total.embedded + done.embedded,
            filled=total.filled + done.filled,
            failed=total.failed + done.failed,
            last_error=done.last_error or total.last_error,
            truncated=total.truncated + done.truncated,
            seconds=total.seconds + done.seconds,
        )
        tried = done.embedded + done.failed
        if stop() or not done.left or not tried:
            return total


def drop(store: Store) -> None:
    """Drop the vectors of replaced models."""
    while store.vectors.drop_retired():
        pass  # one transaction each, so that other writers need not wait
