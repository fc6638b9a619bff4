"""Plain text and the notes of `kb add`, by paragraph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from kb.ingest import dates, file_names, front_matter
from kb.ingest.decode import looks_binary, text_windows
from kb.ingest.parser_support.format_parser import SMALL_BYTES, FormatParser
from kb.ingest.parser_support.sections import line_block, paragraphs
from kb.ports import Parsed, Source
from kb.types import Block

WINDOW_BYTES = 4 * 1024 * 1024  # of a long file, parsed at a time

_SUFFIXES = frozenset({".log", ".srt", ".tex", ".text", ".txt", ".vtt"})


class TextParser(FormatParser):
    name = "text"
    version = "3"
    max_local_bytes = SMALL_BYTES
    priority = -1  # after the others, because it accepts any text file without a suffix

    def accepts(self, source: Source) -> bool:
        """Accept known suffixes, and text files without a suffix (README, TODO)."""
        suffix = file_names.suffix_of(source.name)
        return suffix in _SUFFIXES or (not suffix and not looks_binary(source.data))

    def parse(self, source: Source) -> Parsed:
        windows = text_windows(source.data, WINDOW_BYTES, source.on_progress)
        before, first = next(windows)
        front = front_matter.read(first, dates.from_ns(source.mtime_ns))
        body = paragraph_blocks(chain([(before, first)], windows), skip_lines=front.lines)
        return Parsed(
            type="note",
            blocks=chain(front.blocks(), body),
            title=front.attributes.title or file_names.title_of(source.name),
            lang=front.attributes.lang,
            attributes=front.attributes,
            warnings=front.warnings,
        )


def paragraph_blocks(windows: Iterable[tuple[int, str]], *, skip_lines: int) -> Iterator[Block]:
    """Yield the paragraphs of a text in windows, without its first `skip_lines` lines."""
    for before, text in windows:
        lines = text.split("\n")
        boundary = before > 0  # so that a long text is chunked window by window
        for start, end in paragraphs(lines, 0 if before else skip_lines, len(lines)):
            if (block := line_block(lines, start, end, boundary=boundary)) is not None:
                yield _shift_lines(block, before) if before else block
                boundary = False


def _shift_lines(block: Block, lines: int) -> Block:
    span = block.span
    start, end = (span.start or 0) + lines, (span.end or 0) + lines
    return replace(block, span=replace(span, start=start, end=end))


def first_words(text: str, limit_chars: int = 80) -> str:
    """A title for a note: its first line, without markup, shortened at a word."""
    line = next((line for line in text.split("\n") if re.search(r"\w", line)), text.strip())
    words = " ".join(line.split()).lstrip("#>*- ") or line.strip()
    if len(words) <= limit_chars:
        return words
    short = words[:limit_chars].rpartition(" ")[0] or words[:limit_chars]
    return f"{short} …"
