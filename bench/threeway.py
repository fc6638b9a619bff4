"""Three-way search: each retriever, the three side by side, fusion, the whole, and compare.

The passages are those of the lexical figures. Their dense and token vectors are drawn by a seed
under the name of the bundled encoder, and their terms are their own words with seeded weights; a
query is really encoded, and then weighed in the same way, so that its terms are found.
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
ASKED, COMPARED = 500, 50
_ROWS = 2_000  # written in one transaction
_TOKENS, _MATRICES = 120, 200  # of token vectors: as many a passage, and as many different ones
_WORD = re.compile(r"\w+")
RETRIEVERS = ("lexical", "dense", "sparse")


class Weighed:
    """The bundled encoder, with the words of a query for its terms."""

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
        made = self._encoder.encode(texts, as_query=as_query, want=want, on_progress=on_progress)
        if "sparse" not in want:
            return made
        pairs = zip(texts, made, strict=True)
        return [replace(encoding, sparse=weights(text)) for text, encoding in pairs]


def weights(text: str) -> dict[str, float]:
    """Every word with a weight of its own, between 0.2 and 2.2."""
    words = dict.fromkeys(_WORD.findall(text.lower()))
    return {word: 0.2 + crc32(word.encode()) % 1000 / 500 for word in words}


# --- what is searched -----------------------------------------------------------------------------


def threeway_store(plain: Path, count: int, spec: ModelSpec) -> Path:
    """A copy of the passages with a vector of every kind for each, made once."""
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
    return path


def _encodings(count: int, spec: ModelSpec) -> Iterator[Encoding]:
    """Words of the passage, and as many seeded terms as make up what a model would add to them."""
    drawn = sparse.vectors(min(count, 10_000))
    pairs = zip(passages(count), dense.vectors(count), strict=True)
    for number, (text, vector) in enumerate(pairs):
        own = weights(text)
        at = number % len(drawn.terms)
        added = zip(drawn.terms[at].tolist(), drawn.weights[at].tolist(), strict=True)
        more = {f"t{term}": weight for term, weight in added}
        yield Encoding(
            dense=array("f", vector.tobytes()),
            sparse=dict(islice({**own, **more}.items(), sparse.NONZERO)),
            tokens=_tokens(spec.token_dimension or 64, number % _MATRICES),
        )


@cache
def _tokens(dimension: int, seed: int) -> TokenVectors:
    import numpy as np

    rows = np.random.default_rng(seed).standard_normal((_TOKENS, dimension), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return TokenVectors(dimension, array("f", rows.tobytes()))


# --- measuring ------------------------------------------------------------------------------------


def threeway(
    stores: Callable[[int], Path], asked: Sequence[str], counts: Sequence[int] = COUNTS
) -> str:
    bundled = models.encoder(Config(), "kb-mini")
    assert bundled is not None
    encoder = Weighed(bundled)
    rows: list[tuple[object, ...]] = []
    for count in counts:
        path = threeway_store(stores(count), count, encoder.spec)
        with KnowledgeBase(path, encoder=encoder) as kb:
            rows += [(f"{count:,}", *row) for row in _rows(kb, asked)]
    title = f"Three-way search, {len(asked)} queries, 100 candidates each, query encoding included"
    header = ("passages", "what", "p50 ms", "p95 ms", "to reach [002]")
    return table(title, header, rows)


def _rows(kb: KnowledgeBase, asked: Sequence[str]) -> Iterator[tuple[str, ...]]:
    alone = _one_thread(kb, [f"{query} a" for query in asked])
    for name in RETRIEVERS:
        note = " (and the query's encoding)" if name == "dense" else ""
        yield f"{name} alone{note}", *_cells([one.timing_ms[name] for one in alone]), ""
    yield "the three in one thread", *_cells([retrieving(one) for one in alone]), ""
    beside = [search(kb, f"{query} b") for query in asked]
    yield "the three side by side", *_cells([retrieving(one) for one in beside]), "150"
    yield "fusion", *_cells([one.timing_ms["fuse"] for one in beside]), "5"
    yield "three-way search, top 20", *_cells([one.timing_ms["total"] for one in beside]), "200"
    compared = [kb.compare(f"{query} c") for query in asked[:COMPARED]]
    for name in compared[0].methods:
        taken = [one.methods[name].latency_ms for one in compared]
        yield f"compare: {name}", *_cells(taken), ""
    yield "compare, all six", *_cells([one.wall_ms for one in compared]), "1,000"


def search(kb: KnowledgeBase, query: str) -> Response:
    """A three-way search, which must not be degraded."""
    found = kb.search(query, profile="research", rerank=False)
    if found.degraded:
        print(f"(degraded: {found.degraded})", file=sys.stderr)
    return found


def _one_thread(kb: KnowledgeBase, asked: Sequence[str]) -> list[Response]:
    usual, model_retriever.SLOW_FROM = model_retriever.SLOW_FROM, sys.maxsize
    try:
        return [search(kb, query) for query in (*asked[:10], *asked)][10:]
    finally:
        model_retriever.SLOW_FROM = usual


def retrieving(found: Response) -> float:
    """From the first retriever's start to the last one's end."""
    timing = found.timing_ms
    return timing["total"] - sum(timing[stage] for stage in ("analyse", "fuse", "hits"))


def _cells(taken: Sequence[float]) -> tuple[str, str]:
    return f"{median(taken):.1f}", f"{quantiles(taken, n=20)[-1]:.1f}"
