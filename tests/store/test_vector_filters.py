"""Dense search with filters: every backend equals brute force over the documents that pass."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from kb.store.sqlite.store import SqliteStore
from kb.types import Filters
from tests.store.builders import put
from tests.store.dense_vectors import BACKENDS, NOW, ask, brute_force, embed, some_vectors
from tests.store.random_filters import LATER, SHARES, Facts, passes, random_filters


class Library:
    """20,000 chunks in 4,000 documents, with the attributes of each document."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path, vector_backend="sqlite-vec")
        self.facts: dict[int, Facts] = {}
        chance = random.Random(3)
        for number in range(4000):
            facts: Facts = {
                "tags": tuple(tag for tag, share in SHARES.items() if chance.random() < share),
                "type": chance.choice(["note", "markdown", "code"]),
                "kind": chance.choice([None, "decision", "lesson"]),
                "lang": chance.choice(["en", "de"]),
                "trust": chance.choice(["primary", "secondary", "generated"]),
                "date": f"20{chance.randint(10, 25)}-01-01",
                "expires_at": chance.choice([NOW, LATER, None, None, None]),
            }
            texts = [f"{number} {line}" for line in range(5)]
            self.facts[put(self.store, f"d{number % 7}/{number}", *texts, **facts)] = facts
        self.made = some_vectors(20_000)
        embed(self.store, self.made)

    def allowed(self, filters: Filters) -> list[int]:
        """The chunks that match the filters, computed without SQL. Documents have five chunks each,
        in order."""
        return [
            5 * (doc_id - 1) + chunk
            for doc_id, facts in self.facts.items()
            if passes(facts, f"d{(doc_id - 1) % 7}/{doc_id - 1}", filters)
            for chunk in range(1, 6)
        ]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    library = Library(tmp_path_factory.mktemp("shelf") / "kb.sqlite")
    yield library
    library.store.close()


@pytest.mark.parametrize("part", range(4))
def test_filters_are_exact(shelf: Library, part: int) -> None:
    """200 random filters, on each backend: the ids and their order are those of brute force."""
    chance = random.Random(part)
    shares = []
    for number in range(50):
        filters = random_filters(chance)
        ids = shelf.allowed(filters)
        shares.append(len(ids) / 20_000)
        query = chance.choice([shelf.made[chance.randrange(20_000)], some_vectors(1, number)[0]])
        limit = chance.choice([1, 10, 100])
        answers = [ask(shelf.store, query, backend, limit, filters) for backend in BACKENDS]
        expected = brute_force(shelf.store, query, limit, ids)
        assert [one.chunk_id for one in answers[0]] == expected, filters
        assert answers[1] == answers[0], filters
        assert answers[2] == answers[0], filters
    assert min(shares) <= 0.001
    assert max(shares) > 0.2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
def test_without_filters_expired_documents_are_absent(
    shelf: Library, backend: str, limit: int
) -> None:
    ids = shelf.allowed(Filters())
    for row in (7, 8, 1234):  # the first is the same as four hundred others
        found = ask(shelf.store, shelf.made[row], backend, limit)
        expected = brute_force(shelf.store, shelf.made[row], limit, ids)
        assert [one.chunk_id for one in found] == expected


def test_a_limit_above_that_of_sqlite_vec_uses_numpy(shelf: Library) -> None:
    query = array("f", shelf.made[0])
    found = shelf.store.vectors.nearest_dense(
        1, query, filters=Filters(), now=NOW, limit=5000, backend="sqlite-vec"
    )
    assert found.backend == "numpy"
    assert found.chunks == ask(shelf.store, shelf.made[0], "numpy", 5000)
    assert len(found.chunks) == 5000
