"""The documentation website is complete, its links work, and it loads nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser

from tests.docs.pages import REPOSITORY
from tests.docs.website import build, copy, website

TABS = ["Home", "Tutorial", "How to", "Explanation", "Reference", "Decisions", "Figures",
        "Changelog"]  # fmt: skip
LOADED = "img[src], script[src], iframe[src], source[src], link[href], object[data], use[href]"
_IN_CSS = re.compile(r"url\(\s*[\"']?([^)\"']+)|@import\s+[\"']([^\"']+)")


@cache
def parsed(page: Path) -> LexborHTMLParser:
    return LexborHTMLParser(page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> frozenset[str]:
    return frozenset(str(each.attributes["id"]) for each in parsed(page).css("[id]"))


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def values(page: Path, selector: str) -> Iterator[str]:
    for each in parsed(page).css(selector):
        yield from (
            value for name in ("href", "src", "data") if (value := each.attributes.get(name))
        )


def target(page: Path, link: str) -> Path:
    path = unquote(urlsplit(link).path)
    return (page.parent / path).resolve() if path else page


def is_elsewhere(link: str) -> bool:
    return bool(urlsplit(link).scheme or link.startswith("//"))


def problem(site: Path, page: Path, link: str) -> str | None:
    if is_elsewhere(link):
        return None if link.startswith("https://") else "not https"
    found, fragment = target(page, link), unquote(urlsplit(link).fragment)
    if link.startswith("/") or not found.is_relative_to(site.resolve()):
        return "leads out of the site"
    if not found.is_file():
        return "no such file"
    if fragment and not fragment.startswith("__") and fragment not in anchors(found):
        return "no such anchor"
    return None


# --- links ----------------------------------------------------------------------------------------


def test_every_link_and_anchor_leads_somewhere(site: Path) -> None:
    broken = [
        f"{page.relative_to(site)}: {link}: {why}"
        for page in pages(site)
        for link in values(page, f"a[href], {LOADED}")
        if (why := problem(site, page, link))
    ]
    assert not broken


def test_links_are_seen(site: Path) -> None:
    """Otherwise the test above would pass without links, or accept any link."""
    index = site / "index.html"
    assert len(set(values(index, "a[href]"))) > 40
    assert problem(site, index, "tutorial.html#1-install") is None
    assert problem(site, index, "tutorial.html#nowhere") == "no such anchor"
    assert problem(site, index, "nowhere.html") == "no such file"
    assert problem(site, index, "../../README.md") == "leads out of the site"
    assert problem(site, index, "/tutorial.html") == "leads out of the site"
    assert problem(site, index, "http://kb.example/") == "not https"


def plant(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Build a copy with an additional line in the tutorial."""
    tutorial = copy(folder) / "docs" / "tutorial.md"
    tutorial.write_text(f"{tutorial.read_text(encoding='utf-8')}\n{text}\n", encoding="utf-8")
    return build(folder)


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    done = plant(tmp_path, "[a](how-to/nowhere.md) [b](how-to/notes.md#nowhere)")
    assert (done.returncode, done.stdout) == (1, "")
    assert "page does not exist" in done.stderr
    assert "anchor does not exist" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "build" / "site").exists()


@pytest.mark.parametrize("planted", ["[a](../LICENSE)", "![b](pictures/nowhere.svg)"])
def test_a_file_that_is_not_there_fails_the_build(planted: str, tmp_path: Path) -> None:
    done = plant(tmp_path, planted)
    assert (done.returncode, done.stdout) == (1, "")
    assert "docs/tutorial.md" in done.stderr


def test_a_section_that_is_not_there_fails_the_build(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    readme = folder / "README.md"
    readme.write_text(readme.read_text(encoding="utf-8").replace("## Figures", "## Numbers"))
    done = build(folder)
    assert done.returncode == 1
    assert "README.md has no section 'Figures'" in done.stderr


# --- no external resources ------------------------------------------------------------------------


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loaded = {link for page in pages(site) for link in values(page, LOADED)}
    assert any(link.endswith(".js") for link in loaded)
    assert any(link.endswith(".css") for link in loaded)
    assert any(link.endswith(".svg") for link in loaded)
    assert not [link for link in loaded if is_elsewhere(link)]
    styles = [*site.rglob("*.css"), *site.rglob("*.svg")]
    texts = [path.read_text(encoding="utf-8") for path in styles]
    inside = [first or second for text in texts for first, second in _IN_CSS.findall(text)]
    assert not [link for link in inside if is_elsewhere(link) and not link.startswith("data:")]


def test_pictures_load_nothing_and_have_a_text(site: Path) -> None:
    pictures = [each for page in pages(site) for each in parsed(page).css("article img")]
    assert len(pictures) >= 4
    assert all(len(str(each.attributes.get("alt"))) > 40 for each in pictures)
    for path in site.rglob("pictures/*.svg"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<(script|image|foreignObject|use|a)\b|href=", text), path.name


# --- complete -------------------------------------------------------------------------------------


def test_every_page_is_in_the_navigation(site: Path) -> None:
    """Every page is reachable from the first one through the navigation alone."""
    seen, ahead = set[Path](), [site / "index.html"]
    while ahead:
        page = ahead.pop().resolve()
        if page not in seen:
            seen.add(page)
            links = values(page, ".md-tabs a, .md-sidebar--primary a")
            ahead += [target(page, link) for link in links if urlsplit(link).path]
    assert seen == {each.resolve() for each in pages(site)}


def test_every_page_is_in_the_site(site: Path) -> None:
    assert len(pages(site)) == len(website.site_paths())
    for page in pages(site):
        tabs = [each.text(strip=True) for each in parsed(page).css(".md-tabs__link")]
        assert tabs == TABS


def places() -> dict[str, str]:
    return {place: name for name, place in website.site_paths().items()}


@pytest.mark.parametrize("place", places())
def test_a_page_reads_as_it_does_in_the_repository(site: Path, place: str) -> None:
    """Zensical's Markdown differs from GitHub's: a list needs a blank line before it."""
    text = (REPOSITORY / places()[place]).read_text(encoding="utf-8")
    if "<!-- site:" in text:
        text = website._INCLUDED.sub(lambda found: website.section(found[2], found[1], ""), text)
    kinds = [token.type for token in MarkdownIt("commonmark").enable("table").parse(text)]
    built = place.removesuffix("README.md") + "index" if place.endswith("README.md") else place[:-3]
    article = parsed(site / f"{built}.html").css_first("article")
    assert article is not None
    for kind, selector in {
        "heading_open": "h1, h2, h3, h4, h5, h6",
        "list_item_open": "li",
        "table_open": "table",
        "tr_open": "tr",
        "td_open": "td",
        "blockquote_open": "blockquote",
    }.items():
        assert len(article.css(selector)) == kinds.count(kind), kind
    code = kinds.count("fence") + kinds.count("code_block")
    assert len(article.css("pre")) == code
