"""Steps that the tests of the web page share."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.server.conftest import PATIENCE_S

expect.set_options(timeout=PATIENCE_S * 1000)


def search(page: Page, query: str) -> None:
    page.fill("#query", query)
    expect(page.locator(".hit").first).to_be_visible()
    expect(page.locator("#results")).to_have_attribute("aria-busy", "false")


def options(page: Page) -> None:
    """Open the panel of search options."""
    if page.locator("#options").get_attribute("open") is None:
        page.click("#options summary")


def hits(page: Page) -> Any:
    return page.locator(".hit")


def serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html']}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
