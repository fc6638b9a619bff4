"""A process exits even if none of its Python threads gets to run."""

from __future__ import annotations

import subprocess
import sys

from kb.shutdown import EXIT_ABANDONED

WATCHDOG_S = 60.0

# `sum` over a range holds the interpreter lock for hours.
BUSY = """
from kb.shutdown import Shutdown
Shutdown(limit_s=0.2).begin()
sum(range(10**15))
"""


def test_the_process_exits_while_the_interpreter_is_locked() -> None:
    child = subprocess.run([sys.executable, "-c", BUSY], check=False, timeout=WATCHDOG_S)
    assert child.returncode == EXIT_ABANDONED
