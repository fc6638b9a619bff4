"""The heading text of a passage: its document's title and the headings above it."""

from __future__ import annotations

from collections.abc import Iterable

SEPARATOR = " › "


def heading_text(title: str, heading_path: Iterable[str]) -> str:
    """Join the title and the headings; a first heading that repeats the title appears once."""
    path = tuple(heading_path)
    return SEPARATOR.join(path if path[:1] == (title,) else (title, *path))
