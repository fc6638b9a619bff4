"""Where logs go: to stderr, and to the file that the settings name."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from kb.cli.output import visible
from kb.errors import ConfigError

if TYPE_CHECKING:
    from kb.config import Config

STDERR = "stderr"
_SEARCHES = "kb.search"
_PLAIN = "%(levelname)s %(name)s: %(message)s"
_DATED = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _OneLine(logging.Formatter):
    """Shows names and texts of others without obeying them."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # of the library
        return visible(super().formatMessage(record))


def wants_stderr(config: Config) -> bool:
    """Whether what is logged of a search is to be seen where its command runs."""
    return config.search.log == STDERR or "search.slow_ms" in config.origins


def start(config: Config, *, verbose: int = 0, serving: bool = False) -> None:
    """Logs go to stderr with `verbose`; of a server, warnings; else what the settings ask for,
    since what a user has to know (a degraded answer, a file that failed) is said by the commands.
    A file gets what is about searches."""
    handlers: list[logging.Handler] = []
    if verbose or serving or wants_stderr(config):
        handlers.append(_to_stderr(config, verbose=bool(verbose), serving=serving))
    if config.search.log and config.search.log != STDERR:
        handlers.append(_to_file(config.search.log))
    log = logging.getLogger("kb")
    for handler in log.handlers:
        handler.close()
    log.handlers = handlers or [logging.NullHandler()]
    log.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)


def _to_stderr(config: Config, *, verbose: bool, serving: bool) -> logging.Handler:
    def is_shown(record: logging.LogRecord) -> bool:
        if verbose:
            return True
        if _is_degraded(record):  # the answer itself says so
            return False
        if record.name == _SEARCHES:
            return config.search.log == STDERR or record.levelno >= logging.WARNING
        return serving and record.levelno >= logging.WARNING

    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine(_DATED if serving and not verbose else _PLAIN))
    handler.addFilter(is_shown)
    return handler


def _to_file(name: str) -> logging.Handler:
    path = os.path.expanduser(name)
    try:
        # Others need not know what was searched for.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigError(
            f"cannot write the log {path}: {error.strerror}", "name another file in search.log"
        ) from error
    handler.setFormatter(_OneLine(_DATED))
    handler.addFilter(lambda record: record.name == _SEARCHES)
    return handler


def _is_degraded(record: logging.LogRecord) -> bool:
    return str(record.msg).startswith("search degraded")
