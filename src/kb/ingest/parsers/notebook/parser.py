"""The notebook parser. Its code is loaded when a file is parsed, in a parser process."""

from __future__ import annotations

from kb.ingest import file_names
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source


class NotebookParser(FormatParser):
    name = "notebook"
    version = "5"

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) == ".ipynb"

    def parse(self, source: Source) -> Parsed:
        from kb.ingest.parsers.notebook.cells import parse_notebook

        return parse_notebook(source, self._max_chars)
