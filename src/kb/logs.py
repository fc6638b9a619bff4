"""Loggers that stay silent until a program configures logging.

Importing `logging` takes as long as a lexical search. Code that logs every search therefore checks
`logging_is_loaded` first: a program that never imported `logging` reads no logs.
"""

from __future__ import annotations

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
