"""An encoder that caches passages on disk, so that a corpus is encoded once and not in every run.

Queries are not cached: their encoding is most of the latency that is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path

from kb.ports import Encoder, ModelTraits, traits_of
from kb.store.encoding_cache import LIMIT_BYTES, EncodingCache
from kb.types import PARTS, Encoding, ModelSpec

FILE = "encodings.sqlite"
PROBE = "the same text, every time: a probe of the weights"


@contextmanager
def cached_encoder(
    encoder: Encoder, folder: Path | None, *, limit_bytes: int = LIMIT_BYTES
) -> Iterator[Encoder]:
    """The encoder with a cache in `folder`; the encoder itself if the cache cannot be used."""
    if folder is None:
        yield encoder
        return
    cache = EncodingCache(folder / FILE, limit_bytes=limit_bytes)
    try:
        if not cache.usable:
            yield encoder
            return
        probe = encoder.encode([PROBE], want=frozenset(PARTS) & encoder.spec.gives)[0]
        model_id = cache.model(encoder.spec, probe)
        yield encoder if model_id is None else CachedEncoder(encoder, cache, model_id)
    finally:
        cache.close()


class CachedEncoder(ModelTraits):
    """An encoder that looks up passages in a cache first."""

    def __init__(self, encoder: Encoder, cache: EncodingCache, model_id: int) -> None:
        self._encoder = encoder
        self._cache = cache
        self._model_id = model_id

    @property
    def spec(self) -> ModelSpec:
        return self._encoder.spec

    @property
    def batch_size(self) -> int:
        return traits_of(self._encoder).batch_size

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        if as_query:
            return self._encoder.encode(texts, as_query=True, want=want, on_progress=on_progress)
        parts = want & self.spec.gives
        cached = self._cache.get(self._model_id, texts, parts)
        missing = [text for text in dict.fromkeys(texts) if text not in cached]
        if missing:
            encodings = self._encoder.encode(missing, want=parts)
            fresh = dict(zip(missing, encodings, strict=True))
            self._cache.put(self._model_id, fresh)
            cached |= fresh
        if on_progress is not None:
            on_progress(len(texts))
        return [cached[text] for text in texts]
