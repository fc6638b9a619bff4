"""Duplicates, repeated texts, and documents with many hits, through a knowledge base."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.types import Hit
from tests.models.weightless import Weightless

FOOTER = "Part of the boats suite."
PAGES = 8
PARTS = 12


def page(number: int) -> str:
    use = f"The boat carries {number * 3} crates of {'fghijklm'[number] * 4}."
    return f"# boat {number}\n\n## Use\n\n{use}\n\n## End\n\n{FOOTER}\n"


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in range(PAGES):
        (folder / f"boat-{number}.md").write_text(page(number), encoding="utf-8")
    parts = (f"## Part {n}\n\nThe boat, boat harbour {n} {'x' * (n + 1)}.\n" for n in range(PARTS))
    (folder / "harbours.md").write_text("# The boat\n\n" + "\n".join(parts), encoding="utf-8")
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as opened:
        opened.ingest(folder)
        for number in range(5):
            opened.add("the winter storage has room for forty dinghies", title=f"note {number}")
        yield opened


def texts(hits: tuple[Hit, ...]) -> list[str]:
    return [hit.snippet for hit in hits]


def test_equal_passages_are_one_hit(kb: KnowledgeBase) -> None:
    best, *others = kb.search("winter storage").hits
    assert best.duplicates == 4
    assert len(best.duplicate_uris) == 4
    assert best.citation.uri not in best.duplicate_uris
    assert all(kb.get(uri).text == kb.get(best.citation.uri).text for uri in best.duplicate_uris)
    assert best.others == "and 4 more with the same text"
    assert not any("winter" in hit.snippet for hit in others)


def test_all_of_them_on_request(kb: KnowledgeBase) -> None:
    for settings in ({"collapse": False}, {"collapse": True}):
        collapse = False if settings["collapse"] else None
        hits = kb.search("winter storage", settings=settings, collapse=collapse).hits
        assert sum("winter" in text for text in texts(hits)) == 5
        assert not any(hit.duplicates for hit in hits)


def test_a_mode_and_other_profiles_keep_their_lists(kb: KnowledgeBase) -> None:
    for profile, mode in (("default", "lexical"), ("notes", None), ("lexical", None)):
        hits = kb.search("winter storage", profile=profile, mode=mode).hits
        assert sum("winter" in text for text in texts(hits)) == 5


def test_repeated_texts_do_not_rank(kb: KnowledgeBase) -> None:
    plain = kb.search("boat 3", top=4, collapse=False).hits
    assert FOOTER in texts(plain), "words alone rank the footer, because of the page's title"
    assert FOOTER not in texts(kb.search("boat 3", top=8).hits)


def test_a_repeated_text_is_found_by_its_own_words(kb: KnowledgeBase) -> None:
    best = kb.search("part of the boats suite").hits[0]
    assert best.snippet == FOOTER
    assert best.duplicates == PAGES - 1


def test_notes_with_the_same_text_are_no_footers(kb: KnowledgeBase) -> None:
    assert kb.search("winter").hits[0].duplicates == 4


def test_three_passages_of_a_document_among_the_first_ten(kb: KnowledgeBase) -> None:
    hits = kb.search("boat", top=20).hits
    first = Counter(hit.doc_path for hit in hits[:10])
    assert first["pages/harbours.md"] == 3
    last = [hit for hit in hits[:10] if hit.doc_path == "pages/harbours.md"][-1]
    assert last.more_in_document == PARTS - 3
    assert sum(hit.doc_path == "pages/harbours.md" for hit in hits) == PARTS
    everything = kb.search("boat", top=10, settings={"per_document": 0}).hits
    assert Counter(hit.doc_path for hit in everything)["pages/harbours.md"] > 3
    assert not any(hit.more_in_document for hit in everything)


def test_a_document_keeps_its_places_if_nothing_else_is_relevant(kb: KnowledgeBase) -> None:
    """Only its passages contain both words."""
    hits = kb.search("boat harbour", top=10).hits
    assert {hit.doc_path for hit in hits} == {"pages/harbours.md"}


def test_scores_are_in_order(kb: KnowledgeBase) -> None:
    for query in ("boat harbour", "boat 3", "winter storage"):
        scores = [hit.score for hit in kb.search(query, top=30).hits]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("query", ["boat", "boat harbour", "winter storage", "part of the suite"])
def test_a_longer_list_starts_with_the_shorter_one(kb: KnowledgeBase, query: str) -> None:
    longest = [hit.chunk_id for hit in kb.search(query, top=200).hits]
    for top in (1, 2, 5, 9, 10, 11, 20, 30):
        assert [hit.chunk_id for hit in kb.search(query, top=top).hits] == longest[:top]


def test_a_longer_list_after_more_retrieval(tmp_path: Path) -> None:
    """With more copies than candidates, later batches lose their duplicates too."""
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as kb:
        for number in range(150):
            kb.add("the same buoy everywhere", title=f"copy {number}")
        for number in range(20):
            kb.add(f"a buoy of its own, number {number}")
        longest = [hit.chunk_id for hit in kb.search("buoy", top=100).hits]
        assert len(longest) == 21
        for top in (1, 5, 10, 21):
            assert [hit.chunk_id for hit in kb.search("buoy", top=top).hits] == longest[:top]


def test_an_excluded_passage_stands_for_none(kb: KnowledgeBase) -> None:
    """Its duplicates have their own hit."""
    from kb.types import SearchRequest

    best = kb.search("winter storage").hits[0]
    request = SearchRequest("winter storage", exclude=frozenset({best.chunk_id}))
    assert kb.execute(request).hits[0].duplicates == 3


def test_the_explanation_names_the_stage(kb: KnowledgeBase) -> None:
    explain = kb.search("winter storage", explain=True).explain
    assert explain is not None
    assert "collapse(duplicates, 3 per document)" in explain["pipeline"]
    (stage,) = (each for each in explain["stages"] if each["stage"] == "collapse")
    assert stage["duplicates"] >= 4


def test_an_explanation_comes_before_the_synopsis(tmp_path: Path) -> None:
    folder = tmp_path / "manual"
    folder.mkdir()
    synopsis = "\n".join(f"    tug moor [--{name}]" for name in ("quay", "rope", "night"))
    use = "Use `tug moor` when you want to leave the tug in the harbour for the night."
    page = f"# tug-moor\n\n## Synopsis\n\n{synopsis}\n\n## Description\n\n{use}\n"
    (folder / "moor.md").write_text(page, encoding="utf-8")
    other = "tug moor: [--list] [--all]\n"
    (folder / "other.md").write_text(f"# Index\n\n{other}", encoding="utf-8")
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
        kb.ingest(folder)
        plain = kb.search("tug moor", settings={"collapse": False, "per_document": 0}).hits
        hits = kb.search("tug moor").hits
    described = [hit.heading_path[-1] for hit in hits if hit.doc_path.endswith("moor.md")]
    assert [hit.heading_path[-1] for hit in plain if hit.doc_path.endswith("moor.md")] == [
        "Synopsis",
        "Description",
    ]
    assert described == ["Description", "Synopsis"]
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
