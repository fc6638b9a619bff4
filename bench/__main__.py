"""`make bench`: how fast kb is, compared with a reference measured in the same run.

python -m bench [section ...]
sections: process profiles ingest disk formats long queries encoder dense sparse rerank hybrid
threeway others scale bounds (all by default); million, which takes minutes, only if it is named

`bounds` alone takes a minute or two. The exit status is 1 if a bound is exceeded; see
`bench.bounds`.
"""

from __future__ import annotations

import platform
import resource
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import apsw

from bench.bounds import COUNT, bounds, print_report
from bench.corpus import Prose, passages, write_markdown
from bench.dense import dense
from bench.disk import disk
from bench.encoder import encoder
from bench.formats import formats, long
from bench.hybrid import hybrid
from bench.others import others
from bench.rerank import rerank
from bench.scale import scale
from bench.sparse import sparse
from bench.threeway import QUERIES, WordWeights, build_word_index, threeway, threeway_store
from bench.timing import (
    median_and_95th,
    process_ms,
    processor_ms,
    seconds,
    spread_ms,
    table,
)
from kb import KnowledgeBase, models
from kb.config import Config
from kb.store.sqlite.store import SqliteStore
from kb.types import Attributes, ChunkDraft, DocumentDraft, Filters, Span

BUILD = Path("build/bench")
PER_DOCUMENT = 20


def passage_store(count: int) -> Path:
    """A store of `count` generated passages, created once."""
    path = BUILD / f"passages-{count}.sqlite"
    if path.exists():
        return path
    BUILD.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    store = SqliteStore(unfinished)
    texts = list(passages(count))
    for start in range(0, count, PER_DOCUMENT):
        name = f"bench/{start:07d}.md"
        # One document in a hundred has the tag that the filtered searches use.
        tags = ("hundredth",) if (start // PER_DOCUMENT) % 100 == 0 else ()
        draft = DocumentDraft(
            None, name, name, "Bench", "markdown", Attributes(tags=tags), "-", "bench-1", 0, 0
        )
        chunks = [
            ChunkDraft(text, (), None, (Span("line", number, number),))
            for number, text in enumerate(texts[start : start + PER_DOCUMENT], start=1)
        ]
        store.catalog.write_document(draft, chunks)
    store.close()
    unfinished.rename(path)
    build_word_index(path)
    return path


def plain_fts(count: int) -> apsw.Connection:
    """The reference: the same passages in a plain FTS5 table."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE f USING fts5 (text, tokenize = 'porter unicode61')")
    with connection:
        connection.executemany(
            "INSERT INTO f (text) VALUES (?)", ((text,) for text in passages(count))
        )
    return connection


def queries(count: int = 200) -> list[str]:
    prose = Prose(seed=4)
    return [prose.query(text) for text in passages(count)]


def process() -> str:
    store = passage_store(10_000)
    bare = process_ms([sys.executable, "-c", "pass"])
    sample = queries(1)[0]
    command = [str(Path(sys.executable).parent / "kb"), "--store", str(store), "search"]
    bare_cpu = median(processor_ms([sys.executable, "-c", "pass"]) for _ in range(9))
    rows = [("python -c pass", f"{bare:.0f}", "1.0", f"{bare_cpu:.0f}", "1.0")]
    for label, arguments in (
        ("kb search --mode lexical", ["--mode", "lexical", sample]),
        ("the same with --json", ["--mode", "lexical", "--json", sample]),
    ):
        elapsed_ms = process_ms(command + arguments)
        cpu_ms = median(processor_ms(command + arguments) for _ in range(9))
        ratios = f"{elapsed_ms / bare:.1f}", f"{cpu_ms / bare_cpu:.1f}"
        rows.append((label, f"{elapsed_ms:.0f}", ratios[0], f"{cpu_ms:.0f}", ratios[1]))
    header = ("command", "ms", "x bare Python", "processor ms", "x bare Python")
    return table("A whole process, 10,000 chunks", header, rows)


PROFILES = ("lexical", "default", "research", "memory", "knowledge")


def profiles() -> str:
    """Processor time of one search by each profile, query encoding included."""
    encoder = models.encoder(Config(), "kb-mini")
    assert encoder is not None
    path = threeway_store(passage_store(COUNT), COUNT, encoder.spec)
    times_ms: dict[str, list[float]] = {name: [] for name in PROFILES}
    with KnowledgeBase(path, encoder=WordWeights(encoder)) as kb:
        for number, query in enumerate(queries(60)):
            for name in PROFILES:  # alternately, and with no query twice
                started = time.process_time()
                kb.search(f"{query} {name[0]}{number}", profile=name)
                times_ms[name].append(1000 * (time.process_time() - started))
    rows = [
        (name, f"{p50:.1f}", f"{p95:.1f}")
        for name, each in times_ms.items()
        for p50, p95 in [median_and_95th(each[10:])]
    ]
    return table(f"Processor time of a search, {COUNT:,} chunks", ("profile", "p50", "p95"), rows)


def ingest() -> str:
    folder, store = BUILD / "notes", BUILD / "ingest.sqlite"
    shutil.rmtree(folder, ignore_errors=True)
    for left in BUILD.glob("ingest.sqlite*"):
        left.unlink()
    write_markdown(folder, files=1000, characters=10_000)
    size_mb = sum(path.stat().st_size for path in folder.rglob("*.md")) / 1e6
    with KnowledgeBase(store) as kb:
        first = seconds(lambda: kb.ingest(folder))
        again = seconds(lambda: kb.ingest(folder))
        chunks = kb.status()["chunks"]
    per_chunk = store.stat().st_size / chunks
    reading = seconds(lambda: [path.read_bytes() for path in folder.rglob("*.md")])
    rows = [
        ("reading the files only", f"{reading:.2f}", f"{1000 / reading:,.0f}", ""),
        ("first ingest", f"{first:.2f}", f"{1000 / first:,.0f}", f"{size_mb / first:.1f} MB/s"),
        ("nothing changed", f"{again:.2f}", f"{1000 / again:,.0f}", ""),
    ]
    title = f"Ingest of 1,000 Markdown files ({size_mb:.0f} MB, {chunks:,} chunks, "
    title += f"{per_chunk:,.0f} bytes per chunk)"
    return table(title, ("run", "s", "files/s", ""), rows)


TAGGED = Filters(tags=("hundredth",))
SEARCHES: dict[str, Callable[[KnowledgeBase, str], object]] = {
    "kb, match any, top 100": lambda kb, query: kb.search(query, top=100, mode="lexical"),
    "kb, match any, top 10": lambda kb, query: kb.search(query, mode="lexical"),
    "kb, match auto, top 10": lambda kb, query: kb.search(query, profile="lexical"),
    "kb, 1 % filter, top 10": lambda kb, query: kb.search(query, filters=TAGGED, mode="lexical"),
}


def latency() -> str:
    sample = queries()
    rows: list[tuple[object, ...]] = []
    for count in (10_000, 100_000):
        plain = plain_fts(count)

        def by_plain_sql(query: str, plain: apsw.Connection = plain) -> object:
            words = " OR ".join(f'"{word}"' for word in dict.fromkeys(query.split()))
            sql = "SELECT rowid, bm25(f) AS s FROM f WHERE f MATCH ? ORDER BY s LIMIT 100"
            return plain.execute(sql, (words,)).fetchall()

        reference, reference_95 = spread_ms(by_plain_sql, sample)
        rows.append(
            (
                f"{count:,}",
                "plain FTS5 SQL, OR, by bm25()",
                *_cells(reference, reference_95, reference),
            )
        )
        plain.close()
        with KnowledgeBase(passage_store(count)) as kb:
            for label, search in SEARCHES.items():
                p50, p95 = spread_ms(partial(search, kb), sample)
                rows.append((f"{count:,}", label, *_cells(p50, p95, reference)))
    header = ("passages", "search", "p50 ms", "p95 ms", "x plain FTS5 (p50)")
    return table("200 queries of 9 words, warm", header, rows)


def _cells(p50: float, p95: float, reference: float) -> tuple[str, str, str]:
    return f"{p50:.1f}", f"{p95:.1f}", f"{p50 / reference:.2f}"


SECTIONS: dict[str, Callable[[], str]] = {
    "process": process,
    "profiles": profiles,
    "ingest": ingest,
    "disk": lambda: disk(passage_store),
    "formats": formats,
    "long": long,
    "queries": latency,
    "encoder": encoder,
    "dense": dense,
    "sparse": sparse,
    "rerank": rerank,
    "hybrid": lambda: hybrid(passage_store, queries(100)),
    "threeway": lambda: threeway(passage_store, queries(QUERIES)),
    "others": others,
}
BOUNDS = "bounds"
SCALES = {"scale": (10_000, 100_000), "million": (1_000_000,)}


def check_bounds() -> bool:
    encoder = models.encoder(Config(), "kb-mini")
    assert encoder is not None
    plain = plain_fts(COUNT)
    measured = bounds(
        plain, threeway_store(passage_store(COUNT), COUNT, encoder.spec), queries(QUERIES)
    )
    plain.close()
    return print_report(measured)


def check_scale(counts: Sequence[int]) -> bool:
    report, faults = scale(counts)
    print(report, flush=True)
    for fault in faults:
        print(f"exceeded: {fault}")
    return not faults


def main() -> int:
    chosen = sys.argv[1:] or [*SECTIONS, "scale", BOUNDS]
    if unknown := set(chosen) - {*SECTIONS, *SCALES, BOUNDS}:
        print(f"no such section: {', '.join(sorted(unknown))}\n\n{__doc__}", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}\n")
    passed = True
    for name in chosen:
        if name in SCALES:
            passed &= check_scale(SCALES[name])
        elif name != BOUNDS:
            print(SECTIONS[name](), flush=True)
    passed &= check_bounds() if BOUNDS in chosen else True
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"Peak memory of this run: {peak_mb:,.0f} MB")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
