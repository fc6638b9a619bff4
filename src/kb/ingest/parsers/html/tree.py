"""A parsed web page: traversal, its main element, and which elements are not text.

Traversal is never recursive, since pages may be nested to any depth.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kb.ingest.decode import Unavailable, Unreadable
from kb.ingest.parsers.html import xhtml
from kb.text.normalize import nfc

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

HEADINGS = {f"h{level}": level for level in range(1, 7)}
_ARTICLE = frozenset({"article", "main", "section"})
_NON_TEXT_TAGS = frozenset(
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
# Classes and ids in pages, wikis and manuals: parts that do not belong to the text, and elements
# that programs add to it.
_BOILERPLATE_NAMES = frozenset(
    """
    breadcrumb breadcrumbs catlinks cookie-banner cookie-consent footer hidden menu nav navbar
    navbox navfooter navheader navigation noprint pagination printfooter prev-next related
    share-buttons sidebar site-footer site-header skip-link skip-to-content skiplink social
    social-share sphinxsidebar sr-only toc toc-tree toctree-wrapper-hidden vector-toc
    visually-hidden
    """.split()
)
_TOOL_NAMES = frozenset(
    """
    edit-link headerlink heading-anchor linenodiv linenos mw-editsection mw-jump-link viewcode-link
    """.split()
)
_LINE_NUMBER_NAMES = frozenset({"linenodiv", "linenos"})
_ACTION_NAMES = frozenset({"edit-link", "mw-editsection", "mw-jump-link", "viewcode-link"})
# The text that programs generate in such elements, apart from signs and numbers. Authors use the
# same classes around their own text.
_GENERATED_TEXT = re.compile(
    r"\W*(?:(?:perma|permanent )?link(?: to (?:this|the)(?: \w+)?)?|anchor|source|view source"
    r"|edit(?: (?:this|the|on|in|source|page|section|document|github|gitlab))*)\W*",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"\s*\[[^\[\]]{0,60}\]\s*")  # in any language: [bearbeiten]
_EDIT_TARGET = re.compile(r"[?&](?:ve)?action=edit|/edit/|/blob/")
_LONGEST_ACTION = 60  # characters
_BOILERPLATE_TAGS = frozenset({"header", "menu", "nav"})
_BREAK_HINTS = re.compile(
    "[\u00ad\u200b\u2060\ufeff]"
)  # soft hyphens and other hints for line breaks
_INVISIBLE = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_CONTAINERS = frozenset({"div", "dl", "ol", "section", "table", "td", "ul"})
_MENU_LINKS = 3  # at least this many links in a menu
_MENU_LINK_CHARS = 60  # at most, the average length of a menu's links
_MENU_LINK_SHARE = 0.75
_MAIN_SHARE = 0.25
_MAIN_CHARS = 1000
# The HTML parser takes quadratic time in the depth.
_MAX_DEPTH = 30_000
_TAGS = re.compile(r"<(/?)([a-z][^\s/>]*)([^>]*)|<!--", re.I)
_RAW_TEXT_ENDS = {
    "<!--": re.compile("-->"),
    "script": re.compile("</script", re.I),
    "style": re.compile("</style", re.I),
}
# Elements that are empty, or end where the next one of their kind begins.
_NON_NESTING_TAGS = frozenset(
    """
    area base br col colgroup dd dt embed hr img input li link meta option p param source tbody td
    tfoot th thead tr track wbr
    """.split()
)
# The HTML parser takes quadratic time in the number of attributes of a tag.
_MAX_ATTRIBUTES = 2_000
_VALUE = r"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\s>"'][^\s>]*+)"""
_ATTRIBUTE = rf"[\s/]++[^\s/>=]++(?:\s*+=\s*+{_VALUE})?+"
_ONE_ATTRIBUTE = re.compile(_ATTRIBUTE)
# A comment, an element whose text is not markup, or a tag with attributes. A name that contains `<`
# also matches without attributes; otherwise each `<` in it would be scanned to the end of the name.
_TAG_WITH_ATTRIBUTES = re.compile(
    rf"<(?:!--|(script|style|textarea|title|xmp)(?![^\s/>])((?:{_ATTRIBUTE})*+)"
    rf"|/?+[a-z][^\s/><]*+(?:<[^\s/>]*+((?:{_ATTRIBUTE})*+)|((?:{_ATTRIBUTE})++)))",
    re.I,
)
# The HTML parser takes quadratic time in the number of options of a list. Outside of a list it does
# not, and their text is the same.
_MAX_OPTIONS = 2_000
_SELECT = re.compile(r"<(/?)select(?=[\s/>])", re.I)
_TEMPLATE = re.compile(r"<(/?)template(?=[\s/>])([^>]*)", re.I)
_SHADOW_ROOT = re.compile(r"\sshadowrootmode\s*=", re.I)
_ENDS_SVG = frozenset("b blockquote body div h1 h2 h3 i ol pre span table ul".split())


def parse_html(text: str, *, xml: bool = False) -> LexborHTMLParser:
    """Parse a page. `xml` marks an XML document that does not declare itself as one.

    Raises `Unavailable` without selectolax, `Unreadable` for a hostile page.
    """
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError:
        raise Unavailable("to read it, run: pip install 'kb-search[html]'") from None
    text = xhtml.to_html(text) if xml or xhtml.is_xml(text) else xhtml.close_opaque(text)
    if _SHADOW_ROOT.search(text):
        text = _open_shadow_roots(text)
    if text.count("<") > _MAX_DEPTH and _is_deep(text):
        raise Unreadable(f"its HTML is nested more than {_MAX_DEPTH:,} levels deep")
    if len(text) > 2 * _MAX_ATTRIBUTES and _has_crowded_tag(text):
        raise Unreadable(f"it has a tag with more than {_MAX_ATTRIBUTES:,} attributes")
    if text.count("<option") + text.count("<OPTION") > _MAX_OPTIONS:
        text = _SELECT.sub(r"<\1div", text)
    return LexborHTMLParser(nfc(text))


def _open_shadow_roots(text: str) -> str:
    """Turn shadow roots into plain elements. Browsers show their text, but the HTML parser keeps
    the content of every template out of the tree."""
    is_shadow_root: list[bool] = []  # for each open template

    def rename(match: re.Match[str]) -> str:
        end, rest = match[1], match[2]
        if not end:
            is_shadow_root.append(_SHADOW_ROOT.search(rest) is not None)
            return f"<div{rest}" if is_shadow_root[-1] else match[0]
        return f"</div{rest}" if is_shadow_root and is_shadow_root.pop() else match[0]

    return _TEMPLATE.sub(rename, text)


def _has_crowded_tag(text: str) -> bool:
    """Whether a tag has more than `_MAX_ATTRIBUTES` attributes."""
    at = 0
    while match := _TAG_WITH_ATTRIBUTES.search(text, at):
        at = match.end()
        attributes = match[2] or match[3] or match[4] or ""
        is_long = len(attributes) > 2 * _MAX_ATTRIBUTES  # each has two characters or more
        if is_long and sum(1 for _ in _ONE_ATTRIBUTE.finditer(attributes)) > _MAX_ATTRIBUTES:
            return True
        if match[3] is None and match[4] is None:
            at = _find_ignoring_case(text, f"</{match[1]}" if match[1] else "-->", at)
    return False


def _find_ignoring_case(text: str, end: str, at: int) -> int:
    """The position of `end`, ignoring case; the end of the text if it does not occur."""
    match = re.compile(re.escape(end), re.I).search(text, at)
    return match.start() if match else len(text)


def _is_deep(text: str) -> bool:
    """Whether tags are nested too deeply, by the number of tags opened and not closed."""
    depth, at, in_svg = 0, 0, False  # in SVG and MathML, `<x/>` is empty; in HTML, it opens
    while match := _TAGS.search(text, at):
        at = match.end()
        name = (match[2] or match[0]).lower()
        if name in ("math", "svg"):
            in_svg = not match[1]
        elif name in _NON_NESTING_TAGS or name in _ENDS_SVG:
            in_svg = False
        if name in _RAW_TEXT_ENDS and not (in_svg or match[1]):  # its content is not markup
            end = _RAW_TEXT_ENDS[name].search(text, at)
            at = end.start() if end else len(text)
        if (
            name not in _NON_NESTING_TAGS
            and name != "<!--"
            and not (in_svg and match[3].endswith("/"))
        ):
            depth = max(0, depth + (-1 if match[1] else 1))
            if depth > _MAX_DEPTH:
                return True
    return False


def strip_break_hints(text: str) -> str:
    """Remove soft hyphens and other hints for line breaks."""
    return _BREAK_HINTS.sub("", text)


def is_tool(node: LexborNode, attributes: Mapping[str, str | None]) -> bool:
    """Whether an element is decoration or was added by a program."""
    if attributes.get("aria-hidden") == "true":
        return True
    names = _TOOL_NAMES.intersection(_names(attributes)) if "class" in attributes else frozenset()
    return bool(names) and _is_generated(node, names)


def _is_generated(node: LexborNode, names: Set[str]) -> bool:
    """Whether the text of an element is what programs write into elements of these classes."""
    text = node.text()
    if not any(map(str.isalnum, text)):
        return True
    if not _LINE_NUMBER_NAMES.isdisjoint(names):
        return not any(map(str.isalpha, text))
    if len(text) > _LONGEST_ACTION:
        return False
    if _GENERATED_TEXT.fullmatch(text):
        return True
    if _ACTION_NAMES.isdisjoint(names):
        return False
    if "mw-jump-link" in names or _BRACKETED.fullmatch(text):
        return True
    links = node.css("a")
    return bool(links) and all(
        _EDIT_TARGET.search(link.attributes.get("href") or "") for link in links
    )


def is_boilerplate(tag: str, attributes: Mapping[str, str | None]) -> bool:
    """Whether a page marks an element as a place for menus. Links in an `aside` or a `footer` are
    text: references, sources, addresses."""
    role = attributes.get("role")
    if tag in ("aside", "footer") or role in ("complementary", "contentinfo"):
        return role in ("menu", "navigation")
    return (
        tag in _BOILERPLATE_TAGS
        or role in _ROLES
        or (bool(attributes) and not _BOILERPLATE_NAMES.isdisjoint(_names(attributes)))
    )


def _names(attributes: Mapping[str, str | None]) -> list[str]:
    return f"{attributes.get('class') or ''} {attributes.get('id') or ''}".lower().split()


def walk(
    root: LexborNode,
    enter: Callable[[LexborNode], bool],
    leave: Callable[[LexborNode], None],
) -> None:
    """Visit every node in reading order. If `enter` returns False for a node, its children are
    skipped, and `leave` is not called for it."""
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
    """The amount of text and links in an element."""

    chars: int = 0
    link_chars: int = 0
    links: int = 0
    parts: int = 0  # headings, tables and listings, which occur in layout tables

    def is_menu(self) -> bool:
        """Whether the element is little more than a list of short links."""
        return (
            self.links >= _MENU_LINKS
            and self.link_chars >= self.chars * _MENU_LINK_SHARE
            and self.link_chars <= self.links * _MENU_LINK_CHARS
        )


@dataclass(slots=True)
class Weights:
    """The weights of all elements of a page, computed in one pass."""

    of: dict[int, Weight] = field(default_factory=dict)
    _open: list[Weight] = field(default_factory=lambda: [Weight()])
    _links: int = 0

    @classmethod
    def measure(cls, root: LexborNode) -> Weights:
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
        if not node.is_element_node or node.tag in _NON_TEXT_TAGS:
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


def main_element(tree: LexborHTMLParser, weights: Weights) -> tuple[LexborNode | None, bool]:
    """The element with the main text of the page, and whether the page marks it as such."""
    body = tree.body
    if body is None:
        return None, False
    whole = weights[body].chars
    for selector in ("main", "[role=main]", "article", "#mw-content-text"):
        elements = tree.css(selector)
        if len(elements) != 1:  # several articles are a list
            continue
        chars = weights[elements[0]].chars
        if chars and (chars >= _MAIN_CHARS or chars >= whole * _MAIN_SHARE):
            return elements[0], True
    return body, False


@dataclass(slots=True)
class Noise:
    """Decides which elements are not the text of a page.

    `menus` excludes menus. Set it for books, and for pages that do not mark their main text: in a
    marked main text, a list of links is meant to be read.
    """

    weights: Weights
    menus: bool
    boilerplate: bool = True
    inside: int = 0  # the number of open article or main elements

    def is_noise(self, node: LexborNode) -> bool:
        tag = node.tag or ""
        if tag in _NON_TEXT_TAGS:
            return not (tag == "footer" and not self.boilerplate)
        attributes = node.attributes
        if tag != "body" and (
            "hidden" in attributes
            or attributes.get("aria-hidden") == "true"
            or _INVISIBLE.search(attributes.get("style") or "")
        ):
            return True
        if self.boilerplate and self._is_boilerplate(tag, node, attributes):
            return True
        return self.menus and tag in _CONTAINERS and self.weights[node].is_menu()

    def _is_boilerplate(
        self, tag: str, node: LexborNode, attributes: Mapping[str, str | None]
    ) -> bool:
        if attributes.get("role") in _ROLES:
            return True
        if tag not in ("body", "main", "article") and (
            not _BOILERPLATE_NAMES.isdisjoint(_names(attributes)) or is_tool(node, attributes)
        ):
            return True
        if tag == "form":  # some frameworks wrap the whole page in a form
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
