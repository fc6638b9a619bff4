"""The reference page of the command line, from its help texts. Used by reference.py."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator

import click
from _markdown import code, fence, item, page, prose, sentence, wrap

from kb.cli.root import cli


def cli_page() -> str:
    commands = list(every_command(cli, ("kb",)))
    contents = "\n".join(
        item(f"[`{' '.join(names)}`](#{'-'.join(names)}): {prose(first_sentence(command))}")
        for names, command in commands
    )
    about = """
        Every command and every option. `kb COMMAND --help`, or `-h`, shows the same in a terminal.
        Options can come before or after a command's arguments. Exit codes are listed in
        [errors](errors.md#exit-codes).
    """
    return page("Command line", about, contents, *(_command(*each) for each in commands))


def every_command(
    command: click.Command, names: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The command and all its subcommands, with their full names."""
    yield names, command
    if isinstance(command, click.Group):
        context = _context(command, names)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from every_command(below, (*names, name))


def _context(command: click.Command, names: tuple[str, ...]) -> click.Context:
    """The context of the command line itself, which defines the help options."""
    return click.Context(command, info_name=" ".join(names), **cli.context_settings)


def first_sentence(command: click.Command) -> str:
    text = " ".join((command.help or "").split())
    return text.partition(". ")[0].rstrip(".") + "."


def _command(names: tuple[str, ...], command: click.Command) -> str:
    context = _context(command, names)
    usage = " ".join([*names, *command.collect_usage_pieces(context)])
    parts = [f"## {' '.join(names)}", fence(usage, "text"), _help(command.help or "")]
    sections: dict[str, list[str]] = {}
    for param in command.params:
        if isinstance(param, click.Option):
            heading = getattr(param, "heading", "Options")
            sections.setdefault(heading, []).append(item(_option(param)))
    ordered = sorted(sections.items(), key=lambda each: each[0] != "Options")
    parts += [f"{heading}:\n\n" + "\n".join(lines) for heading, lines in ordered]
    return "\n\n".join(parts)


def _help(text: str) -> str:
    """A command's help. Paragraphs that click does not wrap become code."""
    parts = []
    for part in inspect.cleandoc(text).split("\n\n"):
        if not part.startswith("\b"):
            parts.append(wrap(prose(part)))
            continue
        heading, *lines = part.removeprefix("\b").strip("\n").split("\n")
        parts += [heading, fence(textwrap.dedent("\n".join(lines)), "text")]
    return "\n\n".join(parts)


def _option(option: click.Option) -> str:
    value, text = _value(option), option.help or ""
    names = ", ".join(code(f"{name} {value}".rstrip()) for name in option.opts)
    facts = [sentence(prose(text))]
    if option.multiple and "repeated" not in text:
        facts.append("May be repeated.")
    if option.show_default and isinstance(option.default, str):
        facts.append(f"Default: {code(option.default)}.")
    if option.required:
        facts.append("Required.")
    return f"{names}: {' '.join(facts)}"


def _value(option: click.Option) -> str:
    if option.is_flag or option.count:
        return ""
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return f"[{'|'.join(map(str, option.type.choices))}]"
    return option.type.name.upper()
