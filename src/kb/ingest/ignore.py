"""`.gitignore` and `.kbignore`: which files a folder's owner does not want read.

Serves the walk. Git's rules: the nearest file decides, in one file the last line that matches; what
lies in an ignored folder cannot be brought back. `.kbignore` counts before the `.gitignore` there.
`?` and sets are about characters, where git has bytes.

An ignore file may come from anybody: it is a regular file of bounded size, and its patterns match
in linear time (`kb.text.globs`). If an ignore file cannot be read, nobody knows what it hides:
`Unreadable` names it, and its folder is not read either.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from operator import eq

from kb.regular_files import Links, read_file
from kb.text import globs
from kb.text.globs import ANY, FOLDERS, ONE, STAR, Matcher, one_of

IGNORE_FILES = (".kbignore", ".gitignore")
MOST_BYTES = 256 * 1024
MOST_CHARS = 4096  # in a line; no path is longer
# Of all patterns that count in a folder, since each is tried for each file: a plain one costs 1.
MOST_COST = 5_000
_COST = 100  # of one that is followed by states

_WILD = re.compile(r"[*?[\\]")
_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": r"\x21-\x7e", "lower": "a-z", "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e", "space": r" \t\n\x0b\x0c\r", "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip


class Unreadable(Exception):
    """An ignore file that is there and cannot be read."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(file, reason)
        self.file = file
        self.reason = f"cannot be read ({reason}), so its folder is not read either"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line. `by_name` patterns are about the last name of a path, others about all of it."""

    matches: Matcher
    negated: bool
    folders_only: bool
    by_name: bool
    cost: int = 1


@dataclass(frozen=True, slots=True)
class Rules:
    """The lines of one ignore file, last first. Paths inside the root are told as seen from its
    folder: without the first `cut` characters, and behind `prefix` where the folder is above."""

    source: str
    patterns: tuple[Pattern, ...]
    cut: int = 0
    prefix: str = ""

    @property
    def cost(self) -> int:
        return sum(pattern.cost for pattern in self.patterns)

    def judge(self, path: str, *, folder: bool) -> bool | None:
        """True: ignored. False: brought back by a `!` line. None: not spoken of."""
        seen = (self.prefix + path[self.cut :]).rstrip("/")
        name = seen.rpartition("/")[2]
        for pattern in self.patterns:
            if pattern.folders_only and not folder:
                continue
            if pattern.matches(name if pattern.by_name else seen):
                return not pattern.negated
        return None


def ignoring(levels: Iterable[Rules], path: str, *, folder: bool) -> Rules | None:
    """The rules, nearest first, by which `path` is ignored; None when it is not."""
    for rules in levels:
        judgement = rules.judge(path, folder=folder)
        if judgement is not None:
            return rules if judgement else None
    return None


# --- files ----------------------------------------------------------------------------------------


def load(
    folder: str,
    name: str,
    *,
    root: str | None = None,
    follow_links: bool = False,
    cut: int = 0,
    prefix: str = "",
) -> tuple[Rules | None, list[str]]:
    """The rules of the ignore file `name` in `folder`, None if there are none, and its lines that
    make no sense. A link counts if it ends inside of `root`, the folder itself unless given.

    Raises `Unreadable` for a file that is there and is no regular file, is too large, or may not
    be read.
    """
    base = folder if root is None else root
    links: Links = "follow" if follow_links else "inside"
    inside = os.path.relpath(os.path.join(folder, name), base)
    try:
        raw = read_file(inside, MOST_BYTES, root=base, links=links)
    except FileNotFoundError:
        return None, []
    except OSError as error:
        raise Unreadable(name, error.strerror or str(error)) from error
    # Composed, as the walk tells its paths.
    text = unicodedata.normalize("NFC", os.fsdecode(raw.removeprefix(b"\xef\xbb\xbf")))
    patterns, bad = [], []
    for line in text.split("\n"):
        if (line := _trimmed(line)) and not line.startswith("#"):
            if len(line) > MOST_CHARS:
                raise Unreadable(name, f"a line has more than {MOST_CHARS:,} characters")
            pattern = parse(line)
            if pattern is None:
                bad.append(line)
            else:
                patterns.append(pattern)
    if not patterns:
        return None, bad
    rules = Rules(name, tuple(reversed(patterns)), cut, prefix)
    check_cost(name, [rules])
    return rules, bad


def check_cost(name: str, levels: Iterable[Rules]) -> None:
    """Raises `Unreadable` if the file `name` makes the rules of a folder too many to try."""
    if sum(rules.cost for rules in levels) > MOST_COST:
        raise Unreadable(name, f"too many patterns: about {MOST_COST:,} can count in a folder")


def above(root: str) -> list[Rules]:
    """The rules of the folders above `root`, up to the top of the git repository that it is in.

    None of them if they ignore `root` itself, or a folder that it lies in: then someone asked for
    it all the same. Raises `Unreadable`.
    """
    folders = _up_to_repository(root)
    if not folders:
        return []
    top = folders[-1]
    found = [
        (folder, rules)
        for folder in folders
        for name in IGNORE_FILES
        if (rules := _rules_above(folder, name, top)) is not None
    ]
    for asked in (root, *folders[:-1]):
        if ignoring(_seen_from(asked, found), "", folder=True):
            return []
    return _seen_from(root, found)


def _seen_from(place: str, found: Iterable[tuple[str, Rules]]) -> list[Rules]:
    """The rules of the folders above `place`, for paths inside it."""
    return [
        Rules(rules.source, rules.patterns, prefix=_inside(place, folder) + "/")
        for folder, rules in found
        if folder != place and _inside(place, folder).split("/")[0] != os.pardir
    ]


def _inside(path: str, folder: str) -> str:
    return os.path.relpath(path, folder).replace(os.sep, "/")


def _rules_above(folder: str, name: str, top: str) -> Rules | None:
    try:
        return load(folder, name, root=top)[0]
    except Unreadable as unreadable:
        raise Unreadable(os.path.join(folder, name), unreadable.args[1]) from unreadable


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


# --- one line -------------------------------------------------------------------------------------


def _trimmed(line: str) -> str:
    """Without the end of the line, and without spaces there that no backslash keeps."""
    line = line.removesuffix("\r")
    bare = line.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return f"{bare} " if backslashes % 2 and len(bare) < len(line) else bare


def parse(line: str) -> Pattern | None:
    """The pattern of a line; None for one that can match nothing."""
    negated = line.startswith("!")
    text = line[1:] if negated else line
    folders_only = text.endswith("/")
    text = text[:-1] if folders_only else text
    by_name = "/" not in text
    text = text.removeprefix("/")
    if not text:
        return None
    kind = (negated, folders_only, by_name)
    if not _WILD.search(text):
        return Pattern(partial(eq, text), *kind)
    if by_name and text[0] == "*" and not _WILD.search(text, 1):
        return Pattern(_Suffix(text[1:]), *kind)
    steps = _steps(text, by_name=by_name)
    if steps is None:
        return None
    cost = 1 if globs.is_simple(steps) else _COST
    return Pattern(globs.matcher(steps), *kind, cost)


@dataclass(frozen=True, slots=True)
class _Suffix:
    """`*.log`, the most common of all."""

    end: str

    def __call__(self, name: str) -> bool:
        return name.endswith(self.end)


def _steps(text: str, *, by_name: bool) -> globs.Steps | None:
    """The pattern as steps of `kb.text.globs`; None if it is unfinished or has an empty set."""
    steps: list[str] = []
    at = 0
    literal = True  # so far
    while at < len(text):
        char = text[at]
        if char == "*":
            end = at
            while text[end : end + 1] == "*":
                end += 1
            is_double = end - at > 1 and not by_name
            # For git, a pattern begins behind the part that has no wildcard.
            begins = at == 0 or text[at - 1] == "/" or literal
            step, at = _stars(text, end) if is_double and begins else (STAR, end)
            if not (steps and steps[-1] == step == STAR):
                steps.append(step)
        elif char == "[":
            found = _set(text, at + 1)
            if found is None:
                return None
            step, at = found
            steps.append(step)
        elif char == "?":
            steps.append(ONE)
            at += 1
        else:
            if char == "\\":
                at += 1
                if at == len(text):
                    return None
            steps.append(re.escape(text[at]))
            literal = literal and char != "\\"
            at += 1
            continue
        literal = False
    return tuple(steps)


def _stars(text: str, end: int) -> tuple[str, int]:
    """The step for `**`, and where it ends: before a slash it is any number of folders, or none; at
    the end, or before a slash that is escaped, anything; elsewhere no more than `*`."""
    if text.startswith("/", end):
        return FOLDERS, end + 1
    return (ANY if end == len(text) or text.startswith("\\/", end) else STAR), end


def _set(text: str, at: int) -> tuple[str, int] | None:
    """The step for the set whose content begins at `at`, and where it ends; None for a set that
    does not end, or has nothing in it."""
    negated = text[at : at + 1] in ("!", "^")
    at += negated
    items: list[str] = []
    previous: str | None = None
    first = True
    while first or text[at : at + 1] != "]":
        first = False
        char = text[at : at + 1]
        if char == "-" and previous is not None and text[at + 1 : at + 2] not in ("", "]"):
            at += 1 + (text[at + 1] == "\\")
            last = text[at : at + 1]
            if not last:
                return None
            if previous <= last:
                items.append(f"{re.escape(previous)}-{re.escape(last)}")
            previous = None
        elif char == "[" and text[at + 1 : at + 2] == ":" and (end := text.find("]", at + 2)) > 0 \
                and text[end - 1] == ":" and end > at + 2:  # fmt: skip
            if (known := _CLASSES.get(text[at + 2 : end - 1])) is None:
                return None
            items.append(known)
            previous, at = None, end
        else:
            at += char == "\\"
            previous = text[at : at + 1]
            if not previous:
                return None
            items.append(re.escape(previous))
        at += 1
    if not items and not negated:
        return None
    return one_of(items, negated=negated), at + 1
