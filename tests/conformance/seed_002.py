"""Encoders and helpers of the tests of seed 002."""

from __future__ import annotations

import math
from array import array
from typing import Any

from kb import KnowledgeBase
from kb.types import Encoding, Hit, Response
from tests.models.weightless import Weightless
from tests.store.builders import sqlite_store

WAYS = {"lexical": "lexical", "dense": "vector", "sparse": "sparse"}
LONG = "the harbour keys and the boats that lie there in the morning"  # 12 words


class Faulty(Weightless):
    """Returns faulty term weights or token vectors for texts that contain `word`; with `raises`,
    fails for them if more than a dense vector is requested."""

    def __init__(self, word: str = "poison", *, raises: bool = False, **parts: Any) -> None:
        super().__init__()
        self.word, self.raises, self.parts = word, raises, parts

    def _encode(self, text: str, want: Any) -> Encoding:
        made = super()._encode(text, want)
        if self.word not in text or set(want) == {"dense"}:
            return made
        if self.raises:
            raise RuntimeError("no weights for this one")
        parts = {name: value for name, value in self.parts.items() if name in want}
        return Encoding(
            dense=made.dense,
            sparse=parts.get("sparse", made.sparse),
            tokens=parts.get("tokens", made.tokens),
        )


class ByHand(Weightless):
    """Encodes texts with the given encodings, and others like `Weightless`."""

    def __init__(self, encodings: dict[str, Encoding]) -> None:
        super().__init__()
        self.encodings = encodings

    def _encode(self, text: str, want: Any) -> Encoding:
        made = super()._encode(text, want)
        given = self.encodings.get(text, made)
        return Encoding(
            dense=given.dense if "dense" in want and given.dense is not None else made.dense,
            sparse=given.sparse if "sparse" in want and given.sparse is not None else made.sparse,
            tokens=made.tokens,
        )


def rows(kb: KnowledgeBase) -> list[Any]:
    with sqlite_store(kb)._database.reading() as connection:
        found: list[Any] = connection.execute(
            "SELECT chunk_id, name, embedded_at, e.sparse, attempts, error "
            "FROM embeddings e JOIN models USING (model_id) ORDER BY chunk_id"
        ).fetchall()
    return found


def toward(cosine: float) -> array[float]:
    """A vector with this cosine to `toward(1)`."""
    return array("f", [cosine, math.sqrt(1 - cosine**2), *[0.0] * 62])


def three_way(kb: KnowledgeBase, query: str = "harbour keys boat3", **asked: Any) -> Response:
    return kb.search(query, profile="research", rerank=False, **asked)


def ranks_of(hit: Hit) -> dict[str, int]:
    found = {name: getattr(hit.retrieval, f"{field}_rank") for name, field in WAYS.items()}
    return {name: rank for name, rank in found.items() if rank is not None}


def weights_of(found: Response) -> dict[str, float]:
    assert found.explain is not None
    (stage,) = (each for each in found.explain["stages"] if each["stage"] == "fuse")
    return dict(stage["weights"])
