"""Markdown for the generated pages of `docs/reference`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

WIDTH = 100
GENERATED = "<!-- Written by docs/reference.py; change the code, then run: make docs -->"

_MARKUP = re.compile(r"[<*]")
_DASH = re.compile(r"(?<=\s)-(?=\s)")  # would be a list item at the start of a line


def page(title: str, about: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", GENERATED, wrap_paragraphs(about), *parts]) + "\n"


def wrap_paragraphs(text: str) -> str:
    """Paragraphs of Markdown, wrapped."""
    return "\n\n".join(wrap(part) for part in text.strip().split("\n\n"))


def item(text: str) -> str:
    return wrap(f"- {text}", indent="  ")


def prose(text: str) -> str:
    """Plain text as Markdown: escapes what Markdown would interpret, except in backquotes."""
    parts = text.split("`")
    parts[::2] = [_DASH.sub("`-`", _MARKUP.sub(r"\\\g<0>", part)) for part in parts[::2]]
    return "`".join(parts)


def wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def fence(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |".replace("|  |", "| |") for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    return f"`{text}`"


def sentence(text: str) -> str:
    """A comment from the code as a sentence, with a capital letter and a period."""
    first, _, rest = " ".join(text.split()).partition(" ")
    first = first.capitalize() if first.islower() else first  # nDCG keeps its case
    text = f"{first} {rest}".rstrip()
    return text if text.endswith((".", "]")) else f"{text}."
