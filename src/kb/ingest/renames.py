"""Renames: a file that vanishes from one path and appears at another is the same document.

The document keeps its id, its passages, their vectors, the user's tags and its read count. The new
path may be new, or that of a document whose file was renamed too, as in a chain of renames (`b` to
`c`, then `a` to `b`) or a rotation. Only then are files read twice: those that changed and have the
size of another document.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kb.ingest.changes import RootScan
from kb.ingest.file_entry import FileEntry
from kb.types import DocumentDraft, FileState

Digest = Callable[[RootScan, FileEntry], str | None]  # of the content; None if it cannot be read
_Place = tuple[int, str]  # the scan and the path of a file


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
    """The documents that may have been renamed, by the hash of their content.

    `moves` are the renames among documents whose old path has another file now, by the new place.
    `replaced` are the ids of documents whose files were replaced by those of missing documents.
    """

    by_content: dict[str, list[MissingDocument]] = field(default_factory=lambda: defaultdict(list))
    moves: dict[_Place, MissingDocument] = field(default_factory=dict)
    leaving: set[int] = field(default_factory=set)  # the ids of their documents
    replaced: list[tuple[int, MissingDocument]] = field(default_factory=list)
    other_scans: Callable[[], Iterable[RootScan]] = tuple
    _unscanned: dict[str, list[MissingDocument]] | None = None  # documents of `other_scans`

    @classmethod
    def build(
        cls,
        scans: Iterable[RootScan],
        digest: Digest,
        other_scans: Callable[[], Iterable[RootScan]] = tuple,
    ) -> RenameIndex:
        """Build the index. `other_scans` returns the documents that the run does not scan, as
        scans without files; it is called for the first new file that no other document matches."""
        index = cls(other_scans=other_scans)
        scans = list(scans)
        for scan in scans:
            for state in scan.missing_files():
                index.by_content[state.content_hash].append(MissingDocument(scan, state))
        index._find_moves(scans, digest)
        return index

    def pop_match(self, scan: RootScan, draft: DocumentDraft) -> MissingDocument | None:
        """Remove and return the document whose file has moved to the place of `draft`: one with its
        content, preferably one whose file had the same name."""
        move = self.moves.get((id(scan), draft.path))
        if move is not None and move.state.content_hash == draft.content_hash:
            return move
        content = draft.content_hash
        candidates = self.by_content.get(content) or self._missing_elsewhere(content)
        if not candidates:
            return None
        match = _best(candidates, draft.path)
        candidates.remove(match)
        return match

    def _missing_elsewhere(self, content: str) -> list[MissingDocument]:
        """The documents with this content that the run does not scan and whose files are gone."""
        if self._unscanned is None:
            self._unscanned = defaultdict(list)
            for scan in self.other_scans():
                for state in scan.states.values():
                    document = MissingDocument(scan, state)
                    self._unscanned[state.content_hash].append(document)
        same = self._unscanned.get(content, [])
        same[:] = [each for each in same if each.scan.is_gone(each.state)]
        return same

    def _remove(self, document: MissingDocument) -> None:
        candidates = self.by_content.get(document.state.content_hash, [])
        if document in candidates:
            candidates.remove(document)

    def _find_moves(self, scans: list[RootScan], digest: Digest) -> None:
        """Match the files of changed and new documents with the contents of changed and missing
        ones. A document can only be replaced at its path if it moves away itself."""
        changed = [
            (scan, entry, state)
            for scan in scans
            for entry in scan.walk.files
            if (state := scan.states.get(entry.path)) is not None and _differs(state, entry)
        ]
        if not changed:
            return
        gone = [each for documents in self.by_content.values() for each in documents]
        documents = [*gone, *(MissingDocument(scan, state) for scan, _, state in changed)]
        sizes: dict[int, int] = defaultdict(int)
        for each in documents:
            sizes[each.state.size_bytes] += 1
        files: list[tuple[RootScan, FileEntry, FileState | None]] = [
            *changed,
            *(
                (scan, entry, None)
                for scan in scans
                for entry in scan.walk.files
                if entry.path not in scan.states
            ),
        ]
        digests: dict[_Place, str | None] = {}
        for scan, entry, state in files:
            own = state is not None and state.size_bytes == entry.size
            if sizes[entry.size] > own:
                digests[id(scan), entry.path] = digest(scan, entry)
        same = {
            state.doc_id
            for scan, entry, state in changed
            if state.size_bytes == entry.size
            and digests.get((id(scan), entry.path), state.content_hash) == state.content_hash
        }
        by_content: dict[str, list[MissingDocument]] = defaultdict(list)
        for each in documents:
            if each.doc_id not in same:
                by_content[each.state.content_hash].append(each)
        owners: dict[_Place, int] = {}
        moves: dict[_Place, MissingDocument] = {}
        for scan, entry, state in files:
            place = (id(scan), entry.path)
            content = digests.get(place)
            if state is not None:
                owners[place] = state.doc_id
            if content is None or (state is not None and state.doc_id in same):
                continue
            if candidates := by_content.get(content):
                moves[place] = _best(candidates, entry.path)
                candidates.remove(moves[place])
        missing = {each.doc_id for each in gone}
        possible = _possible(moves, owners, missing)
        self.replaced = [
            (owners[place], each)
            for place, each in moves.items()
            if place not in possible and each.doc_id in missing
        ]
        # Other missing documents are found by their content.
        self.moves = {
            place: each
            for place, each in possible.items()
            if place in owners or each.doc_id not in missing
        }
        self.leaving = {each.doc_id for each in self.moves.values()} - missing
        for each in self.moves.values():  # a copy of the file is not the same document
            self._remove(each)


def _possible(
    moves: dict[_Place, MissingDocument], owners: dict[_Place, int], missing: set[int]
) -> dict[_Place, MissingDocument]:
    """The moves to paths that are free, or that become free because their document moves too. A
    document whose path still has a file stays there, unless another document moves to that path:
    it may be a file that was copied, and then edited."""
    while True:
        leaving = {each.doc_id for each in moves.values()}
        kept = {
            place: each
            for place, each in moves.items()
            if (
                owners[place] in leaving
                if place in owners
                else each.doc_id in missing or (id(each.scan), each.state.path) in moves
            )
        }
        if len(kept) == len(moves):
            return kept
        moves = kept


def _best(candidates: list[MissingDocument], path: str) -> MissingDocument:
    name = os.path.basename(path)
    same_name = [each for each in candidates if os.path.basename(each.state.path) == name]
    return (same_name or candidates)[0]


def _differs(state: FileState, entry: FileEntry) -> bool:
    known = (state.size_bytes, state.mtime_ns, state.ctime_ns)
    return not state.detached and known != (entry.size, entry.mtime_ns, entry.ctime_ns)
