"""Globs over document paths, matched in linear time. Pure.

`*` and `?` do not match `/`, `**` does; `**/` also matches nothing; `[a-z]` is a set.

Common patterns, with at most one `**/` and a `**` at the end, become a regular expression with
little backtracking: only the last star of a segment can be retried. All others run as a state
machine with one bit per state.

`kb.ingest.ignore` parses git's patterns into the same steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from kb.values import NamedTuple

STAR, ANY, FOLDERS = "[^/]*", "(?s:.*)", "(?:(?s:.*)/)?"
_MANY = frozenset((STAR, ANY, FOLDERS))
ONE, _NONE = "[^/]", "(?!)"
# Adjacent wildcards that are equivalent to one of them.
_MERGED = {
    (ANY, STAR): ANY,
    (ANY, ANY): ANY,
    (ANY, FOLDERS): ANY,
    (FOLDERS, ANY): ANY,
    (FOLDERS, FOLDERS): FOLDERS,
}

Steps = tuple[str, ...]  # regular expressions, each a wildcard or a class of characters
Matcher = Callable[[str], bool]


def matches(pattern: str, path: str) -> bool:
    """Whether the pattern matches the whole path."""
    return _matcher(_parse(pattern))(path)


def compile_steps(steps: Steps) -> Matcher:
    """A function that tests whether the steps match a whole path."""
    regex = _regex(steps)
    if regex is not None:
        fullmatch = regex.fullmatch
        return lambda path: fullmatch(path) is not None
    return partial(_run, _StateMachine(steps))


@lru_cache(maxsize=64)
def _matcher(steps: Steps) -> Matcher:
    return compile_steps(steps)


# --- regular expressions --------------------------------------------------------------------------


def _regex(steps: Steps) -> re.Pattern[str] | None:
    """The steps as an expression that matches in linear time; None if there is none.

    A star and the steps up to the next star of the segment form an atomic group, which takes the
    first match: the next star reaches everything that a later match could."""
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
    """Whether a regular expression can match the steps. States take about 100 times as long."""
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


# --- state machine --------------------------------------------------------------------------------


class _StateMachine:
    """A nondeterministic automaton with one bit per step; a set of states is an integer."""

    def __init__(self, steps: Steps) -> None:
        self.end = 1 << len(steps)
        self.star, self.any, self.folders = (_bits(steps, kind) for kind in (STAR, ANY, FOLDERS))
        self.many = self.star | self.any | self.folders
        self._single = [
            (1 << at, re.compile(step)) for at, step in enumerate(steps) if step not in _MANY
        ]
        self._accepting: dict[str, int] = {}

    def accepting(self, character: str) -> int:
        """The single-character steps that match `character`."""
        if (known := self._accepting.get(character)) is None:
            known = sum(bit for bit, kind in self._single if kind.match(character))
            self._accepting[character] = known
        return known

    def closure(self, states: int) -> int:
        """The states in `states`, and those that are reached if wildcards match nothing."""
        reached = states
        while states := (states & self.many) << 1:
            reached |= states
        return reached


def _bits(steps: Steps, kind: str) -> int:
    return sum(1 << at for at, step in enumerate(steps) if step == kind)


def _run(machine: _StateMachine, path: str) -> bool:
    """Run all reachable states at once, without backtracking."""
    states = machine.closure(1)
    for character in path:
        moved = states & machine.accepting(character)
        stay = states & (machine.any | machine.folders)
        if character == "/":
            moved |= states & machine.folders
        else:
            stay |= states & machine.star
        # A star may end after any character, folders only after a `/`.
        moved |= stay & ~machine.folders
        states = stay | machine.closure(moved << 1)
        if not states:
            return False
    return bool(states & machine.end)


# --- parsing --------------------------------------------------------------------------------------


class _Token(NamedTuple):
    step: str
    end: int


@lru_cache(maxsize=64)
def _parse(pattern: str) -> Steps:
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
            return _Token(_parse_set(pattern[at + 1 : close]), close + 1)
    return _Token(re.escape(pattern[at]), at + 1)


def _parse_set(body: str) -> str:
    """A character class that never matches `/`. A reversed range matches nothing."""
    negated = body[0] in "!^"
    body = body[1:] if negated else body
    items, at = [], 0
    while at < len(body):
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            if body[at] <= body[at + 2]:
                items.append(f"{re.escape(body[at])}-{re.escape(body[at + 2])}")
            at += 3
        else:
            items.append(re.escape(body[at]))
            at += 1
    return char_class(items, negated=negated)


def char_class(items: Sequence[str], *, negated: bool) -> str:
    """The step for one character of a set, given as items of a regular expression; never `/`."""
    if not items:
        return ONE if negated else _NONE
    return f"(?!/)[{'^' if negated else ''}{''.join(items)}]"
