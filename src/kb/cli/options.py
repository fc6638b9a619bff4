"""Options that several commands take, and help that shows options under headings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

import click

from kb.cli.invocation import Session
from kb.errors import KbError, check_choice
from kb.types import KINDS, SCOPES, TRUSTS, TYPES, Filters

F = TypeVar("F", bound=Callable[..., Any])


class Command(click.Command):
    """A command whose options stand under headings, its own first, in the order they are
    declared."""

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
    """An option with the heading it stands under."""

    def __init__(self, *args: Any, heading: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heading = heading


class Choice(click.Choice):  # type: ignore[type-arg]  # generic only in newer versions of click
    """One of a closed set. Another value is the error that every other door gives for it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name = param.name if param is not None and param.name else "the value"
        check_choice(name, value, tuple(self.choices))
        return super().convert(value, param, ctx)


def readable(value: str) -> str:
    """The type of an option or an argument. Bytes that are not valid UTF-8 become escapes, as in
    the paths of the store: so `kb get` takes the name of such a file as the shell completes it."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def option(*names: str, heading: str = "Options", **settings: Any) -> Callable[[F], F]:
    if not settings.keys() & {"type", "is_flag", "count"}:
        settings["type"] = readable
    return click.option(*names, cls=Option, heading=heading, **settings)


# --- every command's ------------------------------------------------------------------------------


def common_options(*, store: bool = True) -> Callable[[F], F]:
    """`--store`, `--json` and `-v`, remembered in the session wherever they stand."""

    def decorate(command: F) -> F:
        command = option(
            "-v", "--verbose", count=True, expose_value=False, callback=_remember, heading="Output",
            help="Log to stderr; twice for more.",
        )(command)  # fmt: skip
        command = option(
            "--json", is_flag=True, expose_value=False, callback=_remember, heading="Output",
            help="Answer in JSON; errors too.",
        )(command)  # fmt: skip
        if store:
            command = option(
                "--store", type=click.Path(), metavar="PATH", expose_value=False,
                callback=_remember, help="The store: a file, or a folder that holds kb.sqlite.  "
                "[default: $KB_STORE, the nearest .kb/ upwards, the user data folder]",
            )(command)  # fmt: skip
        return command

    return decorate


def _remember(context: click.Context, param: click.Parameter, value: Any) -> None:
    """Not said here does not unsay what stood before the command's name."""
    if value:
        setattr(context.ensure_object(Session), str(param.name), value)


# --- filters --------------------------------------------------------------------------------------

_FILTERS: tuple[Callable[[Callable[..., Any]], Callable[..., Any]], ...] = (
    option("--tags", metavar="A,B", multiple=True, heading="Filters", help="All of these tags."),
    option(
        "--tags-any", metavar="A,B", multiple=True, heading="Filters",
        help="At least one of these tags.",
    ),
    option(
        "--type", metavar="TYPE", multiple=True, heading="Filters",
        help=f"Formats, one or several: {', '.join(TYPES)}.",
    ),
    option(
        "--kind", metavar="KIND", multiple=True, heading="Filters",
        help=f"What a document says, one or several: {', '.join(KINDS)}.",
    ),
    option(
        "--scope", type=Choice(SCOPES), metavar="SCOPE", heading="Filters",
        help=f"Where it applies: {', '.join(SCOPES)}.",
    ),
    option("--lang", metavar="LANG", heading="Filters", help="A language: en, de, python."),
    option(
        "--path", "path_glob", metavar="GLOB", heading="Filters",
        help="A pattern for the path: * stops at /, ** does not.",
    ),
    option(
        "--trust-min", type=Choice(TRUSTS), metavar="TRUST", heading="Filters",
        help=f"This much trust or more: {', '.join(TRUSTS)}.",
    ),
    option("--after", metavar="DATE", heading="Filters", help="Dated 2026-01-31 or later."),
    option("--before", metavar="DATE", heading="Filters", help="Dated before 2026-01-31."),
)  # fmt: skip
_LISTS = ("tags", "tags_any", "type", "kind")
_SINGLES = ("scope", "lang", "path_glob", "trust_min", "after", "before")


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The filters of spec 10; the command gets them as one value, `filters`."""

    @wraps(command)
    def filtered(*args: Any, **given: Any) -> Any:
        values: dict[str, Any] = {name: split_commas(given.pop(name)) for name in _LISTS}
        values |= {name: given.pop(name) for name in _SINGLES}
        return command(*args, filters=Filters(**values), **given)

    decorated: Callable[..., Any] = filtered
    for add in reversed(_FILTERS):
        decorated = add(decorated)
    return decorated


def split_commas(values: Iterable[str]) -> tuple[str, ...]:
    """`a,b` and `c`, as given by an option that may be repeated, to `a`, `b`, `c`."""
    parts = [part.strip() for value in values for part in value.split(",")]
    if parts and not any(parts):  # said, but nothing: not the same as not said
        return ("",)
    return tuple(dict.fromkeys(part for part in parts if part))


# --- arguments ------------------------------------------------------------------------------------


def document_argument(name: str, **settings: Any) -> Callable[[F], F]:
    return click.argument(name, type=readable, shell_complete=_paths, **settings)


def _paths(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Documents for the shell to complete to. Where there are none to be had, it stays silent."""
    session = context.ensure_object(Session)
    session.quiet = True
    try:
        with session.open() as kb:
            return [each.doc_path for each in kb.documents() if each.doc_path.startswith(begun)]
    except KbError:
        return []


def text_or_stdin(words: tuple[str, ...]) -> str:
    """The words as one text, or stdin where they are a single `-`."""
    if words != ("-",):
        return " ".join(words)
    if sys.stdin is None:  # as after `<&-`
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "replace").removesuffix("\n")
