"""The website in a real browser, from disk. Skipped without a browser: see `make browser`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser import CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser")

PAGES = (
    "tutorial",
    "explanation/ranking",
    "explanation/figures",
    "reference/cli",
    "decisions/index",
)
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)


def opened(browser: Browser, asked: list[str], scheme: str, width: int) -> BrowserContext:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    context.set_default_timeout(PATIENCE_MS)
    context.on("request", lambda request: asked.append(request.url))
    context.on("weberror", lambda error: asked.append(f"error: {error.error}"))
    return context


@pytest.mark.parametrize(("scheme", "width"), [("light", 400), ("dark", 1280)])
def test_pages_fit_and_ask_for_nothing_outside(
    site: Path, browser: Browser, scheme: str, width: int
) -> None:
    asked: list[str] = []
    context = opened(browser, asked, scheme, width)
    page = context.new_page()
    for name in PAGES:
        page.goto(f"{site.as_uri()}/{name}.html")
        wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wider) <= 0, f"{name} is wider than the window"
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, ground[4:-1].split(","))) < 200) == (scheme == "dark"), ground
        unseen = "[...document.images].filter(i => !i.naturalWidth).map(i => i.src)"
        assert page.evaluate(unseen) == []
    context.close()
    assert len(asked) > len(PAGES)
    assert [each for each in asked if not each.startswith((site.as_uri(), "data:"))] == []


def test_search_works_from_disk(site: Path, browser: Browser) -> None:
    asked: list[str] = []
    context = opened(browser, asked, "light", 1280)
    page = context.new_page()
    page.goto(f"{site.as_uri()}/decisions/index.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("z-scores")
    expect(page.get_by_text(re.compile(r"^\d+ results?$"))).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"0012-fusion-by-default\.html"))
    context.close()
    assert [each for each in asked if not each.startswith((site.as_uri(), "data:", "blob:"))] == []
