"""Numbers with units, as people read them."""

from __future__ import annotations


def format_bytes(count: int) -> str:
    """A size in bytes with a decimal unit: `812 B`, `4.2 MB`."""
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
