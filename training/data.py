"""Training data: pairs of a query and its passage, with negative passages.

Every source is a `Source`: passages, and examples (a query, its right passages). A batch comes from
one source, so that the other examples in it are hard negatives.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Judged collections and the split used for training; a fifth of its queries is held out to choose
# between runs. Test splits are never read.
JUDGED = {"scifact": "train", "nfcorpus": "dev", "cosqa": "dev"}
REPEAT = {"scifact": 3, "nfcorpus": 8, "cosqa": 3}  # examples per query and epoch
UNCLEAR = "-unclear"  # at the end of names of sources without a clear license
COPYLEFT = frozenset(
    {"manpages-l10n", "gimp-help", "git-docs", "code-c-gpl2", "persianqa", "friendsqa"}
)
STOP = frozenset(
    "a an and are as at be by can do does for from how i in is it of on or that the this to was "
    "what when where which who why will with you your".split()
)


@dataclass(frozen=True)
class Example:
    query: str
    right: tuple[int, ...]  # indexes into the source's passages


@dataclass(frozen=True)
class Source:
    name: str
    passages: list[str]
    examples: list[Example]


def lines(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)


def pair_sources(path: Path) -> list[Source]:
    """The pairs file, one `{query, positive, source}` per line, as one source for each name."""
    sources: dict[str, Source] = {}
    for row in lines(path):
        source = sources.setdefault(row["source"], Source(row["source"], [], []))
        source.examples.append(Example(row["query"], (len(source.passages),)))
        source.passages.append(row["positive"])
    return list(sources.values())


def held_out_pair(passage: str) -> bool:
    """Whether a pair in several languages is held out: a tenth of them measures the result."""
    return zlib.crc32(passage.encode()) % 10 == 0


def passage_text(row: dict[str, str]) -> str:
    return f"{row['title']}. {row['text']}" if row.get("title") else row["text"]


def held_out(query_id: str) -> bool:
    return zlib.crc32(query_id.encode()) % 5 == 0


def is_licensed(source: str) -> bool:
    """Whether weights that are shipped may learn from a source."""
    return not source.endswith(UNCLEAR) and source not in COPYLEFT


def judgments(folder: Path, split: str) -> dict[str, dict[str, int]]:
    """Grades above zero by query and document, except for a query that is its own answer."""
    judged: dict[str, dict[str, int]] = {}
    for row in (folder / "qrels" / f"{split}.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = row.split("\t")
        if float(grade) > 0 and query != document:
            judged.setdefault(query, {})[document] = int(float(grade))
    return judged


def judged_source(folder: Path) -> Source:
    """The queries of a collection that are used for training."""
    corpus = list(lines(folder / "corpus.jsonl.gz"))
    place = {row["_id"]: number for number, row in enumerate(corpus)}
    texts = {row["_id"]: row["text"] for row in lines(folder / "queries.jsonl.gz")}
    examples = [
        Example(texts[query], tuple(place[document] for document in sources if document in place))
        for query, sources in judgments(folder, JUDGED[folder.name]).items()
        if not held_out(query)
    ]
    examples = [example for example in examples if example.right]
    return Source(folder.name, [passage_text(row) for row in corpus], examples)


def keyword_lists(source: Source, queries: list[str], limit: int) -> list[list[int]]:
    """The best passages by BM25 for each query: similar in words, not always in meaning."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE f USING fts5(t, tokenize = 'porter unicode61')")
    database.executemany("INSERT INTO f(rowid, t) VALUES (?, ?)", enumerate(source.passages))
    return [[row for row, _ in keyword_scores(database, query, limit)] for query in queries]


def keyword_scores(
    database: sqlite3.Connection, query: str, limit: int, *, stop: bool = True
) -> list[tuple[int, float]]:
    words = list(dict.fromkeys(re.findall(r"\w+", query.lower())))
    words = [word for word in words if stop and word not in STOP] or words
    if not words:
        return []
    match = " OR ".join(f'"{word}"' for word in words[:40])
    sql = "SELECT rowid, -bm25(f) FROM f WHERE f MATCH ? ORDER BY bm25(f), rowid LIMIT ?"
    return database.execute(sql, (match, limit)).fetchall()


def sample(rng: random.Random, pool: list[int], count: int, avoid: set[int]) -> list[int]:
    free = [item for item in dict.fromkeys(pool) if item not in avoid]
    return rng.sample(free, min(count, len(free)))
