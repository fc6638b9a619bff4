"""Both kinds of store rank alike: the same chunks in the same order, with the same scores.

The stores hold the same random documents, with deleted and replaced ones. The PostgreSQL store
writes segments of a few chunks, so that all sizes of segments, pending chunks and merges occur.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kb.ports import Store
from kb.store import open_store
from kb.store.postgres import segments
from kb.text.normalize import unspaced_runs
from kb.types import Filters, LexicalQuery, ModelSpec, Outcome
from tests.conformance.store.samples import NOW, PARTS, encoding, put
from tests.conftest import Clock
from tests.postgres import Server

WORDS = """
the of is a boat boats harbor harbors key keys storm retry retries database databases locked lock
targetHost HTTPServer e-mail co-operate café naïve Straße Москва Москвы 2026 x86_64 C++ don't
naught zero one two three tree trees running runs ran index indexes indices search searching
""".split()
CJK = "東京は日本の首都です 京都の古い町 日本語の検索 データベース 한국어검색 ภาษาไทย ⼀字".split()
QUERIES = [
    "boat", "the boat", "boats in the harbor", "retry storm", "e-mail", "targetHost", "database",
    "HTTPServer index", "x86_64 C++", "don't", "café naïve", "Москва", "東京", "日本の首都",
    "京都 boat", "검색", "ภาษา", "⼀字", "データ", "zzz", "the of is a", "co-operate e-mail storm",
    "-", "two trees running",
]  # fmt: skip
EXPRESSIONS = [
    "boat", "boat OR harbor", "boat NOT storm", '"locked database"', "data*", "heading : boat",
    "{heading text} : key*", "NEAR(boat storm, 5)", "boat AND (key OR tree)", "^boat", '"e mail"',
    "parts : target", '"the boat" + "harbor"',
]  # fmt: skip
SPEC = ModelSpec("tiny", "1", 8, PARTS | {"dense"})


@pytest.fixture(
    scope="module",
    params=[1, pytest.param(3, marks=pytest.mark.slow)],
    ids=lambda count: f"{count} partitions",
)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: Server
) -> Iterator[tuple[Store, Store]]:
    """The same documents in both stores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "FEW", 6)
        patch.setattr(segments, "FAN", 3)
        patch.setattr(segments, "_SIZES", (18, 54))
        patch.setattr(segments, "MOST", 50)
        path = tmp_path_factory.mktemp("parity") / "kb.sqlite"
        name = f"parity_{random.getrandbits(40)}"
        url = postgres.url(schema=name, partitions=str(request.param))
        stores = [open_store(each, clock=Clock()) for each in (str(path), url)]
        for store in stores:
            fill(store, random.Random(7))
        yield stores[0], stores[1]
        for store in stores:
            store.close()


def fill(store: Store, chance: random.Random) -> None:
    for number in range(60):
        tags = tuple(chance.sample(["a", "b", "c"], chance.randrange(3)))
        expires = NOW if number % 11 == 0 else None
        put(store, f"d{number}", *texts(chance), title=title(chance), tags=tags, expires_at=expires)
    store.catalog.delete_documents(range(5, 60, 7))
    for number in range(0, 60, 9):
        put(store, f"d{number}", *texts(chance), title=title(chance))
    model_id = store.vectors.use_model(SPEC).model_id
    job = store.queue.start_job(model_id)
    while leased := store.queue.lease(job, model_id, limit=17):
        store.queue.finish(job, model_id, [outcome(one.chunk_id, chance) for one in leased])
    store.catalog.delete_documents([9, 10])


def texts(chance: random.Random) -> list[str]:
    return [
        " ".join(chance.choices([*WORDS, *CJK], k=chance.randrange(1, 30)))
        for _ in range(chance.randrange(1, 9))
    ]


def title(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=2))


def outcome(chunk_id: int, chance: random.Random) -> Outcome:
    weights = {word: chance.random() for word in chance.sample(WORDS, 6)}
    dense = [chance.gauss(0, 1) for _ in range(SPEC.dimension)]
    return Outcome(chunk_id, encoding(*dense, sparse=weights), None, PARTS | {"dense"})


FILTERS = [Filters(), Filters(tags=("a",)), Filters(path_glob="d[1-3]*")]


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_words(pair: tuple[Store, Store], query: str, every: bool) -> None:
    words: tuple[tuple[str, ...], ...] = tuple(
        (word,) for word in query.split() if not unspaced_runs(word)
    )
    if query == "targetHost":
        words = (("targetHost", "target"),)
    asked = LexicalQuery(words, tuple(unspaced_runs(query)))
    for filters in FILTERS:
        for limit in (3, 100):
            expected, found = (
                store.fulltext.match(asked, every=every, filters=filters, now=NOW, limit=limit)
                for store in pair
            )
            assert found == expected
            assert found.chunks or every or filters or query in ("zzz", "-")


@pytest.mark.parametrize("query", QUERIES)
def test_phrases_and_substrings(pair: tuple[Store, Store], query: str) -> None:
    for filters in FILTERS:
        options: dict[str, Any] = {"filters": filters, "now": NOW, "limit": 7}
        expected, found = (
            store.fulltext.match_phrases([query, "boat"], prefer=[40, 41], **options)
            for store in pair
        )
        assert found == expected
        expected_parts, found_parts = (
            store.fulltext.match_substrings(query.split(), **options) for store in pair
        )
        assert found_parts == expected_parts


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(pair: tuple[Store, Store], expression: str) -> None:
    for filters in FILTERS:
        expected, found = (
            store.fulltext.match_expression(expression, filters=filters, now=NOW, limit=50)
            for store in pair
        )
        assert found == expected


def test_vectors(pair: tuple[Store, Store]) -> None:
    chance = random.Random(11)
    for _ in range(20):
        weights = {word: chance.random() for word in chance.sample(WORDS, 8)}
        dense = [chance.gauss(0, 1) for _ in range(SPEC.dimension)]
        for filters in FILTERS:
            options: dict[str, Any] = {"filters": filters, "now": NOW, "limit": 30}
            expected, found = (
                store.vectors.nearest_sparse(1, weights, **options).chunks for store in pair
            )
            assert found == expected
            expected, found = (
                store.vectors.nearest_dense(1, dense, **options).chunks for store in pair
            )
            assert found == expected


def test_exports(pair: tuple[Store, Store]) -> None:
    """All lines but the header, which counts writes, are equal."""
    expected, found = (list(store.maintenance.export(vectors=True))[1:] for store in pair)
    assert found == expected
