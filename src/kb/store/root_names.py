"""Names of roots. Pure; shared by all stores."""

from __future__ import annotations

import os

from kb.text.normalize import nfc


def free_name(path: str, taken: set[str]) -> str:
    """A readable and unique name for a root. Names that start with `note:` are reserved."""
    raw = os.fsencode(os.path.basename(path) or "root")
    name = nfc(raw.decode("utf-8", "backslashreplace"))
    name = name.replace(":", "_") if name.startswith("note:") else name
    number, free = 2, name
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free
