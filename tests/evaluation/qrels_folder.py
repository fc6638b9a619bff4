"""A small judged collection on disk, for trials: some answers share words with their query, others
share only words that the weightless encoder maps to the same position."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

WORDS = "copper guard battery sensor buoy anchor mooring salinity turbidity gateway".split()


def corpus() -> list[dict[str, str]]:
    """Forty documents: each pair of adjacent words, with more or less text around it."""
    documents = []
    for at in range(40):
        first, second = WORDS[at % 10], WORDS[(at + 1 + at // 10) % 10]
        rest = " ".join(WORDS[(at * 3 + step) % 10] for step in range(at % 4))
        documents.append({"_id": f"d{at}", "title": "", "text": f"{first} {second} {rest}".strip()})
    return documents


def write_folder(
    folder: Path,
    *,
    splits: Mapping[str, Sequence[int]],
    documents: Sequence[Mapping[str, str]] | None = None,
) -> Path:
    """`splits` names the queries of each split: query n searches for document n by its first two
    words."""
    found = corpus() if documents is None else documents
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, found)), encoding="utf-8")
    queries = [
        {"_id": f"q{at}", "text": " ".join(corpus()[at]["text"].split()[:2])} for at in range(40)
    ]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)), encoding="utf-8")
    for name, asked in splits.items():
        lines = [f"q{at}\td{at}\t1" for at in asked]
        (folder / "qrels" / f"{name}.tsv").write_text("\n".join(lines), encoding="utf-8")
    return folder
