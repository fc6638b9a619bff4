"""Renames: a file that is gone from one place and has come to another is the same document.

Serves the indexer. The same bytes under another name keep their document, with its number, its
passages, their vectors, the tags that a user gave and how often it was read.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from kb.ingest.changes import Site
from kb.types import DocumentDraft, FileState


@dataclass(frozen=True, slots=True)
class Moved:
    """A document whose file is not where it was."""

    site: Site
    state: FileState

    @property
    def doc_id(self) -> int:
        return self.state.doc_id

    @property
    def before(self) -> str:
        return self.site.doc_path(self.state.path)

    def arrive(self) -> None:
        """It was written at its new place, so there is nothing left to remove at the old one."""
        self.site.kept.add(self.state.path)


@dataclass(slots=True)
class Lost:
    """Documents without a file, by what the file held."""

    by_content: dict[str, list[Moved]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, sites: Iterable[Site]) -> Lost:
        lost = cls()
        for site in sites:
            for state in site.lost():
                lost.by_content[state.content_hash].append(Moved(site, state))
        return lost

    def take(self, draft: DocumentDraft) -> Moved | None:
        """The document that `draft` was until now. Among copies, one that had the same name."""
        among = self.by_content.get(draft.content_hash)
        if not among:
            return None
        name = os.path.basename(draft.path)
        same = [each for each in among if os.path.basename(each.state.path) == name]
        moved = (same or among)[0]
        among.remove(moved)
        return moved
