"""The walk: which files lie below a root, in the same order every time.

First stage of ingest. Reads folders, never files. What the owner ignores, hidden files and the
folders of tools are left out without a word; what is left out for its own sake (a secret, a link,
something unreadable) is noted. A folder that could not be read is `unseen`: nobody may conclude
that the files known below it are gone.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kb.ingest import file_names, ignore
from kb.ingest.file_entry import Found, found_at, within
from kb.ingest.secret_files import BY_NAME, is_included
from kb.regular_files import is_link, open_folder
from kb.types import FileNote


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk saw. Paths are inside the root; `unseen` are files and folders it could not look
    at, `""` being the root itself; `warnings` are about ignore files."""

    files: tuple[Found, ...]
    skipped: tuple[FileNote, ...] = ()
    unseen: tuple[str, ...] = ()
    warnings: tuple[FileNote, ...] = ()


def walk(
    root: str,
    *,
    part: str = "",
    hidden: bool = False,
    follow_links: bool = False,
    stop_at: Iterable[str] = (),
    include_secrets: Sequence[str] = (),
) -> Walked:
    """The files below `root`, an absolute path; only those of `part`, a file or folder inside it,
    when given. Folders in `stop_at`, absolute too, are not entered. `include_secrets` are those of
    `included_paths`."""
    walker = _Walker(root, part, hidden, follow_links, frozenset(stop_at), include_secrets)
    walker.run()
    files = sorted(walker.files, key=lambda found: found.path)
    if part and follow_links:
        files = [found for found in files if within(found.path, part)]
    return Walked(tuple(files), tuple(walker.skipped), tuple(walker.unseen), tuple(walker.warnings))


@dataclass(frozen=True, slots=True)
class _Folder:
    """A place in the walk: its path as text, on disk inside the root, and without any links."""

    path: str
    inside: str
    real: str
    rules: tuple[ignore.Rules, ...]


@dataclass(slots=True)
class _Walker:
    root: str
    part: str
    hidden: bool
    follow_links: bool
    stop_at: frozenset[str]
    include_secrets: Sequence[str] = ()
    files: list[Found] = field(default_factory=list)
    skipped: list[FileNote] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    warnings: list[FileNote] = field(default_factory=list)
    # Links wait until all real folders are read: a folder is then known by its own name, and
    # however links run in circles, each folder is read once.
    waiting: deque[_Folder] = field(default_factory=deque)
    entered: set[tuple[int, int]] = field(default_factory=set)

    def run(self) -> None:
        try:
            rules = tuple(ignore.above(self.root))
        except ignore.Unreadable as unreadable:
            self._do_not_read("", file_names.portable_path(unreadable.file), unreadable.reason)
            return
        todo = [_Folder("", "", self.root, rules)]
        while todo or self.waiting:
            linked = not todo
            folder = todo.pop() if todo else self.waiting.popleft()
            if self.follow_links and not self._first_visit(folder, linked):
                continue
            todo += reversed(self._read(folder))

    def _first_visit(self, folder: _Folder, linked: bool) -> bool:
        try:
            info = os.stat(os.path.join(self.root, folder.inside))
        except OSError as error:
            self._could_not_see(folder.path, error)
            return False
        identity = (info.st_dev, info.st_ino)
        if identity in self.entered:
            if linked:
                self._skip(folder.path, "link to a folder that is read already")
            return False
        self.entered.add(identity)
        return True

    def _read(self, folder: _Folder) -> list[_Folder]:
        """Take the folder's files; return the folders in it."""
        try:
            # Stays open while its entries are looked at: they are those of this folder, whatever
            # has been put in its place.
            with (
                open_folder(self.root, folder.inside, follow_links=self.follow_links) as opened,
                os.scandir(opened) as listing,
            ):
                return self._take_all(folder, sorted(listing, key=lambda entry: entry.name))
        except OSError as error:
            self._could_not_see(folder.path, error)
            return []

    def _take_all(self, folder: _Folder, entries: list[os.DirEntry[str]]) -> list[_Folder]:
        present = [entry.name for entry in entries]
        if folder.path and file_names.VENV_MARK in present:
            return []
        try:
            rules = self._rules(folder, present)
        except ignore.Unreadable as unreadable:
            name = unreadable.file
            path = f"{folder.path}/{name}" if folder.path else name
            self._do_not_read(folder.path, path, unreadable.reason)
            return []
        path_to = f"{folder.path}/" if folder.path else ""
        inside_to = f"{folder.inside}/" if folder.inside else ""
        below = []
        for entry, text in zip(entries, file_names.portable(present), strict=True):
            path = path_to + text
            if self.part and not self.follow_links and not self._on_the_way(path):
                continue
            try:
                child = self._take(
                    entry, _Folder(path, inside_to + entry.name, "", rules), folder.real
                )
            except OSError as error:
                self._could_not_see(path, error, link=_is_link(entry))
            else:
                below += [child] if child is not None else []
        return below

    def _take(self, entry: os.DirEntry[str], at: _Folder, parent: str) -> _Folder | None:
        """Take the entry if it is a file; return it if it is a folder to be read now."""
        is_folder = entry.is_dir(follow_symlinks=self.follow_links)
        real = os.path.join(parent, entry.name)
        if _is_link(entry) and self.follow_links:
            real = os.path.realpath(real)
        if reason := self._left_out(entry.name, at, is_folder):
            if self.part and within(self.part, at.path):
                self._skip(at.path, reason)  # asked for by name, so told by name
        elif reason := self._refused(entry, real, is_folder):
            self._skip(at.path, reason)
        elif not is_folder:
            self._take_file(entry, at)
        elif real not in self.stop_at:
            child = _Folder(at.path, at.inside, real, at.rules)
            if not _is_link(entry):
                return child
            self.waiting.append(child)
        return None

    def _take_file(self, entry: os.DirEntry[str], at: _Folder) -> None:
        info = entry.stat(follow_symlinks=self.follow_links)
        if stat.S_ISREG(info.st_mode):
            self.files.append(found_at(at.path, at.inside, info))
        else:
            self._skip(at.path, "not a regular file")

    def _left_out(self, name: str, at: _Folder, is_folder: bool) -> str | None:
        """Why the owner, or custom, does not want it read."""
        if name in file_names.TOOL_FOLDERS:
            return f"{name} is never read"
        if name.startswith(".") and not self.hidden:
            return "hidden"
        if at.rules and (by := ignore.ignoring(at.rules, at.path, folder=is_folder)):
            return f"ignored by {by.source}"
        return None

    def _refused(self, entry: os.DirEntry[str], real: str, is_folder: bool) -> str | None:
        """Why it must not be read, whoever asks."""
        link = _is_link(entry)
        if link and not self.follow_links:
            return "symbolic link"
        is_secret = file_names.is_secret(entry.name, folder=is_folder) or (
            link and file_names.leads_to_secret(real, folder=is_folder)
        )
        return BY_NAME if is_secret and not is_included(real, self.include_secrets) else None

    def _rules(self, folder: _Folder, present: list[str]) -> tuple[ignore.Rules, ...]:
        rules = folder.rules
        cut = len(folder.path) + 1 if folder.path else 0
        for name in reversed(ignore.IGNORE_FILES):  # the last one put in front is asked first
            if name not in present:
                continue
            path = f"{folder.path}/{name}" if folder.path else name
            place = os.path.join(self.root, folder.inside)
            own, bad = ignore.load(
                place, name, root=self.root, follow_links=self.follow_links, cut=cut
            )
            self.warnings += [FileNote(path, f"pattern not understood: {line}") for line in bad]
            if own is not None:
                rules = (own, *rules)
                ignore.check_cost(name, rules)
        return rules

    def _do_not_read(self, folder: str, ignore_file: str, reason: str) -> None:
        """Leave a folder alone, since nobody knows what its ignore file hides."""
        self.unseen.append(folder)
        self._skip(ignore_file, reason)

    def _on_the_way(self, path: str) -> bool:
        return within(path, self.part) or within(self.part, path)

    def _could_not_see(self, path: str, error: OSError, *, link: bool = False) -> None:
        if link and error.errno in (errno.ENOENT, errno.ELOOP):
            self._skip(path, "broken link")
            return
        self.unseen.append(path)
        self._skip(path or ".", error.strerror or str(error))

    def _skip(self, path: str, reason: str) -> None:
        self.skipped.append(FileNote(path, reason))


def _is_link(entry: os.DirEntry[str]) -> bool:
    """Also a junction of Windows, which calls itself a folder."""
    if entry.is_symlink():
        return True
    return sys.platform == "win32" and is_link(entry.stat(follow_symlinks=False))
