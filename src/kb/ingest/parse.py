"""Which parser reads a file: the built-in ones and those that other packages bring.

Second stage of ingest. Packages add parsers in the entry point group `kb.parsers`, each a function
without arguments that returns a `ports.Parser`. Theirs are asked first, so that one can take over
a format. One that fails is left out and named in `problems`; the others go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points

from kb.ingest.decode import Unreadable, Unsupported, decode
from kb.ingest.parsers import registry
from kb.ingest.parsers.signatures import READERS, signature
from kb.ports import Parser, Source
from kb.types import FileNote

__all__ = ["GROUP", "HEAD_BYTES", "Parsers", "Unreadable", "Unsupported", "built_in", "decode"]

GROUP = "kb.parsers"
HEAD_BYTES = 8192  # of a file, to tell its format
_NEEDED = ("name", "version", "accepts", "parse")


def built_in(max_chars: int) -> list[Parser]:
    return list(registry.built_in(max_chars).values())


class Parsers:
    """The parsers of one run."""

    def __init__(self, max_chars: int, plug_ins: Iterable[EntryPoint] | None = None) -> None:
        """`plug_ins` are those that are installed, unless given."""
        self.problems: list[FileNote] = []
        made = registry.built_in(max_chars)
        self._built_in = list(made.values())
        self._plug_ins: list[Parser] = []
        self._places = {id(parser): place for place, parser in made.items()}
        for point in entry_points(group=GROUP) if plug_ins is None else plug_ins:
            if (parser := self._load(point)) is not None:
                self._plug_ins.append(parser)
                self._places[id(parser)] = point.value

    def __iter__(self) -> Iterator[Parser]:
        return iter((*self._plug_ins, *self._built_in))

    def place(self, parser: Parser) -> str:
        """What `registry.parser_at` makes the same parser from in another process."""
        return self._places[id(parser)]

    def detect(self, source: Source) -> Parser | None:
        """The parser for `source`, whose first `HEAD_BYTES` are enough; None: unsupported."""
        for parser in self._plug_ins:
            if self._asked(parser, source):
                return parser
        readers = READERS.get(signature(source.data) or "")
        asked = (parser for parser in self._built_in if readers is None or parser.name in readers)
        return next((parser for parser in asked if parser.accepts(source)), None)

    def _load(self, point: EntryPoint) -> Parser | None:
        try:
            parser: Parser = point.load()()
            missing = [name for name in _NEEDED if not hasattr(parser, name)]
        # Code of others runs here: whatever it raises must not cost the run.
        except Exception as error:  # noqa: BLE001
            self._give_up(point.name, f"cannot be loaded: {type(error).__name__}: {error}")
            return None
        if missing:
            self._give_up(point.name, f"is not a parser: it has no {', '.join(missing)}")
            return None
        return parser

    def _asked(self, parser: Parser, source: Source) -> bool:
        try:
            return parser.accepts(source)
        # The same: a plug-in that stumbles over one file is left out from then on.
        except Exception as error:  # noqa: BLE001
            self._plug_ins = [other for other in self._plug_ins if other is not parser]
            self._give_up(parser.name, f"left out: {type(error).__name__}: {error}")
            return False

    def _give_up(self, name: str, why: str) -> None:
        self.problems.append(FileNote(f"{GROUP}: {name}", why))
