"""Org mode, by headline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kb.ingest import dates, file_names, front_matter
from kb.ingest.decode import decode
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parser_support.sections import HEADING_CHARS, Part, blocks
from kb.ports import Parsed, Source
from kb.types import Attributes

_HEADLINE = re.compile(r"(\*+)[ \t]+(.*)")
_BEGIN = re.compile(r"[ \t]*#\+begin_(\S+)(?:[ \t].*)?", re.IGNORECASE)
_DYNAMIC = re.compile(r"[ \t]*#\+begin:(?:[ \t].*)?", re.IGNORECASE)
_KEYWORD = re.compile(r"#\+(\w{1,40}):[ \t]*(.*)")
_TAGS = re.compile(r"[ \t]+:(?:[\w@#%]+:)+[ \t]*$")
_PRIORITY = re.compile(r"\[#\w{1,2}\]\s*")
_PROGRESS = re.compile(r"\s*\[(?:\d*/\d*|\d*%)\]")
_LINK = re.compile(r"\[\[[^\]]*\](?:\[([^\]]*)\])?\]")
_MARKS = re.compile(r"(?<![\w/])([*/_=~+])(?=\S)([^*/_=~+]*\S)\1(?![\w/])")
_NESTED = 50  # blocks within blocks
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
# What people set up most often, beside the two that Org knows by itself.
_TODO = frozenset(
    "TODO DONE NEXT WAIT WAITING HOLD STARTED SOMEDAY MAYBE CANCELED CANCELLED KILL PROJ".split()
)


class OrgParser(FormatParser):
    name = "org"
    version = "3"

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) == ".org"

    def parse(self, source: Source) -> Parsed:
        text = decode(source.data)
        front = front_matter.read(text, dates.from_ns(source.mtime_ns))
        lines = text.split("\n")
        lines[: front.lines] = [""] * front.lines  # blank, so that the rest keeps its numbers
        said = list(_keywords(lines))
        parts = list(_parts(lines, _todo_words(said)))
        attributes = front_matter.merge(front.attributes, _attributes(said))
        heading = next((part.heading for part in parts if part.level == 1 and part.heading), None)
        return Parsed(
            type="org",
            blocks=[*front.blocks(), *blocks(lines, parts)],
            title=attributes.title or heading or file_names.title_of(source.name),
            lang=attributes.lang,
            attributes=attributes,
            warnings=front.warnings,
        )


def _parts(lines: Sequence[str], todo: frozenset[str]) -> Iterator[Part]:
    closed = _closings(lines)
    at = 0
    while at < len(lines):
        line = lines[at]
        end = closed.get(at, at)
        if end > at:
            yield Part(at, end, atomic=True)
        elif found := _HEADLINE.fullmatch(line[: HEADING_CHARS + 1]):
            end = at + 1
            yield Part(at, end, len(found[1]), _heading(found[2], todo))
        elif line.lstrip().startswith("|"):
            while end < len(lines) and lines[end].lstrip().startswith("|"):
                end += 1
            yield Part(at, end, atomic=True)
        at = max(end, at + 1)


def _closings(lines: Sequence[str]) -> dict[int, int]:
    """Where the blocks end that begin at a line. One that is never closed is none."""
    open_at: dict[str, int] = {}
    ends: dict[int, int] = {}
    for number, line in enumerate(lines):
        text = line.strip().lower()
        if not text.startswith("#+"):
            continue
        if found := _BEGIN.fullmatch(line):
            name = found[1].lower()
            if len(open_at) < _NESTED:
                open_at.setdefault(name, number)
        elif _DYNAMIC.fullmatch(line):
            open_at.setdefault("", number)
        elif text.startswith(("#+end_", "#+end:")):
            name = text.removeprefix("#+end:").removeprefix("#+end_").strip()
            if (start := open_at.pop(name, None)) is not None:
                ends[start] = number + 1
                # What was opened inside and is not closed there was never a block.
                open_at = {key: at for key, at in open_at.items() if at < start}
    return ends


def _heading(text: str, todo: frozenset[str]) -> str:
    """A headline without its keyword, priority, progress, tags and markup."""
    text = _TAGS.sub("", " " + text).strip()
    first, _, rest = text.partition(" ")
    if first in todo:
        text = rest.strip()
    text = _PROGRESS.sub("", _PRIORITY.sub("", text, count=1))
    text = _LINK.sub(lambda found: found[1] or found[0].strip("[]"), text)
    return " ".join(_MARKS.sub(r"\2", text).split())


# --- what a document says about itself ------------------------------------------------------------


def _keywords(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if line.startswith("#+") and (found := _KEYWORD.fullmatch(line)) and found[2].strip():
            yield found[1].lower(), found[2].strip()


def _todo_words(said: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Those of `#+TODO: OPEN(o) | CLOSED(c)`, where a file has its own, too."""
    own = (text for key, text in said if key in ("todo", "seq_todo", "typ_todo"))
    return _TODO | {word.partition("(")[0] for text in own for word in text.split()} - {"|"}


def _attributes(said: Sequence[tuple[str, str]]) -> Attributes:
    first: dict[str, str] = {}
    for key, text in said:
        first.setdefault(key, text)
    day = _DAY.search(first.get("date", ""))
    date = dates.parse(day[0]) if day else None
    tags = [tag for key, text in said if key == "filetags" for tag in re.split(r"[:\s]+", text)]
    known: dict[str, Any] = {
        key: first[key] for key in ("author", "description", "keywords") if key in first
    }
    return Attributes(
        title=first.get("title"),
        tags=tuple(dict.fromkeys(tag for tag in tags if tag)),
        lang=first.get("language"),
        date=date,
        created_at=dates.moment(date) if date else None,
        metadata=known,
    )
