"""Draws the map of a library as SVG, without scripts or external files, for light and dark mode.
Pure."""

from __future__ import annotations

from html import escape

from kb.cli.map_layout import HEIGHT, INK, PAPER, TEXT_SIZE, TOPIC_SIZE, WIDTH, Dot, Label, Layout
from kb.text.controls import escape as visible

_STYLE = (
    f"text{{font:{TEXT_SIZE}px system-ui,sans-serif;fill:{INK}}}.topic{{font-weight:600;"
    f"font-size:{TOPIC_SIZE}px;paint-order:stroke;stroke:{PAPER};stroke-width:4px;"
    f"text-anchor:middle}}.paper{{fill:{PAPER}}}circle{{stroke:{PAPER};stroke-width:1px}}"
    "@media(prefers-color-scheme:dark){text{fill:#e9e7e1}"
    ".topic,circle{stroke:#14171a}.paper{fill:#14171a}circle{filter:brightness(1.5)}}"
)


def map_svg(layout: Layout) -> str:
    """The map as the text of an SVG file."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'role="img" aria-label="Map of the library">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        *map(_circle, layout.dots),
        *map(_name, layout.labels),
    ]
    return "\n".join([*parts, "</svg>\n"])


def _circle(dot: Dot) -> str:
    title = f"<title>{_text(dot.title)}</title>" if dot.title else ""
    place = f'cx="{dot.x:.1f}" cy="{dot.y:.1f}" r="{dot.radius:g}"'
    return f'<circle {place} fill="{dot.color}">{title}</circle>'


def _name(label: Label) -> str:
    style = 'class="topic" ' if label.is_topic else ""
    return f'<text {style}x="{label.x:.1f}" y="{label.y:.1f}">{_text(label.text)}</text>'


def _text(text: str) -> str:
    """Text for SVG, without control characters, which XML forbids."""
    return escape("\n".join(visible(line) for line in text.split("\n")))
