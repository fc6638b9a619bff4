"""Which parser reads a file: a built-in one, or one from another package.

Packages add parsers in the entry point group `kb.parsers`, each a function without arguments that
returns a `ports.Parser`. Plug-ins are tried first, so that one can replace a built-in parser. A
plug-in that fails is disabled and reported in `problems`; the others stay in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points

from kb.ingest.decode import Unreadable, Unsupported, decode
from kb.ingest.parser_registry import built_in_parsers
from kb.ingest.parser_support.signatures import BINARY, signature
from kb.ports import Parser, Source
from kb.types import FileNote

__all__ = ["GROUP", "HEAD_BYTES", "Parsers", "Unreadable", "Unsupported", "decode"]

GROUP = "kb.parsers"
HEAD_BYTES = 8192  # the start of a file, by which its format is detected
_REQUIRED = ("name", "version", "accepts", "parse")


class Parsers:
    """The parsers of one run."""

    def __init__(self, max_chars: int, plug_ins: Iterable[EntryPoint] | None = None) -> None:
        """Load the built-in parsers and `plug_ins`, by default all that are installed."""
        self.problems: list[FileNote] = []
        built_in = built_in_parsers(max_chars)
        self._built_in = list(built_in.values())
        self._plug_ins: list[Parser] = []
        self._locations = {id(parser): location for location, parser in built_in.items()}
        for point in entry_points(group=GROUP) if plug_ins is None else plug_ins:
            if (parser := self._load(point)) is not None:
                self._plug_ins.append(parser)
                self._locations[id(parser)] = point.value

    def __iter__(self) -> Iterator[Parser]:
        return iter((*self._plug_ins, *self._built_in))

    def location(self, parser: Parser) -> str:
        """The location from which `parser_registry.load_parser` loads this parser in another
        process."""
        return self._locations[id(parser)]

    def detect(self, source: Source) -> Parser | None:
        """Return the parser for `source`, or None if its format is not supported.

        `source.data` needs to hold no more than the first `HEAD_BYTES` of the file.
        """
        for plug_in in self._plug_ins:
            if self._accepts(plug_in, source):
                return plug_in
        kind = signature(source.data)
        for parser in self._built_in:
            if (kind not in BINARY or kind in parser.signatures) and parser.accepts(source):
                return parser
        return None

    def _load(self, point: EntryPoint) -> Parser | None:
        try:
            parser: Parser = point.load()()
            missing = [name for name in _REQUIRED if not hasattr(parser, name)]
        # Plug-ins are third-party code: no error in one may stop the run.
        except Exception as error:  # noqa: BLE001
            self._report(point.name, f"cannot be loaded: {type(error).__name__}: {error}")
            return None
        if missing:
            self._report(point.name, f"is not a parser: it has no {', '.join(missing)}")
            return None
        return parser

    def _accepts(self, plug_in: Parser, source: Source) -> bool:
        try:
            return plug_in.accepts(source)
        # Plug-ins are third-party code: one that fails is not used again in this run.
        except Exception as error:  # noqa: BLE001
            self._plug_ins = [other for other in self._plug_ins if other is not plug_in]
            self._report(plug_in.name, f"disabled for this run: {type(error).__name__}: {error}")
            return False

    def _report(self, name: str, reason: str) -> None:
        self.problems.append(FileNote(f"{GROUP}: {name}", reason))
