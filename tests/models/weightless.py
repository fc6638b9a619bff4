"""An encoder without weights, for tests: hashed words. Texts that share words are near each other,
everything is the same on every machine, and nothing is loaded."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any
from zlib import crc32

from kb.config import Config, ModelsConfig
from kb.types import Encoding, ModelSpec, TokenVectors


def unexamined(profiles: Mapping[str, Any] | None = None, **models: Any) -> Config:
    """Settings for tests with encoders that would fail the exam."""
    return Config(models=ModelsConfig(exam=False, **models), profiles=profiles or {})


_WORD = re.compile(r"\w+")


class Weightless:
    """A `ports.Encoder`. Fails for texts that contain a word of `fails_on`."""

    def __init__(
        self,
        dimension: int = 64,
        *,
        name: str = "weightless",
        version: str = "1",
        max_tokens: int = 512,
        fails_on: Iterable[str] = (),
    ) -> None:
        self.spec = ModelSpec(
            name,
            version,
            dimension,
            frozenset({"dense", "sparse", "tokens"}),
            token_dimension=16,
            max_tokens=max_tokens,
        )
        self.fails_on = frozenset(fails_on)
        self.calls: list[tuple[str, ...]] = []

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        self.calls.append(tuple(texts))
        encodings = []
        for text in texts:
            encodings.append(self._encode(text, want))
            if on_progress is not None:
                on_progress(len(encodings))
        return encodings

    def _encode(self, text: str, want: Set[str]) -> Encoding:
        words = _WORD.findall(text.lower())
        if not self.fails_on.isdisjoint(words):
            raise RuntimeError(f"cannot take {sorted(self.fails_on.intersection(words))}")
        seen = words[: self.spec.max_tokens]
        return Encoding(
            dense=_hashed(seen, self.spec.dimension) if "dense" in want else None,
            sparse={word: 1 + math.log(count) for word, count in Counter(seen).items()}
            if "sparse" in want
            else None,
            tokens=_token_vectors(seen, self.spec.token_dimension or 1)
            if "tokens" in want
            else None,
            truncated=len(words) - len(seen),
        )


def _hashed(words: Sequence[str], dimension: int) -> array[float]:
    """A position and a sign for every word. All texts share the last position, so that no vector is
    zero."""
    values = [0.0] * dimension
    values[-1] = 0.1
    for word in words:
        digest = crc32(word.encode())
        values[digest % dimension] += 1.0 if digest & 0x10000 else -1.0
    length = math.sqrt(math.fsum(value * value for value in values)) or 1.0
    return array("f", (value / length for value in values))


def _token_vectors(words: Sequence[str], dimension: int) -> TokenVectors:
    data = array("f")
    for word in words:
        data.extend(_hashed([word], dimension))
    return TokenVectors(dimension, data)
