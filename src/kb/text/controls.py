"""Escaping of control characters, so that no text can send commands to a terminal or an agent.

Pure: the characters that a terminal obeys, and those that change the direction of text, become
backslash escapes. Everything else stays as it is.
"""

from __future__ import annotations

from kb.text.patterns import compile_later

_CONTROLS = compile_later(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_LAYOUT = "\t\n"  # allowed in text of several lines


def escape(text: str) -> str:
    """Return `text` on one line: line breaks are escaped too, so that a file name cannot start a
    new line of output."""
    return _CONTROLS.sub(lambda match: _escape_char(match[0]), text)


def escape_lines(text: str) -> str:
    """Return `text` with its line breaks and tabs kept, and all other control characters
    escaped."""
    return _CONTROLS.sub(
        lambda match: match[0] if match[0] in _LAYOUT else _escape_char(match[0]), text
    )


def _escape_char(char: str) -> str:
    return ascii(char)[1:-1]
