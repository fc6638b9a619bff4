"""Options shared by several commands, and help with options grouped under headings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import click

from kb.cli import completions
from kb.cli.arguments import pop_filters
from kb.cli.arguments import split_commas as split_commas
from kb.cli.arguments import text_or_stdin as text_or_stdin
from kb.cli.arguments import utf8_text as utf8_text
from kb.cli.invocation import Invocation
from kb.errors import check_choice
from kb.types import KINDS, SCOPES, TRUSTS, TYPES

F = TypeVar("F", bound=Callable[..., Any])


class Command(click.Command):
    """A command whose help groups options under headings, its own options first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                sections.setdefault(getattr(param, "heading", "Options"), []).append(record)
        for heading, records in sorted(sections.items(), key=lambda each: each[0] != "Options"):
            with formatter.section(heading):
                formatter.write_dl(records)


class Option(click.Option):
    """An option with a heading for the help. If `help` is a function, each use calls it."""

    def __init__(self, *args: Any, heading: str = "Options", **kwargs: Any) -> None:
        self._help = kwargs.get("help")
        if callable(self._help):
            kwargs["help"] = self._help()
        super().__init__(*args, **kwargs)
        self.heading = heading

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        if callable(self._help):
            self.help = self._help()
        return super().get_help_record(ctx)


class Choice(click.Choice):  # type: ignore[type-arg]  # generic only in newer versions of click
    """One of several values. An invalid value raises the same error as in the other interfaces. If
    `values` is a function, each use calls it, because retrievers can be registered."""

    def __init__(self, values: Sequence[str] | Callable[[], Sequence[str]]) -> None:
        self._values = values
        super().__init__(self._current())

    def _current(self) -> Sequence[str]:
        return self._values() if callable(self._values) else self._values

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name = param.name if param is not None and param.name else "the value"
        self.choices = tuple(self._current())
        check_choice(name, value, self.choices)
        return super().convert(value, param, ctx)


def option(*names: str, heading: str = "Options", **settings: Any) -> Callable[[F], F]:
    """Declare an option with a heading; its type is text unless `settings` name one."""
    if not settings.keys() & {"type", "is_flag", "count"}:
        settings["type"] = utf8_text
    for name in names:
        if name in completions.OPTIONS:
            settings.setdefault("shell_complete", completions.OPTIONS[name])
    return click.option(*names, cls=Option, heading=heading, **settings)


# --- common options -------------------------------------------------------------------------------


def common_options(*, store: bool = True) -> Callable[[F], F]:
    """Add `--store`, `--json` and `-v`, whose values go to the invocation."""

    def decorate(command: F) -> F:
        command = option(
            "-v", "--verbose", count=True, expose_value=False, callback=_record, heading="Output",
            help="Log to stderr; repeat for more detail.",
        )(command)  # fmt: skip
        command = option(
            "--json", is_flag=True, expose_value=False, callback=_record, heading="Output",
            help="Print JSON, including errors.",
        )(command)  # fmt: skip
        if store:
            command = option(
                "--store", type=click.Path(), metavar="PATH", expose_value=False,
                callback=_record, help="The store: a file, a folder that contains kb.sqlite, or "
                "postgresql://USER@HOST/DATABASE?schema=NAME.  "
                "[default: $KB_STORE, the nearest .kb/ in this or a parent folder, the user data "
                "folder]",
            )(command)  # fmt: skip
        return command

    return decorate


def _record(context: click.Context, param: click.Parameter, value: Any) -> None:
    """Record the value of an option. An omitted option keeps the value given before the
    subcommand."""
    if value:
        setattr(context.ensure_object(Invocation), str(param.name), value)


# --- filters --------------------------------------------------------------------------------------

_FILTERS: tuple[Callable[[Callable[..., Any]], Callable[..., Any]], ...] = (
    option(
        "--tags", metavar="A,B", multiple=True, heading="Filters",
        help="Only documents with all of these tags.",
    ),
    option(
        "--tags-any", metavar="A,B", multiple=True, heading="Filters",
        help="Only documents with at least one of these tags.",
    ),
    option(
        "--type", metavar="TYPE", multiple=True, heading="Filters",
        help=f"Only these formats: {', '.join(TYPES)}.",
    ),
    option(
        "--kind", metavar="KIND", multiple=True, heading="Filters",
        help=f"Only these kinds: {', '.join(KINDS)}.",
    ),
    option(
        "--scope", type=Choice(SCOPES), metavar="SCOPE", heading="Filters",
        help=f"Only this scope: {', '.join(SCOPES)}.",
    ),
    option(
        "--lang", metavar="LANG", heading="Filters",
        help="Only this language, such as en, de or python.",
    ),
    option(
        "--path", "path_glob", metavar="GLOB", heading="Filters",
        help="Only paths that match the pattern: * does not match /, ** does.",
    ),
    option(
        "--links-to", metavar="DOCUMENT", heading="Filters",
        help="Only documents that link to this document, given by its path or the end of its path.",
    ),
    option(
        "--trust-min", type=Choice(TRUSTS), metavar="TRUST", heading="Filters",
        help=f"Only documents with at least this trust: {', '.join(TRUSTS)}.",
    ),
    option(
        "--after", metavar="DATE", heading="Filters",
        help="Only documents dated DATE (2026-01-31) or later.",
    ),
    option("--before", metavar="DATE", heading="Filters", help="Only documents dated before DATE."),
)  # fmt: skip


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the filter options, which the command receives as one value, `filters`."""

    @wraps(command)
    def with_filters(*args: Any, **options: Any) -> Any:
        filters = pop_filters(options)
        return command(*args, filters=filters, **options)

    decorated: Callable[..., Any] = with_filters
    for add in reversed(_FILTERS):
        decorated = add(decorated)
    return decorated


# --- arguments ------------------------------------------------------------------------------------


def document_argument(name: str, **settings: Any) -> Callable[[F], F]:
    """Declare an argument that names a document; the shell completes its path."""
    complete = completions.complete_document
    return click.argument(name, type=utf8_text, shell_complete=complete, **settings)
