"""The encoder that runs an ONNX graph: dense vector, term weights and token vectors in one pass.

Each text is a separate run, and threads run texts in parallel on one loaded graph. So the vectors
of a text are the same to the last bit, whatever else is encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING

from kb.errors import InvalidRequest, ModelBroken
from kb.index.normalize_arrays import normalize_rows
from kb.models.linear_head import LinearHead, read_head
from kb.models.manifest import HINT, Manifest
from kb.models.onnx_model import LoadedModel, OnnxModel
from kb.models.onnx_session import CPU, width_of
from kb.models.tokenizer import Tokenizer, Tokens
from kb.types import Encoding, ModelSpec, TokenVectors, Vector

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

CPU_BATCH, GPU_BATCH = 8, 32  # texts per batch [002 R9]


class OnnxEncoder(OnnxModel[Tokenizer]):
    """An encoder from a folder with a `model.json`."""

    _thread_name = "kb-encode"

    def __init__(self, manifest: Manifest, *, provider: str = "auto", threads: int = 0) -> None:
        super().__init__(manifest, provider=provider, threads=threads)
        self._heads: dict[str, LinearHead] = {}

    @property
    def batch_size(self) -> int:
        """The batch size for the device. Loads the model."""
        return CPU_BATCH if self.loaded().session.provider == CPU else GPU_BATCH

    @property
    def provider(self) -> str:
        """The execution provider. Loads the model."""
        return self.loaded().session.provider

    def _read_tokenizer(self, path: Path) -> Tokenizer:
        return Tokenizer(path, self.spec.max_tokens, stems=self.manifest.stems)

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        if isinstance(texts, str):
            raise InvalidRequest("encode takes a list of texts", "pass [text] for a single text")
        outputs = self._outputs(want, as_query=as_query)
        encode_one = partial(self._encode_one, self.loaded(), outputs, as_query)
        encodings: list[Encoding] = []
        # For a single text, another thread is not worth the overhead.
        results = (
            map(encode_one, texts) if len(texts) < 2 else self.loaded().pool.map(encode_one, texts)
        )
        for encoding in results:
            encodings.append(encoding)
            if on_progress is not None:
                on_progress(len(encodings))
        return encodings

    def _outputs(self, want: Set[str], *, as_query: bool) -> dict[str, str]:
        """The graph's output for each wanted part that the model computes."""
        names = self.manifest.outputs
        chosen = {part: names[part] for part in sorted(want & self.spec.gives)}
        if as_query and "sparse" in chosen:
            chosen["sparse"] = names.get("query_sparse", names["sparse"])
        return chosen

    def _encode_one(
        self, loaded: LoadedModel[Tokenizer], outputs: Mapping[str, str], as_query: bool, text: str
    ) -> Encoding:
        prefix = self.spec.query_prefix if as_query else self.spec.passage_prefix
        tokens = loaded.tokenizer.tokens(text, prefix)
        if not outputs:
            return Encoding(truncated=tokens.truncated)
        values = loaded.session.run(tokens.ids, tuple(dict.fromkeys(outputs.values())))
        return self._encoding({part: values[name] for part, name in outputs.items()}, tokens)

    def _encoding(self, values: Mapping[str, Array], tokens: Tokens) -> Encoding:
        """The encoding of a text from the values of each part."""
        raw = {
            part: self._check(part, self._apply_head(part, value), tokens)
            for part, value in values.items()
        }
        return Encoding(
            dense=_normalize(raw["dense"]) if "dense" in raw else None,
            sparse=_weights(raw["sparse"], tokens) if "sparse" in raw else None,
            tokens=_token_vectors(raw["tokens"], tokens) if "tokens" in raw else None,
            truncated=tokens.truncated,
        )

    def _apply_head(self, part: str, values: Array) -> Array:
        """The values of a part, computed from the graph's output by the part's head, if it has
        one."""
        if part == "dense" and self.manifest.first_token and values.ndim == 2:
            first: Array = values[0]
            return first
        return self._head(part)(values) if part in self.manifest.heads else values

    def _head(self, part: str) -> LinearHead:
        if part not in self._heads:  # two threads may both read it, which does no harm
            self._heads[part] = read_head(self.manifest, part)
        return self._heads[part]

    def _check(self, part: str, values: Array, tokens: Tokens) -> Array:
        """Return the values with one row per token. Raises `ModelBroken` if they are not finite or
        do not have the declared shape."""
        import numpy as np

        width = width_of(self.manifest, part)
        expected = (width,) if part == "dense" else (len(tokens.ids), width)
        if part != "dense":
            values = _one_row_per_token(values, tokens)
        if values.shape != expected:
            raise _broken_model(self.spec, f"{part} has the shape {values.shape}, not {expected}")
        if not np.isfinite(values).all():
            raise _broken_model(self.spec, f"{part} has values that are not finite")
        return values


def _one_row_per_token(values: Array, tokens: Tokens) -> Array:
    """Bring the outputs of different exports to one shape: weights may lack their own axis, and
    BGE-M3 returns no vector for the first token, which is special and never kept."""
    import numpy as np

    count = len(tokens.ids)
    if values.shape == (count,):
        return values[:, None]
    if values.ndim == 2 and len(values) == count - 1 and 0 not in tokens.kept:
        return np.concatenate((np.zeros_like(values[:1]), values))
    return values


# --- from graph outputs to an encoding ------------------------------------------------------------


def _weights(values: Array, tokens: Tokens) -> dict[str, float]:
    """The highest weight of each term over all its positions."""
    weights: dict[str, float] = {}
    for position, weight in zip(tokens.kept, values[tokens.kept, 0].tolist(), strict=True):
        for term in tokens.terms[position]:
            if weight > weights.get(term, 0.0):
                weights[term] = weight
    return weights


def _token_vectors(values: Array, tokens: Tokens) -> TokenVectors:
    return TokenVectors(values.shape[1], _normalize(values[tokens.kept]))


def _normalize(values: Array) -> Vector[float]:
    try:
        return normalize_rows(values)
    except ValueError as error:
        raise ModelBroken("the model returned a zero vector", HINT) from error


def _broken_model(spec: ModelSpec, why: str) -> ModelBroken:
    return ModelBroken(f"{spec.name} {spec.version} returned no usable vector: {why}", HINT)
