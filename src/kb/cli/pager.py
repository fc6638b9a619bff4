"""The pager: text that is longer than the terminal is shown screen by screen."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from shutil import get_terminal_size, which

_LINK = re.compile(r"\x1b\]8;[^\x1b]*\x1b\\")  # the start or the end of a hyperlink (OSC 8)
_LESS_WITH_LINKS = 566  # older versions of less show the characters of a hyperlink


def page(text: str, *, color: bool) -> bool:
    """Show `text` in the pager. Returns False without showing it if it fits on the screen, or if
    there is no pager.

    $PAGER selects the pager; if it is empty or `cat`, there is none. `less` keeps the text on the
    screen and shows colors, unless $LESS is set.
    """
    if text.count("\n") < get_terminal_size().lines - 1:
        return False
    name, *options = _command()
    if name in ("", "cat"):
        return False
    import click

    flags = os.environ.setdefault("LESS", "FRX") + "".join(options)
    if name == "less" and not re.search("[rR]", flags):
        color = False  # less would show the characters of the escape sequences
    if name != "less" or not (color and _less_shows_links()):
        text = _LINK.sub("", text)
    click.echo_via_pager(text, color=color)
    return True


def _command() -> list[str]:
    """The file name of the pager's program, which is empty if $PAGER is, and its options."""
    try:
        words = shlex.split(os.environ.get("PAGER", "less"), posix=os.name == "posix")
    except ValueError:  # an unclosed quote
        return ["less"]
    return [os.path.basename(words[0]), *words[1:]] if words else [""]


def _less_shows_links() -> bool:
    if (program := which("less")) is None:
        return False
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, timeout=1).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    version = re.match(rb"less (\d+)", answer)
    return version is not None and int(version[1]) >= _LESS_WITH_LINKS
