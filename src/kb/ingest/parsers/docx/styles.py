"""What a Word document's styles and lists mean: which paragraph is a heading, an item, code."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from kb.ingest.parser_support.zip_archive import local

_HEADING = re.compile(r"heading (\d)")
_CODE = re.compile(r"code|html preformatted|plain text|preformatted.*|source code|verbatim.*")
_LOOKED_UP = 20  # styles that a style may be based on, one after the other


def attribute(element: Element | None, name: str) -> str | None:
    if element is None:
        return None
    return next((text for key, text in element.items() if key.rpartition("}")[2] == name), None)


def child(element: Element | None, *path: str) -> Element | None:
    for name in path:
        if element is not None:
            element = next((inner for inner in element if local(inner) == name), None)
    return element


def value(element: Element | None, *path: str) -> str | None:
    return attribute(child(element, *path), "val")


def number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"\d{1,9}", text) else None


@dataclass(frozen=True, slots=True)
class Role:
    """What a paragraph is: `text`, `title`, `heading`, `item`, `code`, `quote` or `contents`."""

    kind: str = "text"
    level: int = 0
    marker: str = ""


class Styles:
    """The styles and lists of one document; counts its numbered items."""

    def __init__(self, styles: Element | None, numbering: Element | None) -> None:
        every = styles if styles is not None else ()
        self._styles = {
            attribute(style, "styleId") or "": style for style in every if local(style) == "style"
        }
        self._formats = _formats(numbering)
        self._counts: dict[str, list[int]] = defaultdict(lambda: [0] * 10)

    def role(self, paragraph: Element) -> Role:
        properties = child(paragraph, "pPr")
        chain = self._chain(value(properties, "pStyle"))
        styled = [child(style, "pPr") for style in chain]
        named = [(value(style, "name") or "").lower() for style in chain]
        if "title" in named[:1]:
            return Role("title", 1)
        if level := _level([properties, *styled], named):
            return Role("heading", min(level, 6))
        for name in named:
            if name.startswith("toc "):
                return Role("contents")
            if _CODE.fullmatch(name):
                return Role("code")
            if name in ("quote", "intense quote", "block text"):
                return Role("quote")
        return self._item([properties, *styled]) or Role()

    def _chain(self, style: str | None) -> list[Element]:
        """A style, what it is based on, and so on."""
        chain: list[Element] = []
        while style in self._styles and len(chain) < _LOOKED_UP:
            chain.append(self._styles[style])
            style = value(chain[-1], "basedOn")
        return chain

    def _item(self, properties: list[Element | None]) -> Role | None:
        """An item of a list, with its bullet or number."""
        said = [list_ for one in properties if (list_ := child(one, "numPr")) is not None]
        name = next((text for one in said if (text := value(one, "numId"))), None)
        if name in (None, "0"):
            return None
        level = next((n for one in said if (n := number(value(one, "ilvl"))) is not None), 0)
        level = min(level, 8)
        counts = self._counts[name or ""]
        counts[level] += 1
        counts[level + 1 :] = [0] * (9 - level)
        plain = self._formats.get((name or "", level), "bullet") in ("bullet", "none")
        return Role("item", level, "- " if plain else f"{counts[level]}. ")


def _level(properties: list[Element | None], named: list[str]) -> int:
    for name in named:
        if found := _HEADING.fullmatch(name):
            return int(found[1])
    for one in properties:
        outline = number(value(one, "outlineLvl"))
        if outline is not None:
            return outline + 1 if outline < 9 else 0
    return 0


def _formats(numbering: Element | None) -> dict[tuple[str, int], str]:
    """(list, level) -> how its items are numbered."""
    every = list(numbering) if numbering is not None else []
    abstract = {
        attribute(one, "abstractNumId"): one for one in every if local(one) == "abstractNum"
    }
    formats: dict[tuple[str, int], str] = {}
    for one in every:
        if local(one) != "num":
            continue
        kind = abstract.get(value(one, "abstractNumId"))
        for level in kind if kind is not None else ():
            depth = number(attribute(level, "ilvl"))
            if local(level) == "lvl" and depth is not None:
                form = value(level, "numFmt") or "decimal"
                formats[attribute(one, "numId") or "", depth] = form
    return formats
