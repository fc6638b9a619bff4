"""Where the points, the names of topics and the legend of a map are drawn, and in which colors.
Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kb.text.controls import escape as visible
from kb.types import LibraryMap, MapPoint

COLORS = ("topic", "folder", "kind", "format", "date")
MAP_WIDTH, LEGEND_WIDTH, HEIGHT = 1000, 230, 720
WIDTH = MAP_WIDTH + LEGEND_WIDTH
PAPER, INK = "#fbfaf7", "#1d1f21"
TEXT_SIZE, TOPIC_SIZE = 13, 15
_MARGIN, _LINE = 40, 24
_PALETTE = (
    "#0d6157", "#a0622d", "#5b5f97", "#5d7f2c", "#9b1c2e", "#1f6fb2", "#8a5a9e", "#b58900",
    "#3a7d7b", "#c0567a", "#6c6a63", "#2f4b7c",
)  # fmt: skip


class Dot(NamedTuple):
    """A document, or a color of the legend, which has no title."""

    x: float
    y: float
    radius: float
    color: str
    title: str = ""


class Label(NamedTuple):
    """A text on one line. Topics are centered on `x`; others begin there. `y` is the baseline."""

    x: float
    y: float
    text: str
    is_topic: bool


class Layout(NamedTuple):
    dots: tuple[Dot, ...]
    labels: tuple[Label, ...]


def map_layout(value: LibraryMap, color: str = "topic") -> Layout:
    """Place everything on a map whose points are colored by topic, folder, kind, format or date."""
    groups = [_group(point, color, value) for point in value.points]
    common = [name for name, _ in Counter(groups).most_common(len(_PALETTE) - 1)]
    legend = sorted(common) if color == "date" else common
    shade = {name: _PALETTE[at] for at, name in enumerate(legend)}
    other = _PALETTE[-1]
    radius = 4.0 if len(value.points) > 500 else 6.0
    dots, labels = [], list(_topic_names(value))
    for point, group in zip(value.points, groups, strict=True):
        title = f"{point.title or point.doc_path}\n{point.doc_path}\n{group}"
        dots.append(Dot(*_place(point.x, point.y), radius, shade.get(group, other), title))
    for row, name in enumerate([*legend, *(["other"] if set(groups) - set(legend) else [])]):
        top = _MARGIN + row * _LINE
        dots.append(Dot(MAP_WIDTH + 12, top, 6.0, shade.get(name, other)))
        labels.append(Label(MAP_WIDTH + 26, top + 4, _clip(name, 28), is_topic=False))
    return Layout(tuple(dots), tuple(labels))


def _group(point: MapPoint, color: str, value: LibraryMap) -> str:
    if color == "folder":
        folders = point.doc_path.split("/")[:-1]
        return "/".join(folders[:2]) or "notes"
    if color == "kind":
        return (point.kind or "none").replace("_", " ")
    if color == "format":
        return point.type
    if color == "date":
        return point.date[:4] or "undated"
    return value.topics[point.topic] or "other"


def _topic_names(value: LibraryMap) -> Iterator[Label]:
    """The names of topics, each in the middle of its points; names that would overlap move down."""
    taken = list[tuple[float, float]]()
    for number, name in enumerate(value.topics):
        members = [point for point in value.points if point.topic == number]
        if not members or not name:
            continue
        middle_x = sorted(point.x for point in members)[len(members) // 2]
        middle_y = sorted(point.y for point in members)[len(members) // 2]
        x, y = _place(middle_x, middle_y)
        x = min(max(x, 130.0), MAP_WIDTH - 130.0)
        while any(abs(y - other_y) < 20 and abs(x - other_x) < 200 for other_x, other_y in taken):
            y += 20
        taken.append((x, y))
        yield Label(x, y, _clip(name, 34), is_topic=True)


def _place(x: float, y: float) -> tuple[float, float]:
    return _MARGIN + x * (MAP_WIDTH - 2 * _MARGIN), _MARGIN + y * (HEIGHT - 2 * _MARGIN)


def _clip(text: str, chars: int) -> str:
    text = visible(text)
    return text if len(text) <= chars else text[: chars - 1] + "…"
