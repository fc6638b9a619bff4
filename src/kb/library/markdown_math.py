"""Formulas in Markdown: `$x$`, `$$x$$`, `\\(x\\)` and `\\[x\\]`, as tokens of markdown-it.

As in Pandoc, a `$` that begins a formula has no space after it, and one that ends it has no space
before it and no digit after it, so that prices stay text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.ruler import RuleOptionsType
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

INLINE, BLOCK = "math_inline", "math_block"
_INLINE = (
    (re.compile(r"\$\$(?=\S)(.{1,5000}?)(?<=\S)\$\$", re.DOTALL), True),
    (re.compile(r"\$(?=[^\s$])((?:[^$\\]|\\.){1,2000}?)(?<!\s)\$(?!\d)", re.DOTALL), False),
    (re.compile(r"\\\[(.{1,5000}?)\\\]", re.DOTALL), True),
    (re.compile(r"\\\((.{1,2000}?)\\\)", re.DOTALL), False),
)
_FENCES = {"$$": "$$", "\\[": "\\]"}
_MAX_LINES = 200


def enable_math(parser: MarkdownIt) -> None:
    """Add the rules to a parser."""
    parser.inline.ruler.before("escape", INLINE, _inline)
    alternatives: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    parser.block.ruler.before("fence", BLOCK, _block, alternatives)


def _inline(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    for pattern, display in _INLINE:
        match = pattern.match(state.src, state.pos, state.posMax)
        if match is None or not match[1].strip():
            continue
        if not silent:
            token = state.push(INLINE, "math", 0)
            token.content, token.meta = match[1], {"display": display}
        state.pos = match.end()
        return True
    return False


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A formula on separate lines, whose text is not Markdown."""
    if state.sCount[start] - state.blkIndent >= 4:
        return False
    first = _line(state, start)
    closing = _FENCES.get(first[:2])
    if closing is None:
        return False
    content, rest = [], first[2:]
    for number in range(start, min(end, start + _MAX_LINES)):
        text = rest if number == start else _line(state, number)
        if text.rstrip().endswith(closing):
            content.append(text.rstrip().removesuffix(closing))
            if silent:
                return True
            token = state.push(BLOCK, "math", 0)
            token.content, token.map = "\n".join(content), [start, number + 1]
            state.line = number + 1
            return True
        if closing in text:
            return False  # text follows the formula
        content.append(text)
    return False


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]
