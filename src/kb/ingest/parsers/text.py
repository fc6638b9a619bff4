"""Plain text, by paragraph. What `kb add` stores is read the same way."""

from __future__ import annotations

import re

from kb.ingest import dates, front_matter, names
from kb.ingest.decode import decode, looks_binary
from kb.ingest.parsers.lines import line_block, paragraphs
from kb.ports import Parsed, Source

_SUFFIXES = frozenset({".log", ".srt", ".tex", ".text", ".txt", ".vtt"})


class TextParser:
    name = "text"
    version = "1"

    def accepts(self, source: Source) -> bool:
        """Known suffixes, and names without one (README, TODO) where the bytes are text."""
        suffix = names.suffix_of(source.name)
        return suffix in _SUFFIXES or (not suffix and not looks_binary(source.data))

    def parse(self, source: Source) -> Parsed:
        text = decode(source.data)
        front = front_matter.read(text, dates.from_ns(source.mtime_ns))
        lines = text.split("\n")
        ranges = paragraphs(lines, front.lines, len(lines))
        blocks = [block for start, end in ranges if (block := line_block(lines, start, end))]
        return Parsed(
            type="note",
            blocks=blocks,
            title=front.attributes.title or names.title_of(source.name),
            lang=front.attributes.lang,
            attributes=front.attributes,
            warnings=front.warnings,
        )


def first_words(text: str, limit_chars: int = 80) -> str:
    """A title for a note that has none: its first line, without marks, cut at a word."""
    line = next((line for line in text.split("\n") if re.search(r"\w", line)), text.strip())
    words = " ".join(line.split()).lstrip("#>*- ") or line.strip()
    if len(words) <= limit_chars:
        return words
    cut = words[:limit_chars].rpartition(" ")[0] or words[:limit_chars]
    return f"{cut} …"
