from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.errors import InvalidCitation
from kb.text.citations import Target, cite, format_uri, parse_uri
from kb.types import Span


def test_the_three_forms() -> None:
    assert format_uri("lib/a.md", Span("line", 12, 34)) == "lib/a.md#L12-L34"
    assert format_uri("lib/a.md", Span("line", 12, 12)) == "lib/a.md#L12"
    assert format_uri("lib/paper.pdf", Span("page", page=13)) == "lib/paper.pdf#page=13"


def test_only_characters_that_break_a_uri_are_encoded() -> None:
    assert format_uri("a b/C#/50%?/é/搜索.md") == "a%20b/C%23/50%25%3F/é/搜索.md"


@pytest.mark.parametrize("uri", ["", "#L3", "a.md#", "a.md#L0", "a.md#L9-L3", "a.md#page=x", "a#b"])
def test_a_malformed_citation_is_refused_with_the_valid_forms(uri: str) -> None:
    with pytest.raises(InvalidCitation) as error:
        parse_uri(uri)
    assert error.value.hint == (
        "citations look like folder/file.md#L12-L34, folder/file.md#L12 or folder/file.pdf#page=4"
    )


def test_a_foreign_span_is_carried_through_unchanged() -> None:
    data = {"kind": "region", "page": 3, "box": [1, 2, 3, 4]}
    span = Span.from_dict(data)
    assert span.to_dict() == data
    assert cite("a.pdf", span, None).uri == "a.pdf#page=3"


def test_a_citation_names_its_section() -> None:
    span = Span("line", 12, 34)
    found = cite("lib/a.md", span, "Ranking")
    assert (found.kind, found.path, found.section, found.span) == (
        "line", "lib/a.md", "Ranking", span,
    )  # fmt: skip
    assert found.uri == "lib/a.md#L12-L34"


def test_a_span_without_a_place_is_the_whole_document() -> None:
    assert format_uri("lib/a.mp3", Span.from_dict({"kind": "time", "from_s": 3})) == "lib/a.mp3"


def test_a_name_that_is_not_unicode_survives() -> None:
    assert format_uri("a\udcff.md") == "a%ED%B3%BF.md"
    assert parse_uri("a%ED%B3%BF.md").path == "a\udcff.md"


def test_text_that_was_not_encoded_here_is_unchanged() -> None:
    assert parse_uri("100%FF%20.md#L3") == Target("100%FF%20.md", 3, 3)


paths = st.text(min_size=1)


@given(paths, st.integers(1, 10**9), st.integers(0, 10**6))
def test_path_and_lines_round_trip(path: str, start: int, more: int) -> None:
    span = Span("line", start, start + more)
    assert parse_uri(format_uri(path, span)) == Target(path, start, start + more)


@given(paths, st.integers(1, 10**9))
def test_path_and_page_round_trip(path: str, page: int) -> None:
    assert parse_uri(format_uri(path, Span("page", page=page))) == Target(path, page=page)


@given(paths)
def test_a_bare_path_round_trips(path: str) -> None:
    assert parse_uri(format_uri(path)) == Target(path)
