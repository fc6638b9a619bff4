"""The base class of the built-in parsers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from kb.ports import Parsed, Source


class FormatParser(ABC):
    """Reads one format; see `kb.ports.Parser` for what each member means.

    A subclass that defines `__init__` is given `max_chars`, the chunk size. Parsers with a higher
    `priority` are tried first. A file that begins with the signature of a binary format (see
    `signatures`) is offered only to the parsers that list it in `signatures`.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    priority: ClassVar[int] = 0
    signatures: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def accepts(self, source: Source) -> bool: ...

    @abstractmethod
    def parse(self, source: Source) -> Parsed: ...
