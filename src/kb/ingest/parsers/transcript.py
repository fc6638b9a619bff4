"""Dialogue in plain text: lines such as `Ada: What about the tide?`, with or without a time, as in
transcripts and in exports of WhatsApp and Signal.

A turn is never separated from its speaker. A passage consists of several turns, so that a short
answer is embedded together with its question. The date, if there is one, becomes the heading.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from kb.ingest import file_names
from kb.ingest.decode import decode
from kb.ingest.parser_support.format_parser import SMALL_BYTES, FormatParser
from kb.ingest.parser_support.sections import line_block, paragraphs
from kb.ports import Parsed, Source
from kb.types import Block

_SUFFIXES = frozenset({".text", ".txt"})
_HEAD_BYTES = 8192
_CLOCK = r"\d{1,2}[:.]\d\d(?:[:.]\d\d)?(?:[ \u202f]?[AaPp]\.?[Mm]\.?)?"
_DAY = r"\d{1,4}[./-]\d{1,2}[./-]\d{2,4}"
_TURN = re.compile(
    rf"[\u200e\u200f]?(?:[\[(]?(?:(?P<day>{_DAY}),?[ T]+)?(?:{_CLOCK})[\])]?(?:[ \t]*[-–])?[ \t]+)?"
    r"(?:[*_]{0,2})(?P<name>[^\W\d_][\w.'’-]*(?:[ \u00a0][\w.'’()-]+){0,3})(?:[*_]{0,2}):"
    r"(?:[*_]{0,2})(?:[ \t]+\S|$)"
)
_NAME_CHARS = 40
_MIN_TURNS = 4
_MIN_SHARE = 0.4  # of turns, among the lines with text at the start of a file
_PASSAGE_CHARS = 800


class TranscriptParser(FormatParser):
    name = "transcript"
    version = "1"
    max_local_bytes = SMALL_BYTES

    def accepts(self, source: Source) -> bool:
        if file_names.suffix_of(source.name) not in _SUFFIXES or b"\0" in source.data[:_HEAD_BYTES]:
            return False
        return is_dialogue(source.data[:_HEAD_BYTES].decode("utf-8", "replace"))

    def parse(self, source: Source) -> Parsed:
        lines = decode(source.data).split("\n")
        return Parsed(
            type="transcript",
            blocks=list(_blocks(lines)),
            title=file_names.title_of(source.name),
        )


def is_dialogue(head: str) -> bool:
    """Whether a text begins with turns of several speakers who speak more than once. A list of
    fields (`Title: …`) has names as well, but each occurs once."""
    lines = [line for line in head.split("\n") if line.strip()]
    names = Counter(name for line in lines if (name := _speaker(line)))
    turns = sum(names.values())
    repeated = sum(count for count in names.values() if count > 1)
    return (
        turns >= _MIN_TURNS
        and len(names) >= 2
        and turns >= _MIN_SHARE * len(lines)
        and 2 * repeated > turns
        and sum(count > 1 for count in names.values()) >= 2
    )


def _speaker(line: str) -> str | None:
    match = _TURN.match(line)
    if match is None or len(match["name"]) > _NAME_CHARS:
        return None
    name = match["name"]
    is_name = name[0].isupper() or not name[0].islower() or match["day"] is not None
    return name if is_name else None


def _blocks(lines: Sequence[str]) -> Iterator[Block]:
    """Yield a block for each turn. A new passage begins with a new day, or when the current one is
    long enough."""
    size = 0
    day = ""
    for start, end, spoken_on in _turns(lines):
        is_new_day = bool(spoken_on) and spoken_on != day
        day = spoken_on or day
        length = sum(len(line) + 1 for line in lines[start:end])
        boundary = is_new_day or size + length > _PASSAGE_CHARS
        size = length if boundary else size + length
        path = (day,) if day else ()
        for first, last in paragraphs(lines, start, end):
            block = line_block(lines, first, last, heading_path=path, boundary=boundary)
            if block is not None:
                yield block
                boundary = False


def _turns(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the range of lines of each turn, and its day. The lines before the first one are a turn
    as well."""
    start, day = 0, ""
    for number, line in enumerate(lines):
        if _speaker(line) is not None:
            if start < number:
                yield start, number, day
            match = _TURN.match(line)
            start, day = number, (match["day"] or "") if match else ""
    yield start, len(lines), day
