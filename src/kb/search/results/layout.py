"""The layout of a passage for snippets: sentences, and lines of lists, tables and code. Pure.

prose                            joined into one line and split into sentences
a list item                      one line, with its continuation lines
a row of a table                 one line; the rule below the header is dropped
a line of a fenced block         one line, with its indentation; the fences are dropped
a line of a literal block        the same in reStructuredText; a directive is dropped
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kb.text.patterns import compile_later
from kb.values import NamedTuple

SENTENCE, LINE, ROW = "sentence", "line", "row"

_TAB = 4
_MIN_UNDERLINE = 4
_FENCE = compile_later(r"[ \t]*(```+|~~~+)")
_RULE = compile_later(r"[ \t]*[-=+|:*~_^#][-=+|:*~_^# \t]{2,}")  # below headings, around table rows
_ROW = compile_later(r"[ \t]*\|.*\|[ \t]*")
_ITEM = compile_later(r"([ \t]*)(?:[-*+•‣◦]|\d{1,3}[.)]|[a-z]\))[ \t]+(?=\S)")
_PROSE = compile_later(r"[ \t]*[A-Za-z][^)]")  # most lines: matches none of the above
_CODE = compile_later(r"[ \t]*\.\. (?:code-block|code|sourcecode|prompt|parsed-literal)::")
_HEADING = compile_later(r"#{1,6}[ \t]+\S")
# Searching for the first character alone is faster than searching for either form.
_SENTENCE_END = compile_later(
    r"[.!?؟।。！？](?:(?<=[.!?؟।])['\")\]»”’]*(?= )|(?<=[。！？])['\")\]」』”’]*)"
)
_ABBREVIATION = compile_later(
    r"(?:(?<![^\W\d_])[^\W\d_]|e\.g|i\.e|\b(?:etc|vs|cf|[Ff]igs?|[Ee]q|No|Dr|Mrs?|Ms|St|al|approx|ca|pp?|Inc|Ltd|Jr"
    r"|Sr|Prof|[Vv]ol|[Ss]ec|[Ee]d))\.$"
)


class Unit(NamedTuple):
    """A sentence or a line of the shown text. `header` is the position of a table's first row."""

    start: int
    end: int
    kind: str = SENTENCE
    header: int | None = None


class Layout(NamedTuple):
    """The text of a passage as a snippet shows it, and its units in order."""

    text: str
    units: tuple[Unit, ...]

    @property
    def has_lines(self) -> bool:
        """Whether the text has more than one line."""
        return "\n" in self.text


def lay_out(text: str, *, by_lines: bool = False) -> Layout:
    """Lay out a passage. `by_lines` keeps every line, as in a table of separated values."""
    blocks = ((LINE, line) for line in _strip(text.splitlines())) if by_lines else _blocks(text)
    parts: list[str] = []
    units: list[Unit] = []
    at, header, before = 0, None, ""
    for kind, content in blocks:
        if parts:
            gap = " " if kind == before == SENTENCE else "\n"
            parts.append(gap)
            at += 1
        header = (len(units) if before != ROW else header) if kind == ROW else None
        ends = sentence_ends(content) if kind == SENTENCE else (len(content),)
        start = 0
        for end in ends:
            units.append(Unit(at + start, at + end, kind, header))
            start = end + (content[end : end + 1] == " ")
        parts.append(content)
        at += len(content)
        before = kind
    return Layout("".join(parts), tuple(units))


def sentence_ends(text: str) -> list[int]:
    """The ends of the sentences in a text without line breaks; the last one is its length."""
    ends = []
    for match in _SENTENCE_END.finditer(text):
        end = match.end()
        following = text[end + 1 : end + 2] if text[end : end + 1] == " " else text[end : end + 1]
        is_over = bool(following) and not following.islower()
        before = text[max(0, match.start() - 8) : match.start() + 1]
        if is_over and not _ABBREVIATION.search(before):
            ends.append(end)
    return [*ends, len(text)] if text else []


def _is_underline(line: str, above: str) -> bool:
    """Whether a line of `~` or backticks marks the line above as a heading of reStructuredText. A
    fence is rarely that long."""
    rule = line.strip()
    return len(rule) >= max(_MIN_UNDERLINE, len(above.strip())) and set(rule) == {rule[0]}


def _strip(lines: Iterable[str]) -> Iterator[str]:
    return (line.expandtabs(_TAB).rstrip() for line in lines if line.strip())


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """The paragraphs and lines of a passage, with their kinds."""
    prose: list[str] = []
    item: list[str] | None = None
    fence = ""
    literal = False  # in a literal block of reStructuredText: after `::` or a directive for code

    def flush() -> Iterator[tuple[str, str]]:
        nonlocal item
        if item is not None:
            indent = item[0][: len(item[0]) - len(item[0].lstrip())]
            yield LINE, indent + " ".join(" ".join(item).split())
            item = None
        elif prose and (joined := " ".join(" ".join(prose).split())):
            yield SENTENCE, joined
        prose.clear()

    for raw in text.splitlines():
        line = raw.expandtabs(_TAB).rstrip()
        if not (fence or literal) and _PROSE.match(line):
            (prose if item is None else item).append(line)
            continue
        opened = _FENCE.match(line)
        if fence:
            if opened is not None and opened[1].startswith(fence):
                fence = ""
            elif line:
                yield LINE, line
            continue
        if literal and line and not line.startswith(" "):
            literal = False
        if opened is not None:
            is_underline = prose and item is None and _is_underline(line, prose[-1])
            yield from flush()
            fence = "" if is_underline else opened[1]
        elif not line:
            literal = literal or bool(prose and prose[-1].endswith("::"))
            yield from flush()
        elif literal:
            yield LINE, line
        elif _CODE.match(line):
            yield from flush()
            literal = True
        elif _RULE.fullmatch(line):
            yield from flush()
        elif _ROW.fullmatch(line):
            yield from flush()
            yield ROW, line.strip()
        elif _ITEM.match(line):
            yield from flush()
            item = [line]
        elif _HEADING.match(line):
            yield from flush()
            yield LINE, line
        elif item is not None:
            item.append(line)
        else:
            prose.append(line)
    yield from flush()
