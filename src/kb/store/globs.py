"""Globs over document paths: `*` and `?` stop at `/`, `**` does not, `**/` is also nothing at all,
`[a-z]` is a set. Pure, and quick whatever the pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple


class _Step(NamedTuple):
    """One thing a path must have next: a character of a kind, or, if `many`, any number of them.
    `over` is how many steps may be left out when there are none."""

    kind: str
    many: bool = False
    over: int = 1


_INSIDE, _ANY, _NONE = "[^/]", "(?s:.)", "(?!)"
_FEW = 3  # so many stars can be tried by backtracking; more could take for ever


def matches(pattern: str, path: str) -> bool:
    """Whether the whole path is what the pattern says."""
    steps = _compiled(pattern)
    if sum(step.many for step in steps) <= _FEW:
        return _regex(steps).fullmatch(path) is not None
    return _followed(steps, path)


@lru_cache(maxsize=64)
def _regex(steps: tuple[_Step, ...]) -> re.Pattern[str]:
    """The steps as a regular expression: fast, unless there are many stars."""
    parts, at = [], 0
    while at < len(steps):
        step = steps[at]
        if step.over > 1:
            inside = "".join(
                f"{each.kind}{'*' * each.many}" for each in steps[at + 1 : at + step.over]
            )
            parts.append(f"(?:{inside})?")
            at += step.over
            continue
        parts.append(f"{step.kind}{'*' * step.many}")
        at += 1
    return re.compile("".join(parts))


def _followed(steps: tuple[_Step, ...], path: str) -> bool:
    """Every place in the pattern that could have been reached is followed at once, so no pattern
    makes it try again and again."""
    kinds = [re.compile(step.kind) for step in steps]
    at = _reached(steps, {0})
    for character in path:
        after: set[int] = set()
        for place in at:
            if place < len(steps) and kinds[place].match(character):
                after.add(place if steps[place].many else place + 1)
        at = _reached(steps, after)
        if not at:
            return False
    return len(steps) in at


def _reached(steps: tuple[_Step, ...], places: Iterable[int]) -> set[int]:
    """The places, and those behind what may also be nothing."""
    reached: set[int] = set()
    todo = list(places)
    while todo:
        place = todo.pop()
        if place in reached:
            continue
        reached.add(place)
        if place < len(steps) and steps[place].many:
            todo += {place + 1, place + steps[place].over}
    return reached


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> tuple[_Step, ...]:
    if pattern.endswith("/"):
        pattern += "**"
    steps: list[_Step] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            # Anything that ends in /, or nothing: a step that only leads into it or over it.
            steps += [_Step(_NONE, many=True, over=3), _Step(_ANY, many=True), _Step("/")]
            at += 3
        elif pattern.startswith("**", at):
            steps.append(_Step(_ANY, many=True))
            at += 2
        elif pattern[at] == "*":
            steps.append(_Step(_INSIDE, many=True))
            at += 1
        elif pattern[at] == "?":
            steps.append(_Step(_INSIDE))
            at += 1
        elif (
            pattern[at] == "[" and (close := pattern.find("]", at + 2 + _negated(pattern, at))) > 0
        ):
            steps.append(_Step(_set(pattern[at + 1 : close])))
            at = close + 1
        else:
            steps.append(_Step(re.escape(pattern[at])))
            at += 1
    return tuple(steps)


def _negated(pattern: str, at: int) -> int:
    return 1 if pattern[at + 1 : at + 2] in ("!", "^") else 0


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
    if not items:
        return _INSIDE if negated else _NONE
    return f"(?!/)[{'^' if negated else ''}{''.join(items)}]"
