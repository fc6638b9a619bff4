"""Citations: `lib/a.md#L12-L34`, `lib/a.md#L12`, `lib/paper.pdf#page=13`, and for the second
passage of a page `lib/paper.pdf#page=13,passage=2`. Pure.

Formatting and parsing are inverse. In the path, `#`, `%`, `?`, spaces and control characters are
percent-encoded; all other characters stay readable, whatever their script.
"""

from __future__ import annotations

import re

from kb.errors import InvalidCitation
from kb.text.patterns import compile_later
from kb.types import Citation, Span
from kb.values import NamedTuple

_RESERVED = compile_later(r"[\x00-\x20\x7f-\xa0#%?\u2028\u2029\ud800-\udfff]")
_ESCAPE = compile_later(r"(?:%[0-9A-Fa-f]{2})+")
_LINES = compile_later(r"L([1-9][0-9]{0,9})(?:-L([1-9][0-9]{0,9}))?")
_PAGE = compile_later(r"page=([1-9][0-9]{0,9})(?:,passage=([1-9][0-9]{0,9}))?")


class Target(NamedTuple):
    """The target of a citation: a document, or lines or a page of it. `passage` counts the passages
    of a page; None is the whole page."""

    path: str
    start: int | None = None
    end: int | None = None
    page: int | None = None
    passage: int | None = None


def cite(path: str, span: Span, section: str | None) -> Citation:
    """The citation of `span` in the document at `path`."""
    return Citation(span.kind, path, format_uri(path, span), section, span)


def format_uri(path: str, span: Span | None = None) -> str:
    """The URI of `span`, or of the whole document at `path`."""
    quoted = _RESERVED.sub(_quote, path)
    if span is None:
        return quoted
    if span.page is not None:
        passage = f",passage={span.passage}" if span.passage > 1 else ""
        return f"{quoted}#page={span.page}{passage}"
    if span.start is None:
        return quoted
    if span.end is None or span.end == span.start:
        return f"{quoted}#L{span.start}"
    return f"{quoted}#L{span.start}-L{span.end}"


def parse_uri(uri: str) -> Target:
    """The target of a URI; a path without a fragment is the whole document. Raises
    `InvalidCitation`."""
    quoted, hash_, fragment = uri.partition("#")
    path = _ESCAPE.sub(_unquote, quoted)
    if not path:
        raise InvalidCitation(f"{uri!r} has no document path", _FORMS)
    if not hash_:
        return Target(path)
    if lines := _LINES.fullmatch(fragment):
        start = int(lines[1])
        end = int(lines[2]) if lines[2] else start
        if end < start:
            raise InvalidCitation(f"the last line of {uri!r} is before the first", _FORMS)
        return Target(path, start, end)
    if page := _PAGE.fullmatch(fragment):
        return Target(path, page=int(page[1]), passage=int(page[2]) if page[2] else None)
    raise InvalidCitation(f"the fragment of {uri!r} is neither lines nor a page", _FORMS)


_FORMS = "citations look like folder/file.md#L12-L34, folder/file.md#L12 or folder/file.pdf#page=4"


def _quote(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


def _unquote(match: re.Match[str]) -> str:
    raw = bytes.fromhex(match[0].replace("%", ""))
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return match[0]
