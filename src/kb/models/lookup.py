"""Reserved model names, and the rules for names of pulled models."""

from __future__ import annotations

import re

ENDPOINT = "endpoint"
USE_MULTILINGUAL = "use-multilingual"
KB_MINI = "kb-mini"  # the bundled pair of the next two models, for 21 languages
ENGLISH = "kb-mini-english"
MULTILINGUAL = "kb-mini-multilingual"
RESERVED = ("none", ENDPOINT, USE_MULTILINGUAL)
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def is_endpoint(name: str) -> bool:
    """Whether the name is `endpoint` or `endpoint:MODEL`."""
    return name == ENDPOINT or name.startswith(f"{ENDPOINT}:")


def is_plain(name: str) -> bool:
    """Whether a folder can have this name on every system."""
    return _PLAIN.fullmatch(name) is not None and not name.endswith(".")
