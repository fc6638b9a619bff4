"""The built-in parsers by name, each loaded when it is needed.

A parser has a place: the name of a built-in one, or `module:attribute` of a plug-in. By its place a
parser process finds the same parser as the process that started it.
"""

from __future__ import annotations

from importlib import import_module

from kb.ports import Parser

# (module and name, class, whether it is given the longest chunk), in the order they are asked.
_BUILT_IN = (
    ("pdf", "PdfParser", False),
    ("html", "HtmlParser", False),
    ("docx", "DocxParser", False),
    ("epub", "EpubParser", False),
    ("notebook", "NotebookParser", True),
    ("rst", "RstParser", False),
    ("asciidoc", "AsciidocParser", True),
    ("org", "OrgParser", False),
    ("table", "TableParser", False),
    ("email", "EmailParser", False),
    ("markdown", "MarkdownParser", True),
    ("code", "CodeParser", True),
    ("text", "TextParser", False),  # last: it takes every name without a suffix
)


def built_in(max_chars: int) -> dict[str, Parser]:
    """Every built-in parser by its place."""
    return {name: _made(name, cls, sized, max_chars) for name, cls, sized in _BUILT_IN}


def parser_at(place: str, max_chars: int) -> Parser:
    """The parser of this place."""
    if ":" in place:
        from importlib.metadata import EntryPoint

        parser: Parser = EntryPoint("", place, "").load()()
        return parser
    (found,) = (one for one in _BUILT_IN if one[0] == place)
    return _made(*found, max_chars)


def _made(name: str, cls: str, sized: bool, max_chars: int) -> Parser:
    make = getattr(import_module(f"kb.ingest.parsers.{name}"), cls)
    parser: Parser = make(max_chars) if sized else make()
    return parser
