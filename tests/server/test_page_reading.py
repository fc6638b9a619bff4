"""The page of a document, and groups of results, in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Request, expect

from kb.server.guard import AccessRules
from tests.browser import CHROMIUM
from tests.server.conftest import Open, Running, Serve
from tests.server.page import hits, search, serious

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser")

PAPERS = Path(__file__).parents[2] / "examples" / "library" / "papers"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360"
    "606060000000050001a5f645400000000049454e44ae426082"
)
GUIDE = """---
title: Mast guide
tags: [mast]
---
# Mast guide

Text with *stress*, `code` and a [link](other.md).

## Ropes

| rope | load |
|---|---|
| blue | 40 kN |

- one
- two

## Lamps

The lamp at the masthead burns twelve watts.[^1] Its power is $P = \\frac{U^2}{R}$.

![a lamp](lamp.png)

```python
watts = 12  # of the lamp
```

<script>document.title = "owned"</script>

## Paint

Only at low tide.

[^1]: Measured in the harbour.
"""


@pytest.fixture
def guide(serve: Serve, tmp_path: Path) -> Running:
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "guide.md").write_text(GUIDE)
    (folder / "other.md").write_text("# Other\n\nThe lamp has a spare in the lighthouse.\n")
    (folder / "lamp.png").write_bytes(PNG)
    (folder / "loads.csv").write_text("rope,load\nblue,40\nred lamp,12\n")
    (folder / "mast.py").write_text("def lamp():\n    return 12\n")
    (folder / "paper.pdf").write_bytes((PAPERS / "mooring-study.pdf").read_bytes())
    running = serve()
    running.kb.ingest(folder)
    return running


def test_a_document_has_a_page_of_its_own(guide: Running, open_page: Open) -> None:
    page = open_page(guide)
    search(page, "masthead lamp watts")
    link = page.locator(".hit h2 a", has_text="Mast guide").first
    address = link.get_attribute("href") or ""
    assert re.fullmatch(r"/read/lib/guide\.md#L\d+-L\d+", address)
    with page.context.expect_page() as opened:
        link.click(modifiers=["ControlOrMeta"])
    document = opened.value
    expect(document.locator("h1")).to_have_text("Mast guide")
    expect(document.locator("p.cited").first).to_contain_text("twelve watts")
    expect(document.locator("p.cited").first).to_be_in_viewport()
    expect(document.locator(".cited mark").first).to_be_visible()
    expect(document.locator("#document table td").first).to_have_text("blue")
    expect(document.locator("#document math mfrac")).to_be_visible()
    expect(document.locator("#document pre .code-comment")).to_have_text("# of the lamp")
    expect(document.locator("#document img")).to_have_attribute(
        "src", re.compile("^data:image/png")
    )
    expect(document.locator("#document")).to_contain_text("<script>")
    assert "owned" not in document.title()
    expect(document.locator("#outline a")).to_have_text(["Ropes", "Lamps", "Paint"])
    assert serious(document) == []


def test_links_back_and_forward(guide: Running, open_page: Open) -> None:
    page = open_page(guide)
    search(page, "lamp")
    page.goto(f"{page.url.split('#')[0]}read/lib/guide.md")
    page.get_by_role("link", name="link").click()
    expect(page.locator("h1")).to_have_text("Other")
    page.go_back()
    expect(page.locator("h1")).to_have_text("Mast guide")
    page.go_forward()
    expect(page.locator("h1")).to_have_text("Other")
    page.locator("#home").click()
    expect(page.locator("#query")).to_have_value("lamp")
    expect(hits(page).first).to_be_visible()


def test_previous_and_next_hit(guide: Running, open_page: Open) -> None:
    page = open_page(guide)
    search(page, "lamp")
    count = hits(page).count()
    page.goto(
        page.url.split("#")[0].rstrip("/")
        + str(hits(page).first.locator("h2 a").get_attribute("href"))
    )
    expect(page.locator("#hit-nav .place")).to_have_text(f"1 of {count}")
    page.get_by_role("link", name="Next hit").click()
    expect(page.locator("#hit-nav .place")).to_have_text(f"2 of {count}")


def test_tables_code_and_pages(guide: Running, open_page: Open) -> None:
    page = open_page(guide)
    search(page, "lamp")
    base = page.url.split("#")[0]
    page.goto(f"{base}read/lib/loads.csv#L3")
    expect(page.locator("tr.cited td").first).to_have_text("red lamp")
    page.goto(f"{base}read/lib/mast.py#L2")
    expect(page.locator(".line.cited")).to_have_attribute("data-n", "2")
    page.goto(f"{base}read/lib/mast.py#L1")
    expect(page.locator(".line.cited mark")).to_have_text("lamp")
    page.goto(f"{base}read/lib/paper.pdf#page=2")
    expect(page.locator("#page\\=2 img")).to_have_attribute("alt", "Page 2 of 4")
    expect(page.locator(".sheet")).to_have_count(4)
    assert serious(page) == []


def test_a_passage_of_a_page_is_marked_on_the_page(guide: Running, open_page: Open) -> None:
    page = open_page(guide)
    search(page, "mooring")
    address = page.locator(".hit h2 a[href*='.pdf']").first.get_attribute("href")
    page.goto(f"{guide.url}{address}")
    expect(page.locator(".sheet .box").first).to_be_in_viewport()


def test_a_document_with_several_tables_has_no_violation(serve: Serve, open_page: Open) -> None:
    running = serve()
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    running.kb.add(f"# Tables\n\n{table}\ntext\n\n{table}", title="Tables")
    page = open_page(running, "read/note:1", reduced_motion="reduce")
    expect(page.locator("#document table")).to_have_count(2)
    assert Axe().run(page).response["violations"] == []


def test_a_page_that_cannot_be_shown_is_reported(guide: Running, open_page: Open) -> None:
    page = open_page(guide)
    failure = {"code": "deadline", "message": "no answer within 10 s", "hint": "try again"}
    page.route("**/page-images*", lambda route: route.fulfill(status=504, json=failure))
    page.goto(f"{guide.url}/read/lib/paper.pdf#page=2")
    expect(page.get_by_role("alert")).to_contain_text("no answer within 10 s")


def test_a_citation_is_copied(guide: Running, open_page: Open) -> None:
    page = open_page(guide)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{guide.url}/read/lib/guide.md#L3")
    copy = page.locator("#tools button").first
    copy.click()
    expect(copy).to_have_text("Copied")
    uri = "lib/guide.md#L3"
    assert page.evaluate("navigator.clipboard.readText()") == uri
    # Without a secure connection, browsers have no clipboard.
    page.evaluate("navigator.clipboard.writeText('')")
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.reload()
    copy.click()
    expect(copy).to_have_text("Copied")
    expect(copy).to_be_focused()
    page.evaluate("document.execCommand = () => false")
    copy.click()
    expect(copy).to_have_text("The browser does not allow copying")


def test_a_document_that_does_not_exist(guide: Running, open_page: Open) -> None:
    page = open_page(guide)
    page.goto(f"{page.url.split('#')[0]}read/lib/none.md")
    expect(page.get_by_role("alert")).to_contain_text("There is no such document")


def test_a_page_asks_for_the_token(serve: Serve, open_page: Open) -> None:
    running = serve(AccessRules(token="t0k3n"))
    running.kb.add("The lamp burns.", title="Lamp")
    page = open_page(running)
    page.goto(f"{page.url.split('#')[0]}read/note:1")
    page.fill("#token", "t0k3n")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Lamp")


# --- results --------------------------------------------------------------------------------------


def test_passages_of_a_document_stand_together(serve: Serve, open_page: Open) -> None:
    running = serve()
    sections = "\n\n".join(f"## Part {n}\n\nThe heron sleeps at place {n}." for n in range(3))
    running.kb.add(f"# Birds\n\n{sections}", title="Birds")
    running.kb.add("A heron stands in the reeds.", title="Reeds")
    page = open_page(running)
    search(page, "heron")
    documents = ["continues" in (each.get_attribute("class") or "") for each in hits(page).all()]
    assert documents[0] is False
    assert sum(not each for each in documents) == 2


def test_load_more_keeps_the_place(serve: Serve, open_page: Open) -> None:
    running = serve()
    for number in range(25):
        running.kb.add(f"Heron number {number} has its own tree, {'reed ' * number}.")
    page = open_page(running)
    search(page, "heron tree")
    expect(hits(page)).to_have_count(10)
    page.locator("#load-more").focus()
    page.keyboard.press("Enter")
    expect(hits(page)).to_have_count(20)
    page.locator("#load-more").click()
    expect(hits(page)).to_have_count(25)
    expect(page.locator("#load-more")).to_have_count(0)


def test_recent_and_saved_searches(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    search(page, "retry")
    page.locator("#save").click()
    expect(page.locator("#save")).to_have_text("★ Saved")
    page.fill("#query", "battery")
    expect(page.locator("#save")).to_have_text("☆ Save")
    expect(page).to_have_title("battery – kb")
    page.fill("#query", "")
    expect(page.locator(".searches")).to_have_count(2)
    page.locator(".searches a", has_text="retry").first.click()
    expect(page.locator("#query")).to_have_value("retry")
    expect(hits(page).first).to_be_visible()


def test_recent_searches_are_whole_queries(wordy: Running, open_page: Open) -> None:
    """Every key starts a search, and the beginnings of a query are not worth remembering."""
    page = open_page(wordy)
    for query in ("retry", "battery"):
        page.fill("#query", "")
        for end in range(3, len(query) + 1):
            search(page, query[:end])
    for end in range(len("battery") - 1, 2, -1):  # deleting it again
        search(page, "battery"[:end])
    page.fill("#query", "")
    links = page.locator(".searches a")
    expect(links).to_have_text(["battery", "retry"])
    page.fill("#query", "bat")
    page.locator("#query").press("Enter")
    expect(hits(page).first.locator("h2 a")).to_be_focused()
    page.fill("#query", "")
    expect(links).to_have_text(["bat", "battery", "retry"])


def test_text_of_an_input_method_is_searched_when_it_is_finished(
    serve: Serve, open_page: Open
) -> None:
    running = serve()
    running.kb.add("用水泵排水", title="Pump")
    page = open_page(running)
    queries: list[str] = []

    def record(request: Request) -> None:
        if request.url.endswith("/search"):
            queries.append(json.loads(request.post_data or "")["query"])

    page.on("request", record)
    keyboard = page.context.new_cdp_session(page)
    for text in ("shui", "shui beng"):
        keyboard.send(
            "Input.imeSetComposition",
            {"text": text, "selectionStart": len(text), "selectionEnd": len(text)},
        )
    keyboard.send("Input.insertText", {"text": "水泵"})
    expect(hits(page)).to_have_count(1)
    assert set(queries) == {"水泵"}


def test_more_hits_are_not_counted_again(serve: Serve, open_page: Open) -> None:
    running = serve()
    for number in range(15):
        running.kb.add(f"Heron number {number}.")
    page = open_page(running)
    with page.expect_response(lambda response: response.url.endswith("/facets")):
        search(page, "heron")
    counts: list[str] = []

    def record(request: Request) -> None:
        if request.url.endswith("/facets"):
            counts.append(request.url)

    page.on("request", record)
    page.locator("#load-more").click()
    expect(hits(page)).to_have_count(15)
    with page.expect_response(lambda response: response.url.endswith("/facets")):
        search(page, "number")
    assert len(counts) == 1


def test_weight(wordy: Running) -> None:
    """The page weighs at most 300 kB before a PDF is opened."""
    from importlib import resources

    web = resources.files("kb.server") / "web"
    assert sum(len(file.read_bytes()) for file in web.iterdir()) < 300_000
    assert wordy.client.get("/").status_code == 200


def test_counts_follow_the_query(serve: Serve, open_page: Open) -> None:
    running = serve()
    running.kb.add("The heron sleeps.", tags=["birds"], scope="project")
    running.kb.add("The pump hums.", tags=["pumps"])
    page = open_page(running)
    counts = page.locator("#facets .choice", has_text="birds").locator(".n")
    expect(page.locator("#counted")).to_contain_text("whole store")
    search(page, "heron")
    expect(page.locator("#counted")).to_have_text("1 document for this query")
    expect(counts).to_have_text("1")
    pumps = page.locator("#facets .choice", has_text="pumps").locator(".n")
    expect(pumps).to_have_text("0")
    scope = page.locator("#facets .choice", has_text="global").locator(".n")
    expect(scope).to_have_text("0")
    page.fill("#query", "")
    expect(pumps).to_have_text("1")


# --- asking and writing ---------------------------------------------------------------------------


def test_a_question_is_answered_with_quotes(guide: Running, open_page: Open) -> None:
    page = open_page(guide)
    page.locator("#ask").click()
    page.fill("#query", "how many watts does the lamp at the masthead burn")
    quote = page.locator(".answer blockquote").first
    expect(quote).to_contain_text("The lamp at the masthead burns twelve watts.")
    expect(quote.locator("mark").first).to_be_visible()
    assert "ask=1" in page.url
    assert serious(page) == []
    page.fill("#query", "which emperor introduced paper money")
    expect(page.locator(".empty h2")).to_have_text("No document answers this question")
    assert serious(page) == []
    page.get_by_role("button", name="Search instead").click()
    expect(page.locator("#ask")).to_have_attribute("aria-pressed", "false")


def test_a_note_is_written_and_undone(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    page.locator("#query").press("Escape")
    page.keyboard.press("n")
    expect(page.locator("#note-text")).to_be_focused()
    page.keyboard.type("The heron returns in March.")
    page.fill("#note-title-field", "Heron")
    page.fill("#note-tags", "birds, field")
    page.select_option("#note-kind", "lesson")
    page.select_option("#note-ttl", "7d")
    assert serious(page) == []
    page.get_by_role("button", name="Store the note").click()
    expect(page.locator("#note .report")).to_contain_text("Stored as note:")
    (note,) = [each for each in wordy.kb.documents() if each.title == "Heron"]
    assert (note.kind, set(note.tags)) == ("lesson", {"birds", "field"})
    assert note.expires_at is not None
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#note-text")).to_have_value("The heron returns in March.")
    assert not [each for each in wordy.kb.documents() if each.title == "Heron"]


def test_a_draft_is_not_lost(wordy: Running, open_page: Open) -> None:
    page = open_page(wordy)
    page.locator("#open-note").click()
    page.locator("#note-text").press_sequentially("half a thought")
    page.reload()
    page.locator("#open-note").click()
    expect(page.locator("#note-text")).to_have_value("half a thought")
