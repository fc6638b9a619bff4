"""Reranking 100 candidates with each reranker, and the disk space of token vectors.

The passages are those of the other figures, cut to 150 tokens. Their token vectors are random,
under the name of the bundled encoder. The whole stage is compared with its core: the same pairs in
the judge's graph, and the same matrix product.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.store.builders import pending_chunks, sqlite_store, write_vectors

from bench.corpus import Prose, passages
from bench.timing import median_and_95th, table, times_ms
from kb import KnowledgeBase, models
from kb.config import Config, ModelsConfig
from kb.index import token_codes
from kb.models.onnx_judge import OnnxJudge
from kb.store.sqlite.store import SqliteStore
from kb.types import Attributes, ChunkDraft, DocumentDraft, Encoding, ModelSpec, Span, TokenVectors

BUILD = Path("build/bench")
COUNT, TOKENS, CANDIDATES = 400, 150, 100
TERMS = 80  # weighted terms of a passage, as many as kb-mini returns
FORMATS = ("int8", "2-bit", "1-bit")
_ROUNDS = 20


def rerank() -> str:
    judge = models.judge(Config(), "kb-judge")
    encoder = models.encoder(Config(), "kb-mini")
    assert isinstance(judge, OnnxJudge)
    assert encoder is not None
    texts = passages_of(judge)
    queries = questions(texts)
    rows: list[tuple[object, ...]] = []
    judge.load()
    rows.append(("the judge alone, 100 pairs", *_spread(
        lambda query: judge.scores(query, texts[:CANDIDATES]), queries)))  # fmt: skip
    sizes: list[tuple[object, ...]] = []
    for form in ("none", *FORMATS):
        path = BUILD / f"rerank-{form}.sqlite"
        size = write_store(path, texts, form, encoder.spec)
        sizes.append((form, f"{size / COUNT:,.0f}", f"{_token_bytes(form):,}"))
        with KnowledgeBase(path, encoder=encoder, judge=judge) as kb:
            rows += _searches(kb, form, queries)
    stage = table(
        f"Rerank of {CANDIDATES} passages of {TOKENS} tokens, {_ROUNDS} queries, warm",
        ("what", "p50 ms", "p95 ms"), rows,
    )  # fmt: skip
    disk = table(
        f"A chunk on disk, {TOKENS} tokens of 64 dimensions, plus text, dense and sparse vector",
        ("token vectors", "bytes per chunk in the store", "of them token vectors"), sizes,
    )  # fmt: skip
    return f"{stage}\n{disk}"


def _searches(kb: KnowledgeBase, form: str, queries: Sequence[str]) -> list[tuple[object, ...]]:
    """The time of the stage from the search's own trace; the cross-encoder needs no vectors."""
    if form == "none":
        return [
            ("whole search, not reranked", *_spread(lambda query: kb.search(query), queries)),
            ("cross-encoder", *_stage(kb, queries, rerank="cross-encoder")),
            ("cross-encoder, budget 300 ms",
             *_stage(kb, queries, rerank="cross-encoder", budget_ms=300)),
        ]  # fmt: skip
    return [(f"colbert, {form}", *_stage(kb, queries, rerank="colbert"))]


def _stage(kb: KnowledgeBase, queries: Sequence[str], **options: Any) -> tuple[str, str]:
    elapsed_ms = []
    for query in (queries[0], *queries):  # the first one warms up
        response = kb.search(query, **options)
        if any(part.reason not in ("timeout", "pending") for part in response.degraded):
            print(f"(degraded: {response.degraded})", file=sys.stderr)
        elapsed_ms.append(response.timing_ms["rerank"])
    return _cells(elapsed_ms[1:])


def _spread(action: Callable[[str], object], queries: Sequence[str]) -> tuple[str, str]:
    action(queries[0])
    return _cells(times_ms(action, queries))


def _cells(values: Sequence[float]) -> tuple[str, str]:
    p50, p95 = median_and_95th(values)
    return f"{p50:.1f}", f"{p95:.1f}"


# --- the store -----------------------------------------------------------------------------------


def passages_of(judge: OnnxJudge) -> list[str]:
    """Passages of `TOKENS` tokens for the judge."""
    pairs = judge.loaded().tokenizer
    query = pairs.query("")
    response = []
    for text in passages(COUNT):
        words = re.findall(r"\S+", text + " " + text)
        while len(pairs.pair(query, " ".join(words))[0]) - 3 > TOKENS:
            words.pop()
        response.append(" ".join(words))
    return response


def questions(texts: Sequence[str]) -> list[str]:
    """A query about each of the first passages."""
    return [Prose(seed=9 + number).query(text) for number, text in enumerate(texts[:_ROUNDS])]


def write_store(path: Path, texts: Sequence[str], form: str, spec: ModelSpec) -> int:
    """Rewrite the store; return its size in bytes."""
    import numpy as np

    BUILD.mkdir(parents=True, exist_ok=True)
    for left in BUILD.glob(f"{path.name}*"):
        left.unlink()
    with KnowledgeBase(path, config=Config(models=ModelsConfig(tokens=form))) as kb:
        store = sqlite_store(kb)
        _write(store, texts)
        model = store.vectors.use_model(spec).model_id
        chance = np.random.default_rng(5)
        rows = []
        for one in pending_chunks(store, model, limit=COUNT):
            dense = chance.standard_normal(spec.dimension)
            encoding = Encoding(
                dense=array("f", dense / np.linalg.norm(dense)),
                sparse={f"term{number:04d}": 0.1 + number / 100 for number in range(TERMS)},
                tokens=None if form == "none" else _tokens(chance),
            )
            rows.append((one.chunk_id, encoding))
        write_vectors(store, model, rows)
    return path.stat().st_size


def _write(store: SqliteStore, texts: Sequence[str]) -> None:
    draft = DocumentDraft(None, "r", "r", "Bench", "note", Attributes(), "-", "bench-1", 0, 0)
    chunks = [
        ChunkDraft(text, (), None, (Span("line", number, number),))
        for number, text in enumerate(texts, start=1)
    ]
    store.catalog.write_document(draft, chunks)


def _tokens(chance: Any) -> TokenVectors:
    import numpy as np

    rows = chance.standard_normal((TOKENS, 64))
    unit = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("f4")
    return TokenVectors(64, array("f", unit.tobytes()))


def _token_bytes(form: str) -> int:
    return 0 if form == "none" else 7 + TOKENS * token_codes.row_bytes(64, form)
