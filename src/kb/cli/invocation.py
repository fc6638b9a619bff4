"""What was said before or after the command's name: where the store is, how to answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from kb.cli import output
from kb.logs import logging_is_loaded

if TYPE_CHECKING:
    from kb.config import Config
    from kb.library.knowledge_base import KnowledgeBase


class Session:
    """Filled in by the options that every command takes, in whatever place they stand."""

    def __init__(self) -> None:
        self.store: str | None = None
        self.json = False
        self.verbose = 0
        self.interrupted = "interrupted"  # what Ctrl-C is answered with
        self.quiet = False  # no warnings: for the shell's completion

    def open(self, overrides: Mapping[str, Any] | None = None) -> KnowledgeBase:
        """The knowledge base; `overrides` are settings that flags have changed."""
        from kb.config import load, store_path
        from kb.library.knowledge_base import KnowledgeBase

        file = store_path(self.store)
        config = load(file, overrides=overrides)
        self._start_logging(config)
        self.warn_of_ignored(config)
        return KnowledgeBase(file, config=config)

    def warn_of_ignored(self, config: Config) -> None:
        """Name the settings of a folder's own file that do not count."""
        if not self.quiet:
            for ignored in config.ignored:
                output.warn(ignored.message)

    @contextmanager
    def new_store_named(self, kb: KnowledgeBase) -> Iterator[None]:
        """Says where the store is, once: when it was made by what is done inside. A user who did
        not choose a place has to learn of it somehow; a program asks `kb status`."""
        is_new = not kb.path.exists()
        yield
        if is_new and not self.json and kb.path.exists():
            output.note(f"new store: {output.visible(str(kb.path))}")

    def _start_logging(self, config: Config) -> None:
        """Logs go where -v and the settings say. `logging` is not loaded where nobody wants any."""
        if (
            self.verbose
            or config.search.log
            or "search.slow_ms" in config.origins
            or logging_is_loaded()
        ):
            from kb.cli import log_handlers

            log_handlers.start(config, verbose=self.verbose)


pass_session = click.make_pass_decorator(Session, ensure=True)
