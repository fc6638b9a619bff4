"""Draws plots as SVG, without a library, a script or anything loaded from elsewhere.

Pure: takes numbers and names, returns markup. Colors are variables of the page that `html` writes,
so that a plot is readable in light and dark mode. A plot with names beside it has a second,
narrower version for phones. Every mark has its figures as a title, which browsers show under the
pointer and screen readers read aloud.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

_ROW = 30
_LINE_PX = 17  # between two names


class Frame(NamedTuple):
    """The width of a plot and of its columns."""

    width: int
    left: int  # for names
    right: int  # for figures
    margin: int  # for the names beside a scatter
    name_chars: int
    most_ticks: int

    def clip(self, name: str) -> str:
        return name if len(name) <= self.name_chars else name[: self.name_chars - 1] + "…"


WIDE = Frame(760, left=180, right=64, margin=190, name_chars=24, most_ticks=9)
NARROW = Frame(400, left=122, right=52, margin=130, name_chars=15, most_ticks=5)


class Estimate(NamedTuple):
    """A mean with its confidence interval."""

    name: str
    mean: float
    low: float
    high: float
    is_baseline: bool = False


class Point(NamedTuple):
    """The quality and the time of a method."""

    estimate: Estimate
    p50_ms: float
    p95_ms: float


class Change(NamedTuple):
    """The gain of a query over the baseline."""

    label: str
    difference: float


# --- quality, with its intervals ------------------------------------------------------------------


def intervals(estimates: Sequence[Estimate], measure: str, frame: Frame = WIDE) -> str:
    """One line per method: a dot for the mean, a bar for the interval; a vertical line marks the
    baseline's mean."""
    values = [value for each in estimates for value in (each.low, each.high)]
    marks = ticks(min(values), max(values), least=0.0, most=1.0)
    x = _scale(marks[0], marks[-1], frame.left, frame.width - frame.right)
    bottom = len(estimates) * _ROW + 8
    parts = [_grid(marks, x, bottom, lambda value: f"{value:g}")]
    parts += [
        _line(x(each.mean), 4, x(each.mean), bottom, "reference")
        for each in estimates
        if each.is_baseline
    ]
    parts += [_interval(each, x, at * _ROW + 20, frame) for at, each in enumerate(estimates)]
    label = f"{measure} of every method, with its interval"
    return _svg(parts, frame.width, bottom + 24, label)


def _interval(each: Estimate, x: Callable[[float], float], y: float, frame: Frame) -> str:
    tooltip = f"{each.name}: {each.mean:.3f}, {each.low:.3f} to {each.high:.3f}"
    kind = "baseline" if each.is_baseline else "method"
    bar = (
        f'<line class="bar {kind}" x1="{x(each.low):.1f}" y1="{y}" x2="{x(each.high):.1f}" y2="{y}"'
        "/>"
    )
    dot = f'<circle class="dot {kind}" cx="{x(each.mean):.1f}" cy="{y}" r="5"/>'
    name = _text(frame.left - 12, y + 4, frame.clip(each.name), "name end")
    figure = _text(frame.width - frame.right + 12, y + 4, f"{each.mean:.3f}", "figure")
    return f"<g><title>{escape(tooltip)}</title>{name}{bar}{dot}{figure}</g>"


# --- time against quality -------------------------------------------------------------------------


def scatter(points: Sequence[Point], measure: str, frame: Frame = WIDE) -> str:
    """Quality over time: up is better, left is faster. The cross of a point shows its interval and
    its p50 to p95."""
    left, right, bottom = 44, frame.width - frame.margin, max(300, len(points) * _LINE_PX + 16)
    times = [time for each in points for time in (each.p50_ms, each.p95_ms)]
    lasting = log_ticks(min(times), max(times), frame.most_ticks)
    values = [end for each in points for end in (each.estimate.low, each.estimate.high)]
    marks = ticks(min(values), max(values), least=0.0, most=1.0)
    along = _scale(log10(lasting[0]), log10(lasting[-1]), left, right)
    y = _scale(marks[0], marks[-1], bottom, 16)

    def x(time_ms: float) -> float:
        return along(log10(max(time_ms, lasting[0])))

    parts = [_grid(lasting, x, bottom, lambda value: f"{value:g} ms")]
    parts += [
        _line(left, y(mark), right, y(mark), "grid")
        + _text(left - 8, y(mark) + 4, f"{mark:g}", "tick end")
        for mark in marks
    ]
    places = [(each.estimate.name, x(each.p50_ms), y(each.estimate.mean)) for each in points]
    parts += _labels(places, right + 22, bottom, frame)
    parts += [_cross(each, x, y) for each in points]
    label = f"{measure} against the time that a query takes"
    return _svg(parts, frame.width, bottom + 40, label)


def _cross(each: Point, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    one, kind = each.estimate, "baseline" if each.estimate.is_baseline else "method"
    at_x, at_y = x(each.p50_ms), y(one.mean)
    tooltip = f"{one.name}: {one.mean:.3f}, p50 {each.p50_ms:.1f} ms, p95 {each.p95_ms:.1f} ms"
    return (
        f"<g><title>{escape(tooltip)}</title>"
        + _line(at_x, at_y, x(each.p95_ms), at_y, f"whisker {kind}")
        + _line(at_x, y(one.low), at_x, y(one.high), f"whisker {kind}")
        + f'<circle class="dot {kind}" cx="{at_x:.1f}" cy="{at_y:.1f}" r="6"/></g>'
    )


def _labels(
    places: Iterable[tuple[str, float, float]], column: float, bottom: float, frame: Frame
) -> list[str]:
    """Names in a separate column, connected to their points, because points often overlap."""
    ordered = sorted(places, key=lambda place: (place[2], place[1]))
    lines: list[float] = []
    for _, _, y in ordered:
        lines.append(max([y, *(line + _LINE_PX for line in lines[-1:])]))
    # Move labels up from the bottom, so that none lies below it.
    for at in range(len(lines) - 1, -1, -1):
        floor_y = bottom if at == len(lines) - 1 else lines[at + 1] - _LINE_PX
        lines[at] = min(lines[at], floor_y)
    return [
        f'<path class="leader" d="M{x:.1f} {y:.1f}L{column - 14:.1f} {line:.1f}h10"/>'
        + _text(column, line + 4, frame.clip(name), "name")
        for (name, x, y), line in zip(ordered, lines, strict=True)
    ]


# --- wins and losses ------------------------------------------------------------------------------


def reach(queries: Iterable[Change]) -> float:
    """The end of a scale with room for every value."""
    most = max((abs(each.difference) for each in queries), default=0.0)
    return ceil(most * 10 - 1e-9) / 10 if most > 0.1 else 0.1


def changes(queries: Sequence[Change], name: str, baseline: str, most: float) -> str:
    """One bar per query, from the largest gain to the largest loss; unchanged queries leave a gap.
    The scale ends at `most` in both directions."""
    ordered = sorted(queries, key=lambda each: -each.difference)
    width, height, top, bottom, left = WIDE.width, 150, 14, 136, 64
    middle = (top + bottom) / 2
    y = _scale(-most, most, bottom, top)
    step = (width - left - 8) / len(ordered)
    wide = max(step * 0.8, 0.6)
    parts = []
    for mark in (most, 0.0, -most):
        kind = "axis" if mark == 0 else "grid"
        parts.append(_line(left, y(mark), width - 8, y(mark), kind))
        parts.append(_text(left - 8, y(mark) + 4, f"{mark:+.1f}" if mark else "0", "tick end"))
    for at, each in enumerate(ordered):
        if abs(each.difference) > 1e-9:
            top_y, tall = min(middle, y(each.difference)), abs(y(each.difference) - middle)
            tooltip = escape(f"{each.label}: {each.difference:+.3f}")
            parts.append(
                f'<rect class="{"win" if each.difference > 0 else "loss"}"'
                f' x="{left + at * step:.2f}" y="{top_y:.2f}" width="{wide:.2f}"'
                f' height="{max(tall, 0.5):.2f}"><title>{tooltip}</title></rect>'
            )
    return _svg(parts, width, height, f"{name} against {baseline}, query by query")


# --- scales ---------------------------------------------------------------------------------------


def ticks(low: float, high: float, *, least: float, most: float) -> list[float]:
    """At most seven round numbers that enclose the range."""
    low, high = max(least, low), min(most, high)
    if high - low < 1e-9:
        low, high = max(least, low - 0.05), min(most, high + 0.05)
    raw = (high - low) / 5
    power = 10.0 ** floor(log10(raw))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= raw * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def log_ticks(low: float, high: float, most_ticks: int = WIDE.most_ticks) -> list[float]:
    """1, 2, 5, 10, 20, ... enclosing the range; only powers of ten if these are too many."""
    low = max(low, 0.01)
    high = max(high, low)
    fine = _log_marks(low, high, (1, 2, 5))
    return fine if len(fine) <= most_ticks else _log_marks(low, high, (1,))


def _log_marks(low: float, high: float, sizes: Sequence[int]) -> list[float]:
    powers = range(floor(log10(low)) - 1, ceil(log10(high)) + 2)
    marks = [round(size * 10.0**power, 6) for power in powers for size in sizes]
    first = max(at for at, mark in enumerate(marks) if mark <= low)
    last = min(at for at, mark in enumerate(marks) if mark >= high)
    return marks[first : max(last, first + 1) + 1]


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = (high - low) or 1.0
    return lambda value: start + (min(max(value, low), high) - low) / span * (end - start)


# --- marks ----------------------------------------------------------------------------------------


def _grid(
    marks: Iterable[float],
    x: Callable[[float], float],
    bottom: float,
    tooltip: Callable[[float], str],
) -> str:
    return "".join(
        _line(x(mark), 4, x(mark), bottom, "grid")
        + _text(x(mark), bottom + 19, tooltip(mark), "tick middle")
        for mark in marks
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _svg(parts: Iterable[str], width: float, height: float, label: str) -> str:
    head = f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(label)}">'
    return head + "".join(parts) + "</svg>"
