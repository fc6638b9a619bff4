"""Makes a small store with the current schema, and records the search results in it.

    python -m tests.store.make_fixture

Run it once for each schema version, before a migration is added, and keep the two files it writes.
`test_fixtures.py` opens every store below `fixtures/` with the current code.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import tempfile
from array import array
from pathlib import Path
from typing import Any

import apsw

from kb import KnowledgeBase
from kb.store.sqlite import schema, segments
from kb.types import (
    Attributes,
    ChunkDraft,
    DocumentDraft,
    Encoding,
    ExamMark,
    Filters,
    ModelSpec,
    Span,
    TokenVectors,
    Vector,
)
from tests.store.builders import fail_chunks, pending_chunks, sqlite_store, write_vectors

DIMENSION = 8
FIXTURES = Path(__file__).parent / "fixtures"
NOW = 1_780_000_000.0  # 2026-05-28T20:26:40Z

# Each has one right answer, or an order that every sensible ranking keeps.
QUERIES = (
    "retry storm", "unique index", "targetHost", "target", "東京", "首都", "カタカナ", "ภาษาไทย",
    "Müller", "muller", "'unique AND key'", "expired", "nothing here",
)  # fmt: skip


def fill(kb: KnowledgeBase) -> None:
    """Everything that a store of this version can contain: files, odd names, notes, tags, times."""
    root = kb._store.catalog.ensure_root("/srv/library", whole=True)
    _document(
        kb, root.root_id, "library/guides/retry.md", "Retries",
        "A retry storm begins when every client tries again at once.",
        "Wait longer after each attempt, and add some chance.", tags=("incident",), kind="lesson",
    )  # fmt: skip
    _document(
        kb, root.root_id, "library/code/host.py", "host.py",
        "def connect(targetHost): ...\n# the dedupe key has a unique index", type="code",
    )  # fmt: skip
    _document(
        kb, root.root_id, "library/n\\xffame.md", "name", "Grüße von Frau Müller", os_path=b"n\xff"
    )
    kb.add("東京は日本の首都です。カタカナも書きます。", title="東京", tags=["地名"])
    kb.add("北京是中国的首都。")
    kb.add("ภาษาไทยไม่มีช่องว่าง", lang="th")
    kb.add("expired words", ttl="1s")
    kb.remove(kb.add("a note that leaves a hole in the ids").doc_path)
    kb.add("the last note", metadata={"author": "A. N. Other", "n": [1, 2.5, None]})
    kb.tag("library/guides/retry.md", add=["mine"])
    kb.get("note:4")
    _embed(kb)


def _embed(kb: KnowledgeBase) -> None:
    """Vectors of every kind; one chunk has failed, and one is pending."""
    spec = ModelSpec("fixture", "1", DIMENSION, frozenset({"dense", "sparse", "tokens"}), 2)
    model_id = kb._store.vectors.use_model(spec).model_id
    marks = [ExamMark("dense", "LATIN", 11, 12), ExamMark("dense", "CJK", 0, 8)]
    kb._store.vectors.set_exam_marks(model_id, marks)
    first, *middle, last = pending_chunks(kb._store, model_id, limit=100)
    rows = [
        (one.chunk_id, Encoding(_vector(one.chunk_id), _weights(one.chunk_id),
                                TokenVectors(2, array("f", [0.6, 0.8, 1.0, 0.0]))))
        for one in middle
    ]  # fmt: skip
    write_vectors(kb._store, model_id, rows)
    with sqlite_store(kb)._database.writing() as connection:
        segments.flush(connection, model_id, least=1)
    changed = middle[1].chunk_id  # no longer in its segment, and not in another one yet
    write_vectors(kb._store, model_id, [(changed, Encoding(sparse={"token": 0.75, "一": 1.5}))])
    for _ in range(3):
        fail_chunks(kb._store, model_id, [last.chunk_id], "no room")
    fail_chunks(kb._store, model_id, [first.chunk_id], "not now")


def _weights(seed: int) -> dict[str, float]:
    return {"token": 0.5, f"t{seed % 3}": 0.25 * seed, "ß": 0.1}


def _vector(seed: int) -> Vector[float]:
    chance = random.Random(seed)
    return array("f", [chance.uniform(-1, 1) for _ in range(DIMENSION)])


def _document(
    kb: KnowledgeBase, root_id: int, doc_path: str, title: str, *texts: str,
    type: str = "markdown", os_path: bytes | None = None, **said: Any,
) -> None:  # fmt: skip
    chunks = [
        ChunkDraft(text, (title,), title, (Span("line", number, number),))
        for number, text in enumerate(texts, start=1)
    ]
    draft = DocumentDraft(
        root_id, doc_path.partition("/")[2], doc_path, title, type, Attributes(**said), "-",
        "fixture-1", 1, 1, os_path=os_path,
    )  # fmt: skip
    kb._store.catalog.write_document(draft, chunks)


def found(kb: KnowledgeBase) -> dict[str, list[list[Any]]]:
    """The results of each query, in order. Scores may be tuned; the results and the cosines must
    stay the same."""
    said: dict[str, list[list[Any]]] = {
        query: [
            [hit.chunk_id, hit.citation.uri, hit.snippet]
            for hit in kb.search(query, mode="lexical")
        ]
        for query in QUERIES
    }
    for model in kb._store.vectors.models():
        for seed in (1001, 1002):
            nearest = kb._store.vectors.nearest_dense(
                model.model_id, _vector(seed), filters=Filters(), now=kb._now(), limit=5
            )
            said[f"nearest {seed}"] = [[one.chunk_id, one.score] for one in nearest.chunks]
        for query in ({"token": 1.0}, {"t1": 2.0, "ß": 3.0}, {"一": 1.0, "t0": 0.5, "none": 1.0}):
            sparse = kb._store.vectors.nearest_sparse(
                model.model_id, query, filters=Filters(), now=kb._now(), limit=5
            )
            said[f"sparse {' '.join(query)}"] = [[one.chunk_id, one.score] for one in sparse.chunks]
    return said


def main() -> int:
    store = FIXTURES / f"v{schema.VERSION}.sqlite.gz"
    if store.exists():
        sys.stderr.write(f"{store} is there: it stays what that version wrote\n")
        return 1
    FIXTURES.mkdir(exist_ok=True)
    now = NOW
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kb.sqlite"
        with KnowledgeBase(path, clock=lambda: now) as kb:
            fill(kb)
            now += 60  # after the ttl of one note
            said = found(kb)
        connection = apsw.Connection(str(path))
        connection.execute("UPDATE state SET created_at = '2026-05-28T20:26:40Z'; VACUUM")
        connection.close()
        store.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    text = json.dumps(said, ensure_ascii=False, indent=1)
    store.with_name(f"v{schema.VERSION}.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
