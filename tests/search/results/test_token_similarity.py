from __future__ import annotations

from array import array
from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.search.results.layout import Layout, lay_out
from kb.search.results.token_similarity import EmbeddedPassage, token_starts, unit_similarities
from kb.types import Encoding, TokenVectors
from tests.models.weightless import Weightless

SYNONYMS = {"vessel": "boat", "hulls": "boat", "mended": "repaired", "fixed": "repaired"}


def vectors(*rows: Sequence[float]) -> TokenVectors:
    return TokenVectors(len(rows[0]), array("f", [value for row in rows for value in row]))


EAST, NORTH = (1.0, 0.0), (0.0, 1.0)


def test_the_nearest_sentence_has_the_highest_value() -> None:
    layout = lay_out("One two. Six seven.")
    tokens = vectors(NORTH, NORTH, NORTH, EAST)
    passage = EmbeddedPassage(tokens, layout.text, layout)
    (near,) = unit_similarities(vectors(EAST), [passage])
    assert list(near) == pytest.approx([0.0, 1.0])


def test_headings_before_the_passage_are_skipped() -> None:
    layout = lay_out("One two. Six seven.")
    assert starts_of("A title › part\nOne two. Six seven.", layout, 7) == [3, 5]


def starts_of(embedded: str, layout: Layout, count: int) -> list[int]:
    tokens = vectors(*[EAST] * count)
    (starts,) = token_starts([EmbeddedPassage(tokens, embedded, layout)])
    return starts


def test_passages_are_counted_apart() -> None:
    texts = ["One two. Six internationalization.", "Ça naïveté. Été", "日本語。 検索する", "a"]
    passages = [
        EmbeddedPassage(vectors(*[EAST] * 9), f"T › u\n{text}", lay_out(text)) for text in texts
    ]
    apart = [starts_of(each.embedded, each.layout, 9) for each in passages]
    assert token_starts(passages) == apart == [[2, 4], [4, 7], [4, 7], [6]]


def test_without_vectors_nothing_is_near() -> None:
    layout = lay_out("One two.")
    passage = EmbeddedPassage(TokenVectors(2, array("f")), layout.text, layout)
    assert unit_similarities(vectors(EAST), [passage]) == [()]
    assert unit_similarities(vectors(EAST), []) == []


@given(
    st.text(alphabet="ab. A\n-", max_size=80),
    st.text(alphabet="ab \n", max_size=40),
    st.integers(1, 50),
)
def test_starts_are_positions_in_order(text: str, heading: str, count: int) -> None:
    layout = lay_out(text)
    starts = starts_of(f"{heading}\n{text}", layout, count)
    assert len(starts) == len(layout.units)
    assert starts == sorted(starts)
    assert all(0 <= start < count for start in starts)


class Synonyms(Weightless):
    """Gives words of the same meaning the same vectors."""

    def _encode(self, text: str, want: Set[str]) -> Encoding:
        words = (SYNONYMS.get(word.strip(".?"), word) for word in text.lower().split())
        return super()._encode(" ".join(words), want)


def test_a_hit_without_the_words_shows_the_sentence_that_means_the_same(tmp_path: Path) -> None:
    filler = "Some other words stand here to fill the first lines of this note. " * 4
    text = f"{filler}Every spring the hulls are mended on the beach. {filler}"
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Synonyms()) as kb:
        kb.add(text)
        kb.embed()
        by_meaning = kb.search("vessel fixed").hits[0]
        by_words = kb.search("beach", mode="lexical").hits[0]
    assert "the hulls are mended" in by_meaning.snippet
    assert "the hulls are mended" in by_words.snippet


def test_without_token_vectors_words_decide(tmp_path: Path) -> None:
    filler = "Some other words stand here to fill the first lines of this note. " * 4
    encoder = Weightless()
    encoder.spec = replace(encoder.spec, gives=frozenset({"dense", "sparse"}))
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=encoder) as kb:
        kb.add(f"{filler}Every spring the hulls are mended on the beach.")
        kb.embed()
        assert "beach" in kb.search("what happens at the beach").hits[0].snippet
        assert kb.search("vessel").hits[0].snippet.startswith("Some other words")
