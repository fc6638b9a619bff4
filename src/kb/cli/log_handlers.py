"""Logging to stderr, and to the file in search.log."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING

from kb.cli.output import escape
from kb.errors import ConfigError
from kb.logs import open_log
from kb.text.timestamps import utc_timestamp

if TYPE_CHECKING:
    from kb.config import Config

STDERR = "stderr"
_SEARCH_LOGGER = "kb.search"
_PLAIN = "%(levelname)s %(name)s: %(message)s"
_DATED = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _EscapingFormatter(logging.Formatter):
    """Escapes control characters in file names and text."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        return escape(super().formatMessage(record))


class _JsonFormatter(logging.Formatter):
    """One line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": utc_timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def wants_stderr(config: Config) -> bool:
    """Whether the settings send search logs to the stderr of the command."""
    return config.search.log == STDERR or "search.slow_ms" in config.origins


def start(config: Config, *, verbose: int = 0, serving: bool = False) -> None:
    """Configure logging: everything to stderr with `verbose`, warnings for a server, otherwise
    whatever the settings select. Commands themselves print what a user has to know, such as a
    degraded response or a failed file. A log file receives only search logs."""
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
        if _is_degraded(record):  # the response reports it
            return False
        if record.name == _SEARCH_LOGGER:
            return config.search.log == STDERR or record.levelno >= logging.WARNING
        return serving and record.levelno >= logging.WARNING

    handler = logging.StreamHandler()
    if serving and config.serve.log_format == "json":
        handler.setFormatter(_JsonFormatter())
    else:
        handler.setFormatter(_EscapingFormatter(_DATED if serving and not verbose else _PLAIN))
    handler.addFilter(is_shown)
    return handler


def _to_file(name: str) -> logging.Handler:
    path = os.path.expanduser(name)
    try:
        os.close(open_log(path))
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigError(
            f"cannot write the log {path}: {error.strerror}", "set search.log to another file"
        ) from error
    handler.setFormatter(_EscapingFormatter(_DATED))
    handler.addFilter(lambda record: record.name == _SEARCH_LOGGER)
    return handler


def _is_degraded(record: logging.LogRecord) -> bool:
    return str(record.msg).startswith("search degraded")
