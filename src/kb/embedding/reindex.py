"""From one model to another without a gap: vectors are built beside the old ones, then one write
lets them answer, and the old ones go last.

It can be stopped or killed at any moment, and the next run goes on. Documents that come meanwhile
are embedded for both: what answers is asked to have them by whoever adds them, and the switch waits
until what is to answer has them too. Whoever makes the last of them lets them answer: this, or a
worker that has its share in it.
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

GRACE_S = 5.0  # a search that began with the old vectors has ended by then


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
    """What was done, and whether the vectors of `encoder` answer now. They do not while passages
    are left (it was stopped, or others are still at work on some), nor while it has failed with
    some that the old ones have, unless by `force`; the report says which."""
    # Once what has failed before is tried at once: someone asks for it. Then as a worker does.
    first, then = (
        Embedder(store, encoder, want=want, patient=one, exam=exam) for one in (False, True)
    )
    first.probe()
    marks = examine(encoder) if exam else None
    if not force:
        _check_fit(encoder.spec, marks or ())
    drop(store)  # what an earlier one has left
    model = store.vectors.begin_switch(encoder.spec, source, keep_old=keep_old)
    if marks is not None:
        store.vectors.set_exam_marks(model.model_id, marks)
        model = replace(model, marks=marks)
    drop(store)  # what was half built of another
    report = _built(chain([first], repeat(then)), model, stop, on_progress)
    if stop() or not store.vectors.switch(model.model_id, force=force):
        return replace(report, held=_held(store, model.model_id, report)), False
    if any(one.role == "gone" for one in store.vectors.models()):
        time.sleep(grace_s)
        drop(store)
    return report, True


def _check_fit(spec: ModelSpec, marks: Iterable[ExamMark]) -> None:
    """A model that can read nothing takes nobody's place."""
    dense = [mark for mark in marks if mark.part == "dense"]
    if dense and not any(mark.passed for mark in dense):
        best = max(dense, key=lambda mark: mark.known / mark.asked)
        raise ModelUnfit(
            f"{spec.name} knew {best.known} of {best.asked} answers in kb's exam at best, "
            "so what it finds would be noise",
            "the old vectors answer on; --force takes it all the same, models.exam = false asks no "
            "model",
        )


def _held(store: Store, model_id: int, report: EmbedReport) -> str:
    """Why the old vectors answer on, and what to do."""
    if not any(one.model_id == model_id and one.role == "next" for one in store.vectors.models()):
        return "another change of the model has taken the place of this one"
    name = f"{report.model} {report.version}"
    if failed := report.given_up + min(report.failed, report.left):
        again = "let them be tried again (kb jobs retry) and " if report.given_up else ""
        return (
            f"{_passages(failed)} could not be embedded by {name} ({report.last_error}): mend that,"
            f" {again}give the command again, or add --force to do without their vectors"
        )
    if report.elsewhere:
        return (
            f"others are at work on {_passages(report.elsewhere)}: when these are done, give the "
            "command again, unless a server is running, which changes over by itself"
        )
    return f"{_passages(report.left)} left: give the command again"


def _passages(count: int) -> str:
    return "1 passage" if count == 1 else f"{count} passages"


def _built(
    embedders: Iterator[Embedder],
    model: StoredModel,
    stop: Callable[[], bool],
    on_progress: OnEmbedded | None,
) -> EmbedReport:
    """Until nothing is left that could be made now, with what came meanwhile."""
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
    """Vectors that nobody asks any more."""
    while store.vectors.drop_retired():
        pass  # each in a transaction of its own: others want to write too
