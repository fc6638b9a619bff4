"""kb-mini with torch, on the CPU: the network and the batches are those of a GPU."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb.errors import ModelError
from kb.models import manifest, torch_encoder
from kb.models.onnx_encoder import OnnxEncoder
from kb.models.torch_encoder import TorchEncoder, batches
from kb.types import Encoding

ALL = frozenset({"dense", "sparse", "tokens"})
KB_MINI = Path(torch_encoder.__file__).parent / "kb_mini"
TEXTS = [
    "Retries with exponential back-off made the outage worse: every client came back at once.",
    "Sourdough",
    "The radio slots are eighty milliseconds wide, since the clocks of the buoys drift apart.",
    "def read_lines(path): return open(path).read().splitlines()",
]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_encoder, "GPU_BATCH", len(TEXTS))


@pytest.fixture(scope="module")
def on_torch() -> TorchEncoder:
    pytest.importorskip("torch")
    return TorchEncoder(manifest.read(KB_MINI), device="cpu", required=True)


@pytest.fixture(scope="module")
def on_onnx() -> OnnxEncoder:
    return OnnxEncoder(manifest.read(KB_MINI), provider="cpu")


def cosines(first: list[Encoding], second: list[Encoding]) -> Any:
    one, two = (
        np.stack([np.frombuffer(each.dense or b"", "f4") for each in encodings])
        for encodings in (first, second)
    )
    return np.einsum("ij,ij->i", one, two)


# --- the same vectors -----------------------------------------------------------------------------


def test_the_vectors_agree_with_the_cpu(on_torch: TorchEncoder, on_onnx: OnnxEncoder) -> None:
    first = on_torch.encode(TEXTS, want=ALL)
    second = on_onnx.encode(TEXTS, want=ALL)
    assert cosines(first, second).min() > 0.998
    for one, two in zip(first, second, strict=True):
        assert one.sparse is not None
        assert two.sparse is not None
        assert one.sparse.keys() == two.sparse.keys()
        for term, weight in two.sparse.items():
            assert one.sparse[term] == pytest.approx(weight, rel=0.15, abs=0.02)
        assert one.tokens is not None
        assert two.tokens is not None
        rows = [np.frombuffer(each.data, "f4").reshape(-1, 64) for each in (one.tokens, two.tokens)]
        assert rows[0].shape == rows[1].shape
        assert np.einsum("ij,ij->i", *rows).mean() > 0.99


def test_query_weights_agree_with_the_graph(on_torch: TorchEncoder, on_onnx: OnnxEncoder) -> None:
    import torch

    engine = on_torch.load_engine()
    assert engine is not None
    loaded = on_onnx.loaded()
    ids = loaded.tokenizer.tokens(TEXTS[0]).ids
    with torch.inference_mode():
        outputs = engine.network.outputs(torch.tensor([ids]), torch.ones((1, len(ids))))
    weights = loaded.session.run(ids, ["query_sparse_vecs"])["query_sparse_vecs"]
    assert outputs.query_sparse[0].numpy() == pytest.approx(weights, rel=0.15, abs=0.02)


def test_a_text_does_not_depend_on_its_batch(on_torch: TorchEncoder) -> None:
    short, long = "a short text", "a text that is much longer than the others " * 6
    first = on_torch.encode([short] * 4)
    second = on_torch.encode([short, long, long, long])
    assert cosines(first[:1], second[:1])[0] > 0.999


def test_half_precision_is_close(on_onnx: OnnxEncoder) -> None:
    pytest.importorskip("torch")
    half = TorchEncoder(manifest.read(KB_MINI), device="cpu", required=True, exact=False)
    assert cosines(half.encode(TEXTS), on_onnx.encode(TEXTS)).mean() > 0.998


def test_texts_without_words_have_vectors(on_torch: TorchEncoder) -> None:
    encodings = on_torch.encode(["", "?!", " ", "a"], want=ALL)
    assert [len(each.dense or ()) for each in encodings] == [384] * 4
    assert encodings[0].sparse == {}


def test_progress_and_order(on_torch: TorchEncoder) -> None:
    counts: list[int] = []
    texts = [*TEXTS, *reversed(TEXTS)]
    encodings = on_torch.encode(texts, on_progress=counts.append)
    assert counts[-1] == len(texts)
    assert cosines(encodings[:4], encodings[:3:-1]).min() > 0.999


# --- where texts run ------------------------------------------------------------------------------


def test_queries_and_few_texts_stay_on_the_cpu(
    on_onnx: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = TorchEncoder(manifest.read(KB_MINI), device="cpu")
    monkeypatch.setattr(encoder, "load_engine", lambda: pytest.fail("torch was loaded"))
    assert encoder.encode(TEXTS, as_query=True) == on_onnx.encode(TEXTS, as_query=True)
    assert encoder.encode(TEXTS[:3]) == on_onnx.encode(TEXTS[:3])


def test_without_a_gpu_the_cpu_encodes(
    on_onnx: OnnxEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    encoder = TorchEncoder(manifest.read(KB_MINI))
    with caplog.at_level(logging.WARNING, "kb"):
        assert encoder.encode(TEXTS) == on_onnx.encode(TEXTS)
        encoder.encode(TEXTS)
    assert caplog.text.count("kb-mini runs on the CPU: torch does not find a GPU") == 1
    required = TorchEncoder(manifest.read(KB_MINI), required=True)
    for texts in (TEXTS, TEXTS[:1]):  # an embedding job tries each text alone after a failure
        with pytest.raises(ModelError, match="kb-mini cannot run on cuda") as error:
            required.encode(texts)
        assert "kb-search[gpu]" in error.value.hint
    assert required.encode(TEXTS, as_query=True)


def test_another_network_runs_on_the_cpu(tiny_folder: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ModelError, match="its graph is not that of kb-mini"):
        TorchEncoder(manifest.read(tiny_folder), device="cpu", required=True).encode(TEXTS)


def test_vectors_that_differ_are_not_used(
    on_onnx: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from kb.models.torch_network import Network

    outputs = Network.outputs

    def wrong(self: Network, ids: Any, mask: Any) -> Any:
        result = outputs(self, ids, mask)
        return result._replace(dense=result.dense.flip(-1))

    monkeypatch.setattr(Network, "outputs", wrong)
    encoder = TorchEncoder(manifest.read(KB_MINI), device="cpu")
    assert encoder.encode(TEXTS) == on_onnx.encode(TEXTS)
    with pytest.raises(ModelError, match="differ from the CPU's"):
        TorchEncoder(manifest.read(KB_MINI), device="cpu", required=True).encode(TEXTS)


# --- memory ---------------------------------------------------------------------------------------


def test_batches_by_length() -> None:
    lengths = [3, 10, 9, 2, 10, 1]
    assert list(batches(lengths, lambda: 20)) == [[1, 4], [2, 0], [3, 5]]
    assert list(batches(lengths, lambda: 1)) == [[1], [4], [2], [0], [3], [5]]
    assert list(batches([], lambda: 20)) == []


def test_a_batch_that_does_not_fit_is_halved(
    on_torch: TorchEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    run, sizes = torch_encoder._run_batch, []

    def small(network: Any, texts: Any, parts: Any) -> Any:
        sizes.append(len(texts))
        if len(texts) > 1:
            raise torch.OutOfMemoryError("no memory")
        return run(network, texts, parts)

    engine = on_torch.load_engine()
    assert engine is not None
    monkeypatch.setattr(engine, "batch_tokens", engine.batch_tokens)  # restored afterwards
    expected = on_torch.encode(TEXTS)
    monkeypatch.setattr(torch_encoder, "_run_batch", small)
    assert cosines(on_torch.encode(TEXTS), expected).min() > 0.999
    assert sizes == [4, 2, 1, 1, 2, 1, 1]
    sizes.clear()
    on_torch.encode(TEXTS)
    assert sizes == [1, 1, 1, 1]


def test_no_memory_for_one_text(on_torch: TorchEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def fails(*_: Any) -> Any:
        raise torch.OutOfMemoryError("no memory")

    engine = on_torch.load_engine()
    assert engine is not None
    monkeypatch.setattr(engine, "batch_tokens", engine.batch_tokens)
    monkeypatch.setattr(torch_encoder, "_run_batch", fails)
    with pytest.raises(ModelError, match="too little memory"):
        on_torch.encode(TEXTS)
