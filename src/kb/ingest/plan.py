"""The plan of a run: which roots, or parts of them, it scans.

Compares the requested paths with the roots in the store, and writes nothing. Rules of ownership:

- A requested folder is a whole root, or a part of the whole root that contains it.
- A single file belongs to the whole root that contains it, otherwise to its folder, which becomes
  a root of single files. It stays there even if a whole root is added around it later.
- An uploaded file belongs to its folder, even if the walk skips that folder, as it skips `.kb`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kb.errors import PathMissing
from kb.ingest import file_names
from kb.ingest.file_entry import is_within
from kb.ingest.secret_files import BY_NAME, is_included, leads_to_secret
from kb.regular_files import open_folder
from kb.types import FileNote, Root

HasDocuments = Callable[[Root, str], bool]
"""Whether the root has a document at this path, or below it."""


@dataclass(frozen=True, slots=True)
class ScanTarget:
    """A root to scan, or one `part` of it (`""`: all of it).

    `root` is None until the store has a record of it. `whole` is the value of `Root.whole` after
    the run.
    """

    path: str
    whole: bool
    root: Root | None
    part: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run scans, and what it reports without scanning."""

    targets: tuple[ScanTarget, ...]
    missing: tuple[str, ...] = ()
    skipped: tuple[FileNote, ...] = ()
    failed: tuple[FileNote, ...] = ()
    detached: tuple[Root, ...] = ()  # skipped by a run without paths


def make_plan(
    paths: Iterable[str | os.PathLike[str]],
    roots: Sequence[Root],
    has_documents: HasDocuments,
    *,
    uploaded: bool = False,
    resolve_links: bool = True,
    include_secrets: Sequence[str] = (),
) -> Plan:
    """Plan a run over `paths`, or over all `roots` if `paths` is empty.

    Without `resolve_links`, a path that leads through a link is skipped. A detached root is
    scanned only if its own folder is among `paths`, which attaches it: its path came from another
    machine. `include_secrets` are the paths that `included_paths` returns.
    """
    attached = {root.path: root for root in roots if not root.detached}
    detached = {root.path: root for root in roots if root.detached}
    planner = _Planner(attached, detached, has_documents, uploaded, resolve_links, include_secrets)
    requested = [os.fspath(path) for path in paths]
    if requested:
        planner.add_paths(requested)
    else:
        planner.targets = [ScanTarget(root.path, root.whole, root) for root in attached.values()]
        return replace(planner.plan(), detached=tuple(detached.values()))
    return planner.plan()


def contains(folder: str, path: str) -> bool:
    """Whether `path` is `folder` or lies below it; both are absolute."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


@dataclass(slots=True)
class _Planner:
    roots: dict[str, Root]  # by path
    detached: Mapping[str, Root]
    has_documents: HasDocuments
    uploaded: bool = False
    resolve_links: bool = True
    include_secrets: Sequence[str] = ()
    targets: list[ScanTarget] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    skipped: list[FileNote] = field(default_factory=list)
    failed: list[FileNote] = field(default_factory=list)
    new: list[str] = field(default_factory=list)  # roots that this run makes whole

    def add_paths(self, requested: Iterable[str]) -> None:
        folders: list[str] = []
        files: list[str] = []
        for given in requested:
            if (path := self._existing(given)) is not None:
                (folders if os.path.isdir(path) else files).append(path)
        # Folders first, outer before inner: a path inside a folder is a part of it.
        for path in sorted(folders):
            self._add_folder(path)
        self.targets += map(self._target_of_file, files)

    def plan(self) -> Plan:
        targets, missing = [], list(dict.fromkeys(self.missing))
        for target in _merge(self.targets):
            if target.root is None or not is_missing(target.root):
                targets.append(target)
            elif target.path not in missing:
                missing.append(target.path)
        shown = tuple(map(file_names.portable_path, missing))
        return Plan(tuple(targets), shown, tuple(self.skipped), tuple(self.failed))

    def _existing(self, given: str) -> str | None:
        """Return the real path of a file or folder that can be scanned; report any other path."""
        try:
            path = os.path.realpath(given)
            mode = os.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            self._add_missing(given, path)
            return None
        except ValueError:  # a NUL in the path
            raise _path_missing(given) from None
        except OSError as error:
            self.failed.append(
                FileNote(file_names.portable_path(path), error.strerror or str(error))
            )
            return None
        if path != given and not self.resolve_links:
            self.skipped.append(FileNote(file_names.portable_path(given), "is a link"))
        elif leads_to_secret(path, folder=stat.S_ISDIR(mode)) and not is_included(
            path, self.include_secrets
        ):
            self.skipped.append(FileNote(file_names.portable_path(path), BY_NAME))
        elif not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            self.skipped.append(FileNote(file_names.portable_path(path), "not a regular file"))
        else:
            return path
        return None

    def _add_missing(self, given: str, path: str) -> None:
        """Handle a path that does not exist: scan it if the store has documents there, since their
        files may have been removed; report the root if that is missing as well."""
        candidates = [self._target(folder, path) for folder in self.roots if contains(folder, path)]
        known = [
            target
            for target in candidates
            if target.root and self.has_documents(target.root, target.part)
        ]
        if not known:
            raise _path_missing(given)
        if all(target.root and is_missing(target.root) for target in known):
            self.missing.append(path)
        else:
            self.targets += known

    def _add_folder(self, path: str) -> None:
        owner = next(self._roots_around(path, whole=True), path)
        if owner == path and path in self.detached:
            self.roots[path] = self.detached[path]
        if owner == path and not self._is_whole(path):
            self.new.append(path)
        self.targets.append(self._target(owner, path))
        # Scan the parts of other roots that lie in it as well.
        for other, root in self.roots.items():
            if other != owner and contains(path, other):
                self.targets.append(ScanTarget(other, root.whole, root))
        self.targets += [
            self._target(other, path) for other in self._roots_around(path, whole=False)
        ]

    def _target_of_file(self, path: str) -> ScanTarget:
        singles = list(self._roots_around(path, whole=False))
        for folder in singles:
            target = self._target(folder, path)
            if target.root is not None and self.has_documents(target.root, target.part):
                return target
        whole = next(self._roots_around(path, whole=True), None)
        folder = os.path.dirname(path)
        if self.uploaded:
            outer = self._target(whole or folder, path)
            is_known = outer.root is not None and self.has_documents(outer.root, outer.part)
            return outer if is_known else self._target(folder, path)
        return self._target(whole or (singles or [folder])[0], path)

    def _target(self, root: str, path: str) -> ScanTarget:
        """The target for `path` inside the root."""
        inside = path[len(root) :].strip(os.sep)
        part = file_names.portable_path(inside) if inside else ""
        return ScanTarget(root, self._is_whole(root), self.roots.get(root), part)

    def _roots_around(self, path: str, *, whole: bool) -> Iterator[str]:
        """The roots that contain `path`, innermost first."""
        for folder in sorted({*self.roots, *self.new}, key=len, reverse=True):
            if contains(folder, path) and self._is_whole(folder) == whole:
                yield folder

    def _is_whole(self, path: str) -> bool:
        return path in self.new or (path in self.roots and self.roots[path].whole)


def _path_missing(given: str) -> PathMissing:
    return PathMissing(f"{given!r} does not exist", "check the path's spelling")


def _merge(targets: Iterable[ScanTarget]) -> list[ScanTarget]:
    """Sort the targets and drop those that another one includes."""
    kept: list[ScanTarget] = []
    for target in sorted(targets, key=lambda target: (target.path, target.part, not target.whole)):
        same = (other for other in kept if other.path == target.path)
        if not any(is_within(target.part, other.part) for other in same):
            kept.append(target)
    return kept


def is_missing(root: Root) -> bool:
    """Whether a root cannot be reached now, so that its absent files do not count as removed.

    A root with a link in its path counts as missing: links were resolved at ingest, so the link
    leads elsewhere.
    """
    try:
        with open_folder(root.path):
            return not os.path.isdir(root.path)
    except PermissionError:
        return False  # it exists, and the walk reports the problem
    except OSError:
        return True
