"""What a PDF says of itself: its title, and the outline as heading paths.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import median

from kb.ingest.parsers.pdf.lines import one_line
from kb.ingest.parsers.pdf.pages import OutlineItem
from kb.ingest.parsers.pdf.paragraphs import Paragraph

_TITLE_CHARS = 200
_LARGE = 1.15  # times the usual size
_TITLES_TRIED = 3  # the very largest may be an initial or a logo
_LETTERS = re.compile(r"[^\W\d_]")
_NO_TITLE = re.compile(
    r"(?:untitled|title|no title|unknown|none|document|slide|layout|presentation)[\s\d]*"
    r"|(?:microsoft|powerpoint|full page|print|https?:|file:|[a-z]:\\).*"
    r"|\S*\d\S*"  # a number of the publisher's
    r"|\S+\.(?:dvi|docx?|odt|tex|pdf|ps|eps|indd|qxd|pptx?|xlsx?|rtf|fm|p65|html?|txt)",
    re.IGNORECASE | re.DOTALL,
)


def said_title(metadata: str) -> str | None:
    """The title in the metadata, where somebody wrote it and not a program."""
    title = one_line(metadata)
    if len(title) > _TITLE_CHARS or len(_LETTERS.findall(title)) < 3 or _NO_TITLE.fullmatch(title):
        return None
    return title


def large_title(paragraphs: Sequence[Paragraph]) -> str | None:
    """The largest text of the first page, if it is short and larger than the rest."""
    groups = _by_size(paragraphs)
    for group in sorted(groups, key=lambda group: -group.height)[:_TITLES_TRIED]:
        others = [other for other in groups if other is not group]
        usual = median(other.height for other in others for _ in other.text) if others else 0.0
        long_enough = len(_LETTERS.findall(group.text)) >= 4
        if any(group.text in other.text for other in others):
            continue  # a journal's masthead, which its running head says again
        if group.height > _LARGE * usual and long_enough and len(group.text) <= _TITLE_CHARS:
            return group.text
    return None


def _by_size(paragraphs: Iterable[Paragraph]) -> list[Paragraph]:
    """With those of one size joined that follow each other, such as the lines of a title."""
    groups: list[Paragraph] = []
    for part in paragraphs:
        if groups and abs(groups[-1].height - part.height) < 0.02 * part.height:
            groups[-1] = Paragraph(f"{groups[-1].text} {part.text}", part.height)
        else:
            groups.append(part)
    return groups


class Outline:
    """Where in the outline a paragraph stands, page after page."""

    def __init__(self, items: Iterable[OutlineItem]) -> None:
        """Items that lead back to an earlier page are broken, and left out."""
        self._ahead: list[OutlineItem] = []
        for item in items:
            if not self._ahead or item.page >= self._ahead[-1].page:
                self._ahead.append(item)
        self._ahead.reverse()
        self._path: list[tuple[int, str]] = []

    def paths(self, page: int, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The heading path of every text of `page`: from the text that begins with an item's title
        on; from the top of the page where there is none."""
        here: list[OutlineItem] = []
        while self._ahead and self._ahead[-1].page <= page:
            here.append(self._ahead.pop())
        letters = [_letters(text) for text in texts]
        starts, at = [], 0
        for item in here:
            title = _letters(item.title) if item.page == page else ""
            found = next((i for i in range(at, len(texts)) if _heads(letters[i], title)), None)
            at = at if found is None else found
            starts.append(at)
        paths = []
        for number in range(len(texts)):
            while starts and starts[0] <= number:
                starts.pop(0)
                self._enter(here.pop(0))
            paths.append(tuple(title for _, title in self._path))
        for item in here:
            self._enter(item)
        return paths

    def _enter(self, item: OutlineItem) -> None:
        self._path = [step for step in self._path if step[0] < item.level]
        if title := one_line(item.title)[:_TITLE_CHARS]:
            self._path.append((item.level, title))


def _heads(text: str, title: str) -> bool:
    """Whether `text` begins with `title`, but for a number: `2.1 Methods`, `A Methods`."""
    return bool(title) and text.find(title, 0, len(title) + 8) >= 0


def _letters(text: str) -> str:
    return "".join(_LETTERS.findall(text[: 2 * _TITLE_CHARS])).casefold()
