"""A passage opened by its citation, and a rendered document. In its own module, because a search
does not load it."""

from __future__ import annotations

from dataclasses import dataclass

from kb.types import JsonDict
from kb.types.citations import Citation
from kb.types.documents import Document


@dataclass(frozen=True, slots=True)
class Passage:
    """The text at a citation, and whether it is still the indexed text.

    `state` is `exact`; `moved` if the indexed text is now elsewhere in the file, at `citation`; or
    `stale` if the file no longer contains it, and `text` is the indexed text. A whole document is
    `stale` if its file has changed or is missing: `text` is then the file's current text or, if the
    file is missing, the indexed one.
    """

    document: Document
    citation: Citation
    text: str
    state: str
    reason: str | None = None  # why the file itself was not read


Node = str | JsonDict  # text, or an element: tag, children and a few attributes


@dataclass(frozen=True, slots=True)
class Rendering:
    """A document for the web page. `kind` is `elements`, `lines` or `pages`; only the first has
    `nodes`, and an outline of (level, id, text)."""

    kind: str
    nodes: tuple[Node, ...] = ()
    outline: tuple[tuple[int, str, str], ...] = ()
