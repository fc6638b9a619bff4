"""Generates the manual page and the completion scripts that the wheel installs under `share/`.

python packaging/shared_files.py             write them
python packaging/shared_files.py --check     exit 1 if one is out of date
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from kb.cli.root import cli
from kb.cli.run import COMPLETE

FOLDER = Path(__file__).resolve().parent / "share"
SCRIPTS = {
    "bash": "bash-completion/completions/kb",
    "fish": "fish/vendor_completions.d/kb.fish",
    "zsh": "zsh/site-functions/_kb",
}


def main(args: Sequence[str]) -> int:
    if args not in ([], ["--check"]):
        sys.exit("usage: python packaging/shared_files.py [--check]")
    stale = 0
    for name, text in files().items():
        path = FOLDER / name
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale += 1
        if args:
            sys.stderr.write(f"packaging/share/{name} is out of date: make docs\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8", newline="\n")
            sys.stdout.write(f"wrote packaging/share/{name}\n")
    return 1 if args and stale else 0


def files() -> dict[str, str]:
    """The generated files by their path below `share/`."""
    return {"man/man1/kb.1": manual_page()} | {
        path: completion(shell) for shell, path in SCRIPTS.items()
    }


def completion(shell: str) -> str:
    complete = get_completion_class(shell)
    assert complete is not None
    return complete(cli, {}, "kb", COMPLETE).source() + "\n"


def manual_page() -> str:
    """`kb.1`: every command with its help and its options."""
    lines = [
        ".TH KB 1", ".SH NAME", r"kb \- find the right passage in your notes, papers and code",
        ".SH SYNOPSIS", ".B kb", "[OPTIONS] COMMAND [ARGS]...", ".SH DESCRIPTION",
        *_help_lines(cli), ".SH COMMANDS",
    ]  # fmt: skip
    for names, command in _commands(cli, ("kb",)):
        context = click.Context(command, info_name=" ".join(names), terminal_width=100)
        usage = " ".join([*names, *command.collect_usage_pieces(context)])
        lines += [f".SS {_escape(usage)}", *_help_lines(command)]
        for parameter in command.params:
            record = parameter.get_help_record(context)
            if record is not None:
                lines += [".TP", f".B {_escape(record[0])}", _escape(record[1])]
    lines += [".SH SEE ALSO", r"\fBkb COMMAND \-\-help\fR"]
    return "\n".join(lines) + "\n"


def _commands(
    group: click.Command, names: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(group, click.Group):
        context = click.Context(group, info_name=" ".join(names))
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield (*names, name), command
            yield from _commands(command, (*names, name))


def _help_lines(command: click.Command) -> Iterator[str]:
    for paragraph in (command.help or "").strip().split("\n\n"):
        is_plain = "\b" in paragraph
        yield ".PP"
        if is_plain:
            yield ".nf"
        text = textwrap.dedent(paragraph.replace("\b", "")).strip()
        for line in text.split("\n"):
            yield _escape(line if is_plain else line.strip())
        if is_plain:
            yield ".fi"


def _escape(text: str) -> str:
    """Text for roff: a line must not begin like a macro, and hyphens stay hyphens."""
    text = " ".join(text.split("\n")).replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
