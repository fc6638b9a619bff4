"""The lines of a roff document that a terminal shows: without the definitions of macros, and
without what a condition hides there, such as commands for a typesetter."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

_MAX_LINE_CHARS = 10_000
_DEFINITION = re.compile(
    r"[.'][ \t]*(?:(?:de|de1|dei|am|am1|ami)[ \t]+\S+|ig)(?:[ \t]+(\S+))?[ \t]*"
)
_CONDITIONAL = re.compile(r"[.'][ \t]*(if|ie|el)(?![A-Za-z0-9])[ \t]*(.*)", re.DOTALL)
_CONDITION = re.compile(
    r"""(!?[ ]*[notev](?![A-Za-z0-9])|!?[ ]*[drcmFS][ ]+\S+|!?'[^'\n]*'[^'\n]*'|!?"[^"\n]*"[^"\n]*"
    |(?:\\\{|[^\s\\]|\\[^{])*)""",
    re.VERBOSE,
)
_BRACE = re.compile(r"\\[{}]")
_TYPESETTER = frozenset({"t", "!n"})
_TERMINAL = frozenset({"n", "!t"})


def shown_lines(text: str) -> Iterator[str]:
    """Yield the lines that are text, or requests that may show some."""
    lines = _without_definitions(list(_logical_lines(text)))
    hidden_depth = 0  # of the braces of a hidden block
    hides_else = False
    for line in lines:
        is_request = line.startswith((".", "'"))
        if hidden_depth:
            hidden_depth = max(0, hidden_depth + _depth(line))
            continue
        while (match := _CONDITIONAL.fullmatch(line)) is not None:
            kind, rest = match.groups()
            if kind == "el":
                is_hidden = hides_else
            else:
                condition = _CONDITION.match(rest)
                word = condition[0].replace(" ", "") if condition is not None else ""
                rest = rest[condition.end() :].lstrip() if condition is not None else rest
                is_hidden = word in _TYPESETTER
                if kind == "ie":
                    hides_else = word in _TERMINAL
            if is_hidden:
                hidden_depth = max(0, _depth(rest))
                line = ""
                break
            line = rest.removeprefix("\\{").lstrip()
        if line := _BRACE.sub("", line) if line.startswith((".", "'")) else line:
            yield line
        elif not is_request:
            yield ""


def _depth(line: str) -> int:
    return line.count("\\{") - line.count("\\}")


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines, joined where a backslash hides their end. A line that begins a block is not
    joined with the first line of the block."""
    pending = ""
    for line in text.split("\n"):
        if line.endswith("\\{\\"):
            yield pending + line[:-1]
            pending = ""
            continue
        if line.endswith("\\") and not line.endswith("\\\\") and len(pending) < _MAX_LINE_CHARS:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _without_definitions(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines outside the definitions of macros. One that does not end is not one."""
    ends: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        if line.startswith((".", "'")):
            ends[line[1:].strip()].append(number)
    at = 0
    while at < len(lines):
        if (match := _DEFINITION.fullmatch(lines[at].partition('\\"')[0])) is not None:
            closing = ends[match[1] or "."]
            place = bisect_left(closing, at + 1)
            if place < len(closing):
                at = closing[place] + 1
                continue
        yield lines[at]
        at += 1
