"""The web page in a real browser. Skipped without a browser: see `make browser`."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from kb.server.guard import AccessRules
from kb.types import ExamMark
from tests.browser import CHROMIUM
from tests.models.weightless import Weightless
from tests.relevances import set_relevances
from tests.server.conftest import FILES, PATIENCE_S, Open, Running, Serve
from tests.server.page import hits, options, search, serious

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser")

PAPERS = Path(__file__).parents[2] / "examples" / "library" / "papers"

# --- searching ------------------------------------------------------------------------------------


def test_search_as_you_type(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    page.locator("#query").press_sequentially("retry jitter")
    expect(hits(page).first.locator("h2")).to_have_text("The retry storm")
    expect(hits(page).first.locator("mark").first).to_be_visible()
    expect(hits(page).first.locator(".trail")).to_contain_text("What ended it")
    expect(hits(page).first.locator(".cite")).to_have_text(re.compile(r"lib/notes/retry\.md#L"))
    expect(page.locator("#meta")).to_have_text(re.compile(r"\d+ passages? in \d+ ms"))
    assert "q=retry+jitter" in page.url


def test_a_query_typed_while_the_page_loads_is_searched(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    held: list[Route] = []
    page.route("**/app.js", lambda route: held.append(route))
    page.reload(wait_until="commit")
    page.locator("#query").press_sequentially("retry jitter")
    held[-1].continue_()
    expect(hits(page).first.locator("h2")).to_have_text("The retry storm")
    expect(page.locator("#query")).to_have_value("retry jitter")


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
    options(page)
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


def test_enter_in_a_filter_applies_it(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    search(page, "retry drain")
    page.fill("#path-glob", "lib/code/**")
    page.locator("#path-glob").press("Enter")
    expect(hits(page)).to_have_count(1)
    expect(page).to_have_url(re.compile("path_glob"))


def test_a_part_of_a_path_is_a_filter(wordy: Running, open_page: Open) -> None:
    """Few people know that a pattern must match the whole path."""
    page = open_page(wordy)
    search(page, "retry drain")
    folders = page.locator("#folders option")
    values = [each.get_attribute("value") for each in folders.all()]
    assert values == ["lib/", "lib/code/", "lib/notes/"]
    for path in ("code", "lib/code/", "pump.py"):
        page.fill("#path-glob", path)
        page.locator("#path-glob").press("Enter")
        expect(hits(page)).to_have_count(1)
        expect(page.locator(".hit .cite")).to_contain_text("lib/code/pump.py")
        page.fill("#path-glob", "")
        page.locator("#path-glob").press("Enter")
        expect(hits(page)).not_to_have_count(1)


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
    here = re.compile(rf"page={page_number}(,passage=\d+)?$")
    expect(page.locator(".reader .where")).to_have_text(here)
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
    options(page)
    page.click("#explain")
    expect(page.locator(".search-stages .pipeline")).to_contain_text("lexical")
    first = hits(page).first.locator(".why")
    expect(first.locator("dt")).to_have_text(["Words", "Meaning", "Terms"])
    widths = [each.bounding_box() for each in first.locator(".fill").all()]
    assert all(box is not None and box["width"] > 10 for box in widths)
    expect(first).to_contain_text("no. 1")
    options(page)
    page.click("#explain")
    expect(page.locator(".why")).to_have_count(0)


def test_compare_links_what_several_found(knowing: Running, open_page: Open) -> None:
    page = open_page(knowing, "#q=retry+storm")
    expect(hits(page).first).to_be_visible()
    options(page)
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


# --- adding ---------------------------------------------------------------------------------------


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


# --- failures -------------------------------------------------------------------------------------


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


def test_a_skipped_part_is_not_called_a_search_by_words(
    serve: Serve, open_page: Open, library: Callable[..., Path]
) -> None:
    running = serve(encoder=Weightless())
    running.kb.ingest(library(FILES))
    running.kb.embed()
    vectors = running.kb._store.vectors
    marks = [ExamMark("dense", "LATIN", 12, 12), ExamMark("sparse", "LATIN", 0, 12)]
    vectors.set_exam_marks(vectors.models()[0].model_id, marks)
    page = open_page(running)
    search(page, "retry storm")
    expect(page.locator(".notice")).to_contain_text("Search by terms was skipped")
    expect(page.locator(".notice")).not_to_contain_text("Only words")


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
