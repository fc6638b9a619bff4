"""Files of other formats embedded in a Word document, such as HTML pasted by a program."""

from __future__ import annotations

from typing import NamedTuple

from kb.ingest import file_names
from kb.ingest.decode import Unavailable, Unreadable, Unsupported
from kb.ingest.parser_support.extract import Extract, clean
from kb.ingest.parser_support.sections import paragraphs
from kb.ingest.parsers.email.message import parse_email
from kb.ingest.parsers.html import page as html
from kb.ingest.parsers.html import tree as html_tree
from kb.ports import Source

_PAGES = frozenset({".htm", ".html", ".xhtml"})
_PLAIN = frozenset({".txt", ".xml"})
_MAILS = frozenset({".eml", ".mht", ".mhtml"})


class AlternativeChunk(NamedTuple):
    """An embedded file."""

    name: str
    data: bytes


def write_alternative_chunk(chunk: AlternativeChunk, out: Extract) -> list[str] | None:
    """Write the file's visible text; return its other text, or None if the file is not read."""
    suffix = file_names.suffix_of(chunk.name.rpartition("/")[2])
    try:
        if suffix in _PAGES:
            page = html_tree.parse_html(html.decode_html(chunk.data), xml=suffix == ".xhtml")
            return html.write_page(page, out)
        if suffix in _PLAIN:
            text = html.decode_html(chunk.data)
        elif suffix in _MAILS:  # a web page saved with its pictures is formatted like an e-mail
            text = parse_email(Source("a.eml", chunk.data)).text or ""
        else:
            return None
    except (Unavailable, Unreadable, Unsupported):
        return None
    lines = clean(text).split("\n")
    for start, end in paragraphs(lines, 0, len(lines)):
        out.lines(lines[start:end])
    return []
