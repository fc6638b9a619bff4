"""The routes that find."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.weightless import Weightless
from tests.schemas import validate, validator
from tests.server.conftest import FILES, Running, Serve


def test_a_search_answers_in_its_shape(filled: Running) -> None:
    answer = filled.search("retry storm", top=2, explain=True)
    validate(answer)
    assert answer["hits"][0]["doc_path"] == "lib/notes/retry.md"
    assert answer["explain"]["stages"]


def test_it_is_the_search_of_the_library(filled: Running) -> None:
    from kb import wire

    ours = wire.response(filled.kb.search("gateway", mode="lexical", filters=None))
    theirs = filled.search("gateway", mode="lexical")
    for shape in (ours, theirs):
        del shape["timing_ms"]
    assert ours == theirs


def test_filters(filled: Running) -> None:
    found = filled.search("buoy gateway queue", filters={"type": "code"})
    assert {hit["type"] for hit in found["hits"]} <= {"code"}
    assert filled.search("battery", filters={"tags": ["hardware"], "kind": "lesson"})["returned"]
    assert not filled.search("battery", filters={"tags": ["hardware"], "type": "pdf"})["returned"]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({}, "invalid_request"),
        ({"query": "x", "topp": 1}, "invalid_request"),
        ({"query": 1}, "invalid_request"),
        ({"query": "x", "top": 0}, "invalid_request"),
        ({"query": "x", "top": 100_000}, "invalid_request"),
        ({"query": "x" * 9_000}, "invalid_request"),
        ({"query": "x", "profile": "nope"}, "invalid_request"),
        ({"query": "x", "mode": "psychic"}, "invalid_request"),
        ({"query": "x", "filters": {"type": ["scroll"]}}, "invalid_request"),
        ({"query": "x", "filters": {"colour": "red"}}, "invalid_request"),
        ({"query": "'(('"}, "query_syntax"),
    ],
)
def test_what_cannot_be_searched_is_an_error(
    filled: Running, asked: dict[str, Any], code: str
) -> None:
    answer = filled.client.post("/search", json=asked)
    validator("error.v1").validate(answer.json())
    assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_a_search_says_what_is_degraded(serve: Serve, library: Any) -> None:
    running = serve(encoder=Weightless(fails_on=["retry"]))
    running.kb.ingest(library(FILES))
    told = running.search("retry")["degraded"]
    assert [part["part"] for part in told] != []


def test_compare_sets_six_methods_side_by_side(serve: Serve, library: Any) -> None:
    """[002 R8]"""
    running = serve(encoder=Weightless())
    running.kb.ingest(library(FILES))
    running.kb.embed()
    answer = running.client.get("/search/compare-methods", params={"q": "retry storm", "top": 3})
    assert answer.status_code == 200, answer.text
    validate(answer.json())
    assert len(answer.json()["methods"]) == 6
    refused = running.client.get("/search/compare-methods", params={"q": "x", "top": 999})
    assert refused.status_code == 422


def test_evaluate_measures_judged_queries_about_the_store(filled: Running) -> None:
    judged = {
        "queries": {"a": "retry storm", "b": "battery of a buoy"},
        "qrels": {"a": {"lib/notes/retry.md": 1}, "b": {"lib/notes/battery.md": 2}},
        "methods": ["lexical"],
        "measures": ["nDCG@10"],
    }
    answer = filled.client.post("/search/evaluate", json=judged)
    assert answer.status_code == 200, answer.text
    validate(answer.json())
    assert answer.json()["methods"]["lexical"]["metrics"]["nDCG@10"] == 1.0


@pytest.mark.parametrize(
    "judged",
    [
        {},
        {"queries": {}, "qrels": {}},
        {"queries": {"a": "x"}, "qrels": {"a": {"lib/notes/retry.md": "much"}}},
        {"queries": {"a": "x"}, "qrels": {"a": 1}},
        {"queries": {"a": 1}, "qrels": {"a": {"d": 1}}},
        {"queries": {"a": "x"}, "qrels": {"a\tb": {"d": 1}}},
        {"queries": {"a": "x"}, "qrels": {"a": {"d": 1}}, "methods": ["nope"]},
        {"queries": {"a": "x"}, "qrels": {"a": {"d": 1}}, "measures": ["Taste@3"]},
        {"queries": {"a": "x"}, "qrels": {"a": {"d": 1}}, "data": "/etc"},
    ],
)
def test_judgments_that_make_no_sense_are_errors(filled: Running, judged: dict[str, Any]) -> None:
    answer = filled.client.post("/search/evaluate", json=judged)
    validator("error.v1").validate(answer.json())
    assert answer.status_code == 422, answer.text


def test_similar(filled: Running) -> None:
    answer = filled.client.get("/similar", params={"to": "lib/notes/retry.md"})
    assert answer.status_code == 200
    validate(answer.json())
    assert filled.client.get("/similar", params={"to": "lib/nope.md"}).status_code == 404


def test_highlights_are_ranges_in_each_text(filled: Running) -> None:
    texts = ["The retry storm.", "Nothing.", "\U0001f30a a retry"]
    answer = filled.client.post("/search/highlights", json={"query": "retry", "texts": texts})
    validate(answer.json())
    assert answer.json()["ranges"] == [[[4, 9]], [], [[4, 9]]]


def test_profiles(filled: Running) -> None:
    assert "default" in filled.client.get("/profiles").json()
