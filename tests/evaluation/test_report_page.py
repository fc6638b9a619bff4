"""The HTML report in a real browser, without a network. Skipped without a browser: see `make
browser`."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from kb.evaluation.html import to_html
from kb.evaluation.metrics import parse_measure
from kb.evaluation.qrels import Collection
from kb.evaluation.runs import Ranker, evaluate
from tests.browser import CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: make browser")

# 400 px is a phone; widths in between have less room than a desktop.
WIDTHS = (1280, 660, 400)
LETTERS = """[...document.querySelectorAll("section svg text")]
    .map(one => one.getBoundingClientRect())
    .filter(box => box.width > 0)
    .map(box => [box.left, box.right, box.height])"""
METHODS = ("default", "lexical", "three_way_reranked", "a profile of one's own, with a long name")


def finds(seed: int, share: float) -> Ranker:
    """A method that finds the answer at some rank, in this share of all queries."""
    random = Random(seed)

    def rank(text: str, k: int) -> list[str]:
        wrong = [f"w{at}" for at in range(k)]
        return [*wrong[: random.randrange(4)], text] if random.random() < share else wrong

    return rank


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {f"q{at}": f"what does document {at} say about 浮标 and everything" for at in range(40)}
    judged = Collection("reef", "test", texts, {each: {texts[each]: 1} for each in texts})
    methods = {name: finds(at, 0.9 - at / 5) for at, name in enumerate(METHODS)}
    measures = [parse_measure(each) for each in ("nDCG@10", "Recall@100", "MRR")]
    report = evaluate(methods, judged, measures, baseline="default")
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(to_html(report), encoding="utf-8")
    return path


def opened(browser: Browser, path: Path, width: int, scheme: str) -> tuple[Page, list[str]]:
    """The page, with its requests and console messages."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        offline=True,
        bypass_csp=True,  # for axe, which is a script
    )
    heard: list[str] = []
    context.on("console", lambda message: heard.append(message.text))
    context.on("weberror", lambda error: heard.append(str(error.error)))
    context.on("request", lambda asked: heard.append(asked.url))
    page = context.new_page()
    page.goto(path.as_uri())
    return page, heard


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_without_a_network_and_can_be_read(
    browser: Browser, page_file: Path, width: int, scheme: str
) -> None:
    """It sends no requests, does not overflow, shows one version of each plot with readable text,
    and has sufficient contrast and a valid structure."""
    page, heard = opened(browser, page_file, width, scheme)
    assert heard == [page_file.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    plots = page.locator("section svg:visible")
    assert plots.count() == 3 + 1 + len(METHODS) - 1
    for left, right, height in page.evaluate(LETTERS):
        assert height >= 10
        assert 0 <= left <= right <= width
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true })")
    problems = [
        f"{each['id']}: {node['html']}: {node.get('failureSummary')}"
        for each in Axe().run(page).response["violations"]
        for node in each["nodes"]
    ]
    assert problems == []
    page.context.close()
