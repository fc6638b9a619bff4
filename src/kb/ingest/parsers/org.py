"""Org mode, by headline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kb.ingest import dates, file_names, front_matter
from kb.ingest.decode import decode
from kb.ingest.parser_support.format_parser import SMALL_BYTES, FormatParser
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
_MAX_NESTED = 50  # blocks in blocks
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
# The most common custom keywords, beside the two that Org predefines.
_TODO = frozenset(
    "TODO DONE NEXT WAIT WAITING HOLD STARTED SOMEDAY MAYBE CANCELED CANCELLED KILL PROJ".split()
)


class OrgParser(FormatParser):
    name = "org"
    version = "3"
    max_local_bytes = SMALL_BYTES

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) == ".org"

    def parse(self, source: Source) -> Parsed:
        text = decode(source.data)
        front = front_matter.read(text, dates.from_ns(source.mtime_ns))
        lines = text.split("\n")
        lines[: front.lines] = [""] * front.lines  # blanked to keep the line numbers
        keywords = list(_keywords(lines))
        parts = list(_parts(lines, _todo_words(keywords)))
        attributes = front_matter.merge(front.attributes, _attributes(keywords))
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
    closed = _block_ends(lines)
    at = 0
    while at < len(lines):
        line = lines[at]
        end = closed.get(at, at)
        if end > at:
            yield Part(at, end, atomic=True)
        elif match := _HEADLINE.fullmatch(line[: HEADING_CHARS + 1]):
            end = at + 1
            yield Part(at, end, len(match[1]), _heading_text(match[2], todo))
        elif line.lstrip().startswith("|"):
            while end < len(lines) and lines[end].lstrip().startswith("|"):
                end += 1
            yield Part(at, end, atomic=True)
        at = max(end, at + 1)


def _block_ends(lines: Sequence[str]) -> dict[int, int]:
    """The end of each block, by its first line. A block without an end marker is ignored."""
    open_at: dict[str, int] = {}
    ends: dict[int, int] = {}
    for number, line in enumerate(lines):
        text = line.strip().lower()
        if not text.startswith("#+"):
            continue
        if match := _BEGIN.fullmatch(line):
            name = match[1].lower()
            if len(open_at) < _MAX_NESTED:
                open_at.setdefault(name, number)
        elif _DYNAMIC.fullmatch(line):
            open_at.setdefault("", number)
        elif text.startswith(("#+end_", "#+end:")):
            name = text.removeprefix("#+end:").removeprefix("#+end_").strip()
            if (start := open_at.pop(name, None)) is not None:
                ends[start] = number + 1
                # A block opened inside and not closed there is not a block.
                open_at = {key: at for key, at in open_at.items() if at < start}
    return ends


def _heading_text(text: str, todo: frozenset[str]) -> str:
    """The text of a headline without keyword, priority, progress, tags and markup."""
    text = _TAGS.sub("", " " + text).strip()
    first, _, rest = text.partition(" ")
    if first in todo:
        text = rest.strip()
    text = _PROGRESS.sub("", _PRIORITY.sub("", text, count=1))
    text = _LINK.sub(lambda match: match[1] or match[0].strip("[]"), text)
    return " ".join(_MARKS.sub(r"\2", text).split())


# --- attributes -----------------------------------------------------------------------------------


def _keywords(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if line.startswith("#+") and (match := _KEYWORD.fullmatch(line)) and match[2].strip():
            yield match[1].lower(), match[2].strip()


def _todo_words(keywords: Sequence[tuple[str, str]]) -> frozenset[str]:
    """The default TODO keywords and those that the file defines: `#+TODO: OPEN(o) | CLOSED(c)`."""
    own = (text for key, text in keywords if key in ("todo", "seq_todo", "typ_todo"))
    return _TODO | {word.partition("(")[0] for text in own for word in text.split()} - {"|"}


def _attributes(keywords: Sequence[tuple[str, str]]) -> Attributes:
    first: dict[str, str] = {}
    for key, text in keywords:
        first.setdefault(key, text)
    day = _DAY.search(first.get("date", ""))
    date = dates.parse(day[0]) if day else None
    tags = [tag for key, text in keywords if key == "filetags" for tag in re.split(r"[:\s]+", text)]
    metadata: dict[str, Any] = {
        key: first[key] for key in ("author", "description", "keywords") if key in first
    }
    return Attributes(
        title=first.get("title"),
        tags=tuple(dict.fromkeys(tag for tag in tags if tag)),
        lang=first.get("language"),
        date=date,
        created_at=dates.moment(date) if date else None,
        metadata=metadata,
    )
