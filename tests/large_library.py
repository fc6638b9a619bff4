"""A library of any size for tests and benchmarks: generated text with a seed, and vectors that are
computed from its words, without a model.

Every document is about a topic, whose words it repeats; the other words follow Zipf's law. Every
passage begins with a word of its own, such as `passage77`.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from zlib import crc32

from kb.store.sqlite.store import SqliteStore
from kb.types import (
    Attributes,
    ChunkDraft,
    DocumentDraft,
    DocumentWrite,
    Encoding,
    ModelSpec,
    Span,
    TokenVectors,
)
from tests.store.builders import write_vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PER_DOCUMENT = 40
FOLDERS = ("anchors", "bridges", "canals", "docks", "engines")
TYPES = ("markdown", "markdown", "pdf", "code")
KINDS = (None, None, "decision", "lesson")
TAGS = ("field", "winter", "repair", "survey", "radio")
TOPICS, TOPIC_WORDS, COMMON_WORDS = 100, 30, 6_000
_BATCH = 2_000
_SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu lan mer nor tel".split()


def write_library(store: SqliteStore, count: int, *, words: int = 40, seed: int = 1) -> None:
    """Write `count` passages of `words` words, in documents of `PER_DOCUMENT`."""
    chance = random.Random(seed)
    common = _vocabulary()[:COMMON_WORDS]
    odds = list(accumulate(1 / (rank + 3) for rank in range(COMMON_WORDS)))
    writes: list[DocumentWrite] = []
    for number in range(-(-count // PER_DOCUMENT)):
        own = topic_words(number % TOPICS)
        first = number * PER_DOCUMENT
        texts = [
            " ".join((
                f"passage{at}",
                *chance.choices(common, cum_weights=odds, k=words * 2 // 3),
                *chance.choices(own, k=words - words * 2 // 3),
            ))
            for at in range(first, min(count, first + PER_DOCUMENT))
        ]  # fmt: skip
        writes.append(DocumentWrite(_draft(number, own), _chunks(texts, own)))
        if len(writes) == 50:
            store.catalog.write_documents(writes)
            writes.clear()
    store.catalog.write_documents(writes)
    store.fulltext.build_index()


def write_vectors_of_words(store: SqliteStore, spec: ModelSpec, *, tokens: int = 12) -> None:
    """Write vectors of all kinds for every passage, computed from its words."""
    model_id = store.vectors.use_model(spec).model_id
    for batch in _batches(store):
        dense = dense_vectors([text for _, text in batch], spec.dimension)
        matrix = _tokens(spec.token_dimension or 16, tokens)
        rows = [
            (
                chunk_id,
                Encoding(
                    dense=array("f", vector.tobytes()),
                    sparse=dict.fromkeys(text.lower().split()[-tokens:], 1.0),
                    tokens=matrix,
                ),
            )
            for (chunk_id, text), vector in zip(batch, dense, strict=True)
        ]
        write_vectors(store, model_id, rows)


def dense_vectors(texts: list[str], dimension: int) -> NDArray[np.float32]:
    """The vectors that `tests.models.weightless.Weightless` computes, for many texts at once."""
    import numpy as np

    codes = [[crc32(word.encode()) for word in text.lower().split()] for text in texts]
    sizes = [len(each) for each in codes]
    flat = np.fromiter((code for each in codes for code in each), np.uint32, sum(sizes))
    rows = np.zeros((len(texts), dimension), np.float32)
    rows[:, -1] = 0.1
    signs = np.where(flat & 0x10000, 1.0, -1.0).astype(np.float32)
    np.add.at(rows, (np.repeat(np.arange(len(texts)), sizes), flat % dimension), signs)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def topic_words(topic: int) -> list[str]:
    """The words that only the documents of this topic have."""
    start = COMMON_WORDS + topic * TOPIC_WORDS
    return _vocabulary()[start : start + TOPIC_WORDS]


def _draft(number: int, own: list[str]) -> DocumentDraft:
    folder = FOLDERS[number % len(FOLDERS)]
    type_ = TYPES[number % len(TYPES)]
    path = f"{folder}/document-{number:05d}.{ {'markdown': 'md', 'code': 'py'}.get(type_, type_) }"
    attributes = Attributes(
        tags=(TAGS[number % len(TAGS)],),
        kind=KINDS[number % len(KINDS)],
        created_at=f"20{10 + number % 16}-{1 + number % 12:02d}-15T00:00:00Z",
    )
    title = f"{own[0]} {own[number // TOPICS % len(own)]} {number}".capitalize()
    return DocumentDraft(None, path, path, title, type_, attributes, "-", "large-1", 1, 1)


def _chunks(texts: list[str], own: list[str]) -> list[ChunkDraft]:
    return [
        ChunkDraft(text, (own[at % 5].capitalize(),), None, (Span("line", at + 1, at + 1),))
        for at, text in enumerate(texts)
    ]


@cache
def _vocabulary() -> list[str]:
    chance, count = random.Random(9), COMMON_WORDS + TOPICS * TOPIC_WORDS
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(chance.choices(_SYLLABLES, k=chance.randint(2, 4)))] = None
    return list(words)


def _batches(store: SqliteStore) -> Iterator[list[tuple[int, str]]]:
    last: Any = 0
    while True:
        with store._database.reading() as connection:
            rows: list[Any] = connection.execute(
                "SELECT chunk_id, text FROM chunks WHERE chunk_id > ? ORDER BY chunk_id LIMIT ?",
                (last, _BATCH),
            ).fetchall()
        if not rows:
            return
        yield rows
        last = rows[-1][0]


def _tokens(dimension: int, count: int) -> TokenVectors:
    import numpy as np

    rows = np.random.default_rng(5).standard_normal((count, dimension), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return TokenVectors(dimension, array("f", rows.tobytes()))
