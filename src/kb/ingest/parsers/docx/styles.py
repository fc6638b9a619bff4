"""The styles and lists of a Word document: which paragraph is a heading, a list item, code."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from kb.ingest.parser_support.zip_archive import local_name

_HEADING = re.compile(r"heading (\d)")
_CODE = re.compile(r"code|html preformatted|plain text|preformatted.*|source code|verbatim.*")
_MAX_BASE_STYLES = 20  # in the chain of base styles


def attribute(element: Element | None, name: str) -> str | None:
    """The value of an attribute, whatever its namespace."""
    if element is None:
        return None
    return next((text for key, text in element.items() if key.rpartition("}")[2] == name), None)


def child(element: Element | None, *path: str) -> Element | None:
    """The first descendant along `path`, whatever its namespace."""
    for name in path:
        if element is not None:
            element = next((inner for inner in element if local_name(inner) == name), None)
    return element


def value(element: Element | None, *path: str) -> str | None:
    """The `val` attribute of the descendant at `path`."""
    return attribute(child(element, *path), "val")


def number(text: str | None) -> int | None:
    """A non-negative integer; None if `text` is not one."""
    return int(text) if text and re.fullmatch(r"\d{1,9}", text) else None


@dataclass(frozen=True, slots=True)
class Role:
    """A paragraph's role: `text`, `title`, `heading`, `item`, `code`, `quote` or `contents`."""

    kind: str = "text"
    level: int = 0
    marker: str = ""


class Styles:
    """The styles and lists of one document. Counts the items of numbered lists."""

    def __init__(self, styles: Element | None, numbering: Element | None) -> None:
        elements = styles if styles is not None else ()
        self._styles = {
            attribute(style, "styleId") or "": style
            for style in elements
            if local_name(style) == "style"
        }
        self._formats = _formats(numbering)
        self._counts: dict[str, list[int]] = defaultdict(lambda: [0] * 10)

    def role(self, paragraph: Element) -> Role:
        properties = child(paragraph, "pPr")
        chain = self._chain(value(properties, "pStyle"))
        styled = [child(style, "pPr") for style in chain]
        names = [(value(style, "name") or "").lower() for style in chain]
        if "title" in names[:1]:
            return Role("title", 1)
        if level := _level([properties, *styled], names):
            return Role("heading", min(level, 6))
        for name in names:
            if name.startswith("toc "):
                return Role("contents")
            if _CODE.fullmatch(name):
                return Role("code")
            if name in ("quote", "intense quote", "block text"):
                return Role("quote")
        return self._item([properties, *styled]) or Role()

    def _chain(self, style: str | None) -> list[Element]:
        """A style and the styles on which it is based."""
        chain: list[Element] = []
        while style in self._styles and len(chain) < _MAX_BASE_STYLES:
            chain.append(self._styles[style])
            style = value(chain[-1], "basedOn")
        return chain

    def _item(self, properties: list[Element | None]) -> Role | None:
        """The role of a list item, with its bullet or number; None if it is not one."""
        lists = [each for one in properties if (each := child(one, "numPr")) is not None]
        name = next((text for each in lists if (text := value(each, "numId"))), None)
        if name in (None, "0"):
            return None
        level = next((n for each in lists if (n := number(value(each, "ilvl"))) is not None), 0)
        level = min(level, 8)
        counts = self._counts[name or ""]
        counts[level] += 1
        counts[level + 1 :] = [0] * (9 - level)
        plain = self._formats.get((name or "", level), "bullet") in ("bullet", "none")
        return Role("item", level, "- " if plain else f"{counts[level]}. ")


def _level(properties: list[Element | None], names: list[str]) -> int:
    for name in names:
        if match := _HEADING.fullmatch(name):
            return int(match[1])
    for one in properties:
        outline = number(value(one, "outlineLvl"))
        if outline is not None:
            return outline + 1 if outline < 9 else 0
    return 0


def _formats(numbering: Element | None) -> dict[tuple[str, int], str]:
    """The number format of list items, by list and level."""
    elements = list(numbering) if numbering is not None else []
    abstract = {
        attribute(each, "abstractNumId"): each
        for each in elements
        if local_name(each) == "abstractNum"
    }
    formats: dict[tuple[str, int], str] = {}
    for each in elements:
        if local_name(each) != "num":
            continue
        kind = abstract.get(value(each, "abstractNumId"))
        for level in kind if kind is not None else ():
            depth = number(attribute(level, "ilvl"))
            if local_name(level) == "lvl" and depth is not None:
                form = value(level, "numFmt") or "decimal"
                formats[attribute(each, "numId") or "", depth] = form
    return formats
