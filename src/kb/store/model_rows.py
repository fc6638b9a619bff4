"""Converts models, texts to embed and encodings to and from column values. Pure; shared by all
stores."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.errors import InvalidRequest, ModelBroken, ModelMismatch
from kb.index import cosine, sparse_weights, token_codes
from kb.text.timestamps import utc_timestamp
from kb.types import JsonDict

if TYPE_CHECKING:
    from kb.types import Encoding, ExamMark, ModelSpec, StoredModel, Vector

ATTEMPTS = 3  # after this many failures, kb gives up on a chunk
BACK_OFF_S = (60.0, 600.0)  # wait after the first failure, and after later ones
_MARK = [str, str, int, int]  # part, script, known, total


class Due(NamedTuple):
    """The cutoff times for trying failed chunks again: one for chunks that failed once, and one for
    the others. A chunk is due if its last failure is not later."""

    first: str
    others: str


def due_at(now: float) -> Due:
    """The cutoff times at `now`."""
    return Due(*(utc_timestamp(now - wait_s) for wait_s in BACK_OFF_S))


def read_marks(text: str | None) -> tuple[ExamMark, ...] | None:
    """The stored exam marks; None if they cannot be read, so that the next run repeats the exam."""
    from kb.types import ExamMark

    if text is None:
        return None
    with suppress(ValueError, TypeError, RecursionError):
        values = json.loads(text)
        kinds = [[type(value) for value in each] for each in values]
        if isinstance(values, list) and all(kind == _MARK for kind in kinds):
            return tuple(ExamMark(*each) for each in values)
    return None


def mismatch(known: StoredModel, spec: ModelSpec) -> ModelMismatch:
    """The error of a store that has vectors of the model `known`."""
    return ModelMismatch(
        f"the store's vectors were computed by {_label(known)}, not by "
        f"{spec.name} {spec.version} of {spec.dimension} dimensions",
        _mismatch_hint(known, spec),
    )


def _mismatch_hint(known: StoredModel, spec: ModelSpec) -> str:
    anew = f"compute all vectors again with {spec.name} {spec.version}: kb embed --anew"
    if known.name == spec.name:  # another version of the same model
        return f"search uses words only until you {anew}"
    return f"search with that model (models.encoder = {known.name!r}), or {anew}"


def _label(known: StoredModel) -> str:
    return f"{known.name} {known.version} of {known.dimension} dimensions"


def query_vector(vector: Sequence[float], model: StoredModel) -> Vector[float]:
    """The normalized vector of a query. Raises `ModelMismatch` if it is not of this model, and
    `InvalidRequest` if it is zero."""
    if len(vector) != model.dimension:
        raise ModelMismatch(
            f"the query's vector has {len(vector)} dimensions, the store's have {model.dimension}",
            f"encode queries with {model.name} {model.version}",
        )
    try:
        return cosine.unit_vector(array("f", vector), model.dimension)
    except ModelBroken as error:
        raise InvalidRequest(
            f"the query: {error.message}", "the vector of a query must not be zero"
        ) from error


def status_of(model: StoredModel, last_error: str | None) -> JsonDict:
    """How many chunks are in each state, as in `status.v1`."""
    return {
        "name": model.name,
        "version": model.version,
        "dimension": model.dimension,
        "role": model.role,
        "ready": model.ready,
        "pending": model.pending,
        "failed": model.failed,
        "sparse": model.sparse,
        "tokens": model.tokens,
        "last_error": last_error,
        "unfit": model.verdict("dense") or None,
    }


def with_counts(model: StoredModel, row: Any) -> StoredModel:
    """Return `model` with the counts in `row`: all chunks, ready ones, failed ones, those with
    sparse vectors, and those with token vectors."""
    chunks, ready, failed, sparse, tokens = map(int, row)
    return replace(
        model,
        ready=ready,
        pending=chunks - ready - failed,
        failed=failed,
        sparse=sparse,
        tokens=tokens,
        no_sparse=ready - sparse,
        no_tokens=ready - tokens,
    )


def combine(one: StoredModel, other: StoredModel) -> StoredModel:
    """Return the model with the sums of the counts of two shards. Raises `ModelMismatch` if the
    shards use one model id for different models."""
    same = ("name", "version", "dimension")
    if any(getattr(one, name) != getattr(other, name) for name in same):
        raise ModelMismatch(
            f"one shard has vectors of {_label(one)}, another of {_label(other)}",
            "switch all shards to the same model: kb embed --anew, on each of them",
        )
    names = ("ready", "pending", "failed", "sparse", "tokens", "no_sparse", "no_tokens")
    sums = {name: getattr(one, name) + getattr(other, name) for name in names}
    return replace(one, **sums)


def passage(heading: str, text: str) -> str:
    """The text to embed. The heading is included, because it often names the subject."""
    return text if not heading or text.startswith(heading) else f"{heading}\n{text}"


def pack_parts(encoding: Encoding, token_format: str) -> tuple[str | None, bytes | None]:
    """The sparse vector and the token vectors of an encoding, as they are stored."""
    weights, tokens = encoding.sparse, encoding.tokens
    return (
        None if weights is None else sparse_weights.to_text(weights),
        None if tokens is None else token_codes.encode(tokens, token_format),
    )
