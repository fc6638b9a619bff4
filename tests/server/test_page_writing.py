"""Notes and tags on the page, in a real browser: edits, conflicts and undo."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser import CHROMIUM
from tests.server.conftest import Open, Running, until
from tests.server.page import search, serious

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser")


@pytest.fixture
def note(wordy: Running) -> str:
    return wordy.kb.add("The heron sleeps.", title="Heron", tags=["birds"], kind="lesson").doc_path


def edit(page: Page, running: Running, note: str) -> None:
    page.goto(f"{running.url}/read/{note}")
    page.locator("#edit").click()
    expect(page.locator("#note-text")).to_be_focused()


def test_a_note_is_edited_and_the_edit_is_undone(
    wordy: Running, open_page: Open, note: str
) -> None:
    page = open_page(wordy)
    edit(page, wordy, note)
    expect(page.locator("#note-title-field")).to_have_value("Heron")
    expect(page.locator("#note-kind")).to_have_value("lesson")
    page.fill("#note-text", "The heron hunts.")
    page.fill("#note-tags", "birds, field")
    page.select_option("#note-ttl", "7d")
    assert serious(page) == []
    page.get_by_role("button", name="Store the changes").click()
    expect(page.locator("#note .report")).to_contain_text("Changed.")
    stored = wordy.kb.document(note)
    assert (set(stored.tags), stored.expires_at is None) == ({"birds", "field"}, False)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#note")).to_be_hidden()
    expect(page.locator("#document")).to_contain_text("The heron sleeps.")
    stored = wordy.kb.document(note)
    assert (stored.tags, stored.expires_at, stored.title) == (("birds",), None, "Heron")


def test_a_conflict_shows_both_versions(wordy: Running, open_page: Open, note: str) -> None:
    page = open_page(wordy)
    edit(page, wordy, note)
    page.fill("#note-text", "The heron hunts.")
    wordy.kb.edit(note, "The heron flies.", title="Heron")
    page.get_by_role("button", name="Store the changes").click()
    expect(page.locator("#note [role=alert]")).to_contain_text("changed in the meantime")
    expect(page.locator("#other-version")).to_have_text("The heron flies.")
    expect(page.locator("#note-text")).to_have_value("The heron hunts.")
    assert wordy.kb.get(note).text == "The heron flies."
    assert serious(page) == []
    page.get_by_role("button", name="Continue with the other version").click()
    expect(page.locator("#note-text")).to_have_value("The heron flies.")
    expect(page.locator("#note .report pre")).to_have_text("The heron hunts.")
    page.fill("#note-text", "The heron flies and hunts.")
    page.get_by_role("button", name="Store the changes").click()
    expect(page.locator("#note .report")).to_contain_text("Changed.")
    assert wordy.kb.get(note).text == "The heron flies and hunts."


def test_mine_is_stored_if_the_reader_says_so(wordy: Running, open_page: Open, note: str) -> None:
    page = open_page(wordy)
    edit(page, wordy, note)
    page.fill("#note-text", "The heron hunts.")
    wordy.kb.tag(note, add=["pond"])
    page.get_by_role("button", name="Store the changes").click()
    page.get_by_role("button", name="Store my version").click()
    expect(page.locator("#note .report")).to_contain_text("Changed.")
    assert wordy.kb.get(note).text == "The heron hunts."


def test_a_half_edited_note_survives_a_reload(wordy: Running, open_page: Open, note: str) -> None:
    page = open_page(wordy)
    edit(page, wordy, note)
    page.fill("#note-text", "The heron hunts at")
    edit(page, wordy, note)
    expect(page.locator("#note-text")).to_have_value("The heron hunts at")


def test_a_document_is_tagged_in_the_list(wordy: Running, open_page: Open, note: str) -> None:
    page = open_page(wordy)
    search(page, "heron sleeps")
    hit = page.locator(".hit", has_text="Heron").first
    hit.get_by_role("button", name="Add a tag").click()
    hit.locator(".tag-field").fill("pond")
    hit.locator(".tag-field").press("Enter")
    expect(hit.locator(".tag", has_text="pond")).to_be_visible()
    assert set(wordy.kb.document(note).tags) == {"birds", "pond"}
    expect(page.locator("#facets .choice", has_text="pond")).to_be_visible()
    hit.get_by_role("button", name="Undo").click()
    until(lambda: wordy.kb.document(note).tags == ("birds",))
    assert serious(page) == []


def test_a_late_start_of_the_page_leaves_what_is_being_typed(
    wordy: Running, open_page: Open, note: str
) -> None:
    page = open_page(wordy)
    expect(page.locator("#counts")).to_contain_text("documents")
    held: list[Route] = []
    page.route("**/status*", lambda route: held.append(route))
    page.reload()
    search(page, "heron sleeps")
    hit = page.locator(".hit", has_text="Heron").first
    hit.get_by_role("button", name="Add a tag").click()
    hit.locator(".tag-field").press_sequentially("po")
    with page.expect_response("**/events*"):  # the last request of the start
        held[-1].continue_()
    expect(page.locator("#facets .choice", has_text="birds")).to_be_visible()
    hit.locator(".tag-field").press_sequentially("nd")
    expect(hit.locator(".tag-field")).to_have_value("pond")
    expect(page.locator("#counted")).to_contain_text("for this query")


def test_new_vectors_leave_what_is_being_typed(knowing: Running, open_page: Open) -> None:
    page = open_page(knowing)
    search(page, "retry")
    page.locator(".add-tag").first.click()
    page.locator(".tag-field").press_sequentially("pond")
    page.locator("#path-glob").press_sequentially("lib/no")
    stored = knowing.client.post("/documents", json={"text": "The retry of a heron."})
    assert stored.status_code == 201
    expect(page.locator("#newer")).to_be_visible()
    expect(page.locator(".tag-field")).to_have_value("pond")
    expect(page.locator("#path-glob")).to_have_value("lib/no")
    expect(page.locator("#path-glob")).to_be_focused()
    expect(page.locator("#counted")).to_contain_text("for this query")
    assert serious(page) == []
    page.locator("#path-glob").fill("")
    page.locator("#show-newer").click()
    expect(page.locator(".hit", has_text="of a heron")).to_be_visible()
    expect(page.locator("#newer")).to_be_hidden()
