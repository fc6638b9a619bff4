"""The example library in a store, and its search results, to check copies."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from kb import KnowledgeBase, wire
from kb.types import Finding
from tests.conftest import Clock

LIBRARY = Path(__file__).parents[2] / "examples" / "library"
QUERIES = (
    "retry storm", "dedupe key unique index", "How wide are the radio slots?", "targetHost",
    "東京", "首都", "用kb搜索", "storm OR window", "'retry AND storm'", "zzz",
)  # fmt: skip


def answers(kb: KnowledgeBase) -> list[dict[str, Any]]:
    """The results of searches, without times, and without files, which an import has not read."""
    shapes = [wire.response(kb.search(query, top=30)) for query in QUERIES]
    for shape in shapes:
        for hit in shape["hits"]:
            hit["citation"] |= {"file": None, "line": None, "link": None}
    return [{key: value for key, value in shape.items() if key != "timing_ms"} for shape in shapes]


def exported(kb: KnowledgeBase) -> bytes:
    stream = io.BytesIO()
    kb.export(stream)
    return stream.getvalue()


def finding(kb: KnowledgeBase, part: str, *, fix: bool = False) -> Finding:
    return next(one for one in kb.doctor(fix=fix).findings if one.part == part)


def opened(path: Path, clock: Clock) -> KnowledgeBase:
    return KnowledgeBase(path, clock=clock)
