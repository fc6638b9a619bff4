"""Whether a search notices that the nearest passages are code."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb import KnowledgeBase
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
