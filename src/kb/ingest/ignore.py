"""`.gitignore` and `.kbignore`: which files the walk leaves out.

Follows git: the nearest ignore file decides, and within a file the last matching line. Files in an
ignored folder cannot be re-included. A `.kbignore` takes precedence over the `.gitignore` beside
it. `?` and sets match characters, where git matches bytes.

Ignore files are untrusted input: only regular files of bounded size are read, and patterns match
in linear time (`kb.text.globs`). A folder whose ignore file cannot be read is skipped as well,
since any file in it may be ignored: see `IgnoreFileError`.
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
from kb.text.globs import ANY, FOLDERS, ONE, STAR, Matcher, char_class

IGNORE_FILES = (".kbignore", ".gitignore")
MAX_BYTES = 256 * 1024
MAX_LINE_CHARS = 4096  # no path is longer
# The total cost of all patterns that apply in a folder, since each is tried for each file. A plain
# pattern costs 1.
MAX_COST = 5_000
_COST = 100  # of a pattern that needs a state machine

_WILD = re.compile(r"[*?[\\]")
_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": r"\x21-\x7e", "lower": "a-z", "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e", "space": r" \t\n\x0b\x0c\r", "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip


class IgnoreFileError(Exception):
    """An ignore file that exists but cannot be read."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(file, reason)
        self.file = file
        self.reason = f"cannot be read ({reason}), so its folder is skipped"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line. `by_name` patterns match the last name of a path, the others the whole path."""

    matches: Matcher
    negated: bool
    folders_only: bool
    by_name: bool
    cost: int = 1


@dataclass(frozen=True, slots=True)
class Rules:
    """The patterns of one ignore file, last line first.

    To match a path inside the root, the first `cut` characters are removed if the file lies inside
    the root, or `prefix` is prepended if it lies above the root.
    """

    source: str
    patterns: tuple[Pattern, ...]
    cut: int = 0
    prefix: str = ""

    @property
    def cost(self) -> int:
        return sum(pattern.cost for pattern in self.patterns)

    def decide(self, path: str, *, folder: bool) -> bool | None:
        """Return True if `path` is ignored, False if a `!` line re-includes it, None if no pattern
        matches."""
        relative = (self.prefix + path[self.cut :]).rstrip("/")
        name = relative.rpartition("/")[2]
        for pattern in self.patterns:
            if pattern.folders_only and not folder:
                continue
            if pattern.matches(name if pattern.by_name else relative):
                return not pattern.negated
        return None


def ignoring_rules(levels: Iterable[Rules], path: str, *, folder: bool) -> Rules | None:
    """Return the first of `levels`, nearest first, that ignores `path`; None if it is included."""
    for rules in levels:
        ignored = rules.decide(path, folder=folder)
        if ignored is not None:
            return rules if ignored else None
    return None


# --- files ----------------------------------------------------------------------------------------


def read_rules(
    folder: str,
    name: str,
    *,
    root: str | None = None,
    follow_links: bool = False,
    cut: int = 0,
    prefix: str = "",
) -> tuple[Rules | None, list[str]]:
    """Read the ignore file `name` in `folder`. Returns its rules (None if it has none) and its
    invalid lines.

    A link is followed if its target lies inside `root`, by default `folder`. Raises
    `IgnoreFileError` if the file exists but is not a regular file, is too large or unreadable.
    """
    base = folder if root is None else root
    links: Links = "follow" if follow_links else "inside"
    inside = os.path.relpath(os.path.join(folder, name), base)
    try:
        raw = read_file(inside, MAX_BYTES, root=base, links=links)
    except FileNotFoundError:
        return None, []
    except OSError as error:
        raise IgnoreFileError(name, error.strerror or str(error)) from error
    # In NFC, as the walk lists its paths.
    text = unicodedata.normalize("NFC", os.fsdecode(raw.removeprefix(b"\xef\xbb\xbf")))
    patterns, invalid = [], []
    for line in text.split("\n"):
        if (line := _strip_line(line)) and not line.startswith("#"):
            if len(line) > MAX_LINE_CHARS:
                raise IgnoreFileError(name, f"a line has more than {MAX_LINE_CHARS:,} characters")
            pattern = parse(line)
            if pattern is None:
                invalid.append(line)
            else:
                patterns.append(pattern)
    if not patterns:
        return None, invalid
    rules = Rules(name, tuple(reversed(patterns)), cut, prefix)
    check_cost(name, [rules])
    return rules, invalid


def check_cost(name: str, levels: Iterable[Rules]) -> None:
    """Raise `IgnoreFileError` if matching the patterns, including those of the file `name`, would
    take too long."""
    if sum(rules.cost for rules in levels) > MAX_COST:
        raise IgnoreFileError(name, f"too many patterns: a folder may have about {MAX_COST:,}")


def rules_above(root: str) -> list[Rules]:
    """Read the rules of the folders above `root`, up to the top of its git repository.

    Returns none of them if they ignore `root` or a folder above it, since the user requested it
    anyway. Raises `IgnoreFileError`.
    """
    folders = _folders_above(root)
    if not folders:
        return []
    top = folders[-1]
    rules_by_folder = [
        (folder, rules)
        for folder in folders
        for name in IGNORE_FILES
        if (rules := _read_above(folder, name, top)) is not None
    ]
    for folder in (root, *folders[:-1]):
        if ignoring_rules(_relative_to(folder, rules_by_folder), "", folder=True):
            return []
    return _relative_to(root, rules_by_folder)


def _relative_to(base: str, rules_by_folder: Iterable[tuple[str, Rules]]) -> list[Rules]:
    """The rules of the folders above `base`, for paths inside it."""
    return [
        Rules(rules.source, rules.patterns, prefix=_relative(base, folder) + "/")
        for folder, rules in rules_by_folder
        if folder != base and _relative(base, folder).split("/")[0] != os.pardir
    ]


def _relative(path: str, folder: str) -> str:
    return os.path.relpath(path, folder).replace(os.sep, "/")


def _read_above(folder: str, name: str, top: str) -> Rules | None:
    try:
        return read_rules(folder, name, root=top)[0]
    except IgnoreFileError as error:
        raise IgnoreFileError(os.path.join(folder, name), error.args[1]) from error


def _folders_above(root: str) -> list[str]:
    """The folders above `root`, nearest first, up to the one with `.git`; none if `root` is at the
    top of a repository or outside any."""
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


def _strip_line(line: str) -> str:
    """Strip the line end and trailing spaces, except one that a backslash escapes."""
    line = line.removesuffix("\r")
    bare = line.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return f"{bare} " if backslashes % 2 and len(bare) < len(line) else bare


def parse(line: str) -> Pattern | None:
    """Parse a line; None if it cannot match anything."""
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
    return Pattern(globs.compile_steps(steps), *kind, cost)


@dataclass(frozen=True, slots=True)
class _Suffix:
    """A pattern such as `*.log`, the most common kind."""

    end: str

    def __call__(self, name: str) -> bool:
        return name.endswith(self.end)


def _steps(text: str, *, by_name: bool) -> globs.Steps | None:
    """Convert a pattern to the steps of `kb.text.globs`; None if it is incomplete or has an empty
    set."""
    steps: list[str] = []
    at = 0
    literal = True  # no wildcard so far
    while at < len(text):
        char = text[at]
        if char == "*":
            end = at
            while text[end : end + 1] == "*":
                end += 1
            is_double = end - at > 1 and not by_name
            # Git matches the part before the first wildcard literally, and the pattern after it.
            begins = at == 0 or text[at - 1] == "/" or literal
            step, at = _stars(text, end) if is_double and begins else (STAR, end)
            if not (steps and steps[-1] == step == STAR):
                steps.append(step)
        elif char == "[":
            parsed = _set(text, at + 1)
            if parsed is None:
                return None
            step, at = parsed
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
    """The step for `**`, and where it ends: any number of folders before a slash, anything at the
    end or before an escaped slash, and the same as `*` elsewhere."""
    if text.startswith("/", end):
        return FOLDERS, end + 1
    return (ANY if end == len(text) or text.startswith("\\/", end) else STAR), end


def _set(text: str, at: int) -> tuple[str, int] | None:
    """The step for the set whose content begins at `at`, and where it ends; None if the set is
    empty or not closed."""
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
    return char_class(items, negated=negated), at + 1
