"""The built-in parsers, loaded by name.

Every module or package in `kb.ingest.parsers` is one format: `org` defines `OrgParser`, a subclass
of `FormatParser`. Adding the file is enough.

The location of a parser is such a name, or `module:attribute` for a plug-in. A parser process loads
a parser by its location, so that both processes use the same one.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from kb.ingest import parsers
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parser


def built_in_parsers(max_chars: int) -> dict[str, FormatParser]:
    """Every built-in parser by its location, in the order in which they are tried."""
    names = sorted(module.name for module in iter_modules(parsers.__path__))
    every = {name: _load(name, max_chars) for name in names}
    return dict(sorted(every.items(), key=lambda item: -item[1].priority))


def load_parser(location: str, max_chars: int) -> Parser:
    """Load the parser at this location."""
    if ":" not in location:
        return _load(location, max_chars)
    from importlib.metadata import EntryPoint

    parser: Parser = EntryPoint("", location, "").load()()
    return parser


def _load(name: str, max_chars: int) -> FormatParser:
    class_name = name.title().replace("_", "") + "Parser"
    cls = getattr(import_module(f"{parsers.__name__}.{name}"), class_name)
    parser: FormatParser = cls(max_chars) if "__init__" in vars(cls) else cls()
    return parser
