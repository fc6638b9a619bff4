"""The pipeline as a whole: one state of the store, groups, boosts, threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kb import KnowledgeBase, wire
from kb.errors import KbError
from kb.search.retrievers import model_retriever
from kb.types import Response
from tests.schemas import validate

Library = Callable[[dict[str, str]], Path]


def paths(found: Response) -> list[str]:
    return [hit.doc_path for hit in found]


# --- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "changes"),
    [
        ("harbour", True),
        ("the harbour", True),
        ("one two three four five six harbour", False),  # long, and a bad match
        ("harbourMaster", False),  # parts of a word are not counted
        ("港 harbour", False),
        ("arbou", False),  # found inside words
        ("'harbour'", False),
    ],
)
def test_words_count_by_how_well_they_match(
    hybrid: KnowledgeBase, query: str, changes: bool
) -> None:
    for text in ("the harbour", "keys", "more keys", "harbour master", "港"):
        hybrid.add(text)
    hybrid.embed()
    explain = hybrid.search(query, explain=True).explain
    assert explain is not None
    (fuse,) = (stage for stage in explain["stages"] if stage["stage"] == "fuse")
    assert ("the first passage by words matches" in fuse.get("rules", "")) is changes


# --- repr -----------------------------------------------------------------------------------------


def pipeline(kb: KnowledgeBase, **asked: object) -> str:
    explain = kb.search("x", explain=True, **asked).explain  # type: ignore[arg-type]
    assert explain is not None
    return str(explain["pipeline"])


def test_repr_of_a_pipeline(hybrid: KnowledgeBase) -> None:
    hybrid.add("x")
    hybrid.embed()
    three_way = {"retrievers": "lexical,dense,sparse", "agreement": True, "rerank": "none"}
    assert pipeline(hybrid, settings=three_way) == (
        "analyse -> [lexical(match=any) | dense(weightless) | sparse(weightless)] -> agreement -> "
        "word match -> coverage -> convex(zscore) -> literal first -> "
        "collapse(duplicates, 3 per document) -> cut(top=10)"
    )
    assert pipeline(hybrid, profile="notes", rerank="colbert") == (
        "analyse -> [lexical(match=any) | dense(weightless)] -> rrf(k=60) -> "
        "rerank(colbert, top 100, blend=auto) -> cut(top=10)"
    )
    assert pipeline(hybrid, profile="memory", threshold=0.2) == (
        "analyse -> [lexical(match=any) | dense(weightless)] -> weighted() -> at least 0.1 -> "
        "boost(decay 30 d) -> cut(top=10, threshold=0.2)"
    )
    assert pipeline(hybrid, profile="knowledge", settings={"group": True}) == (
        "analyse -> [lexical(match=any) | dense(weightless)] -> rrf(k=60) -> boost(type, access) "
        "-> cut(top=10, one per document)"
    )
    assert pipeline(hybrid, mode="lexical") == "analyse -> lexical(match=any) -> cut(top=10)"


def test_explain_shows_weights_factors_and_every_score(hybrid: KnowledgeBase) -> None:
    hybrid.add("harbour keys", kind="decision")
    hybrid.add("harbour boats")
    hybrid.embed()
    found = hybrid.search("keys", profile="knowledge", explain=True)
    validate(wire.response(found))
    assert found.explain is not None
    (fuse,) = (stage for stage in found.explain["stages"] if stage["stage"] == "fuse")
    assert fuse["weights"] == {"lexical": 1.0, "dense": 1.0}
    assert fuse["scale"] == "rrf"
    first = found.explain["hits"][0]
    assert first["factors"] == {"type": 2.0, "access": 1.0}
    assert set(first["scores"]) == {"lexical", "dense"}
    hit = found.hits[0]
    assert hit.retrieval.fusion_score is not None
    assert hit.score == pytest.approx(2.0 * hit.retrieval.fusion_score)


def test_completion_adds_cosines_of_lexical_candidates(hybrid: KnowledgeBase) -> None:
    for number in range(30):
        hybrid.add(f"harbour {number}")
    hybrid.add("keys " + "other words " * 20)
    hybrid.embed()
    settings = {"candidates": "5", "top": "5"}
    told = {
        complete: hybrid.search(
            "harbour keys", explain=True, settings=settings | {"complete": complete}
        ).explain
        for complete in (True, False)
    }
    for complete, explain in told.items():
        assert explain is not None
        assert all("dense" in hit["scores"] for hit in explain["hits"]) or not complete


# --- one hit per document -------------------------------------------------------------------------


@pytest.fixture
def long_and_short(hybrid: KnowledgeBase, library: Library) -> KnowledgeBase:
    """One document whose passages all rank above those of the others."""
    sections = "".join(f"## harbour {number}\n\nharbour harbour\n\n" for number in range(300))
    short = {f"{number}.md": f"# {number}\n\nA harbour, and others.\n" for number in range(20)}
    hybrid.ingest(library({"long.md": f"# harbour\n\n{sections}", **short}))
    hybrid.embed()
    return hybrid


@pytest.mark.parametrize("profile", ["default", "notes", "memory", "knowledge", "lexical"])
def test_groups_are_filled_up(long_and_short: KnowledgeBase, profile: str) -> None:
    plain = long_and_short.search("harbour", profile=profile)
    assert set(paths(plain)) == {"lib/long.md"}
    grouped = long_and_short.search("harbour", profile=profile, settings={"group": True})
    assert len(paths(grouped)) == len(set(paths(grouped))) == 10
    assert grouped.hits[0].doc_path == "lib/long.md"
    validate(wire.response(grouped))


def test_a_store_with_fewer_documents_than_requested(long_and_short: KnowledgeBase) -> None:
    found = long_and_short.search("harbour", top=50, settings={"group": True})
    assert len(paths(found)) == len(set(paths(found))) == 21


# --- the number of hits ---------------------------------------------------------------------------


@pytest.fixture
def many(hybrid: KnowledgeBase, library: Library) -> KnowledgeBase:
    """Passages that words and vectors rank differently, with ties and a word that most of them
    contain."""
    texts = {
        f"2026-0{number % 5 + 1}-{number // 5 % 28 + 1:02}/{number}.md": "harbour "
        + "keys " * (number % 4)
        + f"boat{number % 7} word{number} "
        + "and other words " * (number % 11)
        for number in range(360)
    }
    hybrid.ingest(library(texts))
    hybrid.embed()
    return hybrid


@pytest.mark.parametrize(
    ("profile", "settings"),
    [("default", {}), ("memory", {}), ("default", {"normalisation": "minmax"}),
     ("default", {"candidates": "7", "complete": True}), ("notes", {"candidates": "20"}),
     ("memory", {"boosts": "type,access,decay", "candidates": "10"}), ("lexical", {}),
     ("default", {"group": True, "candidates": "15"}), ("research", {"rerank": "none"}),
     ("research", {"candidates": "15", "fusion": "convex", "rerank": "none"})],
)  # fmt: skip
@pytest.mark.parametrize("query", ["harbour keys boat3", "harbour boat1 and"])
def test_a_longer_list_starts_with_the_shorter_one(
    many: KnowledgeBase, profile: str, settings: dict[str, object], query: str
) -> None:
    lists = [
        many.search(query, profile=profile, settings=settings, top=top).hits
        for top in (1, 10, 90, 101, 150, 200, 1000)
    ]
    for shorter, longer in itertools.pairwise(lists):
        assert longer[: len(shorter)] == shorter
    longest = lists[-1]
    assert [len(each) for each in lists[:-1]] == [1, 10, 90, 101, 150, 200]
    assert len({hit.chunk_id for hit in longest}) == len(longest) == 360
    assert all(one.score >= other.score for one, other in itertools.pairwise(longest))


def test_later_candidates_are_explained_too(many: KnowledgeBase) -> None:
    found = many.search("harbour keys boat3", profile="memory", top=300, explain=True)
    validate(wire.response(found))
    assert found.explain is not None
    told = found.explain["hits"]
    assert all(hit["scores"] and hit["factors"] for hit in told)
    assert len(told) == 300


def test_a_threshold_is_not_looked_beyond(many: KnowledgeBase) -> None:
    few = many.search("keys", threshold=0.5, top=10)
    more = many.search("keys", threshold=0.5, top=300)
    assert more.hits[: len(few)] == few.hits
    assert all(hit.score >= 0.5 for hit in more)


# --- one state of the store -----------------------------------------------------------------------


def test_several_threads_return_the_same_hits(
    hybrid: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        hybrid.add(f"harbour {number} {'keys' * (number % 3)}")
    hybrid.embed()
    queries = ("harbour", "keys 7", "nothing")
    profiles = ("default", "research")
    asked = [(query, profile) for query in queries for profile in profiles]
    alone = [hybrid.search(query, profile=profile) for query, profile in asked]
    monkeypatch.setattr(model_retriever, "SLOW_FROM", 0)
    beside = [hybrid.search(query, profile=profile) for query, profile in asked]
    assert [found.hits for found in beside] == [found.hits for found in alone]


@pytest.mark.parametrize("parallel_from", [0, 1_000_000])
@pytest.mark.parametrize("profile", ["default", "research"])
def test_eight_search_while_one_writes(
    hybrid: KnowledgeBase, monkeypatch: pytest.MonkeyPatch, parallel_from: int, profile: str
) -> None:
    """A document is added, embedded and removed: every response shows one of these states."""
    monkeypatch.setattr(model_retriever, "SLOW_FROM", parallel_from)
    monkeypatch.setattr(
        hybrid._services.searcher, "_timeout_s", None
    )  # however busy the machine is
    for number in range(12):
        hybrid.add(f"harbour anchor {number}")
    hybrid.embed()
    states: list[object] = []
    _come_and_go(hybrid, lambda: states.append(_answer(hybrid, profile)))
    assert states[0] != states[1] != states[2] != states[0] == states[3]
    problems: list[object] = []
    answers: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            answers.append(_answer(hybrid, profile))
            if answers[-1] not in states:
                problems.append(answers[-1])

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for _ in range(10):
        _come_and_go(hybrid, lambda: None)
    done.set()
    for reader in readers:
        reader.join()
    assert problems == []
    assert answers


def _come_and_go(kb: KnowledgeBase, look: Callable[[], None]) -> None:
    look()
    note = kb.add("harbour anchor anchor anchor")
    look()
    kb.embed()
    look()
    kb.remove(note.doc_path)
    look()


def _answer(kb: KnowledgeBase, profile: str) -> object:
    """Scores distinguish states of the store too: they depend on all candidates."""
    found = kb.search("harbour anchor", top=50, profile=profile)
    hits = [(hit.snippet, round(hit.score, 9), hit.sources, hit.retrieval.vector_rank)
            for hit in found]  # fmt: skip
    return hits, found.degraded


# --- similar passages -----------------------------------------------------------------------------


@pytest.fixture
def shelf(hybrid: KnowledgeBase, library: Library) -> KnowledgeBase:
    hybrid.ingest(
        library(
            {
                "one.md": "# One\n\n## a\n\nharbour keys boat\n\n## b\n\nflour water salt\n",
                "two.md": "# Two\n\n## c\n\nharbour keys anchor\n\n## d\n\nharbour keys\n",
                "three.md": "# Three\n\nflour and water and salt\n",
                "four.md": "# Four\n\nsomething else altogether\n",
            }
        )
    )
    return hybrid


def test_passages_similar_to_a_document(shelf: KnowledgeBase) -> None:
    shelf.embed()
    found = shelf.similar("lib/two.md", top=2)
    validate(wire.response(found))
    assert (found.query, found.profile, found.mode) == ("lib/two.md", "similar", "vector")
    assert (paths(found)[0], found.hits[0].score_kind) == ("lib/one.md", "cosine")
    assert "lib/two.md" not in paths(shelf.similar("lib/two.md", top=50))
    told = shelf.similar("lib/two.md", top=2, group=False, explain=True)
    assert [hit.retrieval.vector_rank for hit in told] == [1, 2]  # without itself
    assert told.explain is not None
    assert told.explain["profile"] == "similar"
    every = paths(shelf.similar("lib/two.md", top=50))
    assert len(every) == len(set(every))
    ungrouped = paths(shelf.similar("lib/two.md", top=50, group=False))
    assert len(ungrouped) > len(set(ungrouped))


def test_passages_similar_to_a_passage(shelf: KnowledgeBase) -> None:
    shelf.embed()
    chunk = next(each for each in shelf.chunks("lib/one.md") if "harbour" in each.text)
    uri = next(hit.citation.uri for hit in shelf.search("boat") if hit.chunk_id == chunk.chunk_id)
    for name in (uri, chunk.chunk_id, str(chunk.chunk_id)):
        found = shelf.similar(name)
        assert paths(found)[0] == "lib/two.md"
        assert chunk.chunk_id not in [hit.chunk_id for hit in found]
    assert "lib/one.md" in paths(shelf.similar(uri, top=50))


def test_without_vectors_similar_uses_words(shelf: KnowledgeBase) -> None:
    found = shelf.similar("lib/two.md", top=2)
    validate(wire.response(found))
    assert paths(found)[0] == "lib/one.md"
    assert ("dense", "pending") in [(one.part, one.reason) for one in found.degraded]


@pytest.mark.parametrize("name", ["lib/nosuch.md", "lib/one.md#L900", "987654", "x#y"])
def test_similar_to_a_missing_document(shelf: KnowledgeBase, name: str) -> None:
    with pytest.raises(KbError) as error:
        shelf.similar(name)
    assert error.value.hint
