"""Links in the documentation work, and lines are short."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, REPOSITORY, blocks, pages, prose

BESIDE = (
    "MODEL_CARD.md",
    "training/README.md",
    "examples/README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
)  # in the site too
PAGES = [*pages(), *(REPOSITORY / each for each in BESIDE)]
OURS = [page for page in PAGES if page.is_relative_to(DOCS) and page.parent.name != "decisions"]


def name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+?) *#*$", re.MULTILINE)
_MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)|[`*]")


@cache
def anchors(page: Path) -> frozenset[str]:
    """The fragments that GitHub gives the headings of a page."""
    found: dict[str, int] = {}
    names = []
    for heading in _HEADING.findall(prose(page)):
        text = _MARKUP.sub(lambda match: match[1] or "", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = found.setdefault(anchor, 0)
        found[anchor] += 1
        names.append(f"{anchor}-{number}" if number else anchor)
    return frozenset(names)


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


def problem(page: Path, link: str) -> str | None:
    if re.match(r"[a-z]+:", link):
        return None if link.startswith("https://") else "not https"
    path, _, fragment = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(REPOSITORY):
        return "leads out of the repository"
    if not target.exists():
        return "no such file"
    if fragment and (target.suffix != ".md" or fragment not in anchors(target)):
        return "no such heading"
    return None


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = [f"{link}: {why}" for link in links(page) if (why := problem(page, link))]
    assert not broken


def test_links_are_found() -> None:
    """Otherwise the test above would pass without links."""
    assert len(links(DOCS / "index.md")) > 10
    assert problem(DOCS / "index.md", "nowhere.md") == "no such file"
    assert problem(DOCS / "index.md", "tutorial.md#nowhere") == "no such heading"
    assert problem(DOCS / "index.md", "tutorial.md#1-install") is None


def test_every_page_is_on_the_map() -> None:
    index = DOCS / "index.md"
    listed = {(DOCS / link).resolve() for link in links(index)}
    assert set(OURS) - listed == {index}


@pytest.mark.parametrize("page", OURS, ids=name)
def test_lines_are_short_and_blocks_say_what_they_are(page: Path) -> None:
    """Rows of tables cannot be wrapped."""
    lines = page.read_text(encoding="utf-8").splitlines()
    long = [number for number, line in enumerate(lines, start=1)
            if len(line) > 100 and not line.startswith("|")]  # fmt: skip
    assert not long
    assert all(block.language for block in blocks(page))
