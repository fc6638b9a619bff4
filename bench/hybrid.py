"""Hybrid search end to end: words and random vectors of every kind, warm and as a whole process.

The passages are those of the lexical figures. Their vectors are random, under the name of the
bundled encoder, so that queries can be encoded without hours of embedding.
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
    """A fast substitute for a missing encoder: a random vector for each text."""

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
        response = models.encoder(Config())
        if response is not None:
            response.encode(["a text"])
            return response
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
    """A search in which every part has run; a degraded one would be too fast."""
    response = kb.search(query)
    assert not response.degraded, response.degraded
    return response


def hybrid(stores: Callable[[int], Path], queries: Sequence[str]) -> str:
    encoder = usable_encoder()
    rows: list[tuple[object, ...]] = []
    for count in COUNTS:
        path = threeway_store(stores(count), count, encoder.spec)
        with KnowledgeBase(path, encoder=encoder) as kb:
            encode = spread_ms(lambda query: encoder.encode([query], as_query=True), queries[:50])
            rows.append((f"{count:,}", "encode a query only", *_cells(*encode)))
            for label, search in SEARCHES.items():
                times = spread_ms(partial(search, kb), _fresh(queries))
                rows.append((f"{count:,}", label, *_cells(*times)))
            rows.append((f"{count:,}", "default, one thread", *_one_thread(kb, queries)))
        rows.append(
            (f"{count:,}", "whole process, default", f"{_process(path, queries[0]):.0f}", "")
        )
    header = ("passages", "search", "p50 ms", "p95 ms")
    return table(
        f"Hybrid search, {len(queries)} queries, encoder {encoder.spec.name}", header, rows
    )


_round = 0


def _fresh(queries: Sequence[str]) -> list[str]:
    """New queries, since the vectors of earlier ones are cached."""
    global _round  # only counts the calls
    _round += 1
    return [f"{query} q{_round}" for query in queries]


def _one_thread(kb: KnowledgeBase, queries: Sequence[str]) -> tuple[str, str]:
    usual, model_retriever.SLOW_FROM = model_retriever.SLOW_FROM, sys.maxsize
    try:
        return _cells(*spread_ms(lambda query: kb.search(query), _fresh(queries)))
    finally:
        model_retriever.SLOW_FROM = usual


def _process(path: Path, query: str) -> float:
    command = [str(Path(sys.executable).parent / "kb"), "--store", str(path), "search", query]
    return process_ms(command, runs=7)


def _cells(p50: float, p95: float) -> tuple[str, str]:
    return f"{p50:.1f}", f"{p95:.1f}"
