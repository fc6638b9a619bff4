"""Routes: search, compare, similar, highlights, profiles."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from fastapi.responses import JSONResponse

from kb.server import context
from tests.models.weightless import Weightless
from tests.relevances import set_relevances
from tests.schemas import validate, validator
from tests.server.conftest import FILES, HEADERS, Running, Serve, put


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


def test_duplicates_are_one_hit(filled: Running) -> None:
    for number in range(3):
        filled.kb.add("the winter storage has room for dinghies", title=f"note {number}")
    (hit, *_) = filled.search("winter storage dinghies")["hits"]
    assert (hit["duplicates"], len(hit["duplicate_uris"])) == (2, 2)
    every = filled.search("winter storage dinghies", collapse=False)["hits"]
    assert sum("dinghies" in each["snippet"] for each in every) == 3


def test_whole_passages(filled: Running) -> None:
    answer = filled.search("retry storm", include_text=True)
    validate(answer)
    (hit, *_) = answer["hits"]
    assert hit["text"] == filled.kb.chunk(hit["chunk_id"]).text
    assert filled.search("retry storm")["hits"][0]["text"] is None
    query = {"to": "lib/notes/retry.md", "include_text": "true"}
    near = filled.client.get("/similar", params=query).json()
    assert all(each["text"] for each in near["hits"])
    assert near["hits"]


def test_hits_have_their_files(filled: Running) -> None:
    cited = filled.search("retry storm")["hits"][0]["citation"]
    assert cited["file"].endswith("/lib/notes/retry.md")
    assert cited["link"] == f"file://{cited['file']}"
    assert (cited["line"], cited["page"]) == (cited["start"], None)
    passage = filled.client.get("/passages", params={"uri": cited["uri"]}).json()
    assert passage["citation"] == cited


def test_a_question_is_answered(filled: Running) -> None:
    answer = filled.client.post("/ask", json={"question": "what is a retry storm"}, headers=HEADERS)
    validate(answer.json())
    assert answer.json()["sentences"][0]["doc_path"] == "lib/notes/retry.md"
    wrongs: list[Any] = [{}, {"question": 1}, {"question": "x", "sentences": 99}, {"a": 1}]
    for wrong in wrongs:
        assert filled.client.post("/ask", json=wrong, headers=HEADERS).status_code == 422


def test_facets_count_documents(filled: Running) -> None:
    answer = filled.client.post("/search/facets", json={"query": "retry"}, headers=HEADERS).json()
    validate(answer)
    assert answer["documents"] == sum(answer["by_type"].values())
    assert 0 < answer["documents"] <= answer["passages"]


def test_filters(filled: Running) -> None:
    found = filled.search("buoy gateway queue", filters={"type": "code"})
    assert {hit["type"] for hit in found["hits"]} <= {"code"}
    assert filled.search("battery", filters={"tags": ["hardware"], "kind": "lesson"})["returned"]
    assert not filled.search("battery", filters={"tags": ["hardware"], "type": "pdf"})["returned"]


def test_minimum_relevance(filled: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    set_relevances(monkeypatch, [0.9, 0.2])
    every = filled.search("retry gateway")
    assert [hit["relevance"] for hit in every["hits"]][:2] == [0.9, 0.2]
    validate(every)
    assert filled.search("retry gateway", min_relevance=0.5)["returned"] == 1
    assert filled.search("retry gateway", min_relevance=1)["returned"] == 0


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({}, "invalid_request"),
        ({"query": "x", "topp": 1}, "invalid_request"),
        ({"query": 1}, "invalid_request"),
        ({"query": "x", "top": 0}, "invalid_request"),
        ({"query": "x", "top": 100_000}, "invalid_request"),
        ({"query": "x" * 100_001}, "invalid_request"),
        ({"query": "x", "min_relevance": 2}, "invalid_request"),
        ({"query": "x", "min_relevance": "high"}, "invalid_request"),
        ({"query": "x", "profile": "nope"}, "invalid_request"),
        ({"query": "x", "mode": "psychic"}, "invalid_request"),
        ({"query": "x", "filters": {"type": ["scroll"]}}, "invalid_request"),
        ({"query": "x", "filters": {"colour": "red"}}, "invalid_request"),
        ({"query": "'(('"}, "query_syntax"),
    ],
)
def test_an_invalid_search_is_an_error(filled: Running, asked: dict[str, Any], code: str) -> None:
    answer = filled.client.post("/search", json=asked)
    validator("error.v1").validate(answer.json())
    assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_a_query_of_100_000_characters(filled: Running) -> None:
    """The README promises this."""
    query = "retry storm " + '(x" ' * 24_997
    assert len(query) == 100_000
    assert filled.search(query)["hits"][0]["doc_path"] == "lib/notes/retry.md"


def test_a_search_reports_degraded_parts(serve: Serve, library: Any) -> None:
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


def test_texts_to_highlight_are_bounded(filled: Running) -> None:
    sent = {"query": "a", "texts": ["a " * 100_000]}
    answer = filled.client.post("/search/highlights", json=sent)
    assert answer.status_code == 200
    assert len(answer.json()["ranges"][0]) == 100_000
    sent["texts"] = ["a " * 520_000]
    refused = filled.client.post("/search/highlights", json=sent)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert refused.json()["hint"] == "send at most 200,000 at a time"


EVALUATION = {
    "queries": {"q": "retry storm"},
    "qrels": {"q": {"lib/notes/retry.md": 1}},
    "methods": ["lexical"],
    "measures": ["nDCG@10"],
}


@pytest.mark.parametrize("field", EVALUATION)
def test_an_evaluation_needs_something_in_every_field(filled: Running, field: str) -> None:
    empties: tuple[Any, ...] = ([], {}, "", None)
    for empty in empties:
        answer = filled.client.post("/search/evaluate", json=EVALUATION | {field: empty})
        optional = empty is None and field in ("methods", "measures")
        assert answer.status_code == (200 if optional else 422), (empty, answer.text)


BODIES: dict[str, dict[str, Any]] = {
    "/search": {"query": "x", "top": 1, "mode": "lexical", "profile": "lexical",
                "filters": {"type": ["markdown"]}, "settings": {"rrf_k": 60}},
    "/search/evaluate": EVALUATION | {"gain": "exp", "baseline": "lexical"},
    "/search/highlights": {"query": "x", "texts": ["x"]},
    "/documents": {"text": "x", "title": "x", "tags": ["x"], "kind": "lesson", "scope": "global",
                   "trust": "primary", "lang": "en", "ttl": "7d", "metadata": {"a": 1}},
    "/tags": {"document": "lib/notes/retry.md", "add": ["x"], "remove": ["y"]},
    "/ingest": {"paths": ["x"], "force": True, "dry_run": True},
    "/embed": {"retry": True},
}  # fmt: skip


EMPTY: tuple[Any, ...] = (
    [], {}, "", " ", 0, False, [""], {"": ""}, {"": []}, {"": {}}, [[]], [{}],
)  # fmt: skip


@pytest.mark.parametrize("path", BODIES)
def test_empty_fields_are_not_internal_errors(filled: Running, path: str) -> None:
    for field in BODIES[path]:
        for empty in EMPTY:
            answer = filled.client.post(path, json=BODIES[path] | {field: empty})
            assert answer.status_code < 500, (field, empty, answer.text)


def test_responses_are_encoded_in_worker_threads(
    filled: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    class Recorded(JSONResponse):
        def render(self, content: Any) -> bytes:
            threads.append(threading.current_thread().name)
            return super().render(content)

    monkeypatch.setattr(context, "JSONResponse", Recorded)
    document = "lib/notes/retry.md"
    chunk = filled.kb.chunks(document)[0].chunk_id
    get = ("/status", "/jobs", "/health", "/documents", f"/documents/{document}", "/tags",
           f"/passages?uri={document}", f"/chunks?document={document}", f"/chunks/{chunk}",
           "/profiles",
           "/search/compare-methods?q=retry", f"/similar?to={document}")  # fmt: skip
    answers = [filled.client.get(path) for path in get]
    posted = {"/search": {"query": "retry"}, "/search/evaluate": EVALUATION,
              "/search/highlights": BODIES["/search/highlights"], "/documents": {"text": "x"},
              "/tags": {"document": document, "add": ["x"]}, "/ingest": {}}  # fmt: skip
    answers += [filled.client.post(path, json=body) for path, body in posted.items()]
    answers.append(put(filled, "a.md", b"# A\n\nText.\n"))
    answers.append(filled.client.delete(f"/documents/{document}", headers=HEADERS))
    assert [answer.text for answer in answers if answer.status_code >= 300] == []
    assert len(threads) == len(answers)
    assert all(name.startswith("kb-") for name in threads), threads
