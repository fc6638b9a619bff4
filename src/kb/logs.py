"""Loggers that stay silent until a program configures logging.

Importing `logging` takes as long as a lexical search. Code that logs every search therefore checks
`logging_is_loaded` first: a program that never imported `logging` reads no logs.
"""

from __future__ import annotations

import os
import sys

from kb.values import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger


def logger(name: str) -> Logger:
    """Return the logger of that name, below `kb`."""
    import logging

    top = logging.getLogger("kb")
    if not top.handlers:  # without one, Python writes warnings to stderr
        top.addHandler(logging.NullHandler())
    return logging.getLogger(name)


def logging_is_loaded() -> bool:
    """Whether the program has imported `logging`."""
    return "logging" in sys.modules


def open_log(path: str) -> int:
    """Open a log file to append to it; only the user can read a new one, since logs name documents
    and queries. Raises `OSError`, also for a named pipe without a reader, which would block."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags, 0o600)
