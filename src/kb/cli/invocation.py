"""The state of one invocation of `kb`: which store it uses, and how it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from kb.cli import output
from kb.logs import logging_is_loaded
from kb.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.config import Config
    from kb.library.knowledge_base import KnowledgeBase


class Invocation:
    """The values of the options that all commands share, given before or after the command's
    name."""

    def __init__(self) -> None:
        self.store: str | None = None
        self.store_file = ""  # set by `open`: the text of `KnowledgeBase.path`
        self.json = False
        self.verbose = 0
        self.interrupt_message = "interrupted"  # printed on Ctrl-C
        self.quiet = False  # no warnings, for shell completion

    @property
    def terminal(self) -> str:
        """The terminal that the command runs in, and its session; empty without a terminal."""
        from kb.cli.socket_client import terminal_name

        return terminal_name()

    def open(self, overrides: Mapping[str, Any] | None = None) -> KnowledgeBase:
        """Return the knowledge base. `overrides` are settings changed by options."""
        from kb.config import load
        from kb.library.knowledge_base import KnowledgeBase
        from kb.locations import store_url
        from kb.store import local_file

        url = store_url(self.store)
        self.store_file = local_file(url)
        config = load(self.store_file, overrides=overrides)
        self._start_logging(config)
        self.warn_ignored_settings(config)
        return KnowledgeBase(url, config=config)

    def warn_ignored_settings(self, config: Config) -> None:
        """Warn about the settings that kb ignores in a folder's own file."""
        if not self.quiet:
            for ignored in config.ignored:
                output.warn(ignored.message)

    @contextmanager
    def announce_new_store(self, kb: KnowledgeBase) -> Iterator[None]:
        """Print the store's path if the block creates it, since the user may not have chosen it.
        Prints nothing with --json, since programs can run `kb status`."""
        is_new = not kb.exists()
        yield
        if is_new and not self.json and kb.exists():
            output.note(f"new store: {output.escape(kb.location)}")

    def _start_logging(self, config: Config) -> None:
        """Configure logging by -v and the settings, without importing `logging` needlessly."""
        wants_logs = self.verbose or config.search.log or "search.slow_ms" in config.origins
        if wants_logs or logging_is_loaded():
            from kb.cli import log_handlers

            log_handlers.start(config, verbose=self.verbose)


def pass_invocation(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a click command, so that its first argument is the invocation."""
    import click  # a search does not need click (see `kb.cli.arguments`)

    return click.make_pass_decorator(Invocation, ensure=True)(command)
