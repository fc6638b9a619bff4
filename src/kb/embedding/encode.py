"""Texts to vectors that can be stored, by an encoder that may be code of others.

A text is never lost for a part: where its dense vector is usable and its term weights or token
vectors are not, the former is kept, and what is wrong with the latter is said [002 R1.5].
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from kb.errors import KbError, ModelBroken, ModelError
from kb.ports import Encoder
from kb.types import Encoding, ModelSpec, Outcome, ToEmbed, TokenVectors, Vector

PROBE = "a text that every model can take"
_MEND = "see: kb models verify"
_DENSE = frozenset({"dense"})
_NAMES = {"sparse": "term weights", "tokens": "token vectors"}


@dataclass(frozen=True, slots=True)
class Texts:
    """An encoder, and what can go wrong with it. `want` are the parts that are stored."""

    encoder: Encoder
    want: Set[str]

    @property
    def spec(self) -> ModelSpec:
        return self.encoder.spec

    def probe(self) -> None:
        """Raises `ModelError` where the model gives no vectors at all."""
        try:
            self._encode([PROBE], self.want)
        except ModelError:
            self._encode([PROBE], _DENSE)

    def outcomes(self, unit: Sequence[ToEmbed]) -> list[Outcome]:
        """One for each chunk. Where the unit fails, each text is tried alone."""
        try:
            encodings = self._encode([each.text for each in unit], self.want)
        except ModelError:
            return [self._alone(each) for each in unit]
        return [self._outcome(*pair) for pair in zip(unit, encodings, strict=True)]

    def _alone(self, chunk: ToEmbed) -> Outcome:
        """All parts, or else the dense vector alone, or else why there is none."""
        try:
            return self._outcome(chunk, self._encode([chunk.text], self.want)[0])
        except ModelError as error:
            why = error.message
        if self.want > _DENSE:
            try:
                encoding = self._encode([chunk.text], _DENSE)[0]
                return Outcome(chunk.chunk_id, encoding, why, self.want)
            except ModelError as error:
                why = error.message
        self._encode([PROBE], _DENSE)  # raises where it is not the text that is at fault
        return Outcome(chunk.chunk_id, None, why, self.want)

    def _outcome(self, chunk: ToEmbed, encoding: Encoding) -> Outcome:
        """Without the parts that cannot be stored."""
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
        said = "; ".join(f"no {_NAMES[part]}: {fault}" for part, fault in faults.items())
        return Outcome(chunk.chunk_id, kept, f"{self.spec.name} gave {said}", self.want)

    def _encode(self, texts: list[str], want: Set[str]) -> list[Encoding]:
        """Encodings with a usable dense vector, or `ModelError`."""
        try:
            encodings = self.encoder.encode(texts, want=want)
        except KbError:
            raise
        # What an encoder of others raises is told as what it is: a model that failed.
        except Exception as error:
            raise ModelError(
                f"{self.spec.name} failed: {type(error).__name__}: {error}", _MEND
            ) from error
        try:
            found = [_plain(encoding) for encoding in encodings]
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise ModelBroken(
                f"{self.spec.name} gave something else than vectors: {error}", _MEND
            ) from error
        if len(found) != len(texts) or not all(map(self._is_usable, found)):
            raise ModelBroken(f"{self.spec.name} gave no usable dense vector", _MEND)
        return found

    def _is_usable(self, encoding: Encoding) -> bool:
        dense = encoding.dense
        return (
            dense is not None
            and len(dense) == self.spec.dimension
            and any(dense)
            and math.isfinite(math.fsum(map(abs, dense)))
        )


def _plain(encoding: Encoding) -> Encoding:
    """With numbers as they are stored, in whatever sequence an encoder has them: a list, an array
    of numpy's."""
    dense, tokens = encoding.dense, encoding.tokens
    return replace(
        encoding,
        dense=None if dense is None else _floats(dense),
        tokens=None if tokens is None else replace(tokens, data=_floats(tokens.data)),
    )


def _floats(numbers: Sequence[float]) -> Vector[float]:
    if isinstance(numbers, array) and numbers.typecode == "f":
        return numbers
    flat = getattr(numbers, "ravel", None)  # token vectors may come as rows
    return array("f", map(float, numbers if flat is None else flat()))


def _fault(part: str, encoding: Encoding, spec: ModelSpec) -> str | None:
    """What is wrong with a part that was wanted."""
    if part == "sparse":
        return _weights_fault(encoding.sparse)
    return _tokens_fault(encoding.tokens, spec)


def _weights_fault(weights: Mapping[str, float] | None) -> str | None:
    if weights is None:
        return "none were given"
    try:
        wrong = (f"the weight of {term!r} is {weight}" for term, weight in weights.items()
                 if not 0 <= weight < _LARGEST)  # fmt: skip
        return next(wrong, None)
    except (AttributeError, TypeError):
        return "they are not numbers for texts"


def _tokens_fault(tokens: TokenVectors | None, spec: ModelSpec) -> str | None:
    if tokens is None:
        return "none were given"
    if tokens.dimension != spec.token_dimension or len(tokens.data) % tokens.dimension:
        return f"they are not of {spec.token_dimension} dimensions"
    if not math.isfinite(sum(map(abs, tokens.data))):
        return "they hold values that are no numbers"
    return None


_LARGEST = 3.4e38  # what a weight is stored as has no larger number
