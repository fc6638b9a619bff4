"""The lexical retriever's tiers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.search.retrievers.lexical import _append
from kb.types import ScoredChunk


def test_words_inside_identifiers_are_found(kb: KnowledgeBase) -> None:
    kb.add("const targetHost = read()", title="camel")
    kb.add("target_host = read()", title="snake")
    kb.add("nothing here", title="none")
    for query in ("target", "targetHost", "target_host", "targethost"):
        titles = {hit.title for hit in kb.search(query)}
        assert "camel" in titles
    for query in ("target", "targetHost", "target_host"):
        assert {hit.title for hit in kb.search(query)} == {"camel", "snake"}
    assert {hit.title for hit in kb.search("targetHost", match="all")} == {"camel", "snake"}


def test_titles_and_headings_are_found(kb: KnowledgeBase) -> None:
    kb.add("the body", title="Quarterly harbour report")
    assert kb.search("harbour").returned == 1


def test_auto_fills_up_with_any(kb: KnowledgeBase) -> None:
    kb.add("alpha beta", title="both")
    for number in range(4):
        kb.add(f"alpha {number} and only the first", title=f"one {number}")
    found = kb.search("alpha beta", profile="lexical", top=3)
    assert found.hits[0].title == "both"
    assert found.returned == 3
    assert kb.search("alpha beta", match="all").returned == 1


@pytest.mark.parametrize("match", ["any", "auto"])
def test_substrings_only_if_nothing_else(kb: KnowledgeBase, match: str) -> None:
    kb.add("concatenation", title="long")
    kb.add("cat", title="short")
    assert [hit.title for hit in kb.search("cat", match=match)] == ["short"]
    assert [hit.title for hit in kb.search("catena", match=match)] == ["long"]


@pytest.mark.parametrize("match", ["any", "auto"])
@pytest.mark.parametrize("query", ["how is the git", "alpha the beta", "git", "数据库 是 git"])
def test_a_shorter_list_is_the_beginning_of_a_longer_one(
    kb: KnowledgeBase, match: str, query: str
) -> None:
    for number in range(30):
        words = ["the", "is"][: number % 3], ["git", "alpha", "beta", "数据库"][number % 5 :]
        kb.add(f"{number} " + " ".join(word for part in words for word in part))
    longest = [hit.chunk_id for hit in kb.search(query, match=match, top=100)]
    assert len(longest) > 5
    for top in (1, 3, 7, 12):
        assert [hit.chunk_id for hit in kb.search(query, match=match, top=top)] == longest[:top]


ranked = st.lists(st.floats(0, 0.99), max_size=8).map(
    lambda scores: [
        ScoredChunk(chunk_id, score, rank)
        for rank, (chunk_id, score) in enumerate(enumerate(sorted(scores, reverse=True)), start=1)
    ]
)


@given(ranked, ranked)
def test_scores_and_ranks_run_on_across_tiers(
    first: list[ScoredChunk], second: list[ScoredChunk]
) -> None:
    joined = _append(first, second)
    assert [hit.rank for hit in joined] == list(range(1, len(joined) + 1))
    assert all(one.score >= other.score for one, other in pairwise(joined))
    assert len({hit.chunk_id for hit in joined}) == len(joined)
