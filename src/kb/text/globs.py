"""Globs over document paths: `*` and `?` stop at `/`, `**` does not, `**/` is also nothing at all,
`[a-z]` is a set. Pure.

No pattern makes a match slow. The usual ones, with one `**/` and a `**` at the end at most, become
a regular expression that cannot backtrack far: in a segment, only the last star may be tried again.
All others are followed as a set of states, one bit each, that takes one step a character.

`kb.ingest.ignore` reads patterns of its own, by git's rules, into the same steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

STAR, ANY, FOLDERS = "[^/]*", "(?s:.*)", "(?:(?s:.*)/)?"
_MANY = frozenset((STAR, ANY, FOLDERS))
ONE, _NONE = "[^/]", "(?!)"
# What a wildcard is together with the one behind it, where the two are no more than one of them.
_MERGED = {
    (ANY, STAR): ANY,
    (ANY, ANY): ANY,
    (ANY, FOLDERS): ANY,
    (FOLDERS, ANY): ANY,
    (FOLDERS, FOLDERS): FOLDERS,
}

Steps = tuple[str, ...]  # regular expressions: a wildcard, or what one character may be
Matcher = Callable[[str], bool]


def matches(pattern: str, path: str) -> bool:
    """Whether the whole path is what the pattern says."""
    return _matcher(_compiled(pattern))(path)


def matcher(steps: Steps) -> Matcher:
    """Whether a whole path is what the steps say, as a function to be kept."""
    regex = _regex(steps)
    if regex is not None:
        fullmatch = regex.fullmatch
        return lambda path: fullmatch(path) is not None
    return partial(_follow, _States(steps))


@lru_cache(maxsize=64)
def _matcher(steps: Steps) -> Matcher:
    return matcher(steps)


# --- by a regular expression ----------------------------------------------------------------------


def _regex(steps: Steps) -> re.Pattern[str] | None:
    """The steps as an expression that takes time by the length of the path; None if there is none.

    A star and what stands behind it, up to the next star of the segment, is taken where it is first
    found, and for good: the next star can reach whatever a later place could."""
    if not is_simple(steps):
        return None
    parts, at = [], 0
    while at < len(steps):
        following = _next_star(steps, at)
        if steps[at] == STAR and following is not None:
            parts.append(f"(?>[^/]*?{''.join(steps[at + 1 : following])})")
            at = following
        else:
            parts.append(steps[at])
            at += 1
    return re.compile("".join(parts))


def is_simple(steps: Steps) -> bool:
    """Whether a regular expression can match the steps; states take some hundred times as long."""
    if ANY in steps[:-1] or steps.count(FOLDERS) > 1:
        return False
    at = steps.index(FOLDERS) if FOLDERS in steps else 0
    return at == 0 or steps[at - 1] == "/"


def _next_star(steps: Steps, at: int) -> int | None:
    """The next star of the same segment."""
    for place in range(at + 1, len(steps)):
        if steps[place] == STAR:
            return place
        if steps[place] in ("/", ANY, FOLDERS):
            return None
    return None


# --- by sets of states ----------------------------------------------------------------------------


class _States:
    """A step is a bit. The set of those that a path may have come to is one number."""

    def __init__(self, steps: Steps) -> None:
        self.end = 1 << len(steps)
        self.star, self.any, self.folders = (_bits(steps, kind) for kind in (STAR, ANY, FOLDERS))
        self.many = self.star | self.any | self.folders
        self._ones = [(1 << at, re.compile(step)) for at, step in enumerate(steps)
                      if step not in _MANY]  # fmt: skip
        self._taken: dict[str, int] = {}

    def taking(self, character: str) -> int:
        """The steps for one character that this one fits."""
        if (known := self._taken.get(character)) is None:
            known = sum(bit for bit, kind in self._ones if kind.match(character))
            self._taken[character] = known
        return known

    def entered(self, states: int) -> int:
        """The states, and those behind wildcards, which may also be nothing."""
        reached = states
        while states := (states & self.many) << 1:
            reached |= states
        return reached


def _bits(steps: Steps, kind: str) -> int:
    return sum(1 << at for at, step in enumerate(steps) if step == kind)


def _follow(known: _States, path: str) -> bool:
    """Every state that can be reached is followed at once, so that nothing is tried again."""
    states = known.entered(1)
    for character in path:
        moved = states & known.taking(character)
        stay = states & (known.any | known.folders)
        if character == "/":
            moved |= states & known.folders
        else:
            stay |= states & known.star
        # Who stays in a star may leave it at any moment; who stays in folders, after a `/` alone.
        moved |= stay & ~known.folders
        states = stay | known.entered(moved << 1)
        if not states:
            return False
    return bool(states & known.end)


# --- reading a pattern ----------------------------------------------------------------------------


class _Token(NamedTuple):
    step: str
    end: int


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Steps:
    if pattern.endswith("/"):
        pattern += "**"
    steps: list[str] = []
    at = 0
    while at < len(pattern):
        step, at = _token(pattern, at)
        while steps and (merged := _MERGED.get((steps[-1], step))) is not None:
            steps.pop()
            step = merged
        steps.append(step)
    return tuple(steps)


def _token(pattern: str, at: int) -> _Token:
    if pattern.startswith("**/", at):
        return _Token(FOLDERS, at + 3)
    if pattern.startswith("**", at):
        return _Token(ANY, at + 2)
    if pattern[at] == "*":
        return _Token(STAR, at + 1)
    if pattern[at] == "?":
        return _Token(ONE, at + 1)
    if pattern[at] == "[":
        negated = pattern[at + 1 : at + 2] in ("!", "^")
        close = pattern.find("]", at + 2 + negated)
        if close != -1:
            return _Token(_set(pattern[at + 1 : close]), close + 1)
    return _Token(re.escape(pattern[at]), at + 1)


def _set(inside: str) -> str:
    """A character set that never matches `/`; a range that runs backwards matches nothing."""
    negated = inside[0] in "!^"
    body = inside[1:] if negated else inside
    items, at = [], 0
    while at < len(body):
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            if body[at] <= body[at + 2]:
                items.append(f"{re.escape(body[at])}-{re.escape(body[at + 2])}")
            at += 3
        else:
            items.append(re.escape(body[at]))
            at += 1
    return one_of(items, negated=negated)


def one_of(items: Sequence[str], *, negated: bool) -> str:
    """The step for one character of a set, as a regular expression has its items; never `/`."""
    if not items:
        return ONE if negated else _NONE
    return f"(?!/)[{'^' if negated else ''}{''.join(items)}]"
