"""`.gitignore` and `.kbignore`: which files a folder's owner does not want read.

Serves the walk. Git's rules: the nearest file decides, in one file the last line that matches; what
lies in an ignored folder cannot be brought back. `.kbignore` counts before the `.gitignore` there.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILES = (".kbignore", ".gitignore")


@dataclass(frozen=True, slots=True)
class Rules:
    """The lines of one ignore file. Paths inside the root are told as seen from its folder:
    without the first `cut` characters, and behind `prefix` where the folder is above the root."""

    source: str
    spec: GitIgnoreSpec
    lines: tuple[str, ...]
    cut: int = 0
    prefix: str = ""

    def judge(self, path: str, *, folder: bool) -> bool | None:
        """True: ignored. False: brought back by a `!` line. None: not spoken of."""
        seen = self.prefix + path[self.cut :]
        if folder and not seen.endswith("/"):
            seen += "/"
        result = self.spec.check_file(seen)
        if not (folder and result.include and result.index is not None):
            return result.include
        # `build/**` is about what is in the folder: other lines may bring some of it back.
        return None if self.lines[result.index].rstrip().endswith("/**") else True


def ignoring(levels: Iterable[Rules], path: str, *, folder: bool) -> Rules | None:
    """The rules, nearest first, by which `path` is ignored; None when it is not."""
    for rules in levels:
        judgement = rules.judge(path, folder=folder)
        if judgement is not None:
            return rules if judgement else None
    return None


def load(file: str, *, cut: int = 0, prefix: str = "") -> tuple[Rules | None, list[str]]:
    """The rules of an ignore file, None if it has none, and its lines that make no sense."""
    from pathspec import GitIgnoreSpec

    with open(file, "rb") as stream:
        raw = os.fsdecode(stream.read().removeprefix(b"\xef\xbb\xbf"))
    text = unicodedata.normalize("NFC", raw)  # as the walk tells its paths
    lines, bad = [], []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        try:
            GitIgnoreSpec.from_lines([line])
        except (ValueError, re.error):
            bad.append(line)
        else:
            lines.append(line)
    if not lines:
        return None, bad
    spec = GitIgnoreSpec.from_lines(lines)
    return Rules(os.path.basename(file), spec, tuple(lines), cut, prefix), bad


def above(root: str) -> list[Rules]:
    """The rules of the folders above `root`, up to the top of the git repository that it is in.

    None of them if they ignore `root` itself: then someone asked for it all the same.
    """
    levels = []
    for folder in _up_to_repository(root):
        inside = os.path.relpath(root, folder).replace(os.sep, "/") + "/"
        levels += _rules_in(folder, inside)
    return [] if ignoring(levels, "", folder=True) else levels


def _rules_in(folder: str, inside: str) -> list[Rules]:
    found = []
    for name in IGNORE_FILES:
        try:
            rules, _ = load(os.path.join(folder, name), prefix=inside)
        except OSError:  # there is none, or it is not ours to read: nothing is ignored by it
            continue
        if rules is not None:
            found.append(rules)
    return found


def _up_to_repository(root: str) -> list[str]:
    """The folders above `root`, nearest first, to the one with `.git`; none outside of a repository
    or at its top."""
    if os.path.lexists(os.path.join(root, ".git")):
        return []
    folders: list[str] = []
    folder = root
    while (parent := os.path.dirname(folder)) != folder:
        folder = parent
        folders.append(folder)
        if os.path.lexists(os.path.join(folder, ".git")):
            return folders
    return []
