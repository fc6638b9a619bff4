"""The source code parser: splits by definitions if the language has a grammar, else by
paragraphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from kb.ingest.decode import Unsupported, decode
from kb.ingest.escapes import unescape
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parser_support.sections import paragraphs, trim_range
from kb.ingest.parsers.code.grammars import GRAMMARS
from kb.ingest.parsers.code.languages import language_of
from kb.logs import logger
from kb.ports import Parsed, Source
from kb.types import Block, Span

_log = logger(__name__)
# Longer files are data or generated. For a run of comment lines, or for text that is not code, a
# grammar can take quadratic time.
_OUTLINE_CHARS = 512 * 1024
_COMMENT_LINES = 2000
# Data such as JSON and XML may be one long line, however much prose it holds: chat exports, feeds.
_MINIFIABLE = frozenset({"javascript", "css"})
_MINIFIED_CHARS = 50_000  # nobody writes or reads such a line of code
_LINE_CHARS = 5000  # longer lines are generated or minified


class CodeParser(FormatParser):
    name = "code"
    version = "2"

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars

    def accepts(self, source: Source) -> bool:
        return language_of(source.name, source.data) is not None

    def parse(self, source: Source) -> Parsed:
        language = language_of(source.name, source.data) or "text"
        text = decode(source.data)
        decoded = unescape(source.name, text)
        lines = decoded.split("\n")
        if language in _MINIFIABLE and max(map(len, lines)) > _MINIFIED_CHARS:
            raise Unsupported("minified or generated code")
        display_language = "typescript" if language == "tsx" else language
        blocks = list(self._blocks(lines, language, display_language))
        extracted = None if decoded is text else decoded
        return Parsed(
            type="code", blocks=blocks, title=source.name, lang=display_language, text=extracted
        )

    def _blocks(
        self, lines: Sequence[str], language: str, display_language: str
    ) -> Iterator[Block]:
        for start, end, path in self._ranges(lines, language):
            first, last = trim_range(lines, start, end)
            if first < last:
                symbol = ".".join(path) or None
                span = Span("code", first + 1, last, symbol=symbol, lang=display_language)
                yield Block("\n".join(lines[first:last]), span, path)

    def _ranges(
        self, lines: Sequence[str], language: str
    ) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Yield (start, end, names): whole definitions, and the paragraphs between them."""
        from kb.ingest.parsers.code.definitions import Section, outline

        sections = [Section(0, len(lines), (), whole=False)]
        if language in GRAMMARS and _can_outline(lines):
            try:
                sections = outline(lines, language, self._max_chars)
            # Grammars are native code by many authors and may fail; paragraphs work without them.
            except Exception as error:  # noqa: BLE001
                _log.warning("no outline for %s: %s: %s", language, type(error).__name__, error)
        for section in sections:
            if section.whole:
                yield section.start, section.end, section.path
                continue
            for start, end in paragraphs(lines, section.start, section.end):
                yield start, end, section.path


def _can_outline(lines: Sequence[str]) -> bool:
    """Whether the file is small and regular enough for an outline."""
    if sum(map(len, lines)) > _OUTLINE_CHARS or max(map(len, lines)) > _LINE_CHARS:
        return False
    kinds = groupby(line.lstrip()[:1] in ("#", "") for line in lines)
    return all(not plain or sum(1 for _ in run) <= _COMMENT_LINES for plain, run in kinds)
