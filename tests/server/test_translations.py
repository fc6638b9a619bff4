"""The catalogue of the page: complete, with the same placeholders in every language."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import pytest
from playwright.sync_api import expect

from kb.search.retrievers import registry
from kb.types import KINDS
from tests.browser import CHROMIUM
from tests.server.conftest import Open, Running
from tests.server.page import options, search, serious

WEB = resources.files("kb.server") / "web"
CATALOGUE: dict[str, dict[str, str]] = json.loads((WEB / "messages.json").read_text("utf-8"))
LANGUAGES = ("de", "zh")
LABELS = ("aria-label", "placeholder", "title")
_STRING = r'"((?:[^"\\\n]|\\.)*)"'
_TRANSLATED = re.compile(r"\bt\(\s*" + _STRING)
_LITERAL = re.compile(_STRING + r"|`((?:[^`\\]|\\.)*)`")
_PLACEHOLDER = re.compile(r"\{\w+\}")
# Texts that are no words for a reader: names of events, classes, selectors, keys and languages.
_TECHNICAL = re.compile(
    r"[a-z -]+|[.#][\w .,#:()-]+|Bearer .*|Content-Type|AbortError|Escape|Arrow\w+|Enter|Esc|Files"
    r"|English|Deutsch|kb ingest FOLDER|and as assert.*|Search by \$.*"
)


def scripts() -> dict[str, str]:
    files = [file for file in WEB.iterdir() if file.name.endswith(".js")]
    comment = re.compile(r"(?:^|\s)//.*$|/\*.*?\*/", re.MULTILINE)
    return {file.name: comment.sub("", file.read_text("utf-8")) for file in files}


class _Texts(HTMLParser):
    """The texts and labels of an HTML file."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._skipped = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._skipped += tag in ("title", "code")
        self.texts += [value for name, value in attrs if name in LABELS]

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in ("title", "code")

    def handle_data(self, data: str) -> None:
        if not self._skipped and re.search(r"[A-Za-z]{2}", data):
            self.texts.append(data.strip())


def used() -> set[str]:
    """Every text that the page shows in the reader's language."""
    texts = set()
    for script in scripts().values():
        texts |= {json.loads(f'"{text}"') for text in _TRANSLATED.findall(script)}
        texts |= set(re.findall(r'"(\{parts\}[^"]*)"', script))
    for file in WEB.iterdir():
        if file.name.endswith(".html"):
            parser = _Texts()
            parser.feed(file.read_text("utf-8"))
            texts |= set(parser.texts)
    for spec in registry.specs():
        texts |= {spec.label.capitalize(), f"Search by {spec.label}"}
    return texts | {kind.replace("_", " ") for kind in KINDS} | {"none", "unknown"}


def test_every_text_is_in_the_catalogue() -> None:
    assert used() - set(CATALOGUE) == set()


def test_the_catalogue_has_nothing_else() -> None:
    assert set(CATALOGUE) - used() == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translation_is_complete(language: str) -> None:
    for text, translations in CATALOGUE.items():
        translated = translations[language]
        assert translated.strip(), text
        assert set(_PLACEHOLDER.findall(translated)) == set(_PLACEHOLDER.findall(text)), text
        forms = translated.count("|") + 1
        assert forms == (1 if language == "zh" else text.count("|") + 1), text


@pytest.mark.parametrize("name", sorted(scripts()))
def test_no_text_in_a_script_bypasses_the_catalogue(name: str) -> None:
    script = scripts()[name]
    bypassing = []
    for match in _LITERAL.finditer(script):
        text = next(each for each in match.groups() if each is not None)
        plain = re.sub(r"\$\{[^}]*\}", "", text)
        is_prose = re.search(r"[A-Za-z]{2,} [A-Za-z]", plain) or re.match(r"[A-Z][a-z]+", plain)
        is_translated = script[: match.start()].rstrip().endswith("t(") or "{parts}" in text
        if is_prose and not is_translated and not _TECHNICAL.fullmatch(text):
            bypassing.append(text)
    assert bypassing == []


# --- in a browser ---------------------------------------------------------------------------------

in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser")


@in_browser
@pytest.mark.parametrize(
    ("locale", "placeholder", "passages"),
    [
        ("de-DE", "Nach Wörtern oder nach Bedeutung suchen", "Textstelle"),
        ("zh-CN", "按词语或含义搜索", "个段落"),
    ],
)
def test_the_page_follows_the_browser(
    wordy: Running, open_page: Open, locale: str, placeholder: str, passages: str
) -> None:
    page = open_page(wordy, locale=locale, reduced_motion="reduce")
    expect(page.locator("#query")).to_have_attribute("placeholder", placeholder)
    expect(page.locator("html")).to_have_attribute("lang", locale[:2])
    search(page, "retry")
    expect(page.locator("#meta")).to_contain_text(passages)
    assert serious(page) == []
    page.goto(f"{wordy.url}/library")
    expect(page.locator("#statistics-title")).to_have_text(CATALOGUE["Statistics"][locale[:2]])
    expect(page.locator(".card-figure")).to_have_count(8)


@in_browser
def test_the_language_is_chosen(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy, locale="fr-FR")
    expect(page.locator("html")).to_have_attribute("lang", "en")
    page.locator("#open-help").click()
    page.select_option("#language", "de")
    expect(page.locator("#open-note")).to_have_text("Notiz")
    page.reload()
    expect(page.locator("#open-note")).to_have_text("Notiz")


@in_browser
@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_can_be_mirrored(wordy: Running, open_page: Open, width: int) -> None:
    """A language that is written from right to left needs no other style sheet."""
    page = open_page(wordy, width=width, reduced_motion="reduce")
    search(page, "retry")
    page.evaluate("document.documentElement.dir = 'rtl'")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if width > 1000:
        filters, results = (page.locator(name).bounding_box() for name in ("#filters", "#results"))
        assert filters
        assert results
        assert filters["x"] > results["x"]
        options(page)
        panel = page.locator(".options-panel").bounding_box()
        assert panel
        assert panel["x"] >= 0
    assert serious(page) == []
