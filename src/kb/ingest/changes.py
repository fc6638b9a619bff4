"""Compares the files of a root with the store's records: which are new, which are missing.

`scan_root` takes a target from the plan and returns a `RootScan` for the indexer.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate, islice

from kb.config import IngestConfig
from kb.ingest import file_names
from kb.ingest.file_entry import find_file, is_within
from kb.ingest.plan import ScanTarget, contains
from kb.ingest.secret_files import included_paths, leads_to_secret
from kb.ingest.upload_receipts import name_digest, uploaded_names
from kb.ingest.walk import WalkResult, is_hidden, walk
from kb.ports import Store
from kb.types import FileNote, FileState, Root

_ZOTERO = "zotero.sqlite"


@dataclass(slots=True)
class RootScan:
    """The files on disk and the store's records of a root, or of one part of it.

    The indexer adds the paths of documents that stay to `kept_paths` as it reads the files.
    """

    target: ScanTarget
    root: Root | None  # None: not in the store yet
    walk: WalkResult
    states: dict[str, FileState] = field(default_factory=dict)
    kept_paths: set[str] = field(default_factory=set)
    hidden: bool = True  # whether the walk included hidden files
    follow_links: bool = True

    def doc_path(self, path: str) -> str:
        name = self.root.name if self.root else os.path.basename(self.target.path) or "root"
        return f"{file_names.portable_path(name)}/{path}"

    def notes(self, notes: Iterable[FileNote]) -> list[FileNote]:
        """Replace the paths inside the root with document paths, as reports show them."""
        return [FileNote(self.doc_path(note.path), note.reason) for note in notes]

    def missing_files(self) -> list[FileState]:
        """The records whose files the walk did not find at their paths."""
        return self._missing({file.path for file in self.walk.files})[0]

    def removed_files(self) -> tuple[list[FileState], list[str]]:
        """The records whose files no longer exist, and the folders that appear to be unmounted.

        Documents below an unmounted folder are unavailable, not removed.
        """
        return self._missing(self.kept_paths)

    def is_gone(self, state: FileState) -> bool:
        """Whether the file of this record does not exist, but its root and its disk do."""
        path = self._disk_path(state)
        if os.path.lexists(path) or not os.path.isdir(self.target.path):
            return False
        folder = os.path.dirname(path)
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        return state.device is None or os.stat(folder).st_dev == state.device

    def unread_changes(self) -> list[FileNote]:
        """Warnings about Zotero libraries whose newest changes are in a log beside them."""
        return [
            FileNote(
                file.path,
                "its newest changes are in a log of SQLite and are not read; close Zotero, and run "
                "kb ingest again",
            )
            for file in self.walk.files
            if file.path.lower().rpartition("/")[2] == _ZOTERO
            and any(
                _size_bytes(os.path.join(self.target.path, file.disk_path + suffix))
                for suffix in ("-wal", "-journal")
            )
        ]

    def unselected_files(self) -> list[FileState]:
        """The records of files that exist, but that this run leaves out because they are hidden or
        linked. An earlier run has included them, and users may have tagged their documents."""
        return [
            state for state in self._unseen_files(self.kept_paths) if self._is_unselected(state)
        ]

    def _unseen_files(self, present: Set[str]) -> list[FileState]:
        return [
            state
            for path, state in self.states.items()
            if path not in present
            and not state.detached  # the store may hold the only copy of its text
            and is_within(path, self.target.part)
            and not any(is_within(path, unseen) for unseen in self.walk.unseen)
        ]

    def _is_unselected(self, state: FileState) -> bool:
        if self.hidden and self.follow_links:
            return False
        inside = _path_inside(state)
        names = inside.split(os.sep)
        if not os.path.isfile(os.path.join(self.target.path, inside)) or leads_to_secret(inside):
            return False
        if not self.hidden and is_hidden(self.target.path, inside):
            return True
        steps = accumulate(names, os.path.join, initial=self.target.path)
        return not self.follow_links and any(map(os.path.islink, islice(steps, 1, None)))

    def _missing(self, present: Set[str]) -> tuple[list[FileState], list[str]]:
        missing = [state for state in self._unseen_files(present) if not self._is_unselected(state)]
        unmounted = {
            device: folder
            for device in {state.device for state in missing}
            if (folder := self._unmounted_folder(device, missing)) is not None
        }
        # Files below such a folder may have been read from another disk that was mounted there.
        folders = set(unmounted.values())
        removed = [
            state
            for state in missing
            if state.device not in unmounted
            and not any(contains(folder, self._disk_path(state)) for folder in folders)
        ]
        return removed, sorted(map(file_names.portable_path, unmounted.values()))

    def _unmounted_folder(self, device: int | None, missing: Iterable[FileState]) -> str | None:
        """The folder where the file system `device` was mounted, if it no longer is: none of its
        files is present, and the folder that should hold them is on another device."""
        # Includes recorded device numbers, since a file system may get a new one when it is
        # remounted.
        present = {self.states[path].device for path in self.kept_paths if path in self.states}
        present |= {file.device for file in self.walk.files}
        if device is None or device in present:
            return None
        first = min((state for state in missing if state.device == device), key=lambda s: s.path)
        folder = os.path.dirname(self._disk_path(first))
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        return folder if os.stat(folder).st_dev != device else None

    def _disk_path(self, state: FileState) -> str:
        return os.path.join(self.target.path, _path_inside(state))


def scan_root(
    target: ScanTarget,
    root: Root | None,
    store: Store,
    roots: Sequence[Root],
    config: IngestConfig,
) -> RootScan:
    """List the files of `target` and load its records; `roots` are all roots in the store."""
    states = store.catalog.file_states(root.root_id) if root is not None else {}
    if not target.whole:
        known = sorted(
            path
            for path, state in states.items()
            if is_within(path, target.part) and (not state.detached or path == target.part)
        )
        paths = known or ([target.part] if target.part else [])
        return RootScan(target, root, _single_files(target.path, paths), states)
    result = walk(
        target.path,
        part=target.part,
        hidden=config.hidden,
        follow_links=config.follow_links,
        stop_at=[other.path for other in roots if other.whole and other.path != target.path],
        include_secrets=included_paths(config.include_secrets),
    )
    result = _with_uploads(result, target, states)
    return RootScan(
        target,
        root,
        _drop_claimed(result, target.path, store, roots),
        states,
        hidden=config.hidden,
        follow_links=config.follow_links,
    )


def _path_inside(state: FileState) -> str:
    """The path of a file inside its root, as the file system spells it."""
    return os.fsdecode(state.os_path) if state.os_path is not None else state.path


def _with_uploads(
    result: WalkResult, target: ScanTarget, states: Mapping[str, FileState]
) -> WalkResult:
    """Add the uploads that the walk leaves out because of their name or an ignore file: the server
    has accepted them."""
    walked = {file.path for file in result.files}
    receipts: dict[str, frozenset[str]] = {}
    left_out = []
    for path in sorted({*states, target.part} - walked):
        folder, _, name = path.rpartition("/")
        if not name or not is_within(path, target.part):
            continue
        if folder not in receipts:
            receipts[folder] = uploaded_names(os.path.join(target.path, folder))
        if receipts[folder] and name_digest(name) in receipts[folder]:
            left_out.append(path)
    if not left_out:
        return result
    uploads = _single_files(target.path, left_out)
    skipped = [note for note in result.skipped if note.path not in left_out]
    return WalkResult(
        tuple(sorted((*result.files, *uploads.files), key=lambda file: file.path)),
        (*skipped, *uploads.skipped),
        (*result.unseen, *uploads.unseen),
        result.warnings,
    )


def _single_files(folder: str, paths: Iterable[str]) -> WalkResult:
    """Look up the given files of a root that was not ingested as a whole."""
    files, skipped, unseen = [], [], []
    for path in paths:
        try:
            entry = find_file(folder, path)
        except OSError as error:
            unseen.append(path)
            skipped.append(FileNote(path, error.strerror or str(error)))
        else:
            files += [entry] if entry is not None else []
    return WalkResult(tuple(files), tuple(skipped), tuple(unseen))


def _drop_claimed(
    result: WalkResult, folder: str, store: Store, roots: Sequence[Root]
) -> WalkResult:
    """Drop the files that are already documents of a root of single files."""
    base = file_names.portable_path(folder)
    claimed = {
        f"{file_names.portable_path(root.path)}/{path}"
        for root in roots
        if not root.whole and root.path != folder
        if contains(root.path, folder) or contains(folder, root.path)
        for path in store.catalog.file_states(root.root_id)
    }
    if not claimed:
        return result
    files = tuple(entry for entry in result.files if f"{base}/{entry.path}" not in claimed)
    return WalkResult(files, result.skipped, result.unseen, result.warnings)


def _size_bytes(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
