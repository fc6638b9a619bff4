"""The location of a passage in its source."""

from __future__ import annotations

from collections.abc import Mapping

from kb.types import JsonDict
from kb.values import Any, dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a source. `kind` is `line`, `page` or `code`. A parser may use other kinds, such
    as a region or a time; their fields are kept in `extra`. Lines and pages are numbered from 1,
    and `end` is included.

    If the lines are those of extracted text, `extra` also has the position in the original file,
    where `place` is `cell 4` of a notebook, `Costs!B7` of a workbook or `#install` of a web page,
    and `passage` counts the passages of a page from 1.
    """

    kind: str
    start: int | None = None
    end: int | None = None
    page: int | None = None
    symbol: str | None = None
    lang: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str | None:
        """A description of where the span is in the original file."""
        place = self.extra.get("place")
        return place if isinstance(place, str) else None

    @property
    def passage(self) -> int:
        """The number of the passage on its page."""
        number = self.extra.get("passage")
        return number if isinstance(number, int) and number > 0 else 1

    def to_dict(self) -> JsonDict:
        known = {
            "kind": self.kind,
            "start": self.start,
            "end": self.end,
            "page": self.page,
            "symbol": self.symbol,
            "lang": self.lang,
        }
        return {key: value for key, value in known.items() if value is not None} | dict(self.extra)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Span:
        known = {"kind", "start", "end", "page", "symbol", "lang"}
        fields = {key: value for key, value in data.items() if key in known}
        return cls(**fields, extra={key: data[key] for key in data if key not in known})


@dataclass(frozen=True, slots=True)
class Citation:
    """A span of a document that can be opened: `kb get` and `kb open` accept its `uri`.

    `file` is the absolute path of the document's file, and `link` an address that opens it, in the
    form that `open.links` sets. Both are None for a note, and if the file must not be read. `line`
    is the first line in the file, or None if the span has no lines, or lines of extracted text.
    """

    kind: str
    path: str
    uri: str
    section: str | None
    span: Span
    file: str | None = None
    line: int | None = None
    link: str | None = None

    @property
    def page(self) -> int | None:
        """The page of the file, from 1."""
        return self.span.page

    @property
    def place(self) -> str | None:
        """Where the passage is in the original file, such as `cell 4`; None if the citation has
        lines or a page of the file."""
        return self.span.place
