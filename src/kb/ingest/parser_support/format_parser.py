"""The base class of the built-in parsers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from kb.ports import Parsed, Source

SMALL_BYTES = 32 * 1024  # the usual `max_local_bytes` of a parser that sets it


class FormatParser(ABC):
    """Reads one format; see `kb.ports.Parser` for what each member means.

    A subclass that defines `__init__` is given `max_chars`, the chunk size. Parsers with a higher
    `priority` are tried first. A file that begins with the signature of a binary format (see
    `signatures`) is offered only to the parsers that list it in `signatures`. Files of at most
    `max_local_bytes` may be parsed without a parser process (see `small_files`).
    """

    name: ClassVar[str]
    version: ClassVar[str]
    priority: ClassVar[int] = 0
    signatures: ClassVar[frozenset[str]] = frozenset()
    max_local_bytes: ClassVar[int] = 0

    @abstractmethod
    def accepts(self, source: Source) -> bool: ...

    @abstractmethod
    def parse(self, source: Source) -> Parsed: ...
