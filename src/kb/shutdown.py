"""The end of a process that runs until it is told to stop.

The first SIGTERM or SIGINT begins an orderly end: what is under way is answered, then it is
cancelled. Where that takes too long, the process exits all the same, and a second signal ends it at
once. Nothing is lost by that: what is being written is in the store as a whole or not at all.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

LIMIT_S = 9.0  # for an orderly end
ABANDONED = 1  # the exit status where it took longer
_SIGNALS = ("SIGINT", "SIGTERM", "SIGBREAK")  # the last one on Windows only


class Shutdown:
    """Takes the signals of the process while it is entered, if that is in the main thread.

    `on_signal` sets what the first one calls. Until then, a signal ends the process by raising
    `KeyboardInterrupt` or `SystemExit`, as it would without this."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._stop: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}
        self._begun = False
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
        """Have the first signal call `stop`, which returns at once."""
        self._stop = stop

    def begin(self) -> None:
        """Start the clock: if the process still runs when the time is over, it exits."""
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._watch, name="kb-shutdown", daemon=True).start()

    def finish(self) -> None:
        """To be called when the orderly end is over: Ctrl-C is told to the caller as ever."""
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._begun:
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
        told = f"kb: work under way did not stop within {self.limit_s:g} s and was abandoned\n"
        os.write(2, told.encode())
        os._exit(ABANDONED)
