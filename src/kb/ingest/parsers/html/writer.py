"""Writes the elements of a web page as headings, paragraphs, lists, tables and listings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.ingest.parser_support.extract import Extract, one_line, wrap_lines
from kb.ingest.parsers.html.tree import HEADINGS, Noise, strip_break_hints, walk

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details",
        "dialog", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header",
        "hgroup", "hr", "html", "legend", "li", "main", "ol", "p", "section", "summary", "table",
        "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
    }
)  # fmt: skip
_LISTS = frozenset({"dl", "ol", "ul"})
_ANCHORS = _BLOCKS | HEADINGS.keys() | {"pre", "section"}  # before which a paragraph ends
_CODE = frozenset({"code", "kbd", "samp", "tt"})
_BREAK = "\v"  # marks a forced line break; does not occur in pages
_PARAGRAPHS = re.compile(rf"{_BREAK}\s*{_BREAK}")
_LANGUAGE = re.compile(r"(?:language|lang|highlight-source|highlight|brush:?)[-\s]([\w+#]+)")
_NO_LANGUAGE = frozenset({"default", "none", "notranslate", "plaintext", "text"})
_PILCROWS = "¶#§🔗"
_FIRST_PIECES = 20  # of a paragraph; one of them has text, if any has
_NO_LIST = ""  # the kind of an item outside any list
_MAX_INDENT = 8  # of nested lists
_SEPARATE_TAGS = frozenset({"br", "dd", "div", "dt", "li", "p"})
_CELL_CHARS = 1000  # on average; longer cells are the columns of a layout


@dataclass(slots=True)
class _List:
    kind: str
    number: int = 0
    marker: str = ""  # the bullet of an item that has no text yet


class HtmlWriter:
    """Writes the content of one element into an extract. `page` is the address of the page in the
    original file, which is empty if it is the file itself; the places of blocks are the anchors
    above them. None leaves the places to the caller."""

    def __init__(self, out: Extract, noise: Noise, page: str | None = None) -> None:
        self._out = out
        self._page = page
        self._list_place = out.place
        self._noise = noise
        self._inline: list[str] = []
        self._lists: list[_List] = []
        self._items: list[str] = []  # lines of the open list
        self._quotes = 0
        self._heading = 0
        self.written: set[int] = set()  # ids of text nodes
        self._code: list[bool] = []  # for each open code element: whether it has backquotes

    def write(self, root: LexborNode) -> None:
        walk(root, self._enter, self._leave)
        self._flush()
        self._end_list()

    # --- element by element -----------------------------------------------------------------------

    def _enter(self, node: LexborNode) -> bool:
        if node.is_text_node:
            self._inline.append((node.text_content or "").replace(_BREAK, " "))
            self.written.add(node.mem_id)
            return False
        if not node.is_element_node or self._noise.is_noise(node):
            return False
        tag = node.tag or ""
        if tag in ("pre", "table"):
            self._flush()
            self._set_place(tag, node)
        if self._is_leaf(tag, node):
            return False
        self._noise.enter(tag)
        if tag in _BLOCKS or tag in HEADINGS:
            self._flush()
        if tag in HEADINGS:
            self._heading = HEADINGS[tag]
        elif tag in _LISTS:
            self._lists.append(_List(tag, _number(node.attributes.get("start"), 1) - 1))
        elif tag in ("li", "dt", "dd"):
            self._start_item(tag, node)
        elif tag == "blockquote":
            self._end_list()
            self._quotes += 1
        elif tag in _CODE:
            self._start_code(node)
        self._set_place(tag, node)
        return True

    def _set_place(self, tag: str, node: LexborNode) -> None:
        """Enter the anchor of an element, unless text of its paragraph precedes it."""
        if self._page is None:
            return
        anchor = node.attributes.get("id") or (node.attributes.get("name") if tag == "a" else "")
        if not anchor or anchor.isspace():
            return
        if tag in _ANCHORS or not any(piece.strip() for piece in self._inline[:_FIRST_PIECES]):
            self._out.place = f"{self._page}#{one_line(anchor)}"

    def _leave(self, node: LexborNode) -> None:
        tag = node.tag or ""
        self._noise.leave(tag)
        if tag in _BLOCKS or tag in HEADINGS:
            self._flush()
        if tag in HEADINGS:
            self._heading = 0
        elif tag in _LISTS and self._lists:
            self._lists.pop()
            if not self._lists:
                self._end_list()
        elif tag == "blockquote":
            self._end_list()
            self._quotes -= 1
        elif tag in ("li", "dt", "dd") and self._lists and self._lists[-1].kind == _NO_LIST:
            self._lists.pop()
        elif tag in _CODE and self._code.pop():
            self._inline.append("`")

    def _is_leaf(self, tag: str, node: LexborNode) -> bool:
        """Write an element whose children need not be visited; return False for any other
        element."""
        if tag == "br":
            self._inline.append(_BREAK)
        elif tag == "img":
            alternative = node.attributes.get("alt") or ""
            if len(alternative.split()) > 1:  # one word describes an icon
                self._inline.append(f" {alternative} ")
        elif tag == "math":
            self._inline.append(node.attributes.get("alttext") or node.text(separator=" "))
        elif tag == "pre":
            self._flush()
            self._end_list()
            self._out.code(_listing(node), _language(node))
        elif tag == "table" and (rows := table_rows(node, self._noise)):
            self._flush()
            self._end_list()
            self._out.table(rows)
        else:
            return False
        return True

    def _start_code(self, node: LexborNode) -> None:
        """Begin inline code with a backquote, except in a heading or if the code is empty."""
        marked = not self._heading and not any(self._code) and self._noise.weights[node].chars > 0
        self._code.append(marked)
        if marked:
            self._inline.append("`")

    def _start_item(self, tag: str, node: LexborNode) -> None:
        if not self._lists:
            self._lists.append(_List(_NO_LIST))
        here = self._lists[-1]
        if tag == "dt" and here.marker and len(self._lists) == 1:
            self._end_list()  # each group of terms is a separate paragraph
        if tag != "li":
            here.marker = "" if tag == "dt" else "  "
            return
        here.number = _number(node.attributes.get("value"), here.number + 1)
        here.marker = f"{here.number}. " if here.kind == "ol" else "- "

    # --- into the extract -------------------------------------------------------------------------

    def _flush(self) -> None:
        """Write the collected inline text."""
        if not self._inline:
            return
        text = strip_break_hints("".join(self._inline))
        self._inline = []
        for paragraph in _PARAGRAPHS.split(text):
            lines = [" ".join(line.split()) for line in paragraph.split(_BREAK)]
            if lines := [line for line in lines if line]:
                self._write(lines)

    def _write(self, lines: list[str]) -> None:
        if self._heading:
            self._end_list()
            text = " ".join(lines)
            self._out.heading(self._heading, text.rstrip(_PILCROWS).rstrip())
        elif self._lists:
            self._write_item(lines)
        else:
            self._end_list()
            self._out.paragraph("\n".join(lines), self._prefix)

    def _write_item(self, lines: list[str]) -> None:
        here = self._lists[-1]
        margin = "  " * (min(len(self._lists), _MAX_INDENT) - 1)
        plain = " " * len(here.marker) if here.marker.strip() else here.marker
        if not self._items:
            self._list_place = self._out.place
        for line in wrap_lines("\n".join(lines)):
            self._items.append(f"{self._prefix}{margin}{here.marker}{line}")
            here.marker = plain

    def _end_list(self) -> None:
        if self._items:
            place, self._out.place = self._out.place, self._list_place
            self._out.lines(self._items)
            self._items, self._out.place = [], place

    @property
    def _prefix(self) -> str:
        return "> " if self._quotes else ""


def _number(text: str | None, default: int) -> int:
    return int(text) if text and re.fullmatch(r"\d{1,6}", text) else default


# --- tables ---------------------------------------------------------------------------------------


def table_rows(table: LexborNode, noise: Noise) -> list[list[str]]:
    """The rows of a data table; none for a layout table, which is written as text."""
    weight = noise.weights[table]
    if weight.parts or table.attributes.get("role") == "presentation":
        return []
    cells = _Cells(noise)
    walk(table, cells.enter, lambda _: None)
    rows = [["".join(cell) for cell in row] for row in cells.rows]
    filled = sum(bool(cell.strip()) for row in rows for cell in row)
    if max(map(len, rows), default=0) < 2 or weight.chars > filled * _CELL_CHARS:
        return []
    return rows


class _Cells:
    """Collects the cells of one table; a caption is a separate row."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self.rows: list[list[list[str]]] = []

    def enter(self, node: LexborNode) -> bool:
        if node.is_text_node:
            self._add(node.text_content or "")
            return False
        if not node.is_element_node or self._noise.is_noise(node):
            return False
        if node.tag == "tr":
            self.rows.append([])
        elif node.tag == "caption":
            self.rows.append([[]])
        elif node.tag in ("td", "th"):
            if not self.rows:
                self.rows.append([])
            self.rows[-1].append([])
        elif node.tag in _SEPARATE_TAGS:
            self._add(" ")
        return True

    def _add(self, text: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1].append(text)


# --- listings -------------------------------------------------------------------------------------


def _listing(pre: LexborNode) -> str:
    parts: list[str] = []

    def enter(node: LexborNode) -> bool:
        if node.is_text_node:
            parts.append(node.text_content or "")
        elif node.tag == "br":
            parts.append("\n")
        return node.is_element_node and node.tag not in ("script", "style", "button")

    walk(pre, enter, lambda _: None)
    return "".join(parts)


def _language(pre: LexborNode) -> str:
    """The language of a listing, from the classes that highlighters set around it."""
    inner = pre.css_first("code")
    parent = pre.parent
    around = [pre, inner, parent, parent.parent if parent else None]
    for node in around:
        classes = (node.attributes.get("class") or "") if node is not None else ""
        match = _LANGUAGE.search(classes)
        if match and match[1] not in _NO_LANGUAGE:
            return match[1]
    return ""
