"""Checks and repairs of vectors, and of the indexes over them, for `kb doctor`.

A damaged vector is dropped; its chunk is then pending, and is embedded again.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import apsw

from kb.errors import StoreUnusable
from kb.index import cosine, dense_codes, sparse_weights, token_codes
from kb.store.sqlite import (
    embeddings,
    matrix_file,
    posting_integrity,
    segments,
    vec0,
    vector_pieces,
)
from kb.store.sqlite.connection import Database
from kb.store.sqlite.dense import DenseIndex, numpy_is_there
from kb.store.sqlite.functions import scalar
from kb.types import StoredModel

UNKNOWN = "unknown"


class VectorIntegrity:
    """Checks and repairs the vectors of one store."""

    def __init__(self, database: Database, dense: DenseIndex) -> None:
        self._database = database
        self._dense = dense

    # --- rows -------------------------------------------------------------------------------------

    def damaged(self, limit: int) -> tuple[int, int]:
        """The number of checked vectors, about `limit` if there are more, and how many are
        damaged."""
        looked_at = wrong = 0
        with self._database.reading() as connection:
            for model in embeddings.models(connection):
                step = model.ready // limit + 1
                result = _find_damaged(connection, model, step)
                looked_at, wrong = looked_at + result[0], wrong + len(result[1])
        return looked_at, wrong

    def drop_damaged(self) -> None:
        with self._database.writing() as connection:
            for model in embeddings.models(connection):
                gone = [
                    (chunk_id, model.model_id)
                    for chunk_id in _find_damaged(connection, model, 1)[1]
                ]
                connection.executemany(
                    "DELETE FROM embeddings WHERE chunk_id = ? AND model_id = ?", gone
                )

    # --- the inverted index -----------------------------------------------------------------------

    def postings_fault(self) -> str | None:
        """What is wrong with the index over sparse vectors; None if nothing is."""
        with self._database.reading() as connection:
            return posting_integrity.fault(connection)

    def rebuild_postings(self) -> None:
        with self._database.writing() as connection:
            segments.rebuild(connection)

    # --- sqlite-vec's table -----------------------------------------------------------------------

    def table_fault(self) -> str | None:
        """What is wrong with the table; `UNKNOWN` if it cannot be checked, None if nothing is."""
        with self._database.reading() as connection:
            if not vec0.exists(connection):
                return None
            if not vec0.load(connection):
                return UNKNOWN
            for model in embeddings.models(connection)[:1]:
                return _table_fault(connection, model)
        return None

    def has_table(self) -> bool:
        with self._database.reading() as connection:
            return vec0.exists(connection)

    def rebuild_table(self) -> None:
        with self._database.writing() as connection:
            if vec0.load(connection):
                for model in embeddings.models(connection)[:1]:
                    vec0.rebuild(connection, model)

    # --- numpy's file -----------------------------------------------------------------------------

    def file_fault(self) -> str | None:
        """What is wrong with the file beside the store; `UNKNOWN` if it cannot be checked, None if
        nothing is."""
        path = matrix_file.path_of(self._database.path)
        if not path.exists():
            return None
        if not numpy_is_there():
            return UNKNOWN
        with self._database.reading() as connection:
            for model in embeddings.models(connection)[:1]:
                return self._dense.file_fault(connection, model)
        return "it belongs to no model"

    def has_file(self) -> bool:
        return matrix_file.path_of(self._database.path).exists()

    def rewrite_file(self) -> None:
        with self._database.reading() as connection:
            for model in embeddings.models(connection)[:1]:
                self._dense.rewrite_file(connection, model)
                return
        matrix_file.path_of(self._database.path).unlink(missing_ok=True)


# --- counters -------------------------------------------------------------------------------------


def count_errors(connection: apsw.Connection) -> list[str]:
    """A description of each model whose stored counts of embeddings are wrong."""
    return [
        f"{model.name} has {_in_words(counted)}, not {_in_words(known)}"
        for model in embeddings.models(connection)
        for counted in [_actual_counts(connection, model.model_id)]
        for known in [_recorded_counts(connection, model.model_id)]
        if counted != known
    ]


def recount(connection: apsw.Connection) -> None:
    for model in embeddings.models(connection):
        connection.execute(
            "UPDATE models SET ready = ?, failed = ?, sparse = ?, tokens = ? WHERE model_id = ?",
            (*_actual_counts(connection, model.model_id), model.model_id),
        )


class EmbeddingCounts(NamedTuple):
    """How many embeddings of a model are ready or failed, and how many ready ones have a part."""

    ready: int
    failed: int
    sparse: int
    tokens: int


def _in_words(counted: EmbeddingCounts) -> str:
    return (
        f"{counted.ready} vectors and {counted.failed} failures (sparse {counted.sparse}, "
        f"tokens {counted.tokens})"
    )


def _recorded_counts(connection: apsw.Connection, model_id: int) -> EmbeddingCounts:
    """The counts in the model's row, including expired documents."""
    sql = "SELECT ready, failed, sparse, tokens FROM models WHERE model_id = ?"
    row: Any = connection.execute(sql, (model_id,)).fetchone()
    return EmbeddingCounts(*row)


def _actual_counts(connection: apsw.Connection, model_id: int) -> EmbeddingCounts:
    """The actual counts, from the indexes, without reading vectors."""
    rest = dict(connection.execute(
        "SELECT state, count(*) FROM embeddings WHERE model_id = ? AND state <> 'ready' GROUP BY 1",
        (model_id,),
    ))  # fmt: skip
    sql = "SELECT count(*) FROM embeddings INDEXED BY embeddings_chunk WHERE model_id = ?"
    ready = scalar(connection, sql, (model_id,)) - sum(rest.values())
    without = [
        scalar(
            connection,
            f"SELECT count(*) FROM embeddings WHERE model_id = ? AND state = 'ready' "
            f"AND {part} IS NULL",
            (model_id,),
        )
        for part in ("sparse", "tokens")
    ]
    return EmbeddingCounts(ready, rest.get("failed", 0), ready - without[0], ready - without[1])


# --- comparing ------------------------------------------------------------------------------------


def _find_damaged(
    connection: apsw.Connection, model: StoredModel, step: int
) -> tuple[int, list[int]]:
    """Check every `step`-th vector. Returns how many were checked, and the chunks of damaged
    ones."""
    rows = connection.execute(
        "SELECT chunk_id, dense, sparse, tokens FROM embeddings "
        "WHERE model_id = ? AND state = 'ready' AND chunk_id % ? = ?",
        (model.model_id, step, random.randrange(step)),
    )
    looked_at, wrong = 0, []
    for chunk_id, dense, weights, tokens in rows:
        looked_at += 1
        is_unit = isinstance(dense, bytes) and cosine.is_unit(
            dense_codes.unpack(dense), model.dimension
        )
        if vector_pieces.is_checksum(weights):
            weights = _read_part(connection, "sparse", model, chunk_id)
        if vector_pieces.is_checksum(tokens):
            tokens = _read_part(connection, "tokens", model, chunk_id)
        if not is_unit or not _readable(weights, tokens):
            wrong.append(chunk_id)
    return looked_at, wrong


def _read_part(connection: apsw.Connection, part: str, model: StoredModel, chunk_id: int) -> Any:
    return vector_pieces.read(connection, part, model.model_id, [chunk_id])[chunk_id]


def _readable(weights: Any, tokens: Any) -> bool:
    """Whether the sparse and token vectors, if there are any, can be decoded."""
    try:
        if weights is not None:
            sparse_weights.from_text(weights)
        if tokens is not None:
            token_codes.parse_header(tokens)
    except (StoreUnusable, TypeError, ValueError, RecursionError):
        return False
    return True


def _table_fault(connection: apsw.Connection, model: StoredModel) -> str | None:
    at = vec0.position(connection, model.model_id)
    if at is None or not embeddings.follows(connection, at):
        return "it is out of date"
    changed = set(embeddings.changed_chunks(connection, model.model_id, at))
    wanted = dict(embeddings.ready(connection, model.model_id))
    stored = dict(connection.execute(f"SELECT chunk_id, embedding FROM {vec0.TABLE}"))
    wrong = [one for one in wanted.keys() | stored.keys()
             if one not in changed and wanted.get(one) != stored.get(one)]  # fmt: skip
    return f"{len(wrong)} vectors differ" if wrong else None
