"""Every view of the page, light and dark, narrow and wide: for screen readers, by keyboard, and
without a horizontal scroll bar."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser import CHROMIUM
from tests.models.weightless import Weightless
from tests.server.conftest import Open, Running, Serve
from tests.server.page import hits

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser")

PAPER = Path(__file__).parents[2] / "examples/library/papers/mooring-study.pdf"
FILES: dict[str, str | bytes] = {
    "guides/lamp.md": "---\ntags: [light]\ndate: 2026-03-01\n---\n# Lamps\n\nThe red lamp at the "
    "masthead burns twelve watts.\n\n## Spares\n\nSpare lamps are in locker 4.\n\n"
    "## Care\n\n| lamp | watts |\n|---|---|\n| red | 12 |\n",
    "guides/ropes.md": "---\ndate: 2020-01-05\n---\n# Ropes\n\nThe blue rope holds forty tons.\n",
    "guides/ropes-copy.md": "# Ropes\n\nThe blue rope holds forty tons.\n",
    "code/lamp.py": "def lamp():\n    return 12\n",
    "loads.csv": "rope,load\nblue,40\nred,12\n",
    "analysis.ipynb": '{"cells": [{"cell_type": "markdown", "metadata": {}, "source": '
    '["# Tide analysis\\n", "The tide gauge."]}], "metadata": {}, "nbformat": 4, '
    '"nbformat_minor": 5}',
    "zh/pump.md": "# 水泵\n\n如何更换水泵的阀门。\n",
    "paper.pdf": PAPER.read_bytes(),
}


@pytest.fixture
def boat(serve: Serve, library: Callable[..., Path]) -> Running:
    running = serve(encoder=Weightless())
    running.kb.ingest(library(FILES))
    running.kb.embed()
    return running


def _search(page: Page, url: str) -> None:
    page.goto(f"{url}/#q=red+lamp&explain=1")
    expect(page.locator(".hit mark").first).to_be_visible()
    expect(page.locator("#counted")).to_contain_text("for this query")


def _panel(page: Page, url: str) -> None:
    _search(page, url)
    page.locator(".hit h2 a").first.click()
    expect(page.locator("#reader .cited").first).to_be_visible()


def _filters(page: Page, url: str) -> None:
    _search(page, url)
    page.locator("#filters").evaluate("(filters) => { filters.open = true; }")
    expect(page.locator("#path-glob")).to_be_visible()


def _ask(page: Page, url: str) -> None:
    page.goto(f"{url}/#q=how+many+watts+does+the+red+lamp+burn%3F&ask=1")
    expect(page.locator(".answer blockquote").first).to_be_visible()


def _nothing(page: Page, url: str) -> None:
    page.goto(f"{url}/#q=red+lamp&type=epub")
    expect(page.get_by_role("heading", name="No passage found")).to_be_visible()


def _start(page: Page, url: str) -> None:
    page.goto(f"{url}/")
    expect(page.locator(".empty")).to_be_visible()


def _dialog(button: str, dialog: str) -> Callable[[Page, str], None]:
    def opened(page: Page, url: str) -> None:
        _start(page, url)
        page.click(button)
        expect(page.locator(dialog)).to_be_visible()

    return opened


def _read(place: str, shown: str) -> Callable[[Page, str], None]:
    def opened(page: Page, url: str) -> None:
        page.goto(f"{url}/read/lib/{place}")
        expect(page.locator(shown).first).to_be_visible()
        expect(page.locator("#document")).to_have_attribute("aria-busy", "false")

    return opened


def _library(page: Page, url: str) -> None:
    page.goto(f"{url}/library")
    expect(page.locator("#map circle").first).to_be_visible()
    page.locator(".month:not([disabled])").last.click()
    expect(page.locator("#month-documents li").first).to_be_visible()


VIEWS: dict[str, Callable[[Page, str], None]] = {
    "start": _start,
    "search": _search,
    "filters": _filters,
    "panel": _panel,
    "ask": _ask,
    "nothing": _nothing,
    "note": _dialog("#open-note", "#note"),
    "add": _dialog("#open-add", "#add"),
    "help": _dialog("#open-help", "#help"),
    "markdown": _read("guides/lamp.md#L7", ".cited"),
    "code": _read("code/lamp.py#L1", ".line.cited"),
    "table": _read("loads.csv#L2", "tr.cited"),
    "notebook": _read("analysis.ipynb", "#document"),
    "pdf": _read("paper.pdf#page=2", ".sheet img"),
    "library": _library,
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280, 2560])
def test_axe_finds_no_violation(boat: Running, open_page: Open, scheme: str, width: int) -> None:
    violations = []
    for name, show in VIEWS.items():
        page = open_page(boat, width=width, color_scheme=scheme, reduced_motion="reduce")
        show(page, boat.url)
        for each in Axe().run(page).response["violations"]:
            violations += [f"{name}: {each['id']}: {node['html']}" for node in each["nodes"]]
        if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            violations.append(f"{name}: wider than the screen")
        page.close()
    assert violations == []


# --- tasks by keyboard alone ----------------------------------------------------------------------


def _type(page: Page, query: str) -> None:
    """Type a query as the start page is opened, and go to the first hit."""
    expect(page.locator("#query")).to_be_focused()
    page.keyboard.type(query)
    page.keyboard.press("Enter")
    expect(page.locator(".hit h2 a, .answer a").first).to_be_focused()


def _tab_to(page: Page, selector: str) -> None:
    """Press Tab until an element is focused."""
    for _ in range(60):
        if page.evaluate("(css) => document.activeElement.matches(css)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {selector}")


def test_a_passage_is_opened_at_its_place_by_keyboard(boat: Running, open_page: Open) -> None:
    page = open_page(boat)
    _type(page, "red lamp masthead")
    page.keyboard.press("Enter")
    expect(page.locator("#reader h2")).to_be_focused()
    _tab_to(page, "#reader .button")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Lamps")
    expect(page.locator("p.cited mark").first).to_be_in_viewport()
    _tab_to(page, "#tools button")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.keyboard.press("Enter")
    expect(page.locator("#tools button").first).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()").startswith("lib/guides/lamp.md#L")


def test_results_are_narrowed_by_keyboard(boat: Running, open_page: Open) -> None:
    page = open_page(boat)
    _type(page, "rope tons")
    page.keyboard.press("f")
    expect(page.locator("#facets input").first).to_be_focused()
    _tab_to(page, "#path-glob")
    page.keyboard.type("guides")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("path_glob=guides"))
    _tab_to(page, "[name=before]")
    page.keyboard.type("01012021")
    expect(page).to_have_url(re.compile("before=2021-01-01"))
    expect(hits(page)).to_have_count(1)
    expect(page.locator(".hit .cite")).to_contain_text("lib/guides/ropes.md")


def test_a_question_is_asked_by_keyboard(boat: Running, open_page: Open) -> None:
    page = open_page(boat)
    page.keyboard.press("Escape")
    page.keyboard.press("q")
    expect(page.locator("#ask")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("/")
    _type(page, "how many watts does the red lamp burn")
    expect(page.locator(".answer blockquote").first).to_contain_text("twelve watts")
    page.keyboard.press("Enter")
    expect(page.locator("#reader .cited").first).to_be_visible()


def test_a_note_is_written_and_corrected_by_keyboard(boat: Running, open_page: Open) -> None:
    page = open_page(boat)
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(page.locator("#note-text")).to_be_focused()
    page.keyboard.type("The anchor lies in cupboard 7")
    _tab_to(page, "#note-tags")
    page.keyboard.type("stock")
    page.keyboard.press("Enter")
    expect(page.locator("#note .report")).to_contain_text("Stored as note:")
    page.keyboard.press("Escape")
    expect(page.locator("#note")).to_be_hidden()
    page.keyboard.press("/")
    _type(page, "anchor cupboard")
    page.keyboard.press("Enter")
    expect(page.locator("#reader h2")).to_be_focused()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Edit":
            break
    page.keyboard.press("Enter")
    expect(page.locator("#note-text")).to_have_value("The anchor lies in cupboard 7")
    _tab_to(page, "#note-text")
    page.keyboard.press("Control+End")
    page.keyboard.press("Backspace")
    page.keyboard.type("8")
    _tab_to(page, "#note-tags")
    page.keyboard.press("Enter")
    expect(page.locator("#note .report")).to_contain_text("Changed")
    (note,) = [each for each in boat.kb.documents() if each.doc_path.startswith("note:")]
    assert boat.kb.get(note.doc_path).text == "The anchor lies in cupboard 8"
    assert note.tags == ("stock",)


def test_near_duplicates_and_what_is_new_by_keyboard(boat: Running, open_page: Open) -> None:
    page = open_page(boat)
    _tab_to(page, "#open-library")
    page.keyboard.press("Enter")
    expect(page.locator("#map circle").first).to_be_visible()
    months = page.locator(".month:not([disabled])")
    months.last.focus()  # behind the points of the map, which Tab visits one by one
    page.keyboard.press("Enter")
    expect(page.locator("#month-documents a").first).to_be_visible()
    pair = page.locator(".card-figure", has_text="Near-duplicates").locator("a")
    expect(pair).to_have_text(["Ropes", "Ropes"])
    pair.first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Ropes")


def test_a_paper_a_notebook_and_a_chinese_passage_by_keyboard(
    boat: Running, open_page: Open
) -> None:
    for query, title, shown in (
        ("tp-11 pulled under", "Buoys Pull", ".sheet img"),
        ("tide gauge analysis", "Tide analysis", "#document"),
        ("阀门", "水泵", ".cited"),
    ):
        page = open_page(boat)
        _type(page, query)
        link = page.locator(".hit h2 a").first
        expect(link).to_contain_text(re.compile(title, re.IGNORECASE))
        page.keyboard.press("Enter")
        _tab_to(page, "#reader .button")
        page.keyboard.press("Enter")
        expect(page.locator(shown).first).to_be_visible()
        page.close()
