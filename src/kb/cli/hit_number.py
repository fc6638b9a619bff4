"""Numbers in place of citations: `kb get 1` and `kb open 1` refer to a hit of the last search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.cli import last_hits, output
from kb.errors import KbError, NotFound

if TYPE_CHECKING:
    from kb.cli.invocation import Invocation
    from kb.library.knowledge_base import KnowledgeBase

_MAX_DIGITS = 9


def citation_of(target: str, kb: KnowledgeBase, invocation: Invocation) -> str:
    """Return the citation that an argument refers to.

    A number is a hit of the last search in this terminal. If a document has that number as its
    name, a note on stderr gives its path. Without such a hit, the number is the document's name.
    Raises `NotFound` if neither exists.
    """
    if not (target.isdecimal() and len(target) <= _MAX_DIGITS):
        return target
    uris = last_hits.load(kb.path, invocation.terminal)
    path = _document_path(target, kb)
    if uris is not None and 1 <= int(target) <= len(uris):
        if path is not None and not invocation.json:
            name = output.escape(path)
            output.note(f"this is a hit of the last search; for the document, use its path: {name}")
        return uris[int(target) - 1]
    if path is not None:
        return path
    if uris is None:
        raise NotFound(
            "this terminal has no earlier search of this store",
            "run kb search first, or give a citation",
        )
    hits = output.count(len(uris), "hit")
    raise NotFound(f"no hit {int(target)}", f"the last search had {hits}")


def _document_path(name: str, kb: KnowledgeBase) -> str | None:
    """Return the path of the document with this name; None if there is none, or more than one."""
    from kb.library.lookup import find_target

    try:
        return find_target(kb._store, name)[0].doc_path
    except KbError:
        return None
