"""A parsed web page: how it is walked, where its text is, and what in it is no text.

Never recursive: pages nest as deeply as their makers like.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kb.ingest.decode import Unavailable, Unreadable
from kb.ingest.parsers.html import xhtml
from kb.text.normalize import nfc

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

HEADINGS = {f"h{level}": level for level in range(1, 7)}
_ARTICLE = frozenset({"article", "main", "section"})
_NEVER = frozenset(
    {
        "applet", "audio", "button", "canvas", "datalist", "dialog", "embed", "footer", "frame",
        "head", "iframe", "input", "link", "map", "menu", "meta", "nav", "noscript", "object",
        "option", "rp", "rt", "script", "search", "select", "style", "svg", "template", "textarea",
        "title", "video",
    }
)  # fmt: skip
_ROLES = frozenset(
    {"alert", "banner", "complementary", "contentinfo", "dialog", "menu", "navigation", "search"}
)
# What the makers of pages, wikis and manuals call the parts that are not the text, and what their
# programs add to the text.
_AROUND = frozenset(
    """
    breadcrumb breadcrumbs catlinks cookie-banner cookie-consent footer hidden menu nav navbar
    navbox navfooter navheader navigation noprint pagination printfooter prev-next related
    share-buttons sidebar site-footer site-header skip-link skip-to-content skiplink social
    social-share sphinxsidebar sr-only toc toc-tree toctree-wrapper-hidden vector-toc
    visually-hidden
    """.split()
)
_TOOLS = frozenset(
    """
    edit-link headerlink heading-anchor linenodiv linenos mw-editsection mw-jump-link viewcode-link
    """.split()
)
_CLASSES = _AROUND | _TOOLS
_AROUND_TAGS = frozenset({"header", "menu", "nav"})
_BREAKS = re.compile("[\u00ad\u200b\u2060\ufeff]")  # where a word may be broken
_INVISIBLE = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_CONTAINERS = frozenset({"div", "dl", "ol", "section", "table", "td", "ul"})
_LINKS = 3  # as many make a menu
_LINK_CHARS = 60  # what a link in a menu has at most, on average
_LINK_SHARE = 0.75
_MAIN_SHARE = 0.25
_MAIN_CHARS = 1000
# Nesting is what takes a parser of HTML time by the square of its depth.
_DEPTH = 30_000
_TAGS = re.compile(r"<(/?)([a-z][^\s/>]*)([^>]*)|<!--", re.I)
_ENDS = {
    "<!--": re.compile("-->"),
    "script": re.compile("</script", re.I),
    "style": re.compile("</style", re.I),
}
# Elements that have nothing in them, or end where the next of their kind begins.
_FLAT = frozenset(
    """
    area base br col colgroup dd dt embed hr img input li link meta option p param source tbody td
    tfoot th thead tr track wbr
    """.split()
)
# The time that a tag takes grows by the square of its attributes.
_ATTRIBUTES = 2_000
_VALUE = r"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\s>"'][^\s>]*+)"""
_ATTRIBUTE = rf"[\s/]++[^\s/>=]++(?:\s*+=\s*+{_VALUE})?+"
_ONE_ATTRIBUTE = re.compile(_ATTRIBUTE)
# A comment, an element whose text is not markup, or a tag with attributes. A name that holds `<` is
# matched without attributes too: otherwise each `<` in it would be read to the end of the name.
_SUSPECT = re.compile(
    rf"<(?:!--|(script|style|textarea|title|xmp)(?![^\s/>])((?:{_ATTRIBUTE})*+)"
    rf"|/?+[a-z][^\s/><]*+(?:<[^\s/>]*+((?:{_ATTRIBUTE})*+)|((?:{_ATTRIBUTE})++)))",
    re.I,
)
_OUT_OF_DRAWINGS = frozenset("b blockquote body div h1 h2 h3 i ol pre span table ul".split())


def parse(text: str, *, xml: bool = False) -> LexborHTMLParser:
    """Parse a page. `xml` marks an XML document that does not say so itself."""
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError:
        raise Unavailable("to read it, run: pip install 'kb-search[html]'") from None
    text = xhtml.to_html(text) if xml or xhtml.is_xml(text) else xhtml.close_opaque(text)
    if text.count("<") > _DEPTH and _is_deep(text):
        raise Unreadable(f"its HTML is nested more than {_DEPTH:,} levels deep")
    if len(text) > 2 * _ATTRIBUTES and _is_crowded(text):
        raise Unreadable(f"it has a tag with more than {_ATTRIBUTES:,} attributes")
    return LexborHTMLParser(nfc(text))


def _is_crowded(text: str) -> bool:
    """Whether a tag has more attributes than anybody writes."""
    at = 0
    while found := _SUSPECT.search(text, at):
        at = found.end()
        attributes = found[2] or found[3] or found[4] or ""
        is_long = len(attributes) > 2 * _ATTRIBUTES  # each takes two characters at least
        if is_long and sum(1 for _ in _ONE_ATTRIBUTE.finditer(attributes)) > _ATTRIBUTES:
            return True
        if found[3] is None and found[4] is None:
            at = _end_of(text, f"</{found[1]}" if found[1] else "-->", at)
    return False


def _end_of(text: str, end: str, at: int) -> int:
    """Where `end` is, in any case of letters; the end of the text where it is not."""
    found = re.compile(re.escape(end), re.I).search(text, at)
    return found.start() if found else len(text)


def _is_deep(text: str) -> bool:
    """By how many more tags were opened than closed, whatever the elements are called."""
    depth, at, drawing = 0, 0, False  # in a drawing `<x/>` is an element; elsewhere it begins one
    while found := _TAGS.search(text, at):
        at = found.end()
        name = (found[2] or found[0]).lower()
        if name in ("math", "svg"):
            drawing = not found[1]
        elif name in _FLAT or name in _OUT_OF_DRAWINGS:
            drawing = False
        if name in _ENDS and not (drawing or found[1]):  # what is in it is no markup
            end = _ENDS[name].search(text, at)
            at = end.start() if end else len(text)
        if name not in _FLAT and name != "<!--" and not (drawing and found[3].endswith("/")):
            depth = max(0, depth + (-1 if found[1] else 1))
            if depth > _DEPTH:
                return True
    return False


def without_breaks(text: str) -> str:
    """`text` without the signs that say where a word may be broken."""
    return _BREAKS.sub("", text)


def is_tool(attributes: Mapping[str, str | None]) -> bool:
    """Whether an element is decoration, or was added to the text by a program."""
    if attributes.get("aria-hidden") == "true":
        return True
    return "class" in attributes and not _TOOLS.isdisjoint(_names(attributes))


def is_around(tag: str, attributes: Mapping[str, str | None]) -> bool:
    """Whether a page marks an element as a place for menus. Links in an `aside` or a `footer` are
    text: references, sources, addresses."""
    role = attributes.get("role")
    if tag in ("aside", "footer") or role in ("complementary", "contentinfo"):
        return role in ("menu", "navigation")
    return (
        tag in _AROUND_TAGS
        or role in _ROLES
        or (bool(attributes) and not _AROUND.isdisjoint(_names(attributes)))
    )


def _names(attributes: Mapping[str, str | None]) -> list[str]:
    return f"{attributes.get('class') or ''} {attributes.get('id') or ''}".lower().split()


def walk(
    root: LexborNode,
    enter: Callable[[LexborNode], bool],
    leave: Callable[[LexborNode], None],
) -> None:
    """Every node in reading order. What `enter` says no to is not gone into, and not left."""
    above: list[tuple[LexborNode, bool]] = []
    node: LexborNode | None = root
    while True:
        if node is not None:
            inside = enter(node)
            above.append((node, inside))
            node = node.child if inside else None
            continue
        done, inside = above.pop()
        if inside:
            leave(done)
        if not above:
            return
        node = done.next


@dataclass(slots=True)
class Weight:
    """What is in an element."""

    chars: int = 0
    link_chars: int = 0
    links: int = 0
    parts: int = 0  # headings, tables and listings: in a table they show that it is for layout

    def is_menu(self) -> bool:
        return (
            self.links >= _LINKS
            and self.link_chars >= self.chars * _LINK_SHARE
            and self.link_chars <= self.links * _LINK_CHARS
        )


@dataclass(slots=True)
class Weights:
    """What every element of a page weighs, in one pass over it."""

    of: dict[int, Weight] = field(default_factory=dict)
    _open: list[Weight] = field(default_factory=lambda: [Weight()])
    _links: int = 0

    @classmethod
    def measured(cls, root: LexborNode) -> Weights:
        weights = cls()
        walk(root, weights._enter, weights._leave)
        return weights

    def __getitem__(self, node: LexborNode) -> Weight:
        return self.of.get(node.mem_id) or Weight()

    def _enter(self, node: LexborNode) -> bool:
        if node.is_text_node:
            count = len("".join((node.text_content or "").split()))
            self._open[-1].chars += count
            self._open[-1].link_chars += count if self._links else 0
            return False
        if not node.is_element_node or node.tag in _NEVER:
            return False
        self._links += node.tag == "a"
        self._open.append(Weight())
        return True

    def _leave(self, node: LexborNode) -> None:
        weight, tag = self._open.pop(), node.tag
        self._links -= tag == "a"
        self.of[node.mem_id] = weight
        above = self._open[-1]
        above.chars += weight.chars
        above.link_chars += weight.link_chars
        above.links += weight.links + (tag == "a")
        above.parts += weight.parts + (tag in HEADINGS or tag in ("pre", "table", "article"))


def main_of(tree: LexborHTMLParser, weights: Weights) -> tuple[LexborNode | None, bool]:
    """The element with the text of the page, and whether the page itself says that it is it."""
    body = tree.body
    if body is None:
        return None, False
    whole = weights[body].chars
    for selector in ("main", "[role=main]", "article", "#mw-content-text"):
        found = tree.css(selector)
        if len(found) != 1:  # several articles are a list of them
            continue
        chars = weights[found[0]].chars
        if chars and (chars >= _MAIN_CHARS or chars >= whole * _MAIN_SHARE):
            return found[0], True
    return body, False


@dataclass(slots=True)
class Noise:
    """What is not the text of a page. Menus are looked for where the page does not say which part
    is the text, since a list of links in there is meant to be read; and in books."""

    weights: Weights
    menus: bool
    furniture: bool = True
    inside: int = 0  # an article or the main part

    def is_noise(self, node: LexborNode) -> bool:
        tag = node.tag or ""
        if tag in _NEVER:
            return not (tag == "footer" and not self.furniture)
        attributes = node.attributes
        if tag != "body" and (
            "hidden" in attributes
            or attributes.get("aria-hidden") == "true"
            or _INVISIBLE.search(attributes.get("style") or "")
        ):
            return True
        if self.furniture and self._is_furniture(tag, node, attributes):
            return True
        return self.menus and tag in _CONTAINERS and self.weights[node].is_menu()

    def _is_furniture(
        self, tag: str, node: LexborNode, attributes: Mapping[str, str | None]
    ) -> bool:
        if attributes.get("role") in _ROLES:
            return True
        if not _CLASSES.isdisjoint(_names(attributes)) and tag not in ("body", "main", "article"):
            return True
        if tag == "form":  # some frameworks put the whole page into one
            return node.css_first("h1, h2, article, main, p") is None
        if tag == "aside":
            return not self.inside
        if tag == "header" and not self.inside:
            return node.css_first("h1, h2") is None or node.css_first("nav") is not None
        return False

    def enter(self, tag: str) -> None:
        self.inside += tag in _ARTICLE

    def leave(self, tag: str) -> None:
        self.inside -= tag in _ARTICLE
