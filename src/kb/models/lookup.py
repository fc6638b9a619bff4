"""Names that mean more than a folder of files, and names that a pulled model may have."""

from __future__ import annotations

import re

ENDPOINT = "endpoint"
USE_MULTILINGUAL = "use-multilingual"
RESERVED = ("none", ENDPOINT, USE_MULTILINGUAL)
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def is_endpoint(name: str) -> bool:
    """Whether an encoder of that name is one: `endpoint`, or `endpoint:MODEL`."""
    return name == ENDPOINT or name.startswith(f"{ENDPOINT}:")


def is_plain(name: str) -> bool:
    """Whether a folder may have that name on every system."""
    return _PLAIN.fullmatch(name) is not None and not name.endswith(".")
