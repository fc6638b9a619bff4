"""Text on stdout and stderr: data on stdout, messages on stderr.

Color and line wrapping are for terminals. No character can make a write fail, and control
characters from documents are escaped before they reach a terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from kb.text.controls import escape as escape
from kb.text.controls import escape_lines as escape_lines
from kb.values import IO, Any, NamedTuple

_MIN_WIDTH = 40  # columns; narrower terminals wrap lines themselves
_MAX_WIDTH = 120  # longer lines are hard to read


def configure_streams() -> None:
    """Make stdout and stderr write escapes for characters they cannot encode, including the
    undecodable bytes of file names that are not valid UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


# --- streams --------------------------------------------------------------------------------------

_REDIRECT: ContextVar[tuple[IO[str], IO[str]] | None] = ContextVar("redirect", default=None)


def stdout() -> IO[str] | None:
    """Return the stream for data: `sys.stdout`, unless this thread's output is redirected."""
    return redirected[0] if (redirected := _REDIRECT.get()) else sys.stdout


def stderr() -> IO[str] | None:
    """Return the stream for messages: `sys.stderr`, unless this thread's output is redirected."""
    return redirected[1] if (redirected := _REDIRECT.get()) else sys.stderr


@contextmanager
def redirect(data: IO[str], messages: IO[str]) -> Iterator[None]:
    """Redirect this thread's output. The streams may have the attributes `color`, `columns`,
    `client_encoding` and `paged`."""
    token = _REDIRECT.set((data, messages))
    try:
        yield
    finally:
        _REDIRECT.reset(token)


# --- writing --------------------------------------------------------------------------------------


def write(text: str) -> None:
    """Write a line of data to stdout."""
    _write_line(text, stdout())


def write_paged(text: str) -> None:
    """Write data to stdout; on a terminal, through the pager if it is longer than the screen. A
    redirected stream gets the attribute `paged`, because the client has the terminal."""
    stream = stdout()
    if stream is not sys.stdout:
        stream.paged = True  # type: ignore[union-attr]
    elif is_terminal(stream):
        from kb.cli.pager import page

        if page(text, color=has_color(stream)):
            return
    write(text)


def write_raw(text: str) -> None:
    """Write data to stdout without a line break at its end."""
    if (stream := stdout()) is not None:
        stream.write(text)
        stream.flush()


def write_json(value: Any) -> None:
    """Write JSON to stdout: on one line, or indented on a terminal."""
    indent = 2 if is_terminal(stdout()) else None
    _write_line(_json(value, indent, stdout()), stdout())


def write_json_line(value: Mapping[str, Any]) -> None:
    """Write JSON to stdout, always on one line."""
    _write_line(_json(value, None, stdout()), stdout())


def note(text: str) -> None:
    """Write a message to stderr."""
    _write_line(text, stderr())


def note_json(value: Mapping[str, Any]) -> None:
    """Write JSON to stderr."""
    _write_line(_json(value, None, stderr()), stderr())


def error(message: str, hint: str) -> None:
    """Write an error and its hint to stderr."""
    console = Console.of(stderr())
    note(f"{console.style('error:', fg='red', bold=True)} {escape(message)}")
    if hint:
        lines = "\n  ".join(map(escape, hint.split("\n")))  # indented, unlike lines of kb itself
        note(f"{console.style('hint:', fg='cyan')} {lines}")


def warn(message: str) -> None:
    """Write a warning to stderr."""
    note(f"{Console.of(stderr()).style('warning:', fg='yellow')} {escape(message)}")


def _write_line(text: str, stream: IO[str] | None) -> None:
    """Write a line and flush it, so that stdout and stderr keep their order when both go to one
    file."""
    if stream is None:  # closed, for instance by `>&-`
        return
    if has_color(stream):
        import click

        click.echo(text, file=stream, color=True)  # supports Windows consoles
    else:  # written directly: click would strip escape sequences from a document's own text
        stream.write(text + "\n")
        stream.flush()


def _json(value: Any, indent: int | None, stream: IO[str] | None) -> str:
    """Encode `value`, with JSON escapes where the stream cannot represent a character."""
    import json

    name = getattr(stream, "client_encoding", None) or getattr(stream, "encoding", None)
    encoding = (name or "ascii").lower().replace("-", "")
    return json.dumps(value, indent=indent, ensure_ascii=not encoding.startswith("utf"))


# --- layout ---------------------------------------------------------------------------------------


class Console(NamedTuple):
    """What a stream can display. `width` is None if lines must not be wrapped."""

    color: bool
    width: int | None
    links: bool = False

    @classmethod
    def of(cls, stream: IO[str] | None) -> Console:
        """Return the capabilities of `stream`."""
        terminal = is_terminal(stream)
        return cls(
            has_color(stream), _width(stream) if terminal else None, _has_links(stream, terminal)
        )

    def style(self, text: str, **styles: Any) -> str:
        """Return `text` with click's `styles`; unchanged if the stream has no color."""
        if not self.color:
            return text
        import click

        return click.style(text, **styles)

    def link(self, text: str, address: str | None) -> str:
        """Return `text` as a hyperlink (OSC 8); unchanged without an address, or if the stream does
        not show links. A `file:` address gets this machine's name, since the terminal may run on
        another."""
        if not self.links or address is None:
            return text
        if address.startswith("file:///"):
            address = f"file://{_host()}{address.removeprefix('file://')}"
        return f"\x1b]8;;{escape(address)}\x1b\\{text}\x1b]8;;\x1b\\"


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether `stream` is open and a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def has_color(stream: IO[str] | None) -> bool:
    """Whether to write color, following no-color.org and force-color.org; NO_COLOR wins, as in
    Python."""
    if (color := getattr(stream, "color", None)) is not None:
        return bool(color)
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def _has_links(stream: IO[str] | None, terminal: bool) -> bool:
    """Whether to write hyperlinks to `stream`."""
    if (links := getattr(stream, "links", None)) is not None:
        return bool(links)
    if not terminal:
        return False
    from kb.cli.socket_client import shows_links

    return shows_links(terminal)


def _host() -> str:
    return os.uname().nodename if os.name == "posix" else ""


def display_width(text: str) -> int:
    """Return the columns that `text` takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1
               for char in text)  # fmt: skip


def truncate(text: str, width: int) -> str:
    """Return `text` cut to `width` columns, with `…` in place of the rest."""
    if display_width(text) <= width:
        return text
    while text and display_width(text) >= width:
        text = text[:-1]
    return f"{text}…" if width > 0 else ""


def count(number: int, noun: str) -> str:
    """Return `1 passage` or `3 passages`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _width(stream: IO[str] | None) -> int | None:
    from shutil import get_terminal_size

    width = getattr(stream, "columns", None) or get_terminal_size().columns
    return None if width < _MIN_WIDTH else min(width, _MAX_WIDTH)
