"""From one model to another without a gap: vectors are built beside the old ones, then one write
lets them answer, and the old ones go last.

It can be stopped or killed at any moment, and the next run goes on. Documents that come meanwhile
are embedded for both: what answers is asked to have them by whoever adds them, and the switch waits
until what is to answer has them too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from dataclasses import replace

from kb.ingest.embed import Embedder, OnEmbedded
from kb.ports import Encoder, Store
from kb.types import EmbedReport, StoredModel

GRACE_S = 5.0  # a search that began with the old vectors has ended by then


def reindex(
    store: Store,
    encoder: Encoder,
    *,
    source: str | None,
    want: Set[str],
    keep_old: bool = False,
    grace_s: float = GRACE_S,
    stop: Callable[[], bool] = lambda: False,
    on_progress: OnEmbedded | None = None,
) -> tuple[EmbedReport, bool]:
    """What was done, and whether the vectors of `encoder` answer now. They do not while passages
    are left: it was stopped, or others are still at work on some."""
    embedder = Embedder(store, encoder, want=want)
    embedder.probe()
    _drop(store)  # what an earlier one has left
    model = store.begin_switch(encoder.spec, source)
    report = _built(embedder, model, stop, on_progress)
    if stop() or not store.switch(model.model_id, keep_old=keep_old):
        return report, False
    if not keep_old and len(store.models()) > 1:
        time.sleep(grace_s)
        _drop(store)
    return report, True


def _built(
    embedder: Embedder,
    model: StoredModel,
    stop: Callable[[], bool],
    on_progress: OnEmbedded | None,
) -> EmbedReport:
    """Until nothing is left that could be made now, with what came meanwhile."""
    total = EmbedReport(model.name, model.version)
    while True:
        done = embedder.run(model=model, stop=stop, on_progress=on_progress)
        total = replace(
            done,
            embedded=total.embedded + done.embedded,
            filled=total.filled + done.filled,
            failed=total.failed + done.failed,
            truncated=total.truncated + done.truncated,
            seconds=total.seconds + done.seconds,
        )
        tried = done.embedded + done.failed
        if stop() or not done.left or not tried:
            return total


def _drop(store: Store) -> None:
    while store.drop_some():
        pass  # each in a transaction of its own: others want to write too
