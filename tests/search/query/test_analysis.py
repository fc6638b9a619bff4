from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.search.query.analysis import MAX_RUN_CHARS, MAX_TERMS, analyze, sanitize


def test_words_and_runs_are_told_apart() -> None:
    analysis = analyze("如何 install kb 搜索 kb")
    assert analysis.lexical.words == (("install",), ("kb",))
    assert analysis.lexical.runs == ("如何", "搜索")


def test_an_identifier_is_also_the_phrase_of_its_parts() -> None:
    assert analyze("targetHost").lexical.words == (("targetHost", "target host"),)


def test_single_quotes_make_an_expression() -> None:
    assert analyze("'a NEAR b'").expression == "a NEAR b"
    assert analyze(" 'a' ").expression == "a"
    for text in ("'", "''", "' '", "'a", "don't 'a' b"):
        assert analyze(text).expression is None


def test_at_most_256_distinct_terms_count() -> None:
    words = " ".join(f"w{number}" for number in range(300))
    analysis = analyze(f"{words} {words}")
    assert len(analysis.lexical.words) == MAX_TERMS == 256
    (note,) = analysis.degraded
    assert (note.part, note.reason) == ("query", "truncated")
    assert "44 of 300" in str(note.detail)
    assert analyze(words[:500]).degraded == ()


def test_function_words_are_left_to_the_last() -> None:
    analysis = analyze("How wide are the slots?")
    assert [word for (word,) in analysis.content.words] == ["wide", "slots"]
    assert len(analysis.lexical.words) == 5
    only = analyze("who are the they")
    assert only.content == only.lexical


@pytest.mark.parametrize(
    ("text", "clean"),
    [("test (query) *special*", "test query special"), ("a:b", "a b"), ("  ", ""), ("¿a?", "¿a")],
)
def test_sanitize(text: str, clean: str) -> None:
    assert sanitize(text) == clean


@given(st.text())
def test_any_text_can_be_analysed(text: str) -> None:
    analysis = analyze(text)
    assert len(analysis.lexical.words) + len(analysis.lexical.runs) <= MAX_TERMS


queries = st.one_of(
    st.text(),
    st.text(alphabet="ab '\"*:^(){}[]+-.,;NEARANDORNOT\\\x00\ud800数据库ก็"),
    st.text().map(lambda text: f"'{text}'"),
)


class TestAnyQuery:
    """The real pipeline over a real store accepts any query."""

    @given(query=queries, match=st.sampled_from(["any", "all", "auto"]))
    def test_never_raises(self, kb: KnowledgeBase, query: str, match: str) -> None:
        if not kb.path.exists():
            kb.add("a b AND targetHost 数据库 ก็ NEAR", title="one")
        response = kb.search(query, match=match, malformed="empty")
        assert all(hit.title == "one" for hit in response.hits)
        assert all(note.part == "query" for note in response.degraded)

    def test_a_query_of_100_000_characters(self, kb: KnowledgeBase) -> None:
        kb.add("needle")
        response = kb.search("needle " + "x" * 49_992 + " " + "搜" * 50_000)
        assert response.returned == 1
        many = kb.search(" ".join(f"word{number}" for number in range(9_000)) + " needle")
        assert [note.reason for note in many.degraded] == ["truncated"]

    def test_many_letters_without_spaces(self, kb: KnowledgeBase) -> None:
        """Each pair is a lookup, so only the first ones are used."""
        kb.add("数据库")
        others = "".join(chr(0x4E00 + number % 20_000) for number in range(99_997))
        response = kb.search("数据库" + others)
        assert response.returned == 1
        assert [note.detail for note in response.degraded] == [
            "only the first 4,096 of 100,000 characters without spaces are used"
        ]
        assert len(analyze("数据库" + others).fragments) < 2 * MAX_RUN_CHARS

    @pytest.mark.parametrize(
        "query",
        ["AND", "OR", "NOT", "NEAR", "NEAR(a b, 2)", "a*", "^a", "text: a", "{text} : a", "a + b",
         "- text : a", '"', '""', "'", "(", ")", "a AND", "NOT a", "\\", "%", "_", ";--", "a\x00b"],
    )  # fmt: skip
    def test_every_operator_and_quote_is_text(self, kb: KnowledgeBase, query: str) -> None:
        kb.add("a b")
        assert kb.search(query).degraded == ()
