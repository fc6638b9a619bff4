"""Canvases: cards in reading order, under their groups."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kb.ingest.decode import Unreadable
from kb.ingest.parsers.canvas import CanvasParser
from kb.ports import Parsed, Source


def parse(canvas: Any) -> Parsed:
    data = canvas if isinstance(canvas, bytes) else json.dumps(canvas).encode()
    return CanvasParser().parse(Source("plan.canvas", data))


def node(kind: str, x: int, y: int, size: int = 10, **more: str) -> dict[str, Any]:
    return {"type": kind, "x": x, "y": y, "width": size, "height": size, **more}


def test_cards_and_groups() -> None:
    nodes = [
        node("text", 500, 20, text="second card\n\n- a list"),
        node("text", 500, 0, text="first card"),
        node("group", 0, 100, 100, label="Harbour"),
        node("file", 20, 120, file="notes/Keys.md", subpath="#Spare"),
        node("link", 20, 150, url="https://example.org/tide"),
        node("group", 10, 110, 40, label="Inner"),
    ]
    parsed = parse({"nodes": nodes, "edges": [{"fromNode": "a", "toNode": "b", "label": "then"}]})
    assert parsed.text == (
        "first card\n\nsecond card\n\n- a list\n\n# Harbour\n\nhttps://example.org/tide\n\n"
        "# Inner\n\n[[notes/Keys.md#Spare]]\n\nthen"
    )
    assert (parsed.type, parsed.title) == ("canvas", "plan")


def test_edges_name_the_cards_that_they_connect() -> None:
    nodes = [
        node("group", 0, 0, 90, label="Engine"),
        node("text", 0, 0, id="a", text="\n## Pump **left**\n\ncools"),
        node("file", 0, 20, id="b", file="parts/Valve.md"),
    ]
    edges = [
        {"fromNode": "a", "toNode": "b", "label": "feeds\nslowly"},
        {"fromNode": "b", "toNode": "gone", "label": "leaks"},
        {"fromNode": "a", "toNode": "b"},
    ]
    parsed = parse({"nodes": nodes, "edges": edges})
    assert (parsed.text or "").split("\n\n")[-2:] == [
        "Pump left → [[parts/Valve.md]]: feeds slowly", "[[parts/Valve.md]]: leaks",
    ]  # fmt: skip
    assert list(parsed.blocks)[-1].heading_path == ()


@pytest.mark.parametrize("canvas", [b"", {}, {"nodes": [], "edges": []}, {"nodes": [1, "x", {}]}])
def test_empty_canvases(canvas: Any) -> None:
    assert parse(canvas).text == ""


@pytest.mark.parametrize(
    "canvas", [b"{", b"[" * 100_000, [], {"nodes": {}}, {"nodes": [], "edges": 3}, 7]
)
def test_files_that_are_none(canvas: Any) -> None:
    with pytest.raises(Unreadable, match="not a canvas"):
        parse(canvas)


def test_values_of_other_types() -> None:
    odd = {"type": "text", "x": "left", "y": None, "width": 1e300, "text": ["no"], "label": "kept"}
    assert parse({"nodes": [odd]}).text == "kept"
