"""The text of a web page outside its main text: headers, footers, boxes, forms, hidden parts and
attributes. It is added after the main text, so that every word can be found.

Omits what is not meant to be read: scripts, styles and templates, line numbers and anchors that a
program has added, decoration (`aria-hidden`), and menus, which are parts outside the main text that
contain little but links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kb.ingest.parsers.html import tree as html_tree
from kb.ingest.parsers.html.tree import Weight, walk

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_UNREAD_TAGS = frozenset({"base", "head", "link", "meta", "param", "script", "style", "template"})
_INLINE = frozenset(
    """
    a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr output q
    ruby s samp small span strike strong sub sup time tt u var wbr
    """.split()
)
# Their `aria-label` describes what a click does: "Close", "Toggle menu".
_CONTROLS = frozenset("a aside button details footer form header input nav select summary".split())
_TEXT_ATTRIBUTES = ("alt", "title", "placeholder", "label", "summary")
_META_NAMES = (
    "description",
    "og:description",
    "keywords",
    "author",
    "dc.creator",
    "citation_author",
)
_INPUT_TYPES = frozenset(
    {"button", "email", "number", "reset", "search", "submit", "tel", "text", "url"}
)
_MAX_FRAMES = 3  # of pages embedded in pages


@dataclass(slots=True)
class _Part:
    """The lines and the weight of a part, which may turn out to be a menu."""

    lines: list[str] = field(default_factory=list)
    weight: Weight = field(default_factory=Weight)


class _Collector:
    """Collects the lines of a page that are not `written` yet."""

    def __init__(self, written: set[int], frames: int) -> None:
        self._written = written
        self._frames = frames
        self._inline: list[str] = []
        self._parts = [_Part()]
        self._boilerplate_flags: list[bool] = []  # for each open element
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
        if not node.is_element_node or tag in _UNREAD_TAGS:
            return False
        attributes = node.attributes
        if attributes and html_tree.is_tool(node, attributes):
            return False
        if tag == "math" and (formula := attributes.get("alttext")):
            self._add_line(formula)
            return False
        if tag not in _INLINE:
            self._flush()
        for name in _TEXT_ATTRIBUTES if attributes else ():
            self._add_line(attributes.get(name))
        if tag not in _CONTROLS and attributes:
            self._add_line(attributes.get("aria-label"))
        if tag == "input" and (attributes.get("type") or "text").lower() in _INPUT_TYPES:
            self._add_line(attributes.get("value"))
        self._boilerplate_flags.append(html_tree.is_boilerplate(tag, attributes))
        if self._boilerplate_flags[-1]:
            self._parts.append(_Part())
        if tag == "iframe" and self._frames and (page := attributes.get("srcdoc")):
            tree = html_tree.parse_html(page)
            self._parts[-1].lines += other_text(tree, set(), self._frames - 1)
        self._links += tag == "a"
        self._parts[-1].weight.links += tag == "a"
        return True

    def _leave(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag not in _INLINE:
            self._flush()
        self._links -= tag == "a"
        if self._boilerplate_flags.pop():
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

    def _add_line(self, text: str | None) -> None:
        """Add a separate line, which is not part of the surrounding text."""
        if text and (words := " ".join(text.split())):
            self._parts[-1].lines.append(words)

    def _flush(self) -> None:
        if not self._inline:
            return
        if words := " ".join(html_tree.strip_break_hints("".join(self._inline)).split()):
            self._parts[-1].lines.append(words)
        self._inline = []


def other_text(tree: LexborHTMLParser, written: set[int], frames: int = _MAX_FRAMES) -> list[str]:
    """The lines of a page, except for the text nodes in `written`."""
    lines = list(_head_texts(tree))
    if tree.root is not None:
        lines += _Collector(written, frames).lines(tree.root)
    return lines


def _head_texts(tree: LexborHTMLParser) -> Iterator[str]:
    """Yield the readable texts in the head of a page."""
    for node in tree.css("head title, meta"):
        attributes = node.attributes
        name = attributes.get("name") or attributes.get("property") or ""
        text = node.text() if node.tag == "title" else attributes.get("content")
        if text and (node.tag == "title" or name.lower() in _META_NAMES):
            yield " ".join(text.split())
