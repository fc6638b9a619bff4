"""Tables of a web page, as rows of cells; those that only lay out a page are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.ingest.parsers.html_tree import Noise, walk

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_APART = frozenset({"br", "dd", "div", "dt", "li", "p"})
_CELL_CHARS = 1000  # on average; more than that is no cell but a column of a page


def rows_of(table: LexborNode, noise: Noise) -> list[list[str]]:
    """The rows of a table of data; none when it is for layout, and to be read as text."""
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
    """Gathers the cells of one table; a caption is a row of its own."""

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
        elif node.tag in _APART:
            self._add(" ")
        return True

    def _add(self, text: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1].append(text)
