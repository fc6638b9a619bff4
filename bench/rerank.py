"""Reranking: 100 candidates read once more, by each reranker, and what token vectors cost on disk.

Passages are those of the other figures, cut to 150 tokens. Their token vectors are drawn by a seed
under the name of the bundled encoder. Beside the whole stage stands its bare work: the same pairs
through the judge's graph, and the same matrix product.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from tests.store.builders import pending_chunks, sqlite_store, write_vectors

from bench.corpus import Prose, passages
from bench.timing import seconds, table
from kb import KnowledgeBase, models
from kb.config import Config, ModelsConfig
from kb.index import token_codes
from kb.models.onnx_judge import OnnxJudge
from kb.store.sqlite.store import SqliteStore
from kb.types import Attributes, ChunkDraft, DocumentDraft, Encoding, ModelSpec, Span, TokenVectors

BUILD = Path("build/bench")
COUNT, TOKENS, CANDIDATES = 400, 150, 100
TERMS = 80  # with a weight in a passage, as kb-mini gives them
FORMATS = ("int8", "2-bit", "1-bit")
_ROUNDS = 20


def rerank() -> str:
    judge = models.judge(Config(), "kb-judge")
    encoder = models.encoder(Config(), "kb-mini")
    assert isinstance(judge, OnnxJudge)
    assert encoder is not None
    texts = passages_of(judge)
    asked = questions(texts)
    rows: list[tuple[object, ...]] = []
    judge.load()
    rows.append(("the judge alone, 100 pairs", *_spread(
        lambda query: judge.scores(query, texts[:CANDIDATES]), asked)))  # fmt: skip
    sizes: list[tuple[object, ...]] = []
    for form in ("none", *FORMATS):
        path = BUILD / f"rerank-{form}.sqlite"
        size = write_store(path, texts, form, encoder.spec)
        sizes.append((form, f"{size / COUNT:,.0f}", f"{_token_bytes(form):,}"))
        with KnowledgeBase(path, encoder=encoder, judge=judge) as kb:
            rows += _searches(kb, form, asked)
    stage = table(
        f"Rerank of {CANDIDATES} passages of {TOKENS} tokens, {_ROUNDS} queries, warm",
        ("what", "p50 ms", "p95 ms"), rows,
    )  # fmt: skip
    disk = table(
        f"A chunk on disk, {TOKENS} tokens of 64 dimensions, beside text, dense and sparse vector",
        ("token vectors", "bytes of the store a chunk", "of them token vectors"), sizes,
    )  # fmt: skip
    return f"{stage}\n{disk}"


def _searches(kb: KnowledgeBase, form: str, asked: Sequence[str]) -> list[tuple[object, ...]]:
    """The stage alone, as the search's own trace has it; the cross-encoder needs no vectors."""
    if form == "none":
        return [
            ("the whole search without", *_spread(lambda query: kb.search(query), asked)),
            ("cross-encoder", *_stage(kb, asked, rerank="cross-encoder")),
            ("cross-encoder, budget 300 ms",
             *_stage(kb, asked, rerank="cross-encoder", budget_ms=300)),
        ]  # fmt: skip
    return [(f"colbert, {form}", *_stage(kb, asked, rerank="colbert"))]


def _stage(kb: KnowledgeBase, asked: Sequence[str], **options: Any) -> tuple[str, str]:
    taken = []
    for query in (asked[0], *asked):  # the first one warms up
        found = kb.search(query, **options)
        if any(part.reason not in ("timeout", "pending") for part in found.degraded):
            print(f"(degraded: {found.degraded})", file=sys.stderr)
        taken.append(found.timing_ms["rerank"])
    return _cells(taken[1:])


def _spread(action: Callable[[str], object], asked: Sequence[str]) -> tuple[str, str]:
    action(asked[0])
    return _cells([1000 * seconds(lambda: action(query)) for query in asked])  # noqa: B023 (at once)


def _cells(taken: Sequence[float]) -> tuple[str, str]:
    return f"{median(taken):.1f}", f"{quantiles(taken, n=20)[-1]:.1f}"


# --- what is searched -----------------------------------------------------------------------------


def passages_of(judge: OnnxJudge) -> list[str]:
    """Passages of so many tokens for the judge."""
    pairs = judge.load().tokeniser
    query = pairs.query("")
    found = []
    for text in passages(COUNT):
        words = re.findall(r"\S+", text + " " + text)
        while len(pairs.pair(query, " ".join(words))[0]) - 3 > TOKENS:
            words.pop()
        found.append(" ".join(words))
    return found


def questions(texts: Sequence[str]) -> list[str]:
    """A query about each of the first passages."""
    return [Prose(seed=9 + number).query(text) for number, text in enumerate(texts[:_ROUNDS])]


def write_store(path: Path, texts: Sequence[str], form: str, spec: ModelSpec) -> int:
    """Written anew; its size in bytes."""
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
