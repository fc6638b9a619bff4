"""The page about the whole library in a real browser: map, timeline and statistics."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from kb.server.guard import AccessRules
from tests.browser import CHROMIUM
from tests.models.weightless import Weightless
from tests.server.conftest import Open, Running, Serve
from tests.server.page import serious

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser")


@pytest.fixture
def herons(serve: Serve) -> Running:
    running = serve(encoder=Weightless())
    for number in range(8):
        running.kb.add(f"heron reeds nest {number}", title=f"Heron {number}", kind="lesson")
        running.kb.add(f"pump valve motor {number}", title=f"Pump {number}", tags=["pumps"])
    running.kb.embed()
    return running


def test_the_map_is_colored_and_zoomed(herons: Running, open_page: Open) -> None:
    page = open_page(herons)
    page.locator("#open-library").click()
    expect(page.locator("#map circle")).to_have_count(16)
    page.select_option("#color", "kind")
    expect(page.locator("#legend li")).to_have_text(
        [re.compile("lesson.*8"), re.compile("none.*8")]
    )
    page.select_option("#color", "folder")
    expect(page.locator("#legend li")).to_have_text([re.compile("notes.*16")])
    page.select_option("#color", "date")
    picture = page.locator("#map svg")
    expect(picture).to_have_attribute("viewBox", "0 0 1000 640")
    page.locator("#zoom-in").click()
    assert picture.get_attribute("viewBox") != "0 0 1000 640"
    picture.focus()
    page.keyboard.press("0")
    expect(picture).to_have_attribute("viewBox", "0 0 1000 640")
    picture.hover(position={"x": 300, "y": 200})
    page.mouse.wheel(0, -200)
    expect(picture).not_to_have_attribute("viewBox", "0 0 1000 640")
    page.locator("#zoom-all").click()
    page.locator("#map a").first.focus()
    expect(page.locator("#pointed")).to_contain_text("note:")
    assert serious(page) == []
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(re.compile("Heron|Pump"))


def test_the_timeline_and_the_statistics(herons: Running, open_page: Open) -> None:
    herons.client.get("/renderings", params={"uri": "note:1"})
    page = open_page(herons, "library")
    bar = page.locator(".month:not([disabled])").last
    expect(bar).to_have_attribute("aria-label", re.compile("16 documents"))
    bar.click()
    expect(page.locator("#month-documents a")).to_have_count(16)
    for title in ("Growth", "Kinds", "Formats", "Languages", "Most read", "Stale", "Orphans",
                  "Near-duplicates"):  # fmt: skip
        expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
    expect(page.locator(".card-figure", has_text="Most read")).to_contain_text("read 1 time")
    expect(page.locator(".card-figure", has_text="Orphans").locator("li")).to_have_count(8)
    assert serious(page) == []


def test_the_growth_includes_earlier_documents(
    serve: Serve, open_page: Open, library: Callable[..., Path]
) -> None:
    running = serve()
    old = {
        f"{year}.md": f"---\ndate: {year}-01-05\n---\nHerons of {year}.\n" for year in (1999, 2010)
    }
    running.kb.ingest(library(old))
    running.kb.add("Herons today.")
    page = open_page(running, "library")
    expect(page.locator(".growth + .where")).to_contain_text("grew to 3 documents")


def test_near_duplicates_with_the_same_title(serve: Serve, open_page: Open) -> None:
    running = serve(encoder=Weightless())
    for _ in range(2):
        running.kb.add("The heron sleeps in the reeds.", title="Heron")
    running.kb.add("The pump has a new valve.", title="Pump")
    running.kb.embed()
    page = open_page(running, "library")
    pair = page.locator(".card-figure", has_text="Near-duplicates").locator("li")
    expect(pair).to_have_text(["Heron note:1", "Heron note:2"])


def test_names_of_topics_do_not_cover_each_other(herons: Running, open_page: Open) -> None:
    page = open_page(herons, "library", width=1280)
    expect(page.locator("#map circle")).to_have_count(16)
    overlaps = page.evaluate(
        """() => {
          const boxes = [...document.querySelectorAll("#map text")]
            .filter((text) => text.getAttribute("visibility") !== "hidden")
            .map((text) => text.getBoundingClientRect());
          return boxes.filter((a, i) => boxes.some((b, j) =>
            j > i && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
        }"""
    )
    assert overlaps == []


def test_without_vectors_there_is_no_map(wordy: Running, open_page: Open) -> None:
    wordy.kb.add("---\ndate: 2020-01-05\n---\nAn old note.")  # for a long timeline
    page = open_page(wordy, "library", width=400)
    expect(page.locator(".month")).to_have_count(60)
    expect(page.locator("#map")).to_contain_text("There is no map yet")
    expect(page.locator("#color")).to_be_disabled()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious(page) == []


def test_the_page_has_no_data_without_a_token(serve: Serve) -> None:
    running = serve(AccessRules(token="t0k3n"))
    assert running.client.get("/library").status_code == 200
    for path in ("/map", "/statistics"):
        assert running.client.get(path).status_code == 401
