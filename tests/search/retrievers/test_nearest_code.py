"""Whether a search notices that the nearest passages are code."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.search.retrievers.base import Candidates
from kb.search.retrievers.nearest_code import finds_code
from kb.types import ScoredChunk
from tests.models.weightless import Weightless

QUERY = "how do I moor a boat"
RULE = "the nearest passages are code"
FUNCTIONS = [f"def moor_boat_{n}(boat):\n    return boat.tie(berths[{n}])" for n in range(12)]
NOTES = [f"A boat with {n} ropes is moored before the storm comes." for n in range(12)]


@pytest.mark.parametrize(
    ("query", "texts", "settings", "found"),
    [
        (QUERY, FUNCTIONS, {}, True),
        ("moor_boat(boat)", FUNCTIONS, {}, False),
        ("Boat.prototype.moor", FUNCTIONS, {}, False),
        (QUERY, NOTES, {}, False),
        (QUERY, FUNCTIONS, {"word_match": False}, False),
        (QUERY, FUNCTIONS, {"retrievers": ["lexical", "dense"]}, False),
    ],
)
def test_weighted_terms_among_code(
    tmp_path: Path, query: str, texts: list[str], settings: dict[str, object], found: bool
) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as kb:
        for text in texts:
            kb.add(text)
        kb.embed()
        explain = kb.search(query, explain=True, settings=settings).explain
    assert explain is not None
    fuse = next(one for one in explain["stages"] if one["stage"] == "fuse")
    assert (RULE in fuse.get("rules", "")) is found
    assert (fuse["weights"].get("sparse") == 0.0) is found


def test_ten_passages_are_read(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
        for text in FUNCTIONS[:7] + NOTES[:3]:  # seven of ten are enough, of eleven they are not
            kb.add(text)
        kb.add(NOTES[3])
        ids = range(1, 12)
        nearest = Candidates(tuple(ScoredChunk(n, 1.0 - n / 100, n) for n in ids))
        candidates = {"dense": nearest, "sparse": nearest}
        assert finds_code(kb._store, candidates, QUERY)
        reversed_ids = Candidates(tuple(ScoredChunk(12 - n, 1.0 - n / 100, n) for n in ids))
        assert not finds_code(kb._store, {**candidates, "dense": reversed_ids}, QUERY)
