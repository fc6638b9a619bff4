"""Seed 001: the lexical retriever, its scores, snippets and citations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from kb import Filters, KnowledgeBase, wire
from kb.errors import QuerySyntax
from kb.types import Response
from tests.schemas import validate

Library = Callable[[dict[str, str]], Path]

CODE_AND_TABLE = """\
---
title: Code and table
tags: [rust, notes]
lang: en
---
# Retriever

Intro words.

## Ranking

The ranking uses bm25 and stems words.

```rust
fn rank(hits: Vec<Hit>) -> Vec<Hit> { hits }
```

## Settings

| key | value |
|---|---|
| default_k | 10 |
| snippet_chars | 220 |
"""


@pytest.fixture
def corpus(kb: KnowledgeBase, library: Library) -> KnowledgeBase:
    root = library(
        {
            "markdown/code-and-table.md": CODE_AND_TABLE,
            "markdown/other.md": "# Other\n\nNothing about ranking but one word: bm25.\n",
            "deep/er/long.md": "# Long\n\n" + "Some filler words stand here. " * 40 + "needle.\n",
            "secondary.md": "---\ntrust: secondary\n---\n# Hearsay\n\nSomebody said bm25.\n",
            "generated.md": "---\ntrust: generated\n---\n# Guess\n\nA model wrote bm25.\n",
        }
    )
    kb.ingest(root)
    return kb


def lexical(kb: KnowledgeBase, query: str, **options: object) -> Response:
    return kb.search(query, profile="lexical", **options)  # type: ignore[arg-type]  # by name


class TestPlan:
    """The seed's test plan, row by row."""

    def test_empty_corpus(self, kb: KnowledgeBase) -> None:
        kb.create()
        assert lexical(kb, "anything").hits == ()

    def test_single_doc_keyword_with_citation(self, kb: KnowledgeBase, library: Library) -> None:
        root = library({"markdown/code-and-table.md": CODE_AND_TABLE})
        kb.ingest(root)
        (hit,) = lexical(kb, "bm25").hits
        assert hit.citation.uri == "lib/markdown/code-and-table.md#L10-L16"
        assert hit.citation.section == "Ranking"
        assert hit.heading_path == ("Retriever", "Ranking")

    @pytest.mark.parametrize("chars", [20, 80, 220])
    def test_snippet_is_at_most_snippet_chars(
        self, corpus: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, chars: int
    ) -> None:
        monkeypatch.setenv("KB_SEARCH_SNIPPET_CHARS", str(chars))
        with KnowledgeBase(corpus.path) as kb:
            for query in ("needle", "bm25 ranking words", "filler"):
                for hit in lexical(kb, query):
                    assert len(hit.snippet) <= chars
            (hit,) = lexical(kb, "needle").hits
            assert "needle" in hit.snippet

    def test_tags_any_excludes_untagged(self, corpus: KnowledgeBase) -> None:
        found = lexical(corpus, "bm25", filters=Filters(tags_any=("rust", "zig")))
        assert {hit.doc_path for hit in found} == {"lib/markdown/code-and-table.md"}

    def test_citation_equals_first_span(self, corpus: KnowledgeBase) -> None:
        for hit in lexical(corpus, "bm25 needle default_k", top=50):
            chunk = next(c for c in corpus.chunks(hit.doc_path) if c.chunk_id == hit.chunk_id)
            assert hit.citation.span == chunk.spans[0]
            assert corpus.get(hit.citation.uri).text.strip() == chunk.text.strip()

    def test_normalisation_keeps_scores_in_the_unit_interval(self, corpus: KnowledgeBase) -> None:
        scores = [hit.score for hit in lexical(corpus, "bm25 ranking")]
        assert len(scores) >= 3
        assert all(0 < score < 1 for score in scores)
        assert scores == sorted(scores, reverse=True)

    def test_determinism(self, corpus: KnowledgeBase) -> None:
        first, second = (lexical(corpus, "bm25 ranking words").hits for _ in range(2))
        assert first == second

    def test_snapshot_of_hits(self, corpus: KnowledgeBase, snapshot: SnapshotAssertion) -> None:
        hits = [wire.hit(hit) for hit in lexical(corpus, "bm25 ranking")]
        assert json.dumps(hits, indent=1, ensure_ascii=False) == snapshot

    def test_output_conforms_to_the_schema(self, corpus: KnowledgeBase) -> None:
        hits = lexical(corpus, "bm25 needle rank default_k", top=50).hits
        assert hits
        for hit in hits:
            validate(wire.hit(hit))


class TestBehaviour:
    """The seed's behaviour contract."""

    def test_retrieval_detail(self, corpus: KnowledgeBase) -> None:
        for rank, hit in enumerate(lexical(corpus, "bm25"), start=1):
            detail = hit.retrieval
            assert detail.method == "lexical"
            assert detail.fusion_score == detail.lexical_score == hit.score
            assert detail.lexical_rank == hit.rank == rank
            assert detail.vector_score is detail.vector_rank is None

    def test_all_terms_first_then_any(self, corpus: KnowledgeBase) -> None:
        found = lexical(corpus, "bm25 stems")
        assert found.hits[0].citation.uri == "lib/markdown/code-and-table.md#L10-L16"
        assert len(found) > 1

    def test_match_all_is_and(self, corpus: KnowledgeBase) -> None:
        assert len(lexical(corpus, "bm25 stems", match="all")) == 1
        assert len(lexical(corpus, "bm25 nosuchword", match="all")) == 0

    def test_a_query_in_single_quotes_is_an_expression(self, corpus: KnowledgeBase) -> None:
        found = lexical(corpus, "'bm25 NOT stems'")
        assert len(found) == 3
        assert all("stems" not in hit.snippet for hit in found)

    def test_a_malformed_expression(self, corpus: KnowledgeBase) -> None:
        with pytest.raises(QuerySyntax):
            lexical(corpus, "'bm25 AND'")
        assert lexical(corpus, "'bm25 AND'", malformed="empty").hits == ()

    def test_lang(self, corpus: KnowledgeBase) -> None:
        found = lexical(corpus, "bm25", filters=Filters(lang="en"))
        assert {hit.doc_path for hit in found} == {"lib/markdown/code-and-table.md"}

    def test_path_glob_star_stops_at_slash(self, corpus: KnowledgeBase) -> None:
        def under(glob: str) -> int:
            return len(lexical(corpus, "needle", filters=Filters(path_glob=glob)))

        assert under("lib/*.md") == under("lib/*/long.md") == 0
        assert under("lib/**") == under("lib/deep/*/*.md") == 1

    @pytest.mark.parametrize(
        ("least", "count"), [("primary", 2), ("secondary", 3), ("generated", 4)]
    )
    def test_trust_min(self, corpus: KnowledgeBase, least: str, count: int) -> None:
        assert len(lexical(corpus, "bm25", filters=Filters(trust_min=least))) == count

    @pytest.mark.parametrize("query", ["", "   ", "?!", "''", "' '", "\x00"])
    def test_an_empty_match_is_an_empty_result(self, corpus: KnowledgeBase, query: str) -> None:
        found = lexical(corpus, query)
        assert found.hits == ()
        assert found.degraded == ()

    def test_retrieval_never_writes(self, corpus: KnowledgeBase) -> None:
        before = corpus.index_version()
        corpus.close()
        content = corpus.path.read_bytes()
        with KnowledgeBase(corpus.path) as kb:
            lexical(kb, "bm25 ranking", explain=True)
            assert kb.index_version() == before
        assert corpus.path.read_bytes() == content
        assert [path.name for path in corpus.path.parent.iterdir()] == ["kb.sqlite"]

    def test_raw_bm25_is_not_on_the_wire(self, corpus: KnowledgeBase) -> None:
        shape = wire.response(lexical(corpus, "bm25", explain=True))
        numbers = [hit["score"] for hit in shape["hits"]]
        assert numbers
        assert all(0 <= number < 1 for number in numbers)

    def test_index_version(self, corpus: KnowledgeBase) -> None:
        before = corpus.index_version()["lexical"]
        assert lexical(corpus, "bm25").index_version == before
        corpus.add("one more")
        assert corpus.index_version()["lexical"] != before
