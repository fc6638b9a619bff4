"""Three-way search: each retriever, the three in parallel, fusion, the whole search, and compare.

The passages are those of the lexical figures. Their dense and token vectors are random, under the
name of the bundled encoder, and their terms are their own words with random weights. The model
encodes each query, whose words then get weights in the same way, so that its terms match.
"""

from __future__ import annotations

import re
import shutil
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from zlib import crc32

from tests.store.builders import write_vectors

from bench import dense, sparse
from bench.corpus import passages
from bench.timing import table
from kb import KnowledgeBase, models
from kb.config import Config
from kb.ports import Encoder
from kb.search.retrievers import model_retriever
from kb.store.sqlite.store import SqliteStore
from kb.types import Encoding, ModelSpec, Response, TokenVectors

COUNTS = (10_000, 100_000)
QUERIES, COMPARED = 500, 50
_ROWS = 2_000  # rows per transaction
_TOKENS, _MATRICES = 120, 200  # token vectors per passage, and different matrices
_WORD = re.compile(r"\w+")
RETRIEVERS = ("lexical", "dense", "sparse")


class WordWeights:
    """The bundled encoder, with the words of a query as its terms."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.spec = encoder.spec

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        encodings = self._encoder.encode(
            texts, as_query=as_query, want=want, on_progress=on_progress
        )
        if "sparse" not in want:
            return encodings
        pairs = zip(texts, encodings, strict=True)
        return [replace(encoding, sparse=weights(text)) for text, encoding in pairs]


def weights(text: str) -> dict[str, float]:
    """A weight between 0.2 and 2.2 for every word."""
    words = dict.fromkeys(_WORD.findall(text.lower()))
    return {word: 0.2 + crc32(word.encode()) % 1000 / 500 for word in words}


# --- the stores ----------------------------------------------------------------------------------


def threeway_store(plain: Path, count: int, spec: ModelSpec) -> Path:
    """A copy of the passages with vectors of every kind, created once."""
    path = plain.with_name(f"threeway-{spec.name}-{spec.version}-{count}.sqlite")
    if path.exists():
        return path
    unfinished = path.with_suffix(".part")
    shutil.copyfile(plain, unfinished)
    store = SqliteStore(unfinished)
    model_id = store.vectors.use_model(spec).model_id
    rows = enumerate(_encodings(count, spec), start=1)
    while batch := list(islice(rows, _ROWS)):
        write_vectors(store, model_id, batch)
    store.close()
    unfinished.rename(path)
    build_word_index(path)
    return path


def build_word_index(path: Path) -> None:
    """Write the postings file, as an ingest does at its end."""
    store = SqliteStore(path)
    store.fulltext.build_index()
    store.close()


def _encodings(count: int, spec: ModelSpec) -> Iterator[Encoding]:
    """The words of each passage, and random terms in place of those that a model would add."""
    extra = sparse.vectors(min(count, 10_000))
    pairs = zip(passages(count), dense.vectors(count), strict=True)
    for number, (text, vector) in enumerate(pairs):
        own = weights(text)
        at = number % len(extra.terms)
        added = zip(extra.terms[at].tolist(), extra.weights[at].tolist(), strict=True)
        more = {f"t{term}": weight for term, weight in added}
        yield Encoding(
            dense=array("f", vector.tobytes()),
            sparse=dict(islice({**own, **more}.items(), sparse.NONZERO)),
            tokens=tokens(spec.token_dimension or 64, number % _MATRICES),
        )


@cache
def tokens(dimension: int, seed: int) -> TokenVectors:
    import numpy as np

    rows = np.random.default_rng(seed).standard_normal((_TOKENS, dimension), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return TokenVectors(dimension, array("f", rows.tobytes()))


# --- measuring ------------------------------------------------------------------------------------


def threeway(
    stores: Callable[[int], Path], queries: Sequence[str], counts: Sequence[int] = COUNTS
) -> str:
    bundled = models.encoder(Config(), "kb-mini")
    assert bundled is not None
    encoder = WordWeights(bundled)
    rows: list[tuple[object, ...]] = []
    for count in counts:
        path = threeway_store(stores(count), count, encoder.spec)
        with KnowledgeBase(path, encoder=encoder) as kb:
            rows += [(f"{count:,}", *row) for row in _rows(kb, queries)]
    title = (
        f"Three-way search, {len(queries)} queries, 100 candidates each, query encoding included"
    )
    header = ("passages", "what", "p50 ms", "p95 ms", "target [002]")
    return table(title, header, rows)


def _rows(kb: KnowledgeBase, queries: Sequence[str]) -> Iterator[tuple[str, ...]]:
    alone = _one_thread(kb, [f"{query} a" for query in queries])
    for name in RETRIEVERS:
        note = " (and the query's encoding)" if name == "dense" else ""
        yield f"{name} alone{note}", *_cells([one.timing_ms[name] for one in alone]), ""
    yield "the three in one thread", *_cells([retrieving(one) for one in alone]), ""
    beside = [search(kb, f"{query} b") for query in queries]
    yield "the three in parallel", *_cells([retrieving(one) for one in beside]), "150"
    yield "fusion", *_cells([one.timing_ms["fuse"] for one in beside]), "5"
    yield "three-way search, top 20", *_cells([one.timing_ms["total"] for one in beside]), "200"
    compared = [kb.compare(f"{query} c") for query in queries[:COMPARED]]
    for name in compared[0].methods:
        times_ms = [one.methods[name].latency_ms for one in compared]
        yield f"compare: {name}", *_cells(times_ms), ""
    yield "compare, all six", *_cells([one.wall_ms for one in compared]), "1,000"


def search(kb: KnowledgeBase, query: str) -> Response:
    """A three-way search, which must not be degraded."""
    response = kb.search(query, profile="research", rerank=False)
    if response.degraded:
        print(f"(degraded: {response.degraded})", file=sys.stderr)
    return response


def _one_thread(kb: KnowledgeBase, queries: Sequence[str]) -> list[Response]:
    usual, model_retriever.SLOW_FROM = model_retriever.SLOW_FROM, sys.maxsize
    try:
        return [search(kb, query) for query in (*queries[:10], *queries)][10:]
    finally:
        model_retriever.SLOW_FROM = usual


def retrieving(response: Response) -> float:
    """Milliseconds from the start of the first retriever to the end of the last."""
    timing = response.timing_ms
    return timing["total"] - sum(timing[stage] for stage in ("analyse", "fuse", "hits"))


def _cells(times_ms: Sequence[float]) -> tuple[str, str]:
    return f"{median(times_ms):.1f}", f"{quantiles(times_ms, n=20)[-1]:.1f}"
