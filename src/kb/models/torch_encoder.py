"""The encoder that runs kb-mini on a GPU with torch.

A GPU pays off for many texts. So queries and calls with few texts run on the CPU, by ONNX Runtime,
which loads in a fraction of a second; torch is loaded when `GPU_BATCH` passages are encoded at
once. Both round to 8 bits in the same way. But a GPU adds float32 numbers in a different order, and
a different rounding affects later results, so that vectors differ by as much as between two
releases of ONNX Runtime. They are compared before they are used (`MIN_COSINE`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from operator import mul
from threading import Lock
from typing import TYPE_CHECKING, Any

from kb.errors import ModelError
from kb.logs import logger
from kb.models import onnx_weights
from kb.models.exam_questions import QUESTIONS
from kb.models.manifest import Manifest
from kb.models.onnx_encoder import GPU_BATCH, OnnxEncoder
from kb.models.onnx_session import INSTALL_GPU
from kb.models.tokenizer import Tokens
from kb.types import Encoding

if TYPE_CHECKING:
    from kb.models.torch_network import Network

log = logger(__name__)

CUDA = "cuda"
MIN_COSINE = 0.998  # between vectors of the CPU and of another device in the same store
_CALL_TEXTS = 4 * GPU_BATCH  # per call of `encode`: enough to sort them by length
_MAX_BATCH_TOKENS = 1 << 16  # larger batches are not faster on any GPU
_MEMORY_SHARE = 0.5  # of the free memory, for one batch
_SAMPLES = [text for question in QUESTIONS["LATIN"] for text in (question.answer, question.text)]


@dataclass(slots=True)
class _Engine:
    """A network on its device. `batch_tokens` shrinks when the device runs out of memory."""

    network: Network
    batch_tokens: int


class TorchEncoder(OnnxEncoder):
    """Encodes passages on `device`, and queries on the CPU. If the device cannot be used, or its
    vectors differ from the CPU's, everything runs on the CPU; with `required`, this is an error.
    `exact=False` computes in half precision, which is faster and less like the CPU."""

    def __init__(
        self,
        manifest: Manifest,
        *,
        device: str = CUDA,
        required: bool = False,
        exact: bool = True,
        threads: int = 0,
    ) -> None:
        super().__init__(manifest, provider="cpu", threads=threads)
        self._device = device
        self._required = required
        self._exact = exact
        self._engine: _Engine | None = None
        self._unusable = ""
        self._device_lock = Lock()

    @property
    def batch_size(self) -> int:
        return _CALL_TEXTS

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        parts = want & self.spec.gives
        # If the device is required, even a single passage must not silently run on the CPU.
        enough = 1 if self._required else GPU_BATCH
        if not as_query and parts and len(texts) >= enough and not isinstance(texts, str):
            engine = self.load_engine()
            if engine is not None:
                return self._encode_passages(engine, texts, parts, on_progress)
        return super().encode(texts, as_query=as_query, want=want, on_progress=on_progress)

    def load_engine(self) -> _Engine | None:
        """Load the network on its device, and compare its vectors with the CPU's. Returns None if
        it cannot be used. Raises `ModelError` if it is required, or a file is damaged."""
        with self._device_lock:
            if self._engine is None and not self._unusable:
                self.loaded()  # checks the files
                try:
                    engine = _load(self.manifest, self._device, exact=self._exact)
                    self._compare(engine)
                    self._engine = engine
                except _Unusable as error:
                    self._unusable = str(error)
                    log.warning("%s runs on the CPU: %s", self.spec.name, error)
        if self._unusable and self._required:
            raise ModelError(
                f"{self.spec.name} cannot run on {self._device}: {self._unusable}",
                f"set models.provider to auto or cpu, or run: {INSTALL_GPU}",
            )
        return self._engine

    def _compare(self, engine: _Engine) -> None:
        """Raise `_Unusable` if the device's vectors may not be stored beside the CPU's."""
        tokenize = self.loaded().tokenizer.tokens
        tokens = [tokenize(text, self.spec.passage_prefix) for text in _SAMPLES]
        values = _run(engine, tokens, frozenset({"dense"}))
        cosines = [
            sum(map(mul, on_device.dense or (), on_cpu.dense or ()))
            for on_device, on_cpu in zip(
                map(self._encoding, values, tokens), super().encode(_SAMPLES), strict=True
            )
        ]
        mean = sum(cosines) / len(cosines)
        if not mean >= MIN_COSINE:
            raise _Unusable(f"its vectors differ from the CPU's: their cosine is {mean:.4f}")

    def _encode_passages(
        self,
        engine: _Engine,
        texts: Sequence[str],
        parts: Set[str],
        on_progress: Callable[[int], None] | None,
    ) -> list[Encoding]:
        loaded = self.loaded()
        tokenize = partial(loaded.tokenizer.tokens, prefix=self.spec.passage_prefix)
        tokens = list(loaded.pool.map(tokenize, texts))
        encodings: dict[int, Encoding] = {}
        for places in batches([len(each.ids) for each in tokens], lambda: engine.batch_tokens):
            chosen = [tokens[place] for place in places]
            with self._device_lock:
                values = _run(engine, chosen, parts)
            encodings.update(zip(places, map(self._encoding, values, chosen), strict=True))
            if on_progress is not None:
                on_progress(len(encodings))
        return [encodings[place] for place in range(len(texts))]


class _Unusable(Exception):
    """The network cannot run on the device."""


def _load(manifest: Manifest, device: str, *, exact: bool) -> _Engine:
    try:
        import torch
    except (ImportError, OSError) as error:
        raise _Unusable(f"torch cannot be loaded: {error}") from error
    from kb.models.torch_network import Network

    try:
        if device == CUDA and not torch.cuda.is_available():
            raise _Unusable("torch does not find a GPU")
        network = Network(onnx_weights.read(manifest.graph_path), device, exact=exact)
    except (KeyError, ValueError, OSError) as error:
        raise _Unusable("its graph is not that of kb-mini") from error
    except RuntimeError as error:  # incompatible drivers, or not enough memory
        raise _Unusable(_first_line(error)) from error
    log.info("%s runs on %s with torch %s", manifest.spec.name, device, torch.__version__)
    return _Engine(network, _batch_tokens(network, manifest.spec.max_tokens))


def _batch_tokens(network: Network, max_tokens: int) -> int:
    """How many tokens of a batch fit into half of the device's free memory."""
    import torch

    if network.device == "cpu":
        return 32 * max_tokens
    free_bytes, _ = torch.cuda.mem_get_info()
    fitting = int(free_bytes * _MEMORY_SHARE) // network.token_bytes(max_tokens)
    return max(max_tokens, min(_MAX_BATCH_TOKENS, fitting))


def batches(lengths: Sequence[int], batch_tokens: Callable[[], int]) -> Iterator[list[int]]:
    """Group texts by length, longest first, so that no batch has more than `batch_tokens` tokens
    with its padding. Yields positions in `lengths`."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda each: -lengths[each]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens():
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _run(engine: _Engine, texts: Sequence[Tokens], parts: Set[str]) -> list[Mapping[str, Any]]:
    """Run a batch; if the memory is too small for it, run its halves."""
    import torch

    try:
        return _run_batch(engine.network, texts, parts)
    except torch.OutOfMemoryError as error:
        if len(texts) == 1:
            raise ModelError(
                f"the GPU has too little memory for a text of {len(texts[0].ids)} tokens",
                "set models.provider to cpu",
            ) from error
    except RuntimeError as error:
        raise ModelError(
            f"the model failed on the GPU: {_first_line(error)}",
            "set models.provider to cpu",
        ) from error
    torch.cuda.empty_cache()
    half = len(texts) // 2
    engine.batch_tokens = max(half * len(texts[0].ids), len(texts[0].ids))
    return [*_run(engine, texts[:half], parts), *_run(engine, texts[half:], parts)]


def _run_batch(
    network: Network, texts: Sequence[Tokens], parts: Set[str]
) -> list[Mapping[str, Any]]:
    import numpy as np
    import torch

    lengths = np.array([len(each.ids) for each in texts])
    mask = np.arange(lengths.max())[None, :] < lengths[:, None]
    ids = np.zeros(mask.shape, np.int64)
    ids[mask] = np.concatenate([each.ids for each in texts])
    with torch.inference_mode():
        outputs = network.outputs(
            torch.from_numpy(ids).to(network.device),
            torch.from_numpy(mask.astype(np.float32)).to(network.device),
        )
        rows = {part: getattr(outputs, part).cpu().numpy() for part in sorted(parts)}
    return [
        {
            part: values[place] if part == "dense" else values[place, :length]
            for part, values in rows.items()
        }
        for place, length in enumerate(lengths.tolist())
    ]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
