"""Renders the text of a document as a tree of elements for the web page.

The tree has only elements and attributes that are listed here, and no HTML text: a document cannot
add a script, a style or a form. HTML inside Markdown is shown as text. A block has the numbers of
its source lines, so that a cited passage can be highlighted. A text of too many elements, which
would take a page and a server minutes, is shown as lines.
"""

from __future__ import annotations

import csv
import io
import posixpath
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from kb import deadline
from kb.ingest import front_matter
from kb.library.markdown_math import BLOCK, INLINE, enable_math
from kb.library.tex_math import math_element
from kb.types import JsonDict, Node, Rendering

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode

# Formats whose text is Markdown, or becomes Markdown when it is extracted.
MARKDOWN_TYPES = frozenset((
    "markdown", "note", "html", "docx", "epub", "notebook", "email", "pptx", "xlsx",
    "opendocument", "canvas", "conversation",
))  # fmt: skip
_MAX_CHARS = 2_000_000  # longer texts are shown as lines
_MAX_ELEMENTS = 50_000
_MAX_ROWS = 2_000
_MAX_DEPTH = 40  # of blocks: the parser drops the text of deeper ones
_FOOTNOTE = re.compile(r"\[\^([\w-]{1,40})\]")
_FOOTNOTE_TEXT = re.compile(r"\A\[\^([\w-]{1,40})\]:[ \t]*")
_PLAIN_TAGS = {
    "paragraph": "p", "blockquote": "blockquote", "bullet_list": "ul", "ordered_list": "ol",
    "list_item": "li", "table": "table", "thead": "thead", "tbody": "tbody", "tr": "tr",
    "th": "th", "td": "td", "hr": "hr", "strong": "strong", "em": "em", "s": "s",
    "hardbreak": "br",
}  # fmt: skip


def render(doc_path: str, kind: str, text: str) -> Rendering:
    """Render the text of a document of the type `kind`. Raises the error of the deadline."""
    if kind == "pdf":
        return Rendering("pages")
    if len(text) <= _MAX_CHARS:
        try:
            if kind == "table":
                return _render_table(text)
            if kind in MARKDOWN_TYPES:
                return _Markdown(doc_path).render(text, front=kind in ("markdown", "note"))
        except (_TooManyElementsError, _TooDeepError):
            pass
    return Rendering("lines")


class _TooManyElementsError(Exception):
    """The text is shown as lines instead."""


class _TooDeepError(Exception):
    """The text is shown as lines instead."""


class _ElementBudget:
    """Counts the elements of one document, and checks the deadline for each."""

    def __init__(self) -> None:
        self._left = _MAX_ELEMENTS

    def spend(self, elements: int = 1) -> None:
        deadline.check()
        self._left -= elements
        if self._left < 0:
            raise _TooManyElementsError


def _element(tag: str, *children: Node, **attributes: object) -> JsonDict:
    """An element; attributes without a value are left out."""
    given = {name: value for name, value in attributes.items() if value is not None}
    return {"tag": tag, "children": list(children), **given}


# --- tables ---------------------------------------------------------------------------------------


def _render_table(text: str) -> Rendering:
    """A table of separated values, with the line of each row."""
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t|", key=first.count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    rows: list[Node] = []
    start = 1
    budget = _ElementBudget()
    try:
        for cells in reader:
            budget.spend(1 + len(cells))
            end = reader.line_num
            tag = "td" if rows else "th"
            columns = [_element(tag, cell) for cell in cells]
            if cells:
                rows.append(_element("tr", *columns, lines=[start, end]))
            start = end + 1
            if len(rows) > _MAX_ROWS:
                return Rendering("lines")
    except csv.Error:
        return Rendering("lines")
    head, body = rows[:1], rows[1:]
    table = _element("table", _element("thead", *head), _element("tbody", *body))
    return Rendering("elements", (table,))


# --- Markdown -------------------------------------------------------------------------------------


class _Markdown:
    """Renders one document, whose links are relative to its path."""

    def __init__(self, doc_path: str) -> None:
        self._doc_path = doc_path
        self._outline: list[tuple[int, str, str]] = []
        self._budget = _ElementBudget()

    def render(self, text: str, *, front: bool) -> Rendering:
        """Render Markdown, which may have `front` matter."""
        from markdown_it import MarkdownIt
        from markdown_it.tree import SyntaxTreeNode

        above: list[Node] = []
        if front and (lines := (found := front_matter.read(text, datetime.now(UTC))).lines):
            text = "\n" * lines + "\n".join(text.split("\n")[lines:])  # keeps the line numbers
            if found.text:  # keys that are no attributes, so that the page has every word
                code = _element("code", found.text.rpartition("\n")[0], language="yaml")
                above.append(_element("pre", code, lines=[lines - found.text.count("\n"), lines]))
        parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 2 * _MAX_DEPTH})
        parser.enable(["table", "strikethrough"])
        enable_math(parser)
        # Called for every block and every token, so that a long text stops at the deadline.
        parser.block.ruler.before("table", "deadline", _check_block)
        parser.inline.ruler.before("text", "deadline", _check_deadline)
        parser.core.ruler.at("block", self._parse_blocks)
        parser.core.ruler.at("inline", self._parse_inline)
        tree = SyntaxTreeNode(parser.parse(text))
        nodes = tuple(node for child in tree.children for node in self._block(child))
        return Rendering("elements", (*above, *nodes), tuple(self._outline))

    def _parse_blocks(self, state: StateCore) -> None:
        """Replaces the parser's `block` rule with one that counts tokens: a table of any length is
        one block."""
        state.tokens = _CountedTokens(self._budget)
        state.md.block.parse(state.src, state.md, state.env, state.tokens)

    def _parse_inline(self, state: StateCore) -> None:
        for token in state.tokens:
            if token.type == "inline":
                token.children = _CountedTokens(self._budget)
                state.md.inline.parse(token.content, state.md, state.env, token.children)

    def _block(self, node: SyntaxTreeNode) -> Iterator[Node]:
        deadline.check()
        lines = None if node.map is None else [node.map[0] + 1, node.map[1]]
        if node.type == "heading":
            yield self._heading(node, lines)
        elif node.type in ("fence", "code_block"):
            language = (node.info or "").split(" ", 1)[0][:40] or None
            code = _element("code", node.content.removesuffix("\n"), language=language)
            yield _element("pre", code, lines=lines)
        elif node.type == "paragraph":
            yield self._paragraph(node, lines)
        elif node.type == "inline":
            yield from self._inline(node.children)
        elif node.type == "hr":
            yield _element("hr")
        elif node.type == BLOCK:
            yield _element("p", self._formula(node.content, display=True), lines=lines)
        elif tag := _PLAIN_TAGS.get(node.type):
            children = [each for child in node.children for each in self._block(child)]
            start = node.attrs.get("start") if tag == "ol" else None
            yield _element(tag, *children, lines=lines, start=start)
        else:
            yield _element("p", node.content, lines=lines)

    def _heading(self, node: SyntaxTreeNode, lines: list[int] | None) -> Node:
        children = [each for child in node.children for each in self._block(child)]
        level, name = int(node.tag[1]), f"section-{len(self._outline) + 1}"
        self._outline.append((level, name, plain_text(children)))
        # The page already shows the title as its first heading.
        return _element(f"h{min(6, level + 1)}", *children, lines=lines, id=name)

    def _paragraph(self, node: SyntaxTreeNode, lines: list[int] | None) -> Node:
        children = [each for child in node.children for each in self._block(child)]
        if (
            children
            and isinstance(children[0], str)
            and (note := _FOOTNOTE_TEXT.match(children[0]))
        ):
            children[0] = children[0][note.end() :]
            return _element(
                "p", _element("sup", note[1]), " ", *children, lines=lines, id=f"footnote-{note[1]}"
            )
        return _element("p", *_link_footnotes(children), lines=lines)

    def _inline(self, nodes: Sequence[SyntaxTreeNode]) -> Iterator[Node]:
        for node in nodes:
            if node.type == "text":
                if node.content:
                    yield node.content
            elif node.type == "softbreak":
                yield " "
            elif node.type == "code_inline":
                yield _element("code", node.content)
            elif node.type == INLINE:
                yield self._formula(node.content, display=bool(node.meta["display"]))
            elif node.type == "link":
                children = list(self._inline(node.children))
                yield _element("a", *children, href=self._address(str(node.attrs.get("href", ""))))
            elif node.type == "image":
                yield self._image(node)
            elif tag := _PLAIN_TAGS.get(node.type):
                yield _element(tag, *self._inline(node.children))
            else:
                yield node.content

    def _formula(self, tex: str, *, display: bool) -> Node:
        self._budget.spend(len(tex))  # a letter is an element
        return math_element(tex, display=display) or _element("code", tex.strip())

    def _image(self, node: SyntaxTreeNode) -> Node:
        """An image from the same folder; for any other image, its description."""
        source, text = str(node.attrs.get("src", "")), node.content or "image"
        parts = urlsplit(source)
        if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
            return _element("a", text, href=self._address(source))
        return _element("img", image=unquote(parts.path), alt=text)

    def _address(self, href: str) -> str | None:
        """The target of a link: the page of another document, a place in this one, or a web
        address. None for anything else, such as `javascript:`."""
        try:
            parts = urlsplit(href)
        except ValueError:
            return None
        if parts.scheme in ("http", "https", "mailto"):
            return href
        if parts.scheme or parts.netloc or parts.path.startswith("/"):
            return None
        if not parts.path:
            return None
        folder = posixpath.dirname(self._doc_path)
        target = posixpath.normpath(posixpath.join(folder, unquote(parts.path)))
        if target.startswith(".."):
            return None
        return f"/read/{quote(target)}"


class _CountedTokens(list["Token"]):
    """The tokens of a text, as long as the budget lasts."""

    def __init__(self, budget: _ElementBudget) -> None:
        super().__init__()
        self._budget = budget

    def append(self, token: Token) -> None:
        self._budget.spend()
        super().append(token)


def _check_block(state: StateBlock, *_: object) -> bool:
    """Check the deadline and the depth, as a rule of the parser that matches nothing."""
    deadline.check()
    if state.level >= _MAX_DEPTH:
        raise _TooDeepError
    return False


def _check_deadline(*_: object) -> bool:
    """Check the deadline, as a rule of the parser that matches nothing."""
    deadline.check()
    return False


def _link_footnotes(children: Sequence[Node]) -> Iterator[Node]:
    """The children, with links in place of references such as `[^1]`."""
    for child in children:
        if not isinstance(child, str):
            yield child
            continue
        at = 0
        for match in _FOOTNOTE.finditer(child):
            if match.start() > at:
                yield child[at : match.start()]
            link = _element("a", match[1], href=f"#footnote-{match[1]}")
            yield _element("sup", link)
            at = match.end()
        if at < len(child):
            yield child[at:]


def plain_text(nodes: Sequence[Node]) -> str:
    """The text of nodes, without their elements."""
    return "".join(
        node if isinstance(node, str) else plain_text(node["children"]) for node in nodes
    ).strip()
