"""The page on a library with 100,000 passages, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from kb import KnowledgeBase
from kb.store.sqlite.store import SqliteStore
from tests import large_library
from tests.browser import CHROMIUM
from tests.models.weightless import Weightless
from tests.server.conftest import Open, Running, settings, start
from tests.server.page import hits, search

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser"),
]
PASSAGES = 100_000
DOCUMENTS = PASSAGES // large_library.PER_DOCUMENT


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("large") / "kb.sqlite"
    store = SqliteStore(path)
    large_library.write_library(store, PASSAGES)
    large_library.write_vectors_of_words(store, Weightless().spec)
    store.close()
    with KnowledgeBase(path, config=settings(), encoder=Weightless()) as kb:
        running = start(kb, None, ())
        yield running
        running.client.close()
        running.stop()


def test_the_first_hit_while_typing(large: Running, open_page: Open) -> None:
    page = open_page(large)
    expect(page.locator("#counts")).to_contain_text("100,000 passages")
    page.locator("#query").press_sequentially("passage77777", delay=20)
    expect(page.locator(".hit .snippet").first).to_contain_text("passage77777")
    expect(page.locator(".hit mark").first).to_have_text("passage77777")


def test_load_more_and_the_next_hit(large: Running, open_page: Open) -> None:
    page = open_page(large)
    word = large_library.topic_words(3)[0]
    search(page, word)
    expect(hits(page)).to_have_count(10)
    page.locator("#load-more").click()
    expect(hits(page)).to_have_count(20)
    page.locator("#load-more").click()
    expect(hits(page)).to_have_count(30)
    page.goto(f"{large.url}{hits(page).first.locator('h2 a').get_attribute('href')}")
    expect(page.locator("#hit-nav .place")).to_have_text("1 of 30")


def test_filters_count_and_narrow(large: Running, open_page: Open) -> None:
    page = open_page(large)
    types = page.locator("#facets [data-list=type] .choice")
    total = {kind: large_library.TYPES.count(kind) for kind in large_library.TYPES}
    stored = types.filter(has_text="markdown").locator(".n")
    expect(stored).to_have_text(f"{DOCUMENTS * total['markdown'] // 4:,}")
    search(page, " ".join(large_library.topic_words(3)[:2]))
    expect(page.locator("#counted")).to_contain_text("for this query")
    page.locator("#facets [data-list=tags] .choice").filter(has_text="radio").click()
    expect(page).to_have_url(re.compile("tags=radio"))
    expect(hits(page).first).to_be_visible()
    page.fill("#path-glob", "engines/**")
    page.locator("#path-glob").press("Enter")
    expect(page).to_have_url(re.compile("path_glob=engines"))
    expect(page.locator("#results")).to_have_attribute("aria-busy", "false")
    addresses = [each.get_attribute("href") or "" for each in page.locator(".hit h2 a").all()]
    assert addresses
    assert all(address.startswith("/read/engines/") for address in addresses)
    expect(page.locator("#filter-count")).to_have_text("2 on")


def test_the_map_and_the_statistics(large: Running, open_page: Open) -> None:
    page = open_page(large, "library")
    expect(page.locator("#map circle")).to_have_count(DOCUMENTS)
    page.select_option("#color", "folder")
    expect(page.locator("#legend li")).to_have_count(len(large_library.FOLDERS))
    page.locator("#zoom-in").click()
    page.locator("#zoom-all").click()
    expect(page.locator("#map svg")).to_have_attribute("viewBox", "0 0 1000 640")
