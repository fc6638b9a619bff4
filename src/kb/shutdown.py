"""Orderly shutdown of a process that runs until it receives a signal.

The first SIGTERM or SIGINT starts an orderly shutdown: pending work gets time to finish, and is
then canceled. If that takes too long, the process exits anyway, and a second signal ends it at
once. No data is lost, since every write to the store is atomic.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

LIMIT_S = 7.0  # for an orderly shutdown
_GRACE_S = 1.0  # after this, the process exits even if no Python thread gets to run
EXIT_ABANDONED = 1  # the exit status if it took longer
_SIGNALS = ("SIGINT", "SIGTERM", "SIGBREAK")  # SIGBREAK on Windows only

# Called before the process exits without waiting for its other threads, for instance to end child
# processes.
before_exit: list[Callable[[], None]] = []


class Shutdown:
    """A context manager that handles the signals of the process, if entered in the main thread.

    `on_signal` sets the function that the first signal calls. Until then, a signal raises
    `KeyboardInterrupt` or `SystemExit`, as it would by default.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._stop: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}
        self._started = False
        self._interrupted = False

    def __enter__(self) -> Shutdown:
        if threading.current_thread() is threading.main_thread():
            known = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
            self._before = {each: signal.signal(each, self._handle) for each in known}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def on_signal(self, stop: Callable[[], None]) -> None:
        """Have the first signal call `stop`, which must return at once."""
        self._stop = stop

    def begin(self) -> None:
        """Start the timer: the process exits if it still runs after `limit_s`."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._watch, name="kb-shutdown", daemon=True).start()
            _exit_without_interpreter(self.limit_s + _GRACE_S)

    def finish(self) -> None:
        """End the orderly shutdown. Raises `KeyboardInterrupt` if Ctrl-C started it."""
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._started:
            os._exit(128 + number)
        self.begin()
        if self._stop is not None:
            self._interrupted = number == signal.SIGINT
            self._stop()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            sys.exit(0)

    def _watch(self) -> None:
        threading.Event().wait(self.limit_s)
        message = f"kb: pending work did not stop within {self.limit_s:g} s and was abandoned\n"
        os.write(2, message.encode())
        for call in before_exit:
            with suppress(Exception):
                call()
        os._exit(EXIT_ABANDONED)


def _exit_without_interpreter(timeout_s: float) -> None:
    """Exit after `timeout_s` from a thread that does not need the interpreter lock, for which a
    Python thread may wait for seconds under load. The status is `EXIT_ABANDONED`."""
    import faulthandler

    discard = os.open(os.devnull, os.O_WRONLY)  # for the traceback; stays open until the exit
    faulthandler.dump_traceback_later(timeout_s, exit=True, file=discard)
