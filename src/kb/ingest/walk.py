"""The walk: lists the files below a root, always in the same order.

Reads folders, never files. Ignored and hidden files, tool folders and the programs of Zotero are
omitted silently; secrets, links and unreadable entries are reported as skipped. A folder that
cannot be read is `unseen`: the files recorded below it must not be treated as removed.

In a Maildir, every folder but the inbox has a name that begins with a dot, such as `.Sent`. These
are not hidden.
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
from kb.ingest.file_entry import FileEntry, is_within
from kb.ingest.secret_files import BY_NAME, is_included, is_secret_name, leads_to_secret
from kb.regular_files import is_link, open_folder
from kb.types import FileNote


@dataclass(frozen=True, slots=True)
class WalkResult:
    """The files of a walk, and what it could not list.

    Paths are inside the root. `unseen` are files and folders that could not be examined, where `""`
    is the root itself; `warnings` are about ignore files.
    """

    files: tuple[FileEntry, ...]
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
) -> WalkResult:
    """List the files below `root`, an absolute path.

    With `part`, a file or folder in it, only that one is listed. Folders in `stop_at`, also
    absolute, are not entered. `include_secrets` are the paths that `included_paths` returns.
    """
    walker = _Walker(root, part, hidden, follow_links, frozenset(stop_at), include_secrets)
    walker.run()
    files = sorted(walker.files, key=lambda file: file.path)
    if part and follow_links:
        files = [file for file in files if is_within(file.path, part)]
    return WalkResult(
        tuple(files), tuple(walker.skipped), tuple(walker.unseen), tuple(walker.warnings)
    )


def is_hidden(root: str, inside: str) -> bool:
    """Whether the walk of `root` omits the file at the path `inside` it because a name begins with
    a dot."""
    names = inside.split(os.sep)
    hidden = file_names.hidden_name(names)
    folders = (names[: number + 1] for number, name in enumerate(names) if name[:1] == ".")
    return hidden or not all(_is_mail_folder(os.path.join(root, *each)) for each in folders)


def _is_mail_folder(path: str) -> bool:
    return all(os.path.isdir(os.path.join(path, name)) for name in ("cur", "new", "tmp"))


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder of the walk: its portable path and its path on disk, both inside the root; its
    absolute path without links; the ignore rules that apply in it; and the reason if it is omitted
    regardless of them."""

    path: str
    disk_path: str
    real: str
    rules: tuple[ignore.Rules, ...]
    omitted: str | None = None


@dataclass(slots=True)
class _Walker:
    root: str
    part: str
    hidden: bool
    follow_links: bool
    stop_at: frozenset[str]
    include_secrets: Sequence[str] = ()
    files: list[FileEntry] = field(default_factory=list)
    skipped: list[FileNote] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    warnings: list[FileNote] = field(default_factory=list)
    # Linked folders wait until all real ones are read, so that a folder is listed under its own
    # path, and is read once even if links form a cycle.
    waiting: deque[_Folder] = field(default_factory=deque)
    entered: set[tuple[int, int]] = field(default_factory=set)

    def run(self) -> None:
        try:
            rules = tuple(ignore.rules_above(self.root))
        except ignore.IgnoreFileError as error:
            self._skip_folder("", file_names.portable_path(error.file), error.reason)
            return
        todo = [_Folder("", "", self.root, rules)]
        while todo or self.waiting:
            linked = not todo
            folder = todo.pop() if todo else self.waiting.popleft()
            if self.follow_links and not self._is_first_visit(folder, linked):
                continue
            todo += reversed(self._read_folder(folder))

    def _is_first_visit(self, folder: _Folder, linked: bool) -> bool:
        try:
            info = os.stat(os.path.join(self.root, folder.disk_path))
        except OSError as error:
            self._mark_unseen(folder.path, error)
            return False
        identity = (info.st_dev, info.st_ino)
        if identity in self.entered:
            if linked:
                self._skip(folder.path, "link to a folder that is already read")
            return False
        self.entered.add(identity)
        return True

    def _read_folder(self, folder: _Folder) -> list[_Folder]:
        """Add the folder's files, and return its subfolders."""
        try:
            # Stays open while its entries are examined, so that they belong to this folder even if
            # its path is replaced in the meantime.
            with (
                open_folder(self.root, folder.disk_path, follow_links=self.follow_links) as opened,
                os.scandir(opened) as listing,
            ):
                return self._visit_entries(folder, sorted(listing, key=lambda entry: entry.name))
        except OSError as error:
            self._mark_unseen(folder.path, error)
            return []

    def _visit_entries(self, folder: _Folder, entries: list[os.DirEntry[str]]) -> list[_Folder]:
        names = [entry.name for entry in entries]
        if folder.path and file_names.VENV_MARK in names:
            return []
        try:
            rules = self._rules(folder, names)
        except ignore.IgnoreFileError as error:
            path = f"{folder.path}/{error.file}" if folder.path else error.file
            self._skip_folder(folder.path, path, error.reason)
            return []
        path_prefix = f"{folder.path}/" if folder.path else ""
        disk_prefix = f"{folder.disk_path}/" if folder.disk_path else ""
        has_library = file_names.ZOTERO_LIBRARY in names
        folders = []
        for entry, text in zip(entries, file_names.portable(names), strict=True):
            path = path_prefix + text
            if self.part and not self.follow_links and not self._leads_to_part(path):
                continue
            is_program = has_library and text in file_names.ZOTERO_FOLDERS
            omitted = "a folder with Zotero's own programs" if is_program else None
            at = _Folder(path, disk_prefix + entry.name, "", rules, omitted)
            try:
                child = self._visit_entry(entry, at, folder.real)
            except OSError as error:
                self._mark_unseen(path, error, link=_is_link(entry))
            else:
                folders += [child] if child is not None else []
        return folders

    def _visit_entry(self, entry: os.DirEntry[str], at: _Folder, parent: str) -> _Folder | None:
        """Add the entry if it is a file; return it if it is a folder to read next."""
        is_folder = entry.is_dir(follow_symlinks=self.follow_links)
        real = os.path.join(parent, entry.name)
        if _is_link(entry) and self.follow_links:
            real = os.path.realpath(real)
        if reason := self._exclusion(entry.name, at, is_folder):
            if self.part and is_within(self.part, at.path):
                self._skip(at.path, reason)  # requested by its path, so not omitted silently
        elif reason := self._refusal(entry, real, is_folder):
            self._skip(at.path, reason)
        elif not is_folder:
            self._add_file(entry, at)
        elif real not in self.stop_at:
            child = _Folder(at.path, at.disk_path, real, at.rules)
            if not _is_link(entry):
                return child
            self.waiting.append(child)
        return None

    def _add_file(self, entry: os.DirEntry[str], at: _Folder) -> None:
        info = entry.stat(follow_symlinks=self.follow_links)
        if stat.S_ISREG(info.st_mode):
            self.files.append(FileEntry.from_stat(at.path, at.disk_path, info))
        else:
            self._skip(at.path, "not a regular file")

    def _exclusion(self, name: str, at: _Folder, is_folder: bool) -> str | None:
        """Why the entry is omitted silently; None if it is not."""
        if name in file_names.TOOL_FOLDERS:
            return f"{name} is never read"
        if is_folder and at.omitted is not None:
            return at.omitted
        if not self.hidden and self._is_hidden(name, at, is_folder):
            return "hidden"
        if at.rules and (rules := ignore.ignoring_rules(at.rules, at.path, folder=is_folder)):
            return f"ignored by {rules.source}"
        return None

    def _is_hidden(self, name: str, at: _Folder, is_folder: bool) -> bool:
        if name.startswith("."):
            return not is_folder or not _is_mail_folder(os.path.join(self.root, at.disk_path))
        parent = at.path.rpartition("/")[0].rpartition("/")[2]
        return parent.startswith(".") and name not in file_names.MAIL_FOLDERS

    def _refusal(self, entry: os.DirEntry[str], real: str, is_folder: bool) -> str | None:
        """Why the entry must not be read; None if it may be."""
        link = _is_link(entry)
        if link and not self.follow_links:
            return "symbolic link"
        is_secret = is_secret_name(entry.name, folder=is_folder) or (
            link and leads_to_secret(real, folder=is_folder)
        )
        return BY_NAME if is_secret and not is_included(real, self.include_secrets) else None

    def _rules(self, folder: _Folder, names: list[str]) -> tuple[ignore.Rules, ...]:
        rules = folder.rules
        cut = len(folder.path) + 1 if folder.path else 0
        for name in reversed(ignore.IGNORE_FILES):  # the first name takes precedence
            if name not in names:
                continue
            path = f"{folder.path}/{name}" if folder.path else name
            own, invalid = ignore.read_rules(
                os.path.join(self.root, folder.disk_path),
                name,
                root=self.root,
                follow_links=self.follow_links,
                cut=cut,
            )
            self.warnings += [FileNote(path, f"invalid pattern: {line}") for line in invalid]
            if own is not None:
                rules = (own, *rules)
                ignore.check_cost(name, rules)
        return rules

    def _skip_folder(self, folder: str, ignore_file: str, reason: str) -> None:
        """Skip a folder whose ignore file cannot be read: any file in the folder may be ignored."""
        self.unseen.append(folder)
        self._skip(ignore_file, reason)

    def _leads_to_part(self, path: str) -> bool:
        return is_within(path, self.part) or is_within(self.part, path)

    def _mark_unseen(self, path: str, error: OSError, *, link: bool = False) -> None:
        if link and error.errno in (errno.ENOENT, errno.ELOOP):
            self._skip(path, "broken link")
            return
        self.unseen.append(path)
        self._skip(path or ".", error.strerror or str(error))

    def _skip(self, path: str, reason: str) -> None:
        self.skipped.append(FileNote(path, reason))


def _is_link(entry: os.DirEntry[str]) -> bool:
    """Whether the entry is a symbolic link, or a junction, which Windows reports as a folder."""
    if entry.is_symlink():
        return True
    return sys.platform == "win32" and is_link(entry.stat(follow_symlinks=False))
