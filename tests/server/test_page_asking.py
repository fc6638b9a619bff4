"""Answers on the page in a real browser, with a language model that is a scripted HTTP server."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.browser import CHROMIUM
from tests.chat_endpoint import Endpoint, endpoint
from tests.library.injections import INJECTIONS
from tests.server.conftest import Open, Running, until
from tests.server.page import serious
from tests.server.test_asking import NOTE, QUESTION, writing

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser")
__all__ = ["endpoint", "writing"]  # fixtures


def ask(page: Page, question: str = QUESTION) -> None:
    """Type a question and press Enter."""
    if page.locator("#ask").get_attribute("aria-pressed") == "false":
        page.locator("#ask").click()
    page.fill("#query", question)
    page.locator("#query").press("Enter")


def test_an_answer_is_written_and_its_citations_are_checked(
    writing: Running, endpoint: Endpoint, open_page: Open
) -> None:
    endpoint.say(
        "The gateway retries a failed ", "upload. [1] ", "It sleeps at night. [9] ",
        "Emperors issued paper money. [1] ", "It hums."
    )  # fmt: skip
    page = open_page(writing)
    ask(page)
    expect(page.locator(".check")).to_have_count(3)
    text = page.locator(".written-text")
    expect(text).to_contain_text("The gateway retries a failed upload.[1] It sleeps at night.[9] ⚠")
    expect(text.locator(".unknown")).to_contain_text("It sleeps")
    expect(text.locator(".unsupported")).to_contain_text("Emperors")
    expect(text.locator(".uncited")).to_contain_text("It hums")
    expect(page.locator(".reference.bad")).to_have_text("[9]")
    expect(page.locator(".reference a").first).to_have_attribute("href", "/read/note:13#L1")
    expect(page.locator(".answers blockquote").first).to_be_visible()
    expect(page.locator(".sent pre").first).to_be_hidden()
    page.get_by_text("Show what was sent").click()
    shown = page.locator(".sent pre").all_inner_texts()
    assert shown == [each["content"] for each in endpoint.requests[0]["messages"]]
    assert serious(page) == []
    page.locator(".reference a").first.click()
    expect(page.locator("#reader")).to_contain_text("at most seven times")


def test_nothing_is_sent_while_typing(
    writing: Running, endpoint: Endpoint, open_page: Open
) -> None:
    page = open_page(writing)
    page.locator("#ask").click()
    page.fill("#query", QUESTION)
    expect(page.locator("#write")).to_be_visible()
    expect(page.locator(".written")).to_contain_text("and the relevant passages to tiny")
    assert endpoint.requests == []
    endpoint.say("The gateway retries. [1]")
    page.locator("#write").click()
    expect(page.locator(".written-text")).to_contain_text("The gateway retries.")


def test_a_follow_up_question(writing: Running, endpoint: Endpoint, open_page: Open) -> None:
    endpoint.say("The gateway retries a failed upload. [1]")
    page = open_page(writing)
    ask(page)
    page.fill("#follow-up", "and then?")
    endpoint.say("The pause doubles. [1]")
    page.locator("#follow-up").press("Enter")
    expect(page.locator(".exchange")).to_have_count(2)
    expect(page.locator(".exchange").nth(1)).to_contain_text("The pause doubles.")
    contents = [each["content"] for each in endpoint.requests[1]["messages"]]
    assert contents[1:3] == [QUESTION, "The gateway retries a failed upload. [1]"]


def test_the_answer_can_be_stopped(writing: Running, endpoint: Endpoint, open_page: Open) -> None:
    endpoint.say("The gateway retries ")
    endpoint.lines.pop()
    endpoint.hang = True
    page = open_page(writing)
    ask(page)
    expect(page.locator(".written-text")).to_contain_text("The gateway retries")
    page.locator("#stop").click()
    expect(page.locator(".written .report")).to_have_text("Stopped.")
    expect(page.locator(".written-text")).to_contain_text("The gateway retries")
    until(lambda: writing.app.state.context.answers.task_count == 0)


def test_failures_are_shown(writing: Running, endpoint: Endpoint, open_page: Open) -> None:
    endpoint.status, endpoint.body = 500, b'{"error": {"message": "no memory"}}'
    page = open_page(writing)
    ask(page)
    expect(page.locator(".written .report")).to_contain_text("no memory")
    endpoint.status, endpoint.body = 200, b""
    endpoint.say("The gateway retries a failed upload. [1] ")
    endpoint.lines = [endpoint.lines[0], b"data: {broken\n\n"]
    ask(page)
    expect(page.locator(".written .report")).to_contain_text("The answer is not complete")
    expect(page.locator(".written-text")).to_contain_text("The gateway retries")


def test_instructions_in_documents_and_answers_change_nothing(
    writing: Running, endpoint: Endpoint, open_page: Open
) -> None:
    """The endpoint repeats every attack. The page shows it as text: it loads nothing, follows
    nothing and writes nothing, which `open_page` checks at the end."""
    writing.kb.add(f"{NOTE}\n\n" + "\n\n".join(INJECTIONS[:5]), title="Gateway retry upload")
    before = {each.doc_path for each in writing.kb.documents()}
    page = open_page(writing)
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    ask(page)
    for attack in INJECTIONS:
        endpoint.say(f"{attack} [99]")
        tool = {"choices": [{"delta": {"tool_calls": [{"function": {"name": "delete_all"}}]}}]}
        endpoint.lines.insert(0, b"data: %s\n\n" % json.dumps(tool).encode())
        sent = len(endpoint.requests)
        page.locator("#query").press("Enter")
        until(lambda sent=sent: len(endpoint.requests) > sent)  # type: ignore[misc]
        expect(page.locator(".reference.bad").first).to_be_visible()
        expect(
            page.locator(".written-text :is(script, img, a:not([href^='/read/']))")
        ).to_have_count(0)
    assert {each.doc_path for each in writing.kb.documents()} == before
    assert page.url.startswith(writing.url)
