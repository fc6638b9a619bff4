"""The survey of a root: which files are there now, beside what the store remembers of them.

Between the plan and the indexer: a visit goes in, a site comes out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

from kb.config import IngestConfig
from kb.ingest import file_names
from kb.ingest.file_entry import find, within
from kb.ingest.plan import Visit, contains
from kb.ingest.secret_files import included_paths
from kb.ingest.walk import Walked, walk
from kb.ports import Store
from kb.types import FileNote, FileState, Root


@dataclass(slots=True)
class Site:
    """A root, or the part of it that a run visits. `kept` fills up as its files are read."""

    visit: Visit
    root: Root | None  # None: not in the store yet
    walked: Walked
    states: dict[str, FileState] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)

    def doc_path(self, path: str) -> str:
        name = self.root.name if self.root else os.path.basename(self.visit.path) or "root"
        return f"{file_names.portable_path(name)}/{path}"

    def notes(self, notes: Iterable[FileNote]) -> list[FileNote]:
        """Notes about paths inside the root, with the paths that reports have."""
        return [FileNote(self.doc_path(note.path), note.reason) for note in notes]

    def lost(self) -> list[FileState]:
        """What the store knows, before anything is read, of files that are not where they were."""
        return self._missing({file.path for file in self.walked.files})[0]

    def gone(self) -> tuple[list[FileState], list[str]]:
        """What the store knows of the part that was visited, and is not there any more; and the
        folders that seem not to be mounted, whose documents are not gone but out of reach."""
        return self._missing(self.kept)

    def _missing(self, there: Set[str]) -> tuple[list[FileState], list[str]]:
        missing = [
            state
            for path, state in self.states.items()
            if path not in there
            and not state.detached  # its text may be nowhere else
            and within(path, self.visit.part)
            and not any(within(path, unseen) for unseen in self.walked.unseen)
        ]
        away = {device: place for device in {state.device for state in missing}
                if (place := self._unmounted(device, missing)) is not None}  # fmt: skip
        gone = [state for state in missing if state.device not in away]
        return gone, sorted(map(file_names.portable_path, away.values()))

    def _unmounted(self, device: int | None, missing: Iterable[FileState]) -> str | None:
        """The folder where the file system `device` was, if it is not there now: nothing that was
        on it has been found, and what stands in its place is on another one."""
        # By the old number too, since a file system may be counted anew when it is mounted again.
        found = {self.states[path].device for path in self.kept if path in self.states}
        found |= {file.device for file in self.walked.files}
        if device is None or device in found:
            return None
        first = min((state for state in missing if state.device == device), key=lambda s: s.path)
        inside = os.fsdecode(first.os_path) if first.os_path is not None else first.path
        place = os.path.dirname(os.path.join(self.visit.path, inside))
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        return place if os.stat(place).st_dev != device else None


def survey(
    visit: Visit, root: Root | None, store: Store, roots: Sequence[Root], config: IngestConfig
) -> Site:
    """Look at what `visit` is about; `roots` are all that the store has."""
    states = store.file_states(root.root_id) if root is not None else {}
    if not visit.whole:
        known = sorted(
            path
            for path, state in states.items()
            if within(path, visit.part) and (not state.detached or path == visit.part)
        )
        asked = known or ([visit.part] if visit.part else [])
        return Site(visit, root, _single_files(visit.path, asked), states)
    walked = walk(
        visit.path,
        part=visit.part,
        hidden=config.hidden,
        follow_links=config.follow_links,
        stop_at=[other.path for other in roots if other.whole and other.path != visit.path],
        include_secrets=included_paths(config.include_secrets),
    )
    return Site(visit, root, _unclaimed(walked, visit.path, store, roots), states)


def _single_files(folder: str, paths: Iterable[str]) -> Walked:
    """The files of a root that was never asked for as a whole."""
    files, skipped, unseen = [], [], []
    for path in paths:
        try:
            found = find(folder, path)
        except OSError as error:
            unseen.append(path)
            skipped.append(FileNote(path, error.strerror or str(error)))
        else:
            files += [found] if found is not None else []
    return Walked(tuple(files), tuple(skipped), tuple(unseen))


def _unclaimed(walked: Walked, folder: str, store: Store, roots: Sequence[Root]) -> Walked:
    """Without the files that are documents of a root of single files already."""
    base = file_names.portable_path(folder)
    claimed = {
        f"{file_names.portable_path(root.path)}/{path}"
        for root in roots
        if not root.whole and root.path != folder
        if contains(root.path, folder) or contains(folder, root.path)
        for path in store.file_states(root.root_id)
    }
    if not claimed:
        return walked
    files = tuple(found for found in walked.files if f"{base}/{found.path}" not in claimed)
    return Walked(files, walked.skipped, walked.unseen, walked.warnings)
