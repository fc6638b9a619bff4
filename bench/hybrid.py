"""Hybrid search end to end: words and seeded vectors of every kind, warm and as a whole process.

The passages are those of the lexical figures. Their vectors are drawn by a seed under the name of
the bundled encoder, so that real queries can be encoded and compared without hours of embedding.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence, Set
from functools import partial
from pathlib import Path
from zlib import crc32

from bench.dense import vectors
from bench.threeway import threeway_store
from bench.timing import process_ms, spread_ms, table
from kb import KnowledgeBase, models
from kb.config import Config
from kb.errors import ModelError
from kb.ports import Encoder
from kb.search.retrievers import model_retriever
from kb.types import Encoding, ModelSpec

COUNTS = (10_000, 100_000)


class Seeded:
    """Stands in where the bundled encoder is not there: a vector for a text, in no time."""

    spec = ModelSpec("seeded", "1", 384, frozenset({"dense"}))

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,  # noqa: ARG002  # the port's
        want: Set[str] = frozenset({"dense"}),  # noqa: ARG002
        on_progress: Callable[[int], None] | None = None,  # noqa: ARG002
    ) -> list[Encoding]:
        return [Encoding(dense=array("f", vectors(1, seed=crc32(text.encode())).tobytes()))
                for text in texts]  # fmt: skip


def usable_encoder() -> Encoder:
    try:
        found = models.encoder(Config())
        if found is not None:
            found.encode(["a text"])
            return found
    except ModelError as error:
        print(f"(queries are not really encoded: {error.message})", file=sys.stderr)
    return Seeded()


SEARCHES: dict[str, Callable[[KnowledgeBase, str], object]] = {
    "lexical": lambda kb, query: kb.search(query, mode="lexical"),
    "vector": lambda kb, query: kb.search(query, mode="vector"),
    "default": lambda kb, query: _whole(kb, query),
    "default, top 100": lambda kb, query: kb.search(query, top=100),
    "default, group": lambda kb, query: kb.search(query, settings={"group": True}),
    "notes": lambda kb, query: kb.search(query, profile="notes"),
    "memory": lambda kb, query: kb.search(query, profile="memory"),
    "knowledge": lambda kb, query: kb.search(query, profile="knowledge"),
}


def _whole(kb: KnowledgeBase, query: str) -> object:
    """A search of which every part has answered: half of one would be fast."""
    found = kb.search(query)
    assert not found.degraded, found.degraded
    return found


def hybrid(stores: Callable[[int], Path], asked: Sequence[str]) -> str:
    encoder = usable_encoder()
    rows: list[tuple[object, ...]] = []
    for count in COUNTS:
        path = threeway_store(stores(count), count, encoder.spec)
        with KnowledgeBase(path, encoder=encoder) as kb:
            encode = spread_ms(lambda query: encoder.encode([query], as_query=True), asked[:50])
            rows.append((f"{count:,}", "encode a query, no more", *_cells(*encode)))
            rows += [(f"{count:,}", label, *_cells(*spread_ms(partial(search, kb), _fresh(asked))))
                     for label, search in SEARCHES.items()]  # fmt: skip
            rows.append((f"{count:,}", "default, one thread", *_one_thread(kb, asked)))
        rows.append((f"{count:,}", "whole process, default", f"{_process(path, asked[0]):.0f}", ""))
    header = ("passages", "search", "p50 ms", "p95 ms")
    return table(f"Hybrid search, {len(asked)} queries, encoder {encoder.spec.name}", header, rows)


_round = 0


def _fresh(asked: Sequence[str]) -> list[str]:
    """Queries that were not asked before: the vector of one that was is remembered."""
    global _round  # counts the calls, no more
    _round += 1
    return [f"{query} q{_round}" for query in asked]


def _one_thread(kb: KnowledgeBase, asked: Sequence[str]) -> tuple[str, str]:
    usual, model_retriever.SLOW_FROM = model_retriever.SLOW_FROM, sys.maxsize
    try:
        return _cells(*spread_ms(lambda query: kb.search(query), _fresh(asked)))
    finally:
        model_retriever.SLOW_FROM = usual


def _process(path: Path, query: str) -> float:
    command = [str(Path(sys.executable).parent / "kb"), "--store", str(path), "search", query]
    return process_ms(command, runs=7)


def _cells(p50: float, p95: float) -> tuple[str, str]:
    return f"{p50:.1f}", f"{p95:.1f}"
