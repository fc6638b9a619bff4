"""Draws the map of a library as SVG, without scripts or external files, for light and dark mode.
Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from kb.text.controls import escape as visible
from kb.types import LibraryMap, MapPoint

COLORS = ("topic", "folder", "kind", "format", "date")
_WIDTH, _HEIGHT, _MARGIN, _LEGEND = 1000, 720, 40, 230
_PALETTE = (
    "#0d6157", "#a0622d", "#5b5f97", "#5d7f2c", "#9b1c2e", "#1f6fb2", "#8a5a9e", "#b58900",
    "#3a7d7b", "#c0567a", "#6c6a63", "#2f4b7c",
)  # fmt: skip
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1d1f21}.topic{font-weight:600;font-size:15px;"
    "paint-order:stroke;stroke:#fbfaf7;stroke-width:4px;text-anchor:middle}.paper{fill:#fbfaf7}"
    "circle{stroke:#fbfaf7;stroke-width:1px}@media(prefers-color-scheme:dark){text{fill:#e9e7e1}"
    ".topic,circle{stroke:#14171a}.paper{fill:#14171a}circle{filter:brightness(1.5)}}"
)


def map_svg(value: LibraryMap, color: str = "topic") -> str:
    """The map, with points colored by topic, folder, kind, format or date."""
    groups = [_group(point, color, value) for point in value.points]
    common = [name for name, _ in Counter(groups).most_common(len(_PALETTE) - 1)]
    legend = sorted(common) if color == "date" else common
    shade = {name: _PALETTE[at] for at, name in enumerate(legend)}
    other = _PALETTE[-1]
    size = 4.0 if len(value.points) > 500 else 6.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + _LEGEND} {_HEIGHT}" '
        'role="img" aria-label="Map of the library">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH + _LEGEND}" height="{_HEIGHT}"/>',
    ]
    for point, group in zip(value.points, groups, strict=True):
        x, y = _place(point.x, point.y)
        title = _text(f"{point.title or point.doc_path}\n{point.doc_path}\n{group}")
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:g}" fill="{shade.get(group, other)}">'
            f"<title>{title}</title></circle>"
        )
    parts += _topic_names(value)
    for row, name in enumerate([*legend, *(["other"] if set(groups) - set(legend) else [])]):
        top = _MARGIN + row * 24
        parts.append(
            f'<circle cx="{_WIDTH + 12}" cy="{top}" r="6" fill="{shade.get(name, other)}"/>'
            f'<text x="{_WIDTH + 26}" y="{top + 4}">{_text(_clip(name, 28))}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


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


def _topic_names(value: LibraryMap) -> Sequence[str]:
    """The names of topics, each in the middle of its points; names that would overlap move down."""
    parts, taken = [], list[tuple[float, float]]()
    for number, name in enumerate(value.topics):
        members = [point for point in value.points if point.topic == number]
        if not members or not name:
            continue
        middle_x = sorted(point.x for point in members)[len(members) // 2]
        middle_y = sorted(point.y for point in members)[len(members) // 2]
        x, y = _place(middle_x, middle_y)
        x = min(max(x, 130.0), _WIDTH - 130.0)
        while any(abs(y - other_y) < 20 and abs(x - other_x) < 200 for other_x, other_y in taken):
            y += 20
        taken.append((x, y))
        parts.append(f'<text class="topic" x="{x:.1f}" y="{y:.1f}">{_text(_clip(name, 34))}</text>')
    return parts


def _place(x: float, y: float) -> tuple[float, float]:
    return _MARGIN + x * (_WIDTH - 2 * _MARGIN), _MARGIN + y * (_HEIGHT - 2 * _MARGIN)


def _clip(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1] + "…"


def _text(text: str) -> str:
    """Text for SVG, without control characters, which XML forbids."""
    return escape("\n".join(visible(line) for line in text.split("\n")))
