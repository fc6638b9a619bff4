"""Text on stdout and stderr: data on the one, everything else on the other.

Colour and line breaks are for terminals. Whatever is written, no character of it can be a crash,
and no document can send commands to the terminal.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, Any, NamedTuple

import click

# What a terminal obeys, and what turns the direction of the text around.
_CONTROLS = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_KEPT = "\t\n"  # in text of several lines
_NARROW = 40  # columns; below, lines are not broken by us
_WIDE = 120  # and longer lines are hard to read


def prepare() -> None:
    """A character that stdout or stderr cannot encode is written as an escape, not raised. The
    same holds for what a file name has instead of characters when it is not valid UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


# --- where to -------------------------------------------------------------------------------------

_ELSEWHERE: ContextVar[tuple[IO[str], IO[str]] | None] = ContextVar("elsewhere", default=None)


def out() -> IO[str] | None:
    """Where data goes: stdout, unless this thread answers for another process."""
    return elsewhere[0] if (elsewhere := _ELSEWHERE.get()) else sys.stdout


def err() -> IO[str] | None:
    """Where everything else goes."""
    return elsewhere[1] if (elsewhere := _ELSEWHERE.get()) else sys.stderr


@contextmanager
def written_to(data: IO[str], rest: IO[str]) -> Iterator[None]:
    """Write to these in this thread. They may tell their `colour`, `columns` and encoding."""
    token = _ELSEWHERE.set((data, rest))
    try:
        yield
    finally:
        _ELSEWHERE.reset(token)


# --- writing --------------------------------------------------------------------------------------


def say(text: str) -> None:
    """Data, for people."""
    _write(text, out())


def say_json(shape: Any) -> None:
    """Data, for programs: on one line, but for a person who looks at it."""
    indent = 2 if is_terminal(out()) else None
    _write(_json(shape, indent, out()), out())


def say_json_line(shape: Mapping[str, Any]) -> None:
    _write(_json(shape, None, out()), out())


def note(text: str) -> None:
    """Something to know that is not data."""
    _write(text, err())


def note_json(shape: Mapping[str, Any]) -> None:
    _write(_json(shape, None, err()), err())


def error(message: str, hint: str) -> None:
    page = Page.of(err())
    note(f"{page.style('error:', fg='red', bold=True)} {visible(message)}")
    if hint:
        lines = "\n  ".join(map(visible, hint.split("\n")))  # none begins where ours do
        note(f"{page.style('hint:', fg='cyan')} {lines}")


def warn(message: str) -> None:
    note(f"{Page.of(err()).style('warning:', fg='yellow')} {visible(message)}")


def _write(text: str, stream: IO[str] | None) -> None:
    """Flushed, so that stdout and stderr in one file stand in the order they were written."""
    if stream is None:  # closed, as after `>&-`
        return
    if has_colour(stream):
        click.echo(text, file=stream, color=True)  # knows the consoles of Windows
    else:  # as it is: click would take escapes out of a document's own text
        stream.write(text + "\n")
        stream.flush()


def _json(shape: Any, indent: int | None, stream: IO[str] | None) -> str:
    """Escapes are JSON's own where the stream cannot write the character itself."""
    import json

    told = getattr(stream, "told_encoding", None) or getattr(stream, "encoding", None)
    encoding = (told or "ascii").lower().replace("-", "")
    return json.dumps(shape, indent=indent, ensure_ascii=not encoding.startswith("utf"))


# --- the sheet that is written on -----------------------------------------------------------------


class Page(NamedTuple):
    """How a stream wants its text. `width` is None where lines are not to be broken."""

    colour: bool
    width: int | None

    @classmethod
    def of(cls, stream: IO[str] | None) -> Page:
        return cls(has_colour(stream), _width(stream) if is_terminal(stream) else None)

    def style(self, text: str, **styles: Any) -> str:
        return click.style(text, **styles) if self.colour else text


def is_terminal(stream: IO[str] | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def has_colour(stream: IO[str] | None) -> bool:
    """By the conventions of no-color.org and force-color.org; NO_COLOR wins, as in Python."""
    if (told := getattr(stream, "colour", None)) is not None:
        return bool(told)
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def visible(text: str) -> str:
    """`text` in one line, with control characters shown as escapes, so that none is obeyed: a name
    with a line break begins no line of its own."""
    return _CONTROLS.sub(lambda found: _escaped(found[0]), text)


def visible_text(text: str) -> str:
    """The same of a text that may have several lines, and tabs."""
    return _CONTROLS.sub(lambda one: one[0] if one[0] in _KEPT else _escaped(one[0]), text)


def _escaped(char: str) -> str:
    return ascii(char)[1:-1]


def columns(text: str) -> int:
    """How many columns a terminal needs: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1
               for char in text)  # fmt: skip


def cut(text: str, width: int) -> str:
    """As much of `text` as fits; where it is not all, `…` says so."""
    if columns(text) <= width:
        return text
    while text and columns(text) >= width:
        text = text[:-1]
    return f"{text}…" if width > 0 else ""


def _width(stream: IO[str] | None) -> int | None:
    from shutil import get_terminal_size

    width = getattr(stream, "columns", None) or get_terminal_size().columns
    return None if width < _NARROW else min(width, _WIDE)
