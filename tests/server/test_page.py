"""The web page in a real browser. Skipped without a browser: see `make browser`."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from kb.server.guard import AccessRules
from tests.browser import CHROMIUM
from tests.models.weightless import Weightless
from tests.relevances import set_relevances
from tests.server.conftest import FILES, PATIENCE_S, Running, Serve

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser")

PAPERS = Path(__file__).parents[2] / "examples" / "library" / "papers"
expect.set_options(timeout=PATIENCE_S * 1000)

Open = Callable[..., Page]


class Watch:
    """Records the requests and the console messages of a page."""

    def __init__(self, context: BrowserContext) -> None:
        self.asked: list[str] = []
        self.complaints: list[str] = []
        context.on("request", lambda request: self.asked.append(request.url))
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("console", self._heard)

    def _heard(self, message: Any) -> None:
        # A request that failed is told by the page itself, and tested where it is meant to fail.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """`open_page(running, "#q=x", width=390)`: a page of its own. At the end, no page has sent a
    request to another server or violated its content security policy."""
    contexts: list[tuple[BrowserContext, Watch, str]] = []

    def opened(running: Running, where: str = "", *, width: int = 1280, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(PATIENCE_S * 1000)
        contexts.append((context, Watch(context), running.url))
        page = context.new_page()
        page.goto(f"{running.url}/{where}")
        return page

    yield opened
    for context, watch, url in contexts:
        context.close()
        outside = [each for each in watch.asked if not each.startswith((url, "data:", "blob:"))]
        assert (outside, watch.complaints) == ([], [])


@pytest.fixture
def wordy(filled: Running) -> Running:
    return filled


@pytest.fixture
def knowing(serve: Serve, library: Callable[..., Path]) -> Running:
    """A server with vectors."""
    running = serve(encoder=Weightless())
    running.kb.ingest(library(FILES))
    running.kb.embed()
    return running


def search(page: Page, query: str) -> None:
    page.fill("#query", query)
    expect(page.locator(".hit").first).to_be_visible()
    expect(page.locator("#results")).to_have_attribute("aria-busy", "false")


def hits(page: Page) -> Any:
    return page.locator(".hit")


# --- finding --------------------------------------------------------------------------------------


def test_search_as_you_type(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    page.locator("#query").press_sequentially("retry jitter")
    expect(hits(page).first.locator("h2")).to_have_text("The retry storm")
    expect(hits(page).first.locator("mark").first).to_be_visible()
    expect(hits(page).first.locator(".trail")).to_contain_text("What ended it")
    expect(hits(page).first.locator(".cite")).to_have_text(re.compile(r"lib/notes/retry\.md#L"))
    expect(page.locator("#meta")).to_have_text(re.compile(r"\d+ passages? in \d+ ms"))
    assert "q=retry+jitter" in page.url


def test_duplicates_are_one_key_away(wordy: Running, open_page: Open) -> None:
    for number in range(3):
        wordy.kb.add("the winter storage has room for dinghies", title=f"note {number}")
    page = open_page(wordy)
    search(page, "winter storage dinghies")
    expect(page.locator(".others summary")).to_have_text("and 2 more with the same text")
    page.locator(".others summary").click()
    expect(page.locator(".others li")).to_have_count(2)
    page.locator("#query").press("Escape")
    page.keyboard.press("m")
    expect(page.locator(".others")).to_have_count(0)
    expect(page.locator(".hit").filter(has_text="dinghies")).to_have_count(3)
    assert "all=1" in page.url


def test_relevance_and_weak_matches(
    wordy: Running, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_relevances(monkeypatch, [0.93, 0.2])
    page = open_page(wordy)
    search(page, "the retry battery")
    expect(hits(page).first.locator(".relevance")).to_have_text("relevance 93 %")
    expect(page.locator("ol.hits > li").nth(1)).to_have_text("Weak matches")
    expect(page.locator("ol.hits > li").nth(2).locator(".relevance.weak")).to_have_count(1)
    assert page.evaluate("document.querySelector('.relevance .fill').style.width") == "93%"
    assert serious(page) == []


def test_nothing_relevant_is_stated(
    wordy: Running, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_relevances(monkeypatch, [0.2])
    page = open_page(wordy, width=390)
    search(page, "the retry battery")
    expect(page.locator("ol.hits > li").first).to_have_text("Nothing relevant found. Weak matches")


def test_unknown_relevance_has_no_bar(
    wordy: Running, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_relevances(monkeypatch, [None])
    page = open_page(wordy)
    search(page, "the retry battery")
    expect(page.locator(".relevance, .divider")).to_have_count(0)


def test_a_late_answer_to_an_old_query_is_dropped(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    held: list[Route] = []

    def hold(route: Route) -> None:
        if "battery" in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/search", hold)
    with page.expect_request("**/search"):
        page.fill("#query", "battery")
    with page.expect_event("requestfailed") as given_up:
        search(page, "retry storm")
    assert "battery" in (given_up.value.post_data or "")
    assert held
    page.unroute("**/search")
    expect(hits(page).first.locator("h2")).to_have_text("The retry storm")


def test_mode_and_profile_are_at_hand(knowing: Running, open_page: Open) -> None:
    page = open_page(knowing)
    search(page, "battery of a buoy")
    page.get_by_role("radio", name="Words").check(force=True)
    expect(page.locator(".sources").first).to_have_text(re.compile("^found byWords$"))
    page.get_by_role("radio", name="Meaning").check(force=True)
    expect(page.locator(".sources").first).to_have_text(re.compile("^found byMeaning$"))
    page.select_option("#profile", "notes")
    expect(page).to_have_url(re.compile("mode=vector&profile=notes"))
    expect(hits(page).first).to_be_visible()


def test_filters_have_counts_and_stay_in_the_address(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    expect(page.locator("label.choice", has_text="markdown").locator(".n")).to_have_text("2")
    search(page, "gateway battery queue")
    page.get_by_role("checkbox", name=re.compile("^code")).check()
    expect(page.locator(".hit .badge").first).to_have_text("code")
    expect(hits(page)).to_have_count(1)
    page.reload()
    expect(hits(page)).to_have_count(1)
    expect(page.get_by_role("checkbox", name=re.compile("^code"))).to_be_checked()


def test_a_link_may_have_the_query_behind_a_question_mark(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy, "?q=jitter")
    expect(hits(page).first).to_be_visible()
    search(page, "battery")
    expect(page).to_have_url(f"{wordy.url}/#q=battery")


def test_nothing_found_tells_what_to_do(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy, "#q=battery&type=code")
    expect(page.get_by_role("heading", name="No passage found")).to_be_visible()
    page.get_by_role("button", name="Clear the filters").click()
    expect(hits(page).first).to_be_visible()


# --- reading --------------------------------------------------------------------------------------


def test_a_citation_opens_at_its_lines(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    search(page, "jitter")
    page.locator(".hit .cite").first.click()
    cited = page.locator(".line.cited")
    expect(cited.first).to_be_in_viewport()
    expect(page.locator(".line.cited mark").first).to_have_text("Jitter")
    numbers = [int(each.get_attribute("data-n") or 0) for each in cited.all()]
    uri = page.locator(".reader .where").inner_text()
    start, end = map(int, re.findall(r"L(\d+)", uri))
    assert numbers == list(range(start, end + 1))
    assert page.locator(".line").count() > len(numbers)  # the rest of the document is around it
    assert wordy.kb.document("lib/notes/retry.md").access_count == 1
    page.keyboard.press("Escape")
    expect(page.locator("#reader")).to_be_hidden()
    expect(page.locator(".hit .cite").first).to_be_focused()


def test_a_page_of_a_pdf_opens_with_its_passage_marked(serve: Serve, open_page: Open) -> None:
    running = serve()
    running.kb.ingest(PAPERS)
    (word, page_number) = _in_pdf(running)
    page = open_page(running)
    search(page, word)
    page.locator(".hit h2 a").first.click()
    expect(page.locator(".text.prose .cited-block")).to_be_in_viewport()
    expect(page.locator(".reader .where")).to_have_text(re.compile(f"page={page_number}$"))
    page.get_by_role("button", name="Next page").click()
    expect(page.locator(".reader .where")).to_have_text(re.compile(f"page={page_number + 1}$"))


def _in_pdf(running: Running) -> tuple[str, int]:
    """A query whose first hit is on a page that is not the last one."""
    for chunk in running.kb.chunks(running.kb.documents()[0].doc_path):
        number = chunk.spans[0].page
        query = " ".join(chunk.text.split()[:8])
        hit = running.search(query, top=1)["hits"][0]
        if number == 1 and hit["chunk_id"] == chunk.chunk_id:
            return query, number
    raise AssertionError("no such passage")


def test_a_changed_file_is_said_to_be_changed(
    wordy: Running, open_page: Open, tmp_path: Path
) -> None:
    page = open_page(wordy)
    search(page, "jitter")
    (tmp_path / "lib" / "notes" / "retry.md").write_text("# Other\n", encoding="utf-8")
    page.locator(".hit h2 a").first.click()
    expect(page.locator(".reader .notice")).to_contain_text("was changed or removed")


def test_similar(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    search(page, "jitter")
    page.locator(".hit h2 a").first.click()
    page.get_by_role("button", name="Find similar").click()
    expect(page.locator("#meta")).to_contain_text("like lib/notes/retry.md")


# --- explaining -----------------------------------------------------------------------------------


def test_explain_draws_what_each_retriever_gave(knowing: Running, open_page: Open) -> None:
    page = open_page(knowing)
    search(page, "retry storm")
    page.click("#explain")
    expect(page.locator(".search-stages .pipeline")).to_contain_text("lexical")
    first = hits(page).first.locator(".why")
    expect(first.locator("dt")).to_have_text(["Words", "Meaning", "Terms"])
    widths = [each.bounding_box() for each in first.locator(".fill").all()]
    assert all(box is not None and box["width"] > 10 for box in widths)
    expect(first).to_contain_text("no. 1")
    page.click("#explain")
    expect(page.locator(".why")).to_have_count(0)


def test_compare_links_what_several_found(knowing: Running, open_page: Open) -> None:
    page = open_page(knowing, "#q=retry+storm")
    expect(hits(page).first).to_be_visible()
    page.click("#compare")
    expect(page.locator(".column")).to_have_count(6)
    card = page.locator(".column").nth(0).locator(".card").first
    card.hover()
    chunk = card.get_attribute("data-chunk")
    linked = page.locator(f'.card.linked[data-chunk="{chunk}"]')
    assert linked.count() >= 2
    expect(page.locator(".links path")).to_have_count(linked.count() - 1)
    card.focus()
    expect(card).to_have_class(re.compile("linked"))
    card.click()
    expect(page.locator(".line.cited").first).to_be_visible()


# --- putting in -----------------------------------------------------------------------------------


def test_files_are_chosen_and_found(wordy: Running, open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "barnacles.md"
    file.write_text("# Barnacles\n\nThey settle on the hull.\n", encoding="utf-8")
    page = open_page(wordy)
    page.click("#open-add")
    page.set_input_files("#add-files", file)
    expect(page.locator(".done")).to_contain_text("1 added")
    page.keyboard.press("Escape")
    expect(page.locator("#store-status")).to_contain_text("4 documents")
    search(page, "barnacles")
    expect(hits(page).first.locator(".cite")).to_have_text(re.compile(r"uploads/barnacles\.md"))


def test_files_are_dropped_anywhere(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    expect(page.locator("#store-status")).to_contain_text("3 documents")
    page.evaluate(
        """() => {
          const dragged = new DataTransfer();
          dragged.items.add(new File(["# Kelp\\n\\nIt grows."], "kelp.md"));
          const options = {dataTransfer: dragged, bubbles: true, cancelable: true};
          const event = (name) => new DragEvent(name, options);
          document.body.dispatchEvent(event("dragenter"));
          window.sawOverlay = !document.getElementById("drop").hidden;
          document.body.dispatchEvent(event("drop"));
        }"""
    )
    expect(page.locator(".done")).to_contain_text("kelp.md 1 added")
    assert page.evaluate("window.sawOverlay")
    expect(page.locator("#drop")).to_be_hidden()


def test_a_path_is_read_or_refused_with_a_reason(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    page.click("#open-add")
    page.fill("#add-path", "/etc")
    page.get_by_role("button", name="Read").click()
    expect(page.locator(".done .bad")).to_be_visible()
    expect(page.locator(".done")).to_contain_text("--ingest-from")
    page.fill("#add-path", wordy.kb.status()["roots"][0]["path"])
    page.get_by_role("button", name="Read").click()
    expect(page.locator(".done .ok")).to_be_visible()


def test_embedding_is_shown_while_it_goes_on(
    serve: Serve, open_page: Open, library: Callable[..., Path]
) -> None:
    go = threading.Event()

    class Waiting(Weightless):
        def encode(self, texts: Any, **options: Any) -> Any:
            if any("Battery" in text for text in texts):
                go.wait(PATIENCE_S)
            return super().encode(texts, **options)

    running = serve(encoder=Waiting())
    page = open_page(running)
    expect(page.get_by_role("heading", name="Nothing here yet")).to_be_visible()
    running.kb.ingest(library(FILES))
    running.client.post("/embed", json={})
    page.reload()
    expect(page.locator("#store-status")).to_contain_text("to embed")
    go.set()
    expect(page.locator("#store-status")).to_contain_text("vectors ready")
    expect(page.locator("#running")).to_be_hidden()


# --- when something is wrong ----------------------------------------------------------------------


def test_what_is_degraded_is_said_with_what_to_do(
    serve: Serve, open_page: Open, library: Callable[..., Path]
) -> None:
    class Broken(Weightless):
        def encode(self, *args: Any, **options: Any) -> Any:
            raise RuntimeError("no memory")

    running = serve(encoder=Broken())
    running.kb.ingest(library(FILES))
    page = open_page(running)
    search(page, "retry storm")
    expect(page.locator("#notices .notice")).to_have_count(1)  # one cause, however many parts
    expect(page.locator(".notice")).to_contain_text(
        "Search by meaning and search by terms are not complete"
    )
    expect(page.locator(".notice")).to_contain_text("no vectors yet")
    expect(hits(page).first.locator("h2")).to_have_text("The retry storm")
    page.get_by_role("button", name="Embed now").click()
    expect(page.locator("#running-text")).to_contain_text("no memory")


def test_an_error_says_what_to_do(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    page.fill("#query", "'(('")
    expect(page.get_by_role("alert")).to_contain_text("The request failed")
    search(page, "retry")
    page.route("**/search", lambda route: route.abort())
    page.fill("#query", "retry storm")
    expect(page.get_by_role("alert")).to_contain_text("Check that kb serve is running")
    page.unroute("**/search")
    page.get_by_role("button", name="Try again").click()
    expect(hits(page).first).to_be_visible()


def test_a_token_is_asked_for_or_taken_from_the_link(serve: Serve, open_page: Open) -> None:
    token = "a-token-that-is-long-enough"
    running = serve(AccessRules(token=token))
    page = open_page(running)
    page.fill("#token", token)
    page.get_by_role("button", name="Enter").click()
    expect(page.get_by_role("heading", name="Nothing here yet")).to_be_visible()
    linked = open_page(running, f"#token={token}")
    expect(linked.get_by_role("heading", name="Nothing here yet")).to_be_visible()
    assert token not in linked.url


# --- by keyboard, in the dark, on a phone ---------------------------------------------------------


def test_by_keyboard_alone(knowing: Running, open_page: Open) -> None:
    page = open_page(knowing)
    expect(page.locator("#query")).to_be_focused()
    page.keyboard.type("retry gateway")
    expect(hits(page).first).to_be_visible()
    expect(page.locator(".hit mark").first).to_be_visible()
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#results")).to_be_focused()
    expect(page).to_have_url(re.compile("q=retry"))
    page.keyboard.press("/")
    page.keyboard.press("ArrowDown")
    links = page.locator(".hit h2 a")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".reader h2")).to_be_focused()
    page.keyboard.press("Escape")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("e")
    expect(page.locator(".why").first).to_be_visible()
    page.keyboard.press("c")
    expect(page.locator(".column")).to_have_count(6)
    page.keyboard.press("c")
    expect(hits(page).first).to_be_visible()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.locator("#query")).to_be_focused()
    page.keyboard.type("jc?")  # letters are letters here
    expect(page.locator("#query")).to_have_value("jc?")


def test_escape_closes_then_leaves_the_query_and_wipes_nothing(
    wordy: Running, open_page: Open
) -> None:
    page = open_page(wordy)
    page.keyboard.type("retry gateway")
    expect(page).to_have_url(re.compile("q=retry"))
    page.keyboard.press("Enter")
    links = page.locator(".hit h2 a")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#reader")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    expect(page.locator("#reader")).to_be_hidden()
    expect(page.locator("#query")).to_be_focused()  # a hit was closed, and no more than that
    page.keyboard.press("Escape")
    expect(page.locator("#query")).not_to_be_focused()
    expect(page.locator("#query")).to_have_value("retry gateway")
    expect(page).to_have_url(re.compile("q=retry"))
    page.keyboard.press("j")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("Escape")  # nothing is open, and nothing happens
    expect(links.nth(0)).to_be_focused()


def test_enter_waits_for_the_answer_to_what_was_typed(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    page.keyboard.insert_text("battery")
    page.keyboard.press("Enter")
    expect(page.locator(".hit h2 a").first).to_be_focused()
    expect(page.locator(".hit h2 a").first).to_have_text("Battery")


def test_the_help_lists_the_keys_as_they_are(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    page.click("#open-help")
    told = dict(
        zip(
            page.locator("#help dt").all_inner_texts(),
            page.locator("#help dd").all_inner_texts(),
            strict=True,
        )
    )
    assert "first hit" in told["Enter"]
    assert "↓" in told["j k"]
    assert "leave the query" in told["Esc"]


def test_what_is_refused_is_not_to_be_tried_again(knowing: Running, open_page: Open) -> None:
    page = open_page(knowing, "#q=retry&profile=lexical&mode=vector")
    told = page.get_by_role("alert")
    expect(told).to_contain_text("The request failed")
    hint = knowing.client.post(
        "/search", json={"query": "retry", "profile": "lexical", "mode": "vector"}
    ).json()["hint"]
    expect(told).to_contain_text(hint)
    expect(told.get_by_role("button", name="Try again")).to_have_count(0)
    told.get_by_role("button", name="Use the profile's mode").click()
    expect(hits(page).first).to_be_visible()


def test_six_columns_fit_or_tell_that_there_is_more(knowing: Running, open_page: Open) -> None:
    wide = open_page(knowing, "#q=retry&compare=1", width=1280)
    expect(wide.locator(".column")).to_have_count(6)
    expect(wide.locator(".column").last).to_be_in_viewport(ratio=1)
    expect(wide.locator(".columns")).not_to_have_class(re.compile("more-right"))
    narrow = open_page(knowing, "#q=retry&compare=1", width=900)
    expect(narrow.locator(".columns")).to_have_class(re.compile("more-right"))
    narrow.locator(".columns").evaluate("(columns) => { columns.scrollLeft = 9999; }")
    expect(narrow.locator(".columns")).to_have_class(re.compile("more-left"))
    expect(narrow.locator(".columns")).not_to_have_class(re.compile("more-right"))


def test_what_is_quoted_has_no_ligatures(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    search(page, "jitter")
    page.locator(".hit h2 a").first.click()
    for where in (".hit h2 a", ".snippet", ".cite", "#query", ".line.cited span"):
        style = page.locator(where).first.evaluate(
            "(node) => getComputedStyle(node).fontFeatureSettings"
        )
        assert '"calt" 0' in style, where


def test_a_model_that_is_being_loaded_is_said(serve: Serve, open_page: Open) -> None:
    running = serve()
    page = open_page(running)
    expect(page.locator("#store-status")).to_contain_text("0 documents")
    running.app.state.context.events.publish("model", {"state": "loading"})
    expect(page.locator("#store-status")).to_contain_text("loading the model")
    running.app.state.context.events.publish("model", {"state": "loaded"})
    expect(page.locator("#loading")).to_be_hidden()


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_light_and_dark(wordy: Running, open_page: Open) -> None:
    light, dark = open_page(wordy, color_scheme="light"), open_page(wordy, color_scheme="dark")
    assert background(light) != background(dark)
    light.get_by_role("button", name="Switch to dark mode").click()
    assert background(light) == background(dark)
    light.reload()
    assert background(light) == background(dark)  # remembered
    expect(light.get_by_role("button", name="Switch to light mode")).to_be_visible()


def test_a_narrow_screen(knowing: Running, open_page: Open) -> None:
    page = open_page(knowing, width=360)
    for query in ("retry storm", "battery"):
        search(page, query)
        assert _fits(page)
    expect(page.locator("#facets")).to_be_hidden()
    page.locator("#filters summary").click()
    expect(page.locator("#facets")).to_be_visible()
    assert _fits(page)
    page.locator(".hit h2 a").first.click()
    expect(page.locator(".line.cited").first).to_be_visible()
    box = page.locator("#reader").bounding_box()
    assert box is not None
    assert (box["x"], box["width"]) == (0, 360)
    page.get_by_role("button", name="Close the document").click()
    page.click("#compare")
    expect(page.locator(".column")).to_have_count(6)
    assert _fits(page)


def _fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html']}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing_serious(
    knowing: Running, open_page: Open, scheme: str, width: int
) -> None:
    page = open_page(knowing, width=width, color_scheme=scheme, reduced_motion="reduce")
    expect(page.locator(".empty")).to_be_visible()
    assert serious(page) == []
    search(page, "retry storm")
    expect(page.locator(".hit mark").first).to_be_visible()
    page.click("#explain")
    expect(page.locator(".why").first).to_be_visible()
    page.locator("#filters").evaluate("(details) => { details.open = true; }")
    assert serious(page) == []
    page.locator(".hit h2 a").first.click()
    expect(page.locator(".line.cited").first).to_be_visible()
    assert serious(page) == []
    page.get_by_role("button", name="Close the document").click()
    page.click("#compare")
    expect(page.locator(".column")).to_have_count(6)
    page.mouse.move(0, 0)
    assert serious(page) == []
    for key, dialog in (("a", "#add"), ("?", "#help")):
        page.locator("#compare").focus()
        page.keyboard.press(key)
        expect(page.locator(dialog)).to_be_visible()
        assert serious(page) == []
        page.keyboard.press("Escape")


def test_axe_finds_nothing_serious_when_things_go_wrong(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy, "#q=battery&type=code")
    expect(page.get_by_role("heading", name="No passage found")).to_be_visible()
    assert serious(page) == []
    page.fill("#query", "'(('")
    expect(page.get_by_role("alert")).to_be_visible()
    assert serious(page) == []
