"""The loggers of kb: silent unless a program wants to hear them.

Python's `logging` takes as long to load as a search by words takes to answer. So what is said of
every search asks first whether anybody listens: who has not even loaded it does not.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger


def logger(name: str) -> Logger:
    import logging

    top = logging.getLogger("kb")
    if not top.handlers:  # without one, Python writes warnings to stderr
        top.addHandler(logging.NullHandler())
    return logging.getLogger(name)


def is_heard() -> bool:
    return "logging" in sys.modules
