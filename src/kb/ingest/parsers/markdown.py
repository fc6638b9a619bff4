"""Markdown, by heading. Blocks are ranges of source lines, so that citations match the file.

A heading starts a section; code fences, tables and HTML are atomic. Every non-blank line outside
the front matter is in exactly one block, even if it is not rendered, such as a link definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from kb.ingest import dates, file_names, front_matter
from kb.ingest.decode import decode
from kb.ingest.parser_support import sections
from kb.ingest.parser_support.format_parser import SMALL_BYTES, FormatParser
from kb.ingest.parser_support.sections import Part
from kb.ingest.parsers.text import TextParser
from kb.ports import Parsed, Source
from kb.text.wikilinks import MAX_LINKS, inline_tags, links_in

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

_SUFFIXES = frozenset(
    {".markdown", ".md", ".mdown", ".mdwn", ".mdx", ".mkd", ".mkdn", ".qmd", ".rmd"}
)
_CONTAINERS = frozenset(
    {"blockquote_open", "bullet_list_open", "list_item_open", "ordered_list_open"}
)
_ATOMIC = frozenset({"code_block", "fence", "html_block", "table_open"})
_MAX_BYTES = 32 * 1024 * 1024
LINKS = "links_to"  # the keys of its links, in the metadata of a document
_MAX_TAGS = 100
_LIST_ITEM = re.compile(r"(?:[-+*]|[0-9]{1,9}[.)])[ \t]+[^ \t\n]")
_HEADING_CHARS = 500  # a longer line is not a heading, and its markup could take very long


class MarkdownParser(FormatParser):
    name = "markdown"
    version = "5"
    max_local_bytes = SMALL_BYTES

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) in _SUFFIXES

    def parse(self, source: Source) -> Parsed:
        if len(source.data) > _MAX_BYTES:
            return _by_paragraph(source)
        text = decode(source.data)
        front = front_matter.read(text, dates.from_ns(source.mtime_ns))
        lines = text.split("\n")
        lines[: front.lines] = [""] * front.lines  # blanked to keep the line numbers
        parts = list(_without_overlaps(_parts(lines, self._max_chars)))
        body = "\n".join(lines)
        attributes, warnings = front.attributes, list(front.warnings)
        if links := _limit("links", links_in(body), MAX_LINKS, warnings):
            attributes = replace(attributes, metadata={**attributes.metadata, LINKS: list(links)})
        if tags := _limit("tags in its text", inline_tags(body), _MAX_TAGS, warnings):
            attributes = replace(attributes, tags=tuple(dict.fromkeys((*attributes.tags, *tags))))
        heading = next((part.heading for part in parts if part.level == 1), None)
        return Parsed(
            type="markdown",
            blocks=[*front.blocks(), *sections.blocks(lines, parts)],
            title=front.attributes.title or heading or file_names.title_of(source.name),
            lang=front.attributes.lang,
            attributes=attributes,
            warnings=tuple(warnings),
        )


def _limit(what: str, values: tuple[str, ...], limit: int, warnings: list[str]) -> tuple[str, ...]:
    """The first `limit` values, with a warning if there are more."""
    if len(values) > limit:
        warnings.append(f"has {len(values):,} {what}; only the first {limit:,} are recorded")
    return values[:limit]


def _by_paragraph(source: Source) -> Parsed:
    """Parse a very long file as plain text, since its Markdown tokens would fill the memory."""
    parsed = TextParser().parse(source)
    warning = "too long to be split by headings, so it is split by paragraphs"
    return replace(parsed, type="markdown", warnings=(*parsed.warnings, warning))


# --- tokens into parts ----------------------------------------------------------------------------


def _parts(lines: Sequence[str], max_chars: int) -> Iterator[Part]:
    env: dict[str, Any] = {}
    tokens = _parser().parse("\n".join(lines), env)
    offsets = [0, *accumulate(len(line) + 1 for line in lines)]
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.map is None or token.nesting < 0:
            at += 1
            continue
        start, end = token.map
        if token.type in _CONTAINERS and offsets[end] - offsets[start] > max_chars:
            at += 1  # split a long list or quotation into its content
            continue
        after = _after(tokens, at)
        atomic = token.type != "plain_paragraph" and any(
            inner.type in _ATOMIC for inner in tokens[at:after]
        )
        if token.type == "heading_open" and token.level == 0:
            heading = _heading_text(tokens[at + 1].content, env)
            yield Part(start, end, int(token.tag[1:]), heading, atomic)
        else:
            yield Part(start, end, atomic=atomic)
        at = after


def _after(tokens: Sequence[Token], at: int) -> int:
    """The index after the token at `at` and all that it contains."""
    if tokens[at].nesting == 0:
        return at + 1
    level = tokens[at].level
    at += 1
    while tokens[at].level > level:
        at += 1
    return at + 1


@cache
def _parser() -> MarkdownIt:
    """CommonMark with tables. Blocks only: emphasis and links would take half of the time."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    parser.block.ruler.before("table", "plain_paragraph", _plain_paragraph)
    return parser


def _plain_paragraph(state: StateBlock, start: int, _end: int, silent: bool) -> bool:
    """Recognize a paragraph whose lines all begin with letters, up to a blank line or a list item.
    No other rule matches it, and trying them all takes most of the time of a text of many short
    paragraphs or items. Anything else is left to the other rules. Creates one token, because kb
    needs only the lines."""
    if silent or state.sCount[start] - state.blkIndent > 3:
        return False
    text, begins, indents = state.src, state.bMarks, state.tShift
    line, last = start, state.lineMax
    while line < last:
        at = begins[line] + indents[line]
        if at >= state.eMarks[line]:  # blank
            break
        if not text[at].isalpha():
            if line == start or not _ends_paragraph(state, line, at):
                return False
            break
        line += 1
    state.line = line
    state.push("plain_paragraph", "p", 0).map = [start, line]
    return True


def _ends_paragraph(state: StateBlock, line: int, at: int) -> bool:
    """Whether the line certainly is a list item, which ends the paragraph above it."""
    indent = state.sCount[line]
    if indent < 0 or indent - state.blkIndent > 3 or _LIST_ITEM.match(state.src, at) is None:
        return False
    if indent >= state.blkIndent:  # a numbered item ends a paragraph only if its number is 1
        return not state.src[at].isdigit()
    return state.listIndent < 0 or indent - state.listIndent < 4


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Recognize a table without creating tokens for its cells: a long table would take
    gigabytes."""
    from markdown_it.rules_block import table

    if not table(state, start, end, True):
        return False
    if silent:
        return True
    parent, state.parentType = state.parentType, "table"
    terminators = state.md.block.ruler.getRules("blockquote")  # as the original rule does
    line = start + 2
    while (
        line < end
        and state.sCount[line] >= state.blkIndent
        and not any(rule(state, line, end, True) for rule in terminators)
        and not state.isEmpty(line)
        and not state.is_code_block(line)
    ):
        line += 1
    state.push("table_open", "table", 1).map = [start, line]
    state.push("table_close", "table", -1)
    state.parentType, state.line = parent, line
    return True


def _heading_text(markup: str, env: dict[str, Any]) -> str:
    """The text of a heading without its markup."""
    if len(markup) > _HEADING_CHARS:
        return " ".join(markup[:_HEADING_CHARS].split())
    tokens: list[Token] = []
    parser = _parser()
    parser.inline.parse(markup, parser, env, tokens)
    return " ".join("".join(map(_text_of, tokens)).split())


def _text_of(token: Token) -> str:
    if token.type in ("softbreak", "hardbreak"):
        return " "
    return "" if token.type == "html_inline" else token.content


def _without_overlaps(parts: Iterable[Part]) -> Iterator[Part]:
    """Remove overlaps, which lazy continuation lines of lists and quotations cause."""
    cursor = 0
    for part in parts:
        if part.end > cursor:
            yield part if part.start >= cursor else replace(part, start=cursor)
        cursor = max(cursor, part.end)
