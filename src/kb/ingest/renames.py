"""Renames: a file that vanishes from one path and appears at another is the same document.

The document keeps its id, its passages, their vectors, the user's tags and its read count.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from kb.ingest.changes import RootScan
from kb.types import DocumentDraft, FileState


@dataclass(frozen=True, slots=True)
class MissingDocument:
    """A document whose file is no longer at its path."""

    scan: RootScan
    state: FileState

    @property
    def doc_id(self) -> int:
        return self.state.doc_id

    @property
    def doc_path(self) -> str:
        return self.scan.doc_path(self.state.path)

    def mark_renamed(self) -> None:
        """Keep the document from being removed at its old path."""
        self.scan.kept_paths.add(self.state.path)


@dataclass(slots=True)
class RenameIndex:
    """The documents that may have been renamed, by the hash of their content."""

    by_content: dict[str, list[MissingDocument]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def build(cls, scans: Iterable[RootScan]) -> RenameIndex:
        index = cls()
        for scan in scans:
            for state in scan.missing_files():
                index.by_content[state.content_hash].append(MissingDocument(scan, state))
        return index

    def pop_match(self, draft: DocumentDraft) -> MissingDocument | None:
        """Remove and return a missing document with the content of `draft`, preferably one whose
        file had the same name."""
        candidates = self.by_content.get(draft.content_hash)
        if not candidates:
            return None
        name = os.path.basename(draft.path)
        same_name = [each for each in candidates if os.path.basename(each.state.path) == name]
        match = (same_name or candidates)[0]
        candidates.remove(match)
        return match
