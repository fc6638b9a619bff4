"""Seed 001: the lexical retriever, its scores, snippets and citations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from syrupy.assertion import SnapshotAssertion

from kb import Filters, KnowledgeBase, wire
from kb.errors import QuerySyntax
from kb.types import Response
from tests.conformance.conftest import sqlite_file
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
        with KnowledgeBase(corpus.location) as kb:
            for query in ("needle", "bm25 ranking words", "filler"):
                for hit in lexical(kb, query):
                    assert len(hit.snippet) <= chars
            (hit,) = lexical(kb, "needle").hits
            assert "needle" in hit.snippet

    @pytest.mark.parametrize("text", ["需要" * 200, "needle " * 60], ids=["one run", "words"])
    def test_by_default_220_characters_are_shown(self, kb: KnowledgeBase, text: str) -> None:
        """Nearly as many as are allowed, and no more."""
        kb.add(text)
        (hit,) = lexical(kb, text[:6].strip()).hits
        assert 212 <= len(hit.snippet) <= 220

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

    def test_snapshot_of_hits(
        self, corpus: KnowledgeBase, snapshot: SnapshotAssertion, tmp_path: Path
    ) -> None:
        hits = [wire.hit(hit) for hit in lexical(corpus, "bm25 ranking")]
        shown = json.dumps(hits, indent=1, ensure_ascii=False)
        assert shown.replace(str(tmp_path), "/here") == snapshot

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

    def test_every_term_comes_before_a_better_score(self, kb: KnowledgeBase) -> None:
        """A passage with all terms comes first, although another one has a higher BM25."""
        for number in range(8):
            kb.add(f"script {number}")
        often = kb.add("deploy deploy deploy").doc_path
        every = kb.add("deploy " + "and many other things " * 20 + "script").doc_path
        assert [hit.doc_path for hit in lexical(kb, "deploy script", match="any")][:2] == [
            often, every,
        ]  # fmt: skip
        found = lexical(kb, "deploy script")
        assert [hit.doc_path for hit in found][:2] == [every, often]
        assert found.returned == 10

    def test_ties_are_ordered_by_chunk_id(self, kb: KnowledgeBase) -> None:
        for _ in range(5):
            kb.add("the same words")
        hits = lexical(kb, "same words").hits
        assert len({hit.score for hit in hits}) == 1
        assert [hit.chunk_id for hit in hits] == sorted(hit.chunk_id for hit in hits)

    def test_the_score_is_made_of_bm25(self, corpus: KnowledgeBase) -> None:
        """`|bm25| / (1 + |bm25|)`."""
        found = lexical(corpus, "'bm25'")
        corpus.close()
        connection = apsw.Connection(str(sqlite_file(corpus)))
        raw = dict(connection.execute(
            "SELECT rowid, bm25(chunks_fts, 0.0, 0.0, 2.0, 1.0, 0.5) FROM chunks_fts "
            "WHERE chunks_fts MATCH 'bm25'"
        ))  # fmt: skip
        connection.close()
        assert len(raw) == found.returned == 4
        for hit in found:
            assert hit.score == pytest.approx(-raw[hit.chunk_id] / (1 - raw[hit.chunk_id]))

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

    def test_any_of_several_tags(self, kb: KnowledgeBase) -> None:
        for tag in ("rust", "zig", "c"):
            kb.add("a word", title=tag, tags=[tag])
        found = lexical(kb, "word", filters=Filters(tags_any=("rust", "zig")))
        assert [hit.title for hit in found] == ["rust", "zig"]

    def test_after_and_before(self, kb: KnowledgeBase, library: Library) -> None:
        """The filters use the document's own date. `after` includes its day, `before` does not; a
        document without a date never matches."""
        days = ("2026-01-30", "2026-01-31", "2026-02-01")
        dated = {f"{day}-x.md": f"---\ndate: {day}\n---\n# Dated\n\nword\n" for day in days}
        kb.ingest(library(dated))

        def found(**span: str) -> list[str]:
            hits = lexical(kb, "word", filters=Filters(**span))  # type: ignore[arg-type]
            return sorted(hit.doc_path[4:14] for hit in hits)

        assert found() == list(days)
        assert found(after="2026-01-31") == ["2026-01-31", "2026-02-01"]
        assert found(before="2026-01-31") == ["2026-01-30"]
        assert found(after="2026-01-31", before="2026-02-01") == ["2026-01-31"]

    @pytest.mark.parametrize("query", ["bm25", "'bm25'", "bm25 ranking"])
    def test_filters_are_no_cut_of_the_best(
        self, corpus: KnowledgeBase, library: Library, query: str
    ) -> None:
        """Each filter is a condition of the query, so it applies before ranking: 400 other passages
        rank higher."""
        better = "".join(f"# Ranking {number}\n\nbm25 bm25\n\n" for number in range(400))
        corpus.ingest(library({"better.md": f"---\ntrust: generated\nlang: de\n---\n{better}"}))
        assert {hit.doc_path for hit in lexical(corpus, query, top=100)} == {"lib/better.md"}
        for kept, count in (
            (Filters(tags_any=("rust",)), 1),
            (Filters(lang="en"), 1),
            (Filters(path_glob="lib/markdown/*"), 2),
            (Filters(trust_min="secondary"), 3),
        ):
            found = lexical(corpus, query, top=count, filters=kept)
            assert found.returned == count
            assert "lib/better.md" not in {hit.doc_path for hit in found}

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
        content = sqlite_file(corpus).read_bytes()
        with KnowledgeBase(corpus.location) as kb:
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
