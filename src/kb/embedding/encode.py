"""Encodes texts into vectors that can be stored, with an encoder that may be third-party code.

If only a part of an encoding is faulty, the rest is kept: a usable dense vector is stored without
the term weights or token vectors that are not usable, and the fault is reported [002 R1.5].
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from kb.errors import KbError, ModelBroken, ModelError
from kb.ports import Encoder
from kb.types import Encoding, ModelSpec, Outcome, PendingChunk, TokenVectors, Vector

PROBE = "a text that every model can take"
_HINT = "see: kb models verify"
_DENSE = frozenset({"dense"})
_NAMES = {"sparse": "term weights", "tokens": "token vectors"}


@dataclass(frozen=True, slots=True)
class BatchEncoder:
    """Calls an encoder and checks its results. `want` names the parts to store."""

    encoder: Encoder
    want: Set[str]

    @property
    def spec(self) -> ModelSpec:
        return self.encoder.spec

    def probe(self) -> None:
        """Raise `ModelError` if the model returns no dense vector for a simple text."""
        try:
            self._encode([PROBE], self.want)
        except ModelError:
            self._encode([PROBE], _DENSE)

    def outcomes(self, batch: Sequence[PendingChunk]) -> list[Outcome]:
        """Encode a batch: one outcome for each chunk. If it fails, each text is tried alone."""
        try:
            encodings = self._encode([chunk.text for chunk in batch], self.want)
        except ModelError:
            return [self._encode_alone(chunk) for chunk in batch]
        return [self._outcome(*pair) for pair in zip(batch, encodings, strict=True)]

    def _encode_alone(self, chunk: PendingChunk) -> Outcome:
        """Encode all parts; if that fails, only the dense vector; if that fails too, return the
        error."""
        try:
            return self._outcome(chunk, self._encode([chunk.text], self.want)[0])
        except ModelError as error:
            message = error.message
        if self.want > _DENSE:
            try:
                encoding = self._encode([chunk.text], _DENSE)[0]
                return Outcome(chunk.chunk_id, encoding, message, self.want)
            except ModelError as error:
                message = error.message
        self._encode([PROBE], _DENSE)  # raises if the model fails, rather than this text
        return Outcome(chunk.chunk_id, None, message, self.want)

    def _outcome(self, chunk: PendingChunk, encoding: Encoding) -> Outcome:
        """Remove the parts that cannot be stored, and report why."""
        faults = {
            part: fault
            for part in sorted(self.want - _DENSE)
            if (fault := _fault(part, encoding, self.spec)) is not None
        }
        if not faults:
            return Outcome(chunk.chunk_id, encoding, None, self.want)
        kept = replace(
            encoding,
            sparse=None if "sparse" in faults else encoding.sparse,
            tokens=None if "tokens" in faults else encoding.tokens,
        )
        details = "; ".join(f"no {_NAMES[part]}: {fault}" for part, fault in faults.items())
        return Outcome(chunk.chunk_id, kept, f"{self.spec.name} returned {details}", self.want)

    def _encode(self, texts: list[str], want: Set[str]) -> list[Encoding]:
        """Encode texts. Raises `ModelError` unless every dense vector is usable."""
        try:
            encodings = self.encoder.encode(texts, want=want)
        except KbError:
            raise
        # A third-party encoder may raise anything: it means that the model failed.
        except Exception as error:
            raise ModelError(
                f"{self.spec.name} failed: {type(error).__name__}: {error}", _HINT
            ) from error
        try:
            checked = [_to_arrays(encoding) for encoding in encodings]
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise ModelBroken(
                f"{self.spec.name} returned something other than vectors: {error}", _HINT
            ) from error
        if len(checked) != len(texts) or not all(map(self._is_usable, checked)):
            raise ModelBroken(f"{self.spec.name} returned no usable dense vector", _HINT)
        return checked

    def _is_usable(self, encoding: Encoding) -> bool:
        dense = encoding.dense
        return (
            dense is not None
            and len(dense) == self.spec.dimension
            and any(dense)
            and math.isfinite(math.fsum(map(abs, dense)))
        )


def _to_arrays(encoding: Encoding) -> Encoding:
    """Convert vectors to float32 arrays; an encoder may return lists or numpy arrays."""
    dense, tokens = encoding.dense, encoding.tokens
    return replace(
        encoding,
        dense=None if dense is None else _floats(dense),
        tokens=None if tokens is None else replace(tokens, data=_floats(tokens.data)),
    )


def _floats(numbers: Sequence[float]) -> Vector[float]:
    if isinstance(numbers, array) and numbers.typecode == "f":
        return numbers
    ravel = getattr(numbers, "ravel", None)  # a numpy matrix of token vectors
    return array("f", map(float, numbers if ravel is None else ravel()))


def _fault(part: str, encoding: Encoding, spec: ModelSpec) -> str | None:
    """Describe what is wrong with a part; None if nothing is."""
    if part == "sparse":
        return _weights_fault(encoding.sparse)
    return _tokens_fault(encoding.tokens, spec)


def _weights_fault(weights: Mapping[str, float] | None) -> str | None:
    if weights is None:
        return "none were returned"
    try:
        wrong = (f"the weight of {term!r} is {weight}" for term, weight in weights.items()
                 if not 0 <= weight < _LARGEST)  # fmt: skip
        return next(wrong, None)
    except (AttributeError, TypeError):
        return "they are not a mapping of terms to numbers"


def _tokens_fault(tokens: TokenVectors | None, spec: ModelSpec) -> str | None:
    if tokens is None:
        return "none were returned"
    if tokens.dimension != spec.token_dimension or len(tokens.data) % tokens.dimension:
        return f"they do not have {spec.token_dimension} dimensions"
    if not math.isfinite(sum(map(abs, tokens.data))):
        return "some values are not finite"
    return None


_LARGEST = 3.4e38  # the largest float32
