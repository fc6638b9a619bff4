"""The web page by keyboard, in dark mode, on a narrow screen and for screen readers, in a real
browser. Skipped without a browser: see `make browser`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from kb.server.guard import AccessRules
from kb.server.tokens import TokenFile, TokenRegistry
from kb.types import Identity, Limits
from tests.browser import CHROMIUM
from tests.server.conftest import Open, Running, Serve
from tests.server.page import hits, options, search, serious

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser")


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
    page.keyboard.type("jc?")  # letters are plain text here
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
    expect(page.locator("#query")).to_be_focused()  # only the hit was closed
    page.keyboard.press("Escape")
    expect(page.locator("#query")).not_to_be_focused()
    expect(page.locator("#query")).to_have_value("retry gateway")
    expect(page).to_have_url(re.compile("q=retry"))
    page.keyboard.press("j")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("Escape")  # nothing is open, and nothing happens
    expect(links.nth(0)).to_be_focused()


def test_a_key_right_after_a_dialog_was_closed(wordy: Running, open_page: Open) -> None:
    """The field keeps the focus until the browser draws the page again."""
    page = open_page(wordy)
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(page.locator("#note-text")).to_be_focused()
    page.evaluate(
        """() => {
          document.getElementById("note").close();
          const key = { key: "/", bubbles: true, cancelable: true };
          document.getElementById("note-text").dispatchEvent(new KeyboardEvent("keydown", key));
        }"""
    )
    expect(page.locator("#query")).to_be_focused()


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
    assert background(light) == background(dark)  # the choice is stored
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
    options(page)
    page.click("#compare")
    expect(page.locator(".column")).to_have_count(6)
    assert _fits(page)


def _fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


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
    options(page)
    page.click("#explain")
    expect(page.locator(".why").first).to_be_visible()
    page.locator("#filters").evaluate("(details) => { details.open = true; }")
    assert serious(page) == []
    page.locator(".hit h2 a").first.click()
    expect(page.locator(".line.cited").first).to_be_visible()
    assert serious(page) == []
    page.get_by_role("button", name="Close the document").click()
    options(page)
    page.click("#compare")
    expect(page.locator(".column")).to_have_count(6)
    page.mouse.move(0, 0)
    assert serious(page) == []
    for key, dialog in (("a", "#add"), ("?", "#help")):
        page.locator("#results").focus()
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


def test_a_token_with_limits(serve: Serve, open_page: Open, tmp_path: Path) -> None:
    """The page shows the documents of the token, and does not complain that it gets no events."""
    tokens = TokenFile(tmp_path / "private" / "tokens.json")
    token = tokens.add(Identity("ci", "read", Limits(scopes=("project",))), 0.0)
    running = serve(AccessRules(tokens=TokenRegistry(tokens, lambda: 0.0)))
    running.kb.add("Jitter ended the retry storm.", scope="project")
    running.kb.add("A retry storm elsewhere.", scope="global")
    page = open_page(running, f"#token={token}")
    with page.expect_response(lambda response: response.url.endswith("/events")) as events:
        page.reload()
    assert events.value.status == 403
    search(page, "retry storm")
    expect(hits(page)).to_have_count(1)
    expect(page.locator("#running")).to_be_hidden()
