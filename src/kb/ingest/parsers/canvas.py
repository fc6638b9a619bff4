"""Obsidian canvases (JSON Canvas): cards in reading order, under the names of their groups, and
the labels of the edges between them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kb.ingest import file_names
from kb.ingest.decode import Unreadable, decode
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source

_MAX_PAIRS = 4_000_000  # pairs of cards and groups; beyond this, cards are not assigned to groups
_NAME_CHARS = 80  # of a card, where an edge mentions it
_LABELS = ("text", "label", "url")


class CanvasParser(FormatParser):
    name = "canvas"
    version = "2"

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) == ".canvas"

    def parse(self, source: Source) -> Parsed:
        try:
            canvas = json.loads(decode(source.data) or "{}")
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"not a canvas: {error}") from error
        nodes, edges = _objects(canvas, "nodes"), _objects(canvas, "edges")
        nodes.sort(key=lambda node: (_number(node, "y"), _number(node, "x")))
        groups = [node for node in nodes if node.get("type") == "group"]
        out = Extract()
        cards: dict[int, list[dict[str, Any]]] = {}
        near = groups if len(groups) * len(nodes) <= _MAX_PAIRS else []
        for node in nodes:
            if node.get("type") != "group":
                cards.setdefault(_group(node, near), []).append(node)
        for index in sorted(cards.keys() | set(range(len(groups)))):
            if index >= 0:
                out.heading(1, _string(groups[index], "label") or "Group")
            for card in cards.get(index, ()):
                out.lines(_lines(card))
        by_id = {_string(node, "id"): node for node in nodes}
        out.enter_section(1, "")
        for edge in edges:
            out.lines(_edge_lines(edge, by_id))
        return Parsed(
            type="canvas",
            blocks=out.blocks,
            title=file_names.title_of(source.name),
            text=out.text,
        )


def _lines(node: dict[str, Any]) -> Iterator[str]:
    """Yield the text of a card: its own text, or the file or URL that it shows."""
    if file := _string(node, "file"):
        yield f"[[{file}{_string(node, 'subpath')}]]"
    for name in _LABELS:
        yield from _string(node, name).split("\n")


def _edge_lines(edge: dict[str, Any], nodes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the label of an edge, with the cards that it connects: `Cable → Modem: carries`."""
    if label := one_line(_string(edge, "label")):
        ends = (_name(nodes.get(_string(edge, end), {})) for end in ("fromNode", "toNode"))
        cards = " → ".join(filter(None, ends))
        yield f"{cards}: {label}" if cards else label


def _name(node: dict[str, Any]) -> str:
    """The first words of a card."""
    lines = (one_line(line.replace("**", "").strip(" #>-")) for line in _lines(node))
    return next(filter(None, lines), "")[:_NAME_CHARS].rstrip()


def _group(node: dict[str, Any], groups: list[dict[str, Any]]) -> int:
    """The index of the smallest group around the middle of a card; -1 if there is none."""
    x = _number(node, "x") + _number(node, "width") / 2
    y = _number(node, "y") + _number(node, "height") / 2
    around = [
        (_number(group, "width") * _number(group, "height"), index)
        for index, group in enumerate(groups)
        if 0 <= x - _number(group, "x") <= _number(group, "width")
        and 0 <= y - _number(group, "y") <= _number(group, "height")
    ]
    return min(around)[1] if around else -1


def _objects(canvas: Any, name: str) -> list[dict[str, Any]]:
    found = canvas.get(name, []) if isinstance(canvas, dict) else None
    if not isinstance(found, list):
        raise Unreadable(f"not a canvas: its {name} are not a list")
    return [each for each in found if isinstance(each, dict)]


def _string(node: dict[str, Any], name: str) -> str:
    value = node.get(name)
    return value if isinstance(value, str) else ""


def _number(node: dict[str, Any], name: str) -> float:
    value = node.get(name)
    return float(value) if isinstance(value, int | float) and abs(value) < 1e15 else 0.0
