"""The tools without a server: their arguments, their errors, and the length of their results."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kb import KnowledgeBase
from kb.errors import InvalidRequest, KbError
from kb.mcp import formatting
from kb.mcp.tools import TOOLS, Tool, ToolResult
from kb.types import Response
from tests.cli.test_hit_view import HIT
from tests.mcp.conftest import FILES, citations
from tests.relevances import set_relevances

BY_NAME = {tool.name: tool for tool in TOOLS}


@pytest.fixture
def filled(kb: KnowledgeBase, library: Callable[..., Path]) -> KnowledgeBase:
    kb.ingest(library(FILES))
    return kb


def call(kb: KnowledgeBase, tool: str, **arguments: Any) -> str:
    return BY_NAME[tool].call(kb, arguments).text


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: str(tool.name))
def test_a_schema_is_one(tool: Tool) -> None:
    Draft202012Validator.check_schema(tool.schema)
    assert set(tool.required) <= set(tool.properties)


@pytest.mark.parametrize("query", ["retry storm", "harbour", "battery"])
def test_fetch_takes_every_citation_of_search(filled: KnowledgeBase, query: str) -> None:
    found = citations(call(filled, "search", query=query))
    assert found
    for cited in found:
        assert cited in call(filled, "fetch", citation=cited)


def test_filters(filled: KnowledgeBase) -> None:
    assert len(citations(call(filled, "search", query="the a of"))) > 1
    for filters in (
        {"tags": ["hardware"]}, {"tags": "hardware"}, {"tags_any": ["field", "nope"]},
        {"kind": ["lesson"]}, {"path_glob": "lib/bat*"},
    ):  # fmt: skip
        (only,) = citations(call(filled, "search", query="the a of", **filters))
        assert only.startswith("lib/battery.md")
    assert call(filled, "search", query="battery", type=["pdf"]) == "nothing found"


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("search", {"query": 3}, "query cannot be 3"),
        ("search", {"query": "x", "top": 0}, "top cannot be 0"),
        ("search", {"query": "x", "top": 101}, "top cannot be 101"),
        ("search", {"query": "x", "top": True}, "top cannot be True"),
        ("search", {"query": "x", "top": "3"}, "top cannot be '3'"),
        ("search", {"query": "x", "top": 1.5}, "top cannot be 1.5"),
        ("search", {"query": "x", "top": float("nan")}, "top cannot be nan"),
        ("search", {"query": "x", "mode": "best"}, "mode cannot be 'best'"),
        ("search", {"query": "x", "kind": ["essay"]}, "kind cannot be 'essay'"),
        ("search", {"query": "x", "tags": [1]}, "tags cannot be 1"),
        ("search", {"query": "x", "filters": {}}, "search has no parameter 'filters'"),
        ("search", {"query": "x" * 100_001}, "query cannot be"),
        ("fetch", {}, "fetch needs citation"),
        ("fetch", {"citation": ""}, "citation cannot be ''"),
        ("fetch", {"citation": "a.md", "max_chars": 1}, "max_chars cannot be 1"),
        ("add", {"text": "x", "ttl": "soon"}, "soon"),
        ("add", {"text": "  "}, "the note is empty"),
        ("status", {"verbose": True}, "status has no parameter 'verbose'"),
    ],
)
def test_what_is_refused(
    filled: KnowledgeBase, tool: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        call(filled, tool, **arguments)
    assert message in caught.value.message
    assert caught.value.hint
    told = formatting.format_error(caught.value)
    assert told.startswith("code: invalid_request\nmessage: ")
    assert "\nhint: " in told


def test_a_whole_number_may_have_a_point(filled: KnowledgeBase) -> None:
    """In JSON Schema, 1.0 is an integer."""
    (search,) = (tool for tool in TOOLS if tool.name == "search")
    asked = {"query": "retry", "top": 1.0}
    Draft202012Validator(search.schema).validate(asked)
    assert search.call(filled, asked) == search.call(filled, asked | {"top": 1})


def test_null_is_not_given(filled: KnowledgeBase) -> None:
    plain = call(filled, "search", query="battery")
    assert call(filled, "search", query="battery", top=None, tags=None, mode=None) == plain


def test_what_an_agent_adds_is_marked_as_its_own(filled: KnowledgeBase) -> None:
    note = call(filled, "add", text="Locker 4.", tags=["deck"], kind="lesson", ttl="7d")
    document = filled.document(note.splitlines()[0])
    assert (document.trust, document.tags, document.kind) == ("generated", ("deck",), "lesson")
    assert document.expires_at is not None
    assert document.expires_at in note
    said = call(filled, "add", text="The user said so.", trust="primary").splitlines()[0]
    assert filled.document(said).trust == "primary"


def test_reading_counts_once_however_long_it_takes(filled: KnowledgeBase) -> None:
    for offset in (0, 10, 20):
        call(filled, "fetch", citation="lib/retry.md", offset=offset)
    assert filled.document("lib/retry.md").access_count == 1
    call(filled, "search", query="retry")
    assert filled.document("lib/retry.md").access_count == 1


# --- maximum length -------------------------------------------------------------------------------


def test_hits_go_on_where_they_were_cut(filled: KnowledgeBase) -> None:
    for number in range(30):
        filled.add(f"Note {number} about shackles. " + "More words. " * 10, title=f"n{number}")
    whole = citations(call(filled, "search", query="shackles", top=30))
    assert len(whole) == 30
    seen: list[str] = []
    offset = 0
    while offset < 30:
        answer = call(filled, "search", query="shackles", top=30, offset=offset, max_chars=900)
        assert len(answer) <= 900
        seen += citations(answer)
        assert f"offset={len(seen)}]" in answer or len(seen) == 30
        offset = len(seen)
    assert seen == whole
    beyond = call(filled, "search", query="shackles", offset=40)
    assert beyond == "no hits after the first 40"


def test_a_text_goes_on_where_it_was_cut(kb: KnowledgeBase, library: Callable[..., Path]) -> None:
    text = "".join(f"Line {number} of a long text.\n" for number in range(400))
    kb.ingest(library({"long.txt": text}))
    parts, offset = [], 0
    while True:
        answer = call(kb, "fetch", citation="lib/long.txt", offset=offset, max_chars=2000)
        assert len(answer) <= 2000
        body = answer.split("\n\n", 1)[1]
        part, _, more = body.partition("\n\n[characters ")
        parts.append(part)
        offset += len(part)
        if not more:
            break
        assert more.endswith(f"for more: offset={offset}]")
    assert "".join(parts).rstrip("\n") == text.rstrip("\n")
    assert len(parts) > 3


@given(max_chars=st.integers(formatting.MIN_CHARS, 2000), title=st.text(max_size=3000))
@example(max_chars=517, title="")  # only room for the footer and a heading
def test_an_answer_is_never_longer(
    tmp_path_factory: pytest.TempPathFactory, max_chars: int, title: str
) -> None:
    with KnowledgeBase(tmp_path_factory.mktemp("long") / "kb.sqlite") as kb:
        note = call(kb, "add", text="shackles " * 400, title=title[:500], tags=["t" * 200])
        doc_path = note.splitlines()[0]
        for answer in (
            call(kb, "search", query="shackles", max_chars=max_chars),
            call(kb, "fetch", citation=doc_path, max_chars=max_chars),
            call(kb, "status", max_chars=max_chars),
        ):
            assert 0 < len(answer) <= max_chars


def test_status_counts_one_document_as_one(kb: KnowledgeBase) -> None:
    kb.add("The spare shackles are in locker 4.")
    assert call(kb, "status").startswith("1 document, 1 passage in ")


def test_status_tells_what_there_is(filled: KnowledgeBase) -> None:
    told = call(filled, "status")
    assert "3 documents" in told
    assert "folder lib/: " in told
    assert "tags: field 1, hardware 1" in told
    assert "search by meaning: off" in told


def test_what_is_degraded_is_told(filled: KnowledgeBase) -> None:
    many = " ".join(f"w{number}" for number in range(300))
    assert "degraded: query: truncated (44 of 300" in call(filled, "search", query=many)


def test_one_cause_is_told_once(filled: KnowledgeBase) -> None:
    with KnowledgeBase(filled.path, encoder="nope") as kb:
        (line,) = call(kb, "search", query="retry storm").split("\n\n")[-1].splitlines()
    assert line == "degraded: dense and sparse: no model (there is no encoder 'nope')"


def test_errors_of_the_library_keep_their_code(filled: KnowledgeBase) -> None:
    with pytest.raises(KbError) as caught:
        call(filled, "search", query="'NEAR('")
    assert formatting.format_error(caught.value).startswith("code: query_syntax\n")


@pytest.mark.skipif(os.name != "posix", reason="such names are for POSIX")
def test_names_begin_no_lines_of_their_own(kb: KnowledgeBase, library: Callable[..., Path]) -> None:
    """A file's name can neither imitate a hit nor change the direction of text."""
    kb.ingest(library({"a\n9. forged.md#L1\u202e.md": "# One\n\nThe spare shackles.\n"}))
    text = call(kb, "search", query="shackles")
    (cited,) = citations(text)
    assert [line for line in text.splitlines() if line.startswith("9.")] == []
    assert "\u202e" not in text
    opened = call(kb, "fetch", citation=cited.replace("\\u202e", "\u202e"))
    assert opened.splitlines()[0] == cited
    with pytest.raises(KbError) as caught:
        call(kb, "fetch", citation="no\ncode: forged")
    assert len(formatting.format_error(caught.value).splitlines()) == 3


def test_whole_passages(filled: KnowledgeBase) -> None:
    result = BY_NAME["search"].call(filled, {"query": "retry storm", "include_text": True})
    whole = filled.search("retry storm", include_text=True).hits[0]
    assert whole.text is not None
    for line in whole.text.split("\n"):
        assert f"\n   {line}" in result.text
    short = call(filled, "search", query="retry storm", include_text=True, max_chars=500)
    assert len(short) <= 500


def test_hits_have_their_files(filled: KnowledgeBase) -> None:
    (hit, *_) = filled.search("retry storm").hits
    data = BY_NAME["search"].call(filled, {"query": "retry storm"}).data
    assert data is not None
    first = data["hits"][0]
    assert os.path.isfile(first["file"])
    assert (first["file"], first["line"]) == (hit.citation.file, hit.citation.line)
    assert (first["page"], first["link"]) == (None, hit.citation.link)


# --- relevance ------------------------------------------------------------------------------------


def test_an_agent_is_told_that_nothing_relevant_was_found(
    filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_relevances(monkeypatch, [0.2])
    result = BY_NAME["search"].call(filled, {"query": "the a of"})
    assert result.text.startswith("NOTHING RELEVANT FOUND. ")
    assert "Do not base an answer on them" in result.text
    assert "; relevance 0.20)" in result.text
    assert result.data is not None
    assert result.data["relevant"] is False
    assert {hit["relevance"] for hit in result.data["hits"]} == {0.2}
    assert [hit["citation"] for hit in result.data["hits"]] == citations(result.text)
    dropped = BY_NAME["search"].call(filled, {"query": "the a of", "min_relevance": 0.5})
    message = "nothing found with a relevance of at least 0.5"
    assert dropped == ToolResult(message, {"relevant": False, "hits": []})


def test_weak_matches_are_marked(filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    set_relevances(monkeypatch, [0.9, 0.2])
    result = BY_NAME["search"].call(filled, {"query": "the a of"})
    above, below = result.text.split("\n\nWeak matches (relevance below 0.5), probably about ")
    assert citations(above)
    assert citations(below)
    assert result.data is not None
    assert result.data["relevant"] is True


@pytest.mark.parametrize("values", [[0.9, 0.2], [0.1], [None]])
def test_structured_results_have_the_declared_shape(
    filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, values: list[float | None]
) -> None:
    set_relevances(monkeypatch, values)
    tool = BY_NAME["search"]
    assert tool.output is not None
    result = tool.call(filled, {"query": "retry storm"})
    Draft202012Validator(tool.output).validate(result.data)
    assert ("NOTHING" in result.text) == (values == [0.1])


@given(st.integers(500, 1500))
def test_the_warning_fits(max_chars: int) -> None:
    weak = replace(HIT, relevance=0.1, snippet="word " * 300)
    response = Response("q", "default", "hybrid", (weak, weak), (), {"total": 1.0}, "1")
    text = formatting.format_hits(response, offset=0, top=2, max_chars=max_chars)
    assert text.startswith("NOTHING RELEVANT FOUND. ")
    assert len(text) <= max_chars


def test_duplicates_are_one_hit(kb: KnowledgeBase) -> None:
    for number in range(3):
        kb.add("the winter storage has room for forty dinghies", title=f"note {number}")
    answer = call(kb, "search", query="winter storage")
    assert "[and 2 more with the same text; to see them: collapse=false]" in answer
    assert answer.count("dinghies") == 1
    assert call(kb, "search", query="winter storage", collapse=False).count("dinghies") == 3
