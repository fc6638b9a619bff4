"""A hint for `--path NAME`: a pattern must match a whole path, which a name seldom does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.cli import output
from kb.types import Filters

if TYPE_CHECKING:
    from kb.library.knowledge_base import KnowledgeBase


def note_path(filters: Filters, kb: KnowledgeBase) -> None:
    """Print the pattern that was probably meant, if the path has no wildcards and is that of no
    document."""
    name = filters.path_glob
    if not name or any(char in name for char in "*?[") or _exists(name, kb):
        return
    plain = name.strip("/")
    for pattern in (f"{plain}/**", f"**/{plain}", f"**/{plain}/**", f"**{plain}**"):
        if _exists(pattern, kb):
            output.note(f"no document has the path {name!r}; did you mean: --path '{pattern}'")
            return


def _exists(pattern: str, kb: KnowledgeBase) -> bool:
    return bool(kb.documents(Filters(path_glob=pattern), limit=1))
