"""The plan of a run: which roots, or parts of them, it visits.

Before the walk. Looks at the paths that were asked for and at the roots the store has; writes
nothing. Whose a file is:

- A folder that was asked for is a whole root, or a part of the whole root that it lies in.
- A single file belongs to the whole root it lies in, else to the folder it is in, which then is a
  root of single files. There it stays, even if a whole root grows around it: documents do not move.
- An uploaded file belongs to the folder it is in, which may lie where no walk goes: in `.kb`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kb.errors import PathMissing
from kb.ingest import file_names
from kb.ingest.file_entry import within
from kb.ingest.secret_files import BY_NAME, is_included
from kb.regular_files import open_folder
from kb.types import FileNote, Root

Knows = Callable[[Root, str], bool]
"""Whether a root has a document at this path inside it, or below."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A root to be visited, or the part of it (`""`: all). `root` is None while the store does not
    know it; `whole` is what it shall be from now on."""

    path: str
    whole: bool
    root: Root | None
    part: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    visits: tuple[Visit, ...]
    missing: tuple[str, ...] = ()
    skipped: tuple[FileNote, ...] = ()
    failed: tuple[FileNote, ...] = ()
    detached: tuple[Root, ...] = ()  # those that a run without paths leaves alone


def make_plan(
    paths: Iterable[str | os.PathLike[str]],
    roots: Sequence[Root],
    knows: Knows,
    *,
    uploaded: bool = False,
    resolve_links: bool = True,
    include_secrets: Sequence[str] = (),
) -> Plan:
    """The plan for `paths`; all of `roots` when there are none. Without `resolve_links`, a path
    that leads through a link is left out. A detached root counts only where its own folder is
    among `paths`, which attaches it: where it lies was decided elsewhere. `include_secrets` are
    those of `included_paths`."""
    attached = {root.path: root for root in roots if not root.detached}
    detached = {root.path: root for root in roots if root.detached}
    planner = _Planner(attached, detached, knows, uploaded, resolve_links, include_secrets)
    asked = [os.fspath(path) for path in paths]
    if asked:
        planner.ask(asked)
    else:
        planner.visits = [Visit(root.path, root.whole, root) for root in attached.values()]
        return replace(planner.plan(), detached=tuple(detached.values()))
    return planner.plan()


def contains(folder: str, path: str) -> bool:
    """Whether `path` is `folder` or lies in it; both absolute."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


@dataclass(slots=True)
class _Planner:
    roots: dict[str, Root]  # by path
    detached: Mapping[str, Root]
    knows: Knows
    uploaded: bool = False
    resolve_links: bool = True
    include_secrets: Sequence[str] = ()
    visits: list[Visit] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    skipped: list[FileNote] = field(default_factory=list)
    failed: list[FileNote] = field(default_factory=list)
    new: list[str] = field(default_factory=list)  # roots that this run makes whole

    def ask(self, asked: Iterable[str]) -> None:
        folders: list[str] = []
        files: list[str] = []
        for given in asked:
            if (path := self._existing(given)) is not None:
                (folders if os.path.isdir(path) else files).append(path)
        # Folders first, the outer before the inner: what lies in them is a part of them.
        for path in sorted(folders):
            self._ask_folder(path)
        self.visits += map(self._for_file, files)

    def plan(self) -> Plan:
        visits, gone = [], list(dict.fromkeys(self.missing))
        for visit in _merged(self.visits):
            if visit.root is None or not is_gone(visit.root):
                visits.append(visit)
            elif visit.path not in gone:
                gone.append(visit.path)
        missing = tuple(map(file_names.portable_path, gone))
        return Plan(tuple(visits), missing, tuple(self.skipped), tuple(self.failed))

    def _existing(self, given: str) -> str | None:
        """The real path of what can be read; what cannot is put down with the reason."""
        try:
            path = os.path.realpath(given)
            mode = os.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            self._is_missing(given, path)
            return None
        except ValueError:  # there is a NUL in it
            raise _no_such(given) from None
        except OSError as error:
            self.failed.append(
                FileNote(file_names.portable_path(path), error.strerror or str(error))
            )
            return None
        if path != given and not self.resolve_links:
            self.skipped.append(FileNote(file_names.portable_path(given), "is a link"))
        elif file_names.leads_to_secret(path, folder=stat.S_ISDIR(mode)) and not is_included(
            path, self.include_secrets
        ):
            self.skipped.append(FileNote(file_names.portable_path(path), BY_NAME))
        elif not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            self.skipped.append(FileNote(file_names.portable_path(path), "not a regular file"))
        else:
            return path
        return None

    def _is_missing(self, given: str, path: str) -> None:
        """A path that is not there. If documents were, they are gone, unless their root is too."""
        around = [self._visit(folder, path) for folder in self.roots if contains(folder, path)]
        known = [visit for visit in around if visit.root and self.knows(visit.root, visit.part)]
        if not known:
            raise _no_such(given)
        if all(visit.root and is_gone(visit.root) for visit in known):
            self.missing.append(path)
        else:
            self.visits += known

    def _ask_folder(self, path: str) -> None:
        owner = next(self._around(path, whole=True), path)
        if owner == path and path in self.detached:
            self.roots[path] = self.detached[path]
        if owner == path and not self._is_whole(path):
            self.new.append(path)
        self.visits.append(self._visit(owner, path))
        # What other roots have in it is a part of it too.
        for other, root in self.roots.items():
            if other != owner and contains(path, other):
                self.visits.append(Visit(other, root.whole, root))
        self.visits += [self._visit(other, path) for other in self._around(path, whole=False)]

    def _for_file(self, path: str) -> Visit:
        singles = list(self._around(path, whole=False))
        for folder in singles:
            visit = self._visit(folder, path)
            if visit.root is not None and self.knows(visit.root, visit.part):
                return visit
        whole = next(self._around(path, whole=True), None)
        folder = os.path.dirname(path)
        if self.uploaded:
            around = self._visit(whole or folder, path)
            is_known = around.root is not None and self.knows(around.root, around.part)
            return around if is_known else self._visit(folder, path)
        return self._visit(whole or (singles or [folder])[0], path)

    def _visit(self, root: str, path: str) -> Visit:
        """A visit of what is at `path` in the root."""
        inside = path[len(root) :].strip(os.sep)
        part = file_names.portable_path(inside) if inside else ""
        return Visit(root, self._is_whole(root), self.roots.get(root), part)

    def _around(self, path: str, *, whole: bool) -> Iterator[str]:
        """The roots that `path` lies in, innermost first."""
        for folder in sorted({*self.roots, *self.new}, key=len, reverse=True):
            if contains(folder, path) and self._is_whole(folder) == whole:
                yield folder

    def _is_whole(self, path: str) -> bool:
        return path in self.new or (path in self.roots and self.roots[path].whole)


def _no_such(given: str) -> PathMissing:
    return PathMissing(f"{given!r} does not exist", "check the spelling of the path")


def _merged(visits: Iterable[Visit]) -> list[Visit]:
    """In order, and without those that another visit includes."""
    kept: list[Visit] = []
    for visit in sorted(visits, key=lambda visit: (visit.path, visit.part, not visit.whole)):
        same = (other for other in kept if other.path == visit.path)
        if not any(within(visit.part, other.part) for other in same):
            kept.append(visit)
    return kept


def is_gone(root: Root) -> bool:
    """Whether a root cannot be looked at now, so that nothing follows from what is not there. A
    link in its path, which was resolved when it was ingested, leads to another folder."""
    try:
        with open_folder(root.path):
            return not os.path.isdir(root.path)
    except PermissionError:
        return False  # it is there, and the walk says what is wrong with it
    except OSError:
        return True
