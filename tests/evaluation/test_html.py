"""The HTML report is complete, self-contained, and agrees with the report."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from kb.evaluation.html import HARDEST, to_html
from kb.evaluation.metrics import Measure
from kb.evaluation.qrels import Collection
from kb.evaluation.runs import EvalReport, evaluate
from tests.evaluation.test_report import NOTES, REPORT, without_baseline

_VOID = {"meta", "link", "br", "img"}


class Structure(HTMLParser):
    """Every tag is closed in its turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_of(report: EvalReport) -> Structure:
    return Structure(to_html(report))


def test_it_is_complete_and_shows_the_figures() -> None:
    text = "\n".join(page_of(REPORT).texts)
    for shown in ("0.660", "0.550 to 0.770", "+10.0 %", "143.3", "2 better, 0 worse, 0 equal"):
        assert shown in text
    for line in NOTES:
        assert line in text


def test_it_loads_nothing() -> None:
    page = to_html(REPORT)
    names = {name for name, _ in Structure(page).attributes}
    assert names.isdisjoint({"src", "href", "srcset", "data", "action", "onload", "onclick"})
    assert not re.search(r"url\(|@import|<script|http(?!-equiv)", page)
    assert "default-src 'none'" in page


def test_it_supports_light_and_dark_mode() -> None:
    assert "prefers-color-scheme: dark" in to_html(REPORT)
    colours = re.findall(r"var\((--[a-z]+)\)", to_html(REPORT))
    for name in set(colours) - {"--share"}:
        assert to_html(REPORT).count(f"{name}:") == 2, name


def test_queries_and_names_are_data() -> None:
    named = replace(REPORT, data="<i>reef</i>")
    page = page_of(named)
    assert "<i>reef</i>" in page.texts
    assert any("鲸 <b>" in text for text in page.texts)


def test_without_a_baseline_nothing_is_compared() -> None:
    text = "\n".join(page_of(without_baseline()).texts)
    assert "Wins and losses" not in text
    assert "difference" not in text


def test_one_method_is_compared_with_nothing() -> None:
    alone = replace(REPORT, methods={"lexical": REPORT.methods["lexical"]})
    text = "\n".join(page_of(alone).texts)
    assert "baseline" not in text[text.index("Quality") :]
    assert "compared with" not in text


def test_it_shows_what_was_searched_and_with_which_model() -> None:
    told = "linear gain; searched: 1,200 documents, model kb-mini 2; compared with lexical"
    assert any(told in text for text in page_of(REPORT).texts)


def test_the_hardest_come_first() -> None:
    """A query is hard if no method does well on it."""
    qrels = {f"q{at:02}": {"d": 1} for at in range(30)}
    judged = Collection("reef", "test", {each: each for each in qrels}, qrels)
    ranks = {query: 1 + int(query[1:]) % 7 for query in qrels}

    def method(query: str, k: int) -> list[str]:
        return [f"x{at}" for at in range(ranks[query] - 1)] + ["d"]

    report = evaluate({"m": method, "n": method}, judged, [Measure("MRR")], baseline="m")
    page = to_html(report)
    section = page[page.index("Hardest queries") : page.index("All 30 queries")]
    shown = re.findall(r"<td>(q\d\d)</td>", section)
    worst = sorted(qrels, key=lambda query: 1 / ranks[query])
    assert shown == worst[:HARDEST]
    assert "0 better, 0 worse, 30 equal" in page
