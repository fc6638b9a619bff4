"""The title of a PDF, and heading paths from its outline. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import median

from kb.ingest.parser_support.sections import HeadingStack
from kb.ingest.parsers.pdf.lines import one_line
from kb.ingest.parsers.pdf.pages import OutlineItem
from kb.ingest.parsers.pdf.paragraphs import Paragraph

_TITLE_CHARS = 200
_LARGE = 1.15  # times the usual size
_TITLE_CANDIDATES = 3  # the largest may be a drop cap or a logo
_LETTERS = re.compile(r"[^\W\d_]")
_NO_TITLE = re.compile(
    r"(?:untitled|title|no title|unknown|none|document|slide|layout|presentation)[\s\d]*"
    r"|(?:microsoft|powerpoint|full page|print|https?:|file:|[a-z]:\\).*"
    r"|\S*\d\S*"  # a publisher's number
    r"|\S+\.(?:dvi|docx?|odt|tex|pdf|ps|eps|indd|qxd|pptx?|xlsx?|rtf|fm|p65|html?|txt)",
    re.IGNORECASE | re.DOTALL,
)


def metadata_title(metadata: str) -> str | None:
    """The title in the metadata, unless a program generated it."""
    title = one_line(metadata)
    if len(title) > _TITLE_CHARS or len(_LETTERS.findall(title)) < 3 or _NO_TITLE.fullmatch(title):
        return None
    return title


def large_title(paragraphs: Sequence[Paragraph]) -> str | None:
    """The largest text of the first page, if it is short and larger than the rest."""
    groups = _by_size(paragraphs)
    for group in sorted(groups, key=lambda group: -group.height)[:_TITLE_CANDIDATES]:
        others = [other for other in groups if other is not group]
        usual = median(other.height for other in others for _ in other.text) if others else 0.0
        long_enough = len(_LETTERS.findall(group.text)) >= 4
        if any(group.text in other.text for other in others):
            continue  # a journal's masthead, which its running header repeats
        if group.height > _LARGE * usual and long_enough and len(group.text) <= _TITLE_CHARS:
            return group.text
    return None


def _by_size(paragraphs: Iterable[Paragraph]) -> list[Paragraph]:
    """Join consecutive paragraphs of the same size, such as the lines of a title."""
    groups: list[Paragraph] = []
    for part in paragraphs:
        if groups and abs(groups[-1].height - part.height) < 0.02 * part.height:
            groups[-1] = Paragraph(f"{groups[-1].text} {part.text}", part.height)
        else:
            groups.append(part)
    return groups


class Outline:
    """Assigns heading paths from the outline to paragraphs, page by page."""

    def __init__(self, items: Iterable[OutlineItem]) -> None:
        """Drop the items that lead back to an earlier page, which are invalid."""
        self._pending: list[OutlineItem] = []
        for item in items:
            if not self._pending or item.page >= self._pending[-1].page:
                self._pending.append(item)
        self._pending.reverse()
        self._headings = HeadingStack()

    def paths(self, page: int, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The heading path of every text on `page`. An item applies from the text that begins with
        its title, or from the top of the page if no text does."""
        here: list[OutlineItem] = []
        while self._pending and self._pending[-1].page <= page:
            here.append(self._pending.pop())
        letters = [_letters(text) for text in texts]
        starts, at = [], 0
        for item in here:
            title = _letters(item.title) if item.page == page else ""
            match = next(
                (i for i in range(at, len(texts)) if _starts_with_title(letters[i], title)), None
            )
            at = at if match is None else match
            starts.append(at)
        paths = []
        for number in range(len(texts)):
            while starts and starts[0] <= number:
                starts.pop(0)
                self._enter(here.pop(0))
            paths.append(self._headings.path)
        for item in here:
            self._enter(item)
        return paths

    def _enter(self, item: OutlineItem) -> None:
        self._headings.enter(item.level, one_line(item.title)[:_TITLE_CHARS])


def _starts_with_title(text: str, title: str) -> bool:
    """Whether `text` begins with `title`, possibly after a number: `2.1 Methods`, `A Methods`."""
    return bool(title) and text.find(title, 0, len(title) + 8) >= 0


def _letters(text: str) -> str:
    return "".join(_LETTERS.findall(text[: 2 * _TITLE_CHARS])).casefold()
