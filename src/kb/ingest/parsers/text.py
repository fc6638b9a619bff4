"""Plain text, by paragraph. What `kb add` stores is read the same way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from kb.ingest import dates, file_names, front_matter
from kb.ingest.decode import looks_binary, text_windows
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parser_support.sections import line_block, paragraphs
from kb.ports import Parsed, Source
from kb.types import Block

WINDOW_BYTES = 4 * 1024 * 1024  # of a long file, read at a time

_SUFFIXES = frozenset({".log", ".srt", ".tex", ".text", ".txt", ".vtt"})


class TextParser(FormatParser):
    name = "text"
    version = "3"
    priority = -1  # after the others: it accepts any text whose name has no suffix

    def accepts(self, source: Source) -> bool:
        """Known suffixes, and names without one (README, TODO) where the bytes are text."""
        suffix = file_names.suffix_of(source.name)
        return suffix in _SUFFIXES or (not suffix and not looks_binary(source.data))

    def parse(self, source: Source) -> Parsed:
        stretches = text_windows(source.data, WINDOW_BYTES, source.on_progress)
        before, first = next(stretches)
        front = front_matter.read(first, dates.from_ns(source.mtime_ns))
        body = blocks_of(chain([(before, first)], stretches), skip_lines=front.lines)
        return Parsed(
            type="note",
            blocks=chain(front.blocks(), body),
            title=front.attributes.title or file_names.title_of(source.name),
            lang=front.attributes.lang,
            attributes=front.attributes,
            warnings=front.warnings,
        )


def blocks_of(stretches: Iterable[tuple[int, str]], *, skip_lines: int) -> Iterator[Block]:
    """The paragraphs of a text that comes in stretches; the first lines may be left out."""
    for before, text in stretches:
        lines = text.split("\n")
        boundary = before > 0  # so that a long text is chunked stretch by stretch
        for start, end in paragraphs(lines, 0 if before else skip_lines, len(lines)):
            if (block := line_block(lines, start, end, boundary=boundary)) is not None:
                yield _moved(block, before) if before else block
                boundary = False


def _moved(block: Block, lines: int) -> Block:
    span = block.span
    start, end = (span.start or 0) + lines, (span.end or 0) + lines
    return replace(block, span=replace(span, start=start, end=end))


def first_words(text: str, limit_chars: int = 80) -> str:
    """A title for a note that has none: its first line, without marks, cut at a word."""
    line = next((line for line in text.split("\n") if re.search(r"\w", line)), text.strip())
    words = " ".join(line.split()).lstrip("#>*- ") or line.strip()
    if len(words) <= limit_chars:
        return words
    cut = words[:limit_chars].rpartition(" ")[0] or words[:limit_chars]
    return f"{cut} …"
