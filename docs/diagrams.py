"""The diagrams of the architecture page: layers and data flow. Written by pictures.py."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from drawings import WIDTH, arrow, box, down, drawing, text

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
_GAP = 24


def diagrams() -> dict[str, str]:
    """Every diagram as SVG, by its name."""
    return {
        "layers": layers(),
        "ingest": ingest(),
        "search": search(),
        "embed": embed(),
        "reindex": reindex(),
    }


# --- layers ---------------------------------------------------------------------------------------


def layers() -> str:
    """The layers of the import contract; a package imports only from the rows below its own."""
    rows = import_layers()
    parts: list[str] = []
    for number, row in enumerate(rows):
        y = 16 + 52 * number
        parts += _row(y, row)
        if number:
            parts += down(WIDTH / 2, y - 16, y)
    return drawing("Layers: imports point down", 16 + 52 * len(rows), parts)


def import_layers() -> list[list[str]]:
    """The layers that import-linter enforces, top first, without the prefix `kb.`."""
    settings = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layered = next(each for each in contracts if each["type"] == "layers")
    return [[name.strip().removeprefix("kb.") for name in row.replace(":", "|").split("|")]
            for row in layered["layers"]]  # fmt: skip


def _row(y: float, names: Sequence[str]) -> Iterator[str]:
    widths = [24 + 8.3 * len(name) for name in names]
    gap = 8
    x = (WIDTH - sum(widths) - gap * (len(names) - 1)) / 2
    for name, width in zip(names, widths, strict=True):
        yield from box(x, y, width, [name])
        x += width + gap


# --- data flow ------------------------------------------------------------------------------------


def ingest() -> str:
    parts = _flow(
        16,
        [
            ["walk", "folders, ignore rules,", "secret files left out"],
            ["plan", "added, changed,", "renamed, removed"],
            ["parse and chunk", "in a process with", "limits: blocks, chunks"],
            ["index", "one transaction", "for each document"],
        ],
    )
    return drawing("Ingest: from files to passages", 16 + 72 + 16, parts)


def search() -> str:
    parts = [*box(16, 105, 126, ["query", "analyze; encode", "once, if needed"])]
    retrievers = (
        ("lexical", "fulltext", "BM25, tier by tier"),
        ("dense", "vectors", "cosine, exact"),
        ("sparse", "vectors", "weighted terms"),
    )
    for row, (name, port, how) in enumerate(retrievers):
        y = 16 + 92 * row
        parts += box(186, y, 160, [name, how, f"port: {port}"], name)
        parts += [*arrow(142, 141, 186, y + 36), *arrow(346, y + 36, 390, 141)]
    parts += box(390, 105, 130, ["fusion", "one ranked list", "of candidates"])
    parts += arrow(520, 141, 564, 43)
    parts += box(564, 16, 180, ["boosts", "kind, reads, age"])
    parts += box(564, 108, 180, ["rerank", "the first 100", "candidates, optional"])
    parts += box(564, 218, 180, ["results", "documents, citations,", "snippets, explain"])
    parts += [*down(654, 70, 108), *down(654, 180, 218)]
    parts.append(text(186, 306, "All reads happen in one snapshot of the store.", "soft"))
    return drawing("Search: from a query to hits", 324, parts)


def embed() -> str:
    parts = _flow(
        16,
        [
            ["queue", "lease 100 passages", "without vectors"],
            ["encoder", "dense, sparse and", "token vectors"],
            ["check", "a failing batch is", "split, then retried"],
            ["vectors", "one transaction;", "the lease ends"],
        ],
    )
    note = "Any number of workers, in any process. A killed worker's lease expires."
    parts.append(text(16, 112, note, "soft"))
    return drawing("Embed: from passages to vectors", 130, parts)


def reindex() -> str:
    parts = _flow(
        16,
        [
            ["exam", "the new model must", "pass, or --force"],
            ["build", "its vectors, beside", "the old ones"],
            ["switch", "one write, once no", "passage is missing"],
            ["drop", "the old vectors, after", "a grace period"],
        ],
    )
    note = "Searches use the old vectors until the switch, and never a mix of both."
    parts.append(text(16, 112, note, "soft"))
    return drawing("Reindex: from one model to another", 130, parts)


def _flow(y: float, boxes: Iterable[Sequence[str]]) -> list[str]:
    """Boxes of three lines from left to right, joined by arrows."""
    steps = list(boxes)
    width = (WIDTH - 32 - _GAP * (len(steps) - 1)) / len(steps)
    parts: list[str] = []
    for number, lines in enumerate(steps):
        x = 16 + (width + _GAP) * number
        parts += box(x, y, width, lines)
        if number:
            parts += arrow(x - _GAP, y + 36, x, y + 36)
    return parts
