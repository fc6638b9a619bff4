"""The parser port: turns the bytes of one format into blocks of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kb.types import Attributes

if TYPE_CHECKING:  # parser processes load this module when they start
    from kb.types import Block


def _ignore_progress(_done: int, _total: int) -> None:
    """Ignore the progress."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file for a parser to read. `name` is the file name, including its suffix, and `mtime_ns`
    its modification time. A slow parser may call `on_progress(done, total)`, in any unit."""

    name: str
    data: bytes
    mtime_ns: int = 0
    on_progress: Callable[[int, int], None] = field(
        default=_ignore_progress, compare=False, repr=False
    )


@dataclass(frozen=True, slots=True)
class Parsed:
    """The result of parsing a source. `lang` is a natural or a programming language, if known;
    `warnings` report problems that did not prevent parsing.

    `text` is the extracted text that spans refer to, for formats whose files are not plain text
    (PDF, HTML, office files). Form feeds separate its pages.
    """

    type: str
    blocks: Iterable[Block]
    title: str | None = None
    lang: str | None = None
    attributes: Attributes = field(default_factory=Attributes)
    warnings: tuple[str, ...] = ()
    text: str | None = None


class Parser(Protocol):
    """Parses one format."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Changes whenever the same bytes would give different blocks; files are then parsed
        again."""
        ...

    def accepts(self, source: Source) -> bool:
        """Whether `parse` can read this file; `source.data` may hold only its first bytes."""
        ...

    def parse(self, source: Source) -> Parsed:
        """Parse a file. Raises `kb.ingest.decode.Unreadable` if the content is malformed."""
        ...
