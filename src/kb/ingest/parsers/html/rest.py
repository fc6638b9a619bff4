"""What a web page says besides its main text: headers, footers, boxes, forms, hidden parts, and
what attributes say to its readers. It stands behind the main text, so that every word can be found.

Left out is what nobody wrote to be read: scripts, styles and templates, line numbers and anchors
that a program has added, parts marked as decoration (`aria-hidden`), and menus: parts of which the
page says that they are around its text, and that hold little but links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kb.ingest.parsers.html import tree as html_tree
from kb.ingest.parsers.html.tree import Weight, walk

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_SILENT = frozenset({"base", "head", "link", "meta", "param", "script", "style", "template"})
_INLINE = frozenset(
    """
    a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr output q
    ruby s samp small span strike strong sub sup time tt u var wbr
    """.split()
)
_SPOKEN = ("alt", "title", "placeholder", "label", "summary")
_TOLD = ("description", "og:description", "keywords", "author", "dc.creator", "citation_author")
_TYPED = frozenset({"button", "email", "number", "reset", "search", "submit", "tel", "text", "url"})
_FRAMES = 3  # pages within pages


@dataclass(slots=True)
class _Part:
    """The lines of a menu, or of what is around menus, and what is in them."""

    lines: list[str] = field(default_factory=list)
    weight: Weight = field(default_factory=Weight)


class _Collector:
    """Gathers the lines of a page that are not `written` yet."""

    def __init__(self, written: set[int], frames: int) -> None:
        self._written = written
        self._frames = frames
        self._inline: list[str] = []
        self._parts = [_Part()]
        self._around: list[bool] = []  # of the elements that are open
        self._links = 0

    def lines(self, root: LexborNode) -> list[str]:
        walk(root, self._enter, self._leave)
        self._flush()
        return self._parts[0].lines

    def _enter(self, node: LexborNode) -> bool:
        if node.is_text_node:
            if node.mem_id not in self._written:
                self._add(node.text_content or "")
            return False
        tag = node.tag or ""
        if not node.is_element_node or tag in _SILENT:
            return False
        attributes = node.attributes
        if attributes and html_tree.is_tool(attributes):
            return False
        if tag == "math" and (formula := attributes.get("alttext")):
            self._say(formula)
            return False
        if tag not in _INLINE:
            self._flush()
        for name in _SPOKEN if attributes else ():
            self._say(attributes.get(name))
        if tag == "input" and (attributes.get("type") or "text").lower() in _TYPED:
            self._say(attributes.get("value"))
        self._around.append(html_tree.is_around(tag, attributes))
        if self._around[-1]:
            self._parts.append(_Part())
        if tag == "iframe" and self._frames and (page := attributes.get("srcdoc")):
            tree = html_tree.parse(page)
            self._parts[-1].lines += rest_of(tree, set(), self._frames - 1)
        self._links += tag == "a"
        self._parts[-1].weight.links += tag == "a"
        return True

    def _leave(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag not in _INLINE:
            self._flush()
        self._links -= tag == "a"
        if self._around.pop():
            self._flush()
            part = self._parts.pop()
            if not part.weight.is_menu():
                self._parts[-1].lines += part.lines

    def _add(self, text: str) -> None:
        count = len("".join(text.split()))
        weight = self._parts[-1].weight
        weight.chars += count
        weight.link_chars += count if self._links else 0
        self._inline.append(text)

    def _say(self, text: str | None) -> None:
        """Lines of their own: they stand beside the text, not in it."""
        if text and (words := " ".join(text.split())):
            self._parts[-1].lines.append(words)

    def _flush(self) -> None:
        if not self._inline:
            return
        if words := " ".join(html_tree.without_breaks("".join(self._inline)).split()):
            self._parts[-1].lines.append(words)
        self._inline = []


def rest_of(tree: LexborHTMLParser, written: set[int], frames: int = _FRAMES) -> list[str]:
    """The lines of a page without the text nodes that are `written`."""
    lines = list(_told(tree))
    if tree.root is not None:
        lines += _Collector(written, frames).lines(tree.root)
    return lines


def _told(tree: LexborHTMLParser) -> Iterator[str]:
    """What the head of a page says to people."""
    for node in tree.css("head title, meta"):
        attributes = node.attributes
        name = attributes.get("name") or attributes.get("property") or ""
        text = node.text() if node.tag == "title" else attributes.get("content")
        if text and (node.tag == "title" or name.lower() in _TOLD):
            yield " ".join(text.split())
