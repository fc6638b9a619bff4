"""The worker: a thread of a long-running process that gives vectors to what comes.

It looks now and then, and at once when it is woken. What it does is one call of the embedder, so
that others, in this process or another, may do the same beside it. Searches never wait for it: they
read, and it writes a hundred passages at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol

from kb.embedding.embedder import EmbedProgress, OnEmbedded
from kb.errors import KbError
from kb.logs import logger
from kb.types import EmbedReport

LOOK_S = 2.0  # between two looks, which cost a read of a few rows
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 300.0  # after a failure, doubled each time
_log = logger("kb.embed")


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What a worker is doing: `idle`, `working`, `failed` (and to try again in `wait_s`), `off`
    where there is no encoder, or `stopped`. `done` and `total` are of the run under way or of the
    last one; `embedded` counts all since the start."""

    state: str = "stopped"
    done: int = 0
    total: int = 0
    per_second: float = 0.0
    embedded: int = 0
    error: str | None = None
    wait_s: float = 0.0

    @property
    def seconds_left(self) -> float | None:
        return (self.total - self.done) / self.per_second if self.per_second else None


class Step(Protocol):
    """What there is to do now, done; None where there is no encoder to do it. With `retry`, also
    what was given up."""

    def __call__(
        self, *, retry: bool, stop: Callable[[], bool], on_progress: OnEmbedded
    ) -> EmbedReport | None: ...


class Worker:
    """Runs `step` again and again in a thread of its own. `on_change` hears every new state, in
    that thread. Can be used as a context manager: started at its begin, stopped at its end."""

    def __init__(
        self,
        step: Step,
        *,
        look_s: float = LOOK_S,
        on_change: Callable[[WorkerState], None] | None = None,
    ) -> None:
        self._step = step
        self._look_s = look_s
        self._on_change = on_change
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._retry = False
        self._failures = 0
        self._state = WorkerState()
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> WorkerState:
        return self._state

    def start(self) -> None:
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="kb-worker", daemon=True)
            self._thread.start()

    def wake(self, *, retry: bool = False) -> None:
        """There may be something to do; with `retry`, also what was given up."""
        self._retry = self._retry or retry
        self._wake.set()

    def stop(self, timeout_s: float | None = None) -> bool:
        """End after the unit of work under way; what was made is in the store. Whether it has
        ended within `timeout_s`."""
        self._stop.set()
        self._wake.set()
        if self._thread is None:
            return True
        if self._thread is threading.current_thread():  # told by who listens to it
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
        self._tell(state="idle")
        while not self._stop.is_set():
            self._wake.clear()
            self._wake.wait(self._once())
        self._tell(state="stopped", wait_s=0.0)

    def _once(self) -> float:
        """How long to wait then. Nothing that goes wrong ends the thread: words answer meanwhile,
        and models come back."""
        retry, self._retry = self._retry, False
        try:
            report = self._step(retry=retry, stop=self._stop.is_set, on_progress=self._progress)
        except Exception as error:  # noqa: BLE001  # of a model, a library, the disk
            return self._failed(error)
        self._failures = 0
        if report is None:
            self._tell(state="off", error=None, wait_s=0.0)
        else:
            embedded = self._state.embedded + report.embedded
            self._tell(state="idle", embedded=embedded, error=report.last_error, wait_s=0.0)
        return self._look_s

    def _failed(self, error: Exception) -> float:
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        is_ours = isinstance(error, KbError)
        message = (
            error.message if isinstance(error, KbError) else f"{type(error).__name__}: {error}"
        )
        _log.warning("cannot embed, next try in %.0f s: %s", wait_s, message, exc_info=not is_ours)
        self._tell(state="failed", error=message, wait_s=wait_s)
        return wait_s

    def _progress(self, now: EmbedProgress) -> None:
        self._tell(
            state="working", done=now.done, total=now.total, per_second=now.per_second, error=None
        )

    def _tell(self, **changes: object) -> None:
        new = replace(self._state, **changes)  # type: ignore[arg-type]  # names of its fields
        if new != self._state:
            self._state = new
            if self._on_change is not None:
                self._on_change(new)
