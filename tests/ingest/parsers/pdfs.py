"""PDFs made for tests."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from reportlab.lib.pagesizes import A4
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

WIDTH, HEIGHT = A4
MARGIN = 72.0
GUTTER = 20.0
FULL = WIDTH - 2 * MARGIN
HALF = (FULL - GUTTER) / 2

Draw = Callable[[Any], object]  # draws on the canvas of a page


def made(
    *pages: Draw,
    title: str | None = None,
    outline: Iterable[tuple[str, int, int]] = (),
    password: str | None = None,
    owner_only: bool = False,
) -> bytes:
    """A PDF whose pages the functions `pages` draw. `outline` has titles, pages from 1, and levels
    from 0."""
    stream = io.BytesIO()
    user = "" if owner_only else password
    encrypt = StandardEncryption(user, ownerPassword=password) if password else None
    canvas = Canvas(stream, pagesize=A4, invariant=1, encrypt=encrypt)
    if title is not None:
        canvas.setTitle(title)
    marks = list(outline)
    for number, draw in enumerate(pages, 1):
        for text, page, level in marks:
            if page == number:
                canvas.bookmarkPage(f"{number}-{text}")
                canvas.addOutlineEntry(text, f"{number}-{text}", level)
        draw(canvas)
        canvas.showPage()
    canvas.save()
    return stream.getvalue()


def text_page(*lines: str, **how: Any) -> Draw:
    return lambda canvas: put(canvas, lines, **how)


def put(
    canvas: Any,
    lines: Sequence[str],
    *,
    x: float = MARGIN,
    y: float = HEIGHT - MARGIN,
    size: float = 10.0,
    font: str = "Times-Roman",
) -> float:
    """Write lines from the top down; an empty one is a gap of half a line. Returns the last
    position."""
    canvas.setFont(font, size)
    for line in lines:
        if line:
            canvas.drawString(x, y, line)
        y -= size * (1.2 if line else 0.8)
    return y


def wrapped(canvas: Any, text: str, width: float, size: float = 10.0) -> list[str]:
    """`text` in lines as a typesetter would break it, without hyphens."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and canvas.stringWidth(longer, "Times-Roman", size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def prose(seed: int, words: int = 60) -> str:
    """Sentences that differ by `seed`."""
    stock = (
        "river stone garden window letter morning quiet distant copper signal harbour lantern "
        "mountain paper village winter shadow bridge market engine thunder meadow"
    ).split()
    chosen = [stock[(seed * 7 + i * (seed % 5 + 3)) % len(stock)] for i in range(words)]
    sentences = [chosen[i : i + 12] for i in range(0, words, 12)]
    return " ".join(
        " ".join(part).capitalize() + f" {seed}x{i}." for i, part in enumerate(sentences)
    )
