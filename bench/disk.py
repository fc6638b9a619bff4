"""Bytes that a passage takes on disk, by table and file, with vectors of every kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

from bench.threeway import threeway_store
from bench.timing import table
from kb import KnowledgeBase, models
from kb.config import Config

COUNT = 20_000
_LEAST = 20.0  # tables with fewer bytes a passage are added up
_SQL = "SELECT name, sum(pgsize), sum(unused) FROM dbstat GROUP BY name ORDER BY 2 DESC"


def disk(stores: Callable[[int], Path]) -> str:
    encoder = models.encoder(Config(), "kb-mini")
    assert encoder is not None
    path = threeway_store(stores(COUNT), COUNT, encoder.spec)
    with KnowledgeBase(path, encoder=encoder) as kb:
        kb.compact()
        kb.search("salt water", mode="vector")  # writes the file of the vectors
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    sizes: list[tuple[str, float, float]] = [
        (str(name), int(str(size)) / COUNT, int(str(unused)) / COUNT)
        for name, size, unused in connection.execute(_SQL)
    ]
    connection.close()
    rows = [
        (name, f"{size:,.0f}", f"{unused:,.0f}") for name, size, unused in sizes if size > _LEAST
    ]
    rest = sum(size for _, size, _ in sizes if size <= _LEAST)
    rows.append(("other tables and indexes", f"{rest:,.0f}", ""))
    for suffix in ("", "-words", "-vectors"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            rows.append((f"kb.sqlite{suffix}", f"{beside.stat().st_size / COUNT:,.0f}", ""))
    title = f"Bytes a passage on disk, {COUNT:,} passages"
    return table(title, ("table or file", "bytes", "of these unused"), rows)
