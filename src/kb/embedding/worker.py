"""The worker: a thread of a long-running process that embeds new passages.

It checks for work periodically, and at once when it is woken: by its own process, or by the store
if that can notify other machines. Other workers, in this process or another, may run at the same
time. Searches never wait for it: they only read, and it writes a hundred passages at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol

from kb.embedding.embedder import EmbedProgress, OnEmbedded
from kb.errors import KbError, to_unicode
from kb.logs import logger
from kb.types import EmbedReport

POLL_S = 2.0  # between two checks, each of which reads a few rows
LISTENING_POLL_S = 15.0  # the same, if the store notifies its workers
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 300.0  # after failures, doubled each time
_log = logger("kb.embed")


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The state of a worker: `idle`, `working`, `failed` (it tries again in `wait_s`), `off`
    (encoders are disabled) or `stopped`. `done` and `total` describe the current run or the
    last one; `embedded` counts all passages since the start."""

    state: str = "stopped"
    done: int = 0
    total: int = 0
    per_second: float = 0.0
    embedded: int = 0
    error: str | None = None
    wait_s: float = 0.0

    @property
    def seconds_left(self) -> float | None:
        """The estimated time to finish the run; None if its rate is unknown."""
        return (self.total - self.done) / self.per_second if self.per_second else None


# Calls the function when there may be work, as long as the block runs; None if the store cannot.
Listen = Callable[[Callable[[], None]], AbstractContextManager[object] | None]


class Step(Protocol):
    """Does all pending work; with `retry`, also passages that failed permanently. Returns None if
    encoders are disabled."""

    def __call__(
        self, *, retry: bool, stop: Callable[[], bool], on_progress: OnEmbedded
    ) -> EmbedReport | None: ...


class Worker:
    """Runs `step` repeatedly in its own thread, and calls `on_change` there with every new state.
    As a context manager, it starts on entry and stops on exit."""

    def __init__(
        self,
        step: Step,
        *,
        poll_s: float = POLL_S,
        listen: Listen | None = None,
        on_change: Callable[[WorkerState], None] | None = None,
    ) -> None:
        self._step = step
        self._poll_s = poll_s
        self._listen = listen
        self._on_change = on_change
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._retry = False
        self._failures = 0
        self._state = WorkerState()
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> WorkerState:
        """The current state."""
        return self._state

    def start(self) -> None:
        """Start the thread, unless it is running."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="kb-worker", daemon=True)
            self._thread.start()

    def wake(self, *, retry: bool = False) -> None:
        """Check for work now; with `retry`, also retry passages that failed permanently."""
        self._retry = self._retry or retry
        self._wake.set()

    def stop(self, timeout_s: float | None = None) -> bool:
        """Stop after the current batch; finished vectors are stored. Returns whether the thread
        ended within `timeout_s`."""
        self._stop.set()
        self._wake.set()
        if self._thread is None:
            return True
        if self._thread is threading.current_thread():  # called by `on_change`
            return False
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        self._thread = None
        return True

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- in the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        self._update(state="idle")
        notified = None if self._listen is None else self._listen(self.wake)
        if notified is not None:
            self._poll_s = max(self._poll_s, LISTENING_POLL_S)
        with notified or nullcontext():
            while not self._stop.is_set():
                self._wake.clear()
                self._wake.wait(self._once())
        self._update(state="stopped", wait_s=0.0)

    def _once(self) -> float:
        """Run one step, and return how long to wait before the next. No error ends the thread:
        lexical search still works, and the model may recover."""
        retry, self._retry = self._retry, False
        try:
            report = self._step(retry=retry, stop=self._stop.is_set, on_progress=self._progress)
        except Exception as error:  # noqa: BLE001  # from a model, a library or the disk
            return self._record_failure(error)
        self._failures = 0
        if report is None:
            self._update(state="off", error=None, wait_s=0.0)
        else:
            embedded = self._state.embedded + report.embedded
            self._update(state="idle", embedded=embedded, error=report.last_error, wait_s=0.0)
        return self._poll_s

    def _record_failure(self, error: Exception) -> float:
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        expected = isinstance(error, KbError)
        message = (
            error.message if isinstance(error, KbError) else f"{type(error).__name__}: {error}"
        )
        _log.warning(
            "embedding failed, next attempt in %.0f s: %s", wait_s, message, exc_info=not expected
        )
        self._update(state="failed", error=to_unicode(message), wait_s=wait_s)
        return wait_s

    def _progress(self, now: EmbedProgress) -> None:
        self._update(
            state="working", done=now.done, total=now.total, per_second=now.per_second, error=None
        )

    def _update(self, **changes: object) -> None:
        new = replace(self._state, **changes)  # type: ignore[arg-type]  # names of its fields
        if new != self._state:
            self._state = new
            if self._on_change is not None:
                self._on_change(new)
