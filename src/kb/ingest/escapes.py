r"""Decodes escaped characters in data formats, so that the words they are part of can be found.

`json.dumps` writes `M\u00fcnchen` by default, and `yaml.dump` writes `M\xFCnchen`. Pure. The number
of lines stays the same, and so do the quotes and backslashes that the format needs.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from kb.ingest import file_names
from kb.ingest.decode import normalize_text

_JSON = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([^u\n]))"
)
_HEXADECIMAL = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})"
    r"|U(00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})|x([89a-fA-F][0-9a-fA-F])|\\)"
)
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});")
_SHORT = {"/": "/", "b": " ", "f": " ", "n": " ", "r": " ", "t": " "}


def unescape(name: str, text: str) -> str:
    """Return the text of the file `name` with its escapes decoded; `text` itself if it has none."""
    escapes = _BY_SUFFIX.get(file_names.suffix_of(name))
    if escapes is None or escapes[0] not in text:
        return text
    _, pattern, replace = escapes
    decoded = pattern.sub(replace, text)
    return text if decoded == text else normalize_text(decoded)


def _json_escape(match: re.Match[str]) -> str:
    high, low, code, short = match.groups()
    if short is not None:
        return _SHORT.get(short, match[0])
    char = _from_pair(high, low) if high else chr(int(code, 16))
    return f"\\{char}" if char in '"\\' else _printable(char)


def _hexadecimal_escape(match: re.Match[str]) -> str:
    high, low, *codes = match.groups()
    code = next((code for code in codes if code), None)
    if code is None and not high:
        return match[0]
    char = _from_pair(high, low) if high else chr(int(code or "", 16))
    return match[0] if char.isascii() else _printable(char)


def _reference(match: re.Match[str]) -> str:
    text = html.unescape(match[0])
    return match[0] if text.isascii() else "".join(map(_printable, text))


def _from_pair(high: str, low: str) -> str:
    return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)


def _printable(char: str) -> str:
    """Replace characters that end lines or cannot be stored."""
    if "\ud800" <= char <= "\udfff":
        return "\ufffd"
    return " " if char.isspace() or char < " " or "\x7f" <= char < "\xa0" else char


_Escapes = tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]]
_BY_SUFFIX: dict[str, _Escapes] = {
    suffix: escapes
    for suffixes, escapes in (
        (".json .json5 .jsonc .jsonl .ndjson", ("\\", _JSON, _json_escape)),
        (".properties .toml .yaml .yml", ("\\", _HEXADECIMAL, _hexadecimal_escape)),
        (".svelte .vue .xml .xsd .xsl .xslt", ("&", _REFERENCE, _reference)),
    )
    for suffix in suffixes.split()
}
