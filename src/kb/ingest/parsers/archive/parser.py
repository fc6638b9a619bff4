"""The parser for zip archives. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source


class ArchiveParser(FormatParser):
    name = "archive"
    version = "6"
    priority = -1  # after the formats that are zip files, such as DOCX and EPUB
    signatures = frozenset({"docx", "zip"})  # an archive may contain a Word file

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) == ".zip"

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.parsers.archive.members import parse_archive

        return parse_archive(source, self._max_chars)
