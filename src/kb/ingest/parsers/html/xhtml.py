"""Rewrites web pages that are XML documents for the HTML parser.

To an HTML parser, `<script/>` opens an element that contains the rest of the page, a CDATA section
is a comment, and entities that the page itself defines are unknown. Linear in the length of the
page.
"""

from __future__ import annotations

import html
import re

from kb.ingest.decode import Unreadable

_HEAD_CHARS = 2048
_XML = re.compile(
    r"\s*+(?:<\?xml\s|(?:(?><!--.*?-->|<!doctype[^>]*+>)\s*+)*+<html\s[^>]*?\bxmlns\s*=)",
    re.IGNORECASE | re.DOTALL,
)
_VOID = frozenset(
    "area base br col embed frame hr img input keygen link meta param source track wbr".split()
)
_VALUE = r"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\s>"'][^\s>]*+)"""
_ATTRIBUTES = rf"(?:\s++[^\s/>=<]++(?:\s*+=\s*+{_VALUE})?+)*+"
# Each alternative matches even where its end is missing: a failed attempt at every `<` would take
# quadratic time.
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<!\[CDATA\[(?P<cdata>.*?)(?:\]\]>|\Z)"
    rf"|<(?P<name>[a-z_][^\s/><]*+){_ATTRIBUTES}(?P<end>\s*+/>)?+",
    re.IGNORECASE | re.DOTALL,
)
_OPAQUE = re.compile(
    rf"<(script|style|title|template|textarea|iframe|xmp|noembed|noframes)(?![^\s/>]){_ATTRIBUTES}"
    r"(\s*+/>)?+",
    re.IGNORECASE,
)
_DOCTYPE = re.compile(r"""<!DOCTYPE\s+[^\[<>]{0,1000}\[""", re.IGNORECASE)
_SUBSET_END = re.compile(r"\]\s*>")
_ENTITY = re.compile(r"""<!ENTITY\s+([\w.:-]{1,100})\s+(?:"([^"]*)"|'([^']*)')\s*>""")
_REFERENCE = re.compile(r"&([A-Za-z_][\w.:-]{0,99});")
_GROWTH_CHARS = 1_000_000


def is_xml(text: str) -> bool:
    """Whether a page begins with an XML declaration, or names the namespace of XHTML."""
    return _XML.match(text, 0, _HEAD_CHARS) is not None


def to_html(text: str) -> str:
    """Write out self-closed elements, CDATA sections and the entities that the page defines."""
    return _MARKUP.sub(_rewrite, _expand_entities(text))


def close_opaque(text: str) -> str:
    """Close self-closed elements such as `<script/>` that have no end tag anywhere below.

    In HTML they would hide the rest of the page.
    """

    def close(match: re.Match[str]) -> str:
        name, end = match[1].lower(), match[2]
        if end is None:
            return match[0]
        if name not in last_ends:
            starts = [tag.start() for tag in re.finditer(f"</{name}", text, re.IGNORECASE)]
            last_ends[name] = max(starts, default=-1)
        if last_ends[name] > match.start():
            return match[0]
        return f"{match[0][: -len(end)]}></{name}>"

    last_ends: dict[str, int] = {}
    return _OPAQUE.sub(close, text)


def _rewrite(match: re.Match[str]) -> str:
    if (cdata := match["cdata"]) is not None:
        return html.escape(cdata, quote=False)
    if match["end"] is None or match["name"].lower() in _VOID:
        return match[0]
    return f"{match[0][: -len(match['end'])]}></{match['name']}>"


def _expand_entities(text: str) -> str:
    doctype = _DOCTYPE.search(text, 0, _HEAD_CHARS)
    end = _SUBSET_END.search(text, doctype.end()) if doctype else None
    if doctype is None or end is None:
        return text
    entities: dict[str, str] = {}
    left_chars = _GROWTH_CHARS

    def expand(reference: re.Match[str]) -> str:
        nonlocal left_chars
        value = entities.get(reference[1])
        if value is None:
            return reference[0]
        left_chars -= len(value)
        if left_chars < 0:
            raise Unreadable(f"its entities expand to more than {_GROWTH_CHARS:,} characters")
        return value

    for entity in _ENTITY.finditer(text, doctype.end(), end.start()):
        value = entity[2] if entity[2] is not None else entity[3]
        entities.setdefault(entity[1], _REFERENCE.sub(expand, value))
    return text[: doctype.start()] + _REFERENCE.sub(expand, text[end.end() :])
