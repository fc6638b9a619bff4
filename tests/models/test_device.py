from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kb.config import Config, ModelsConfig
from kb.models import device, encoder, info, manifest, onnx_session
from kb.models.language_pair import LanguagePair
from kb.models.onnx_encoder import OnnxEncoder
from kb.models.torch_encoder import TorchEncoder

KB_MINI = Path(device.__file__).parent / "kb_mini"


def config(provider: str) -> Config:
    return Config(models=ModelsConfig(provider=provider))


def machine(monkeypatch: pytest.MonkeyPatch, *, torch: bool, gpu: bool, runtime: str = "") -> None:
    monkeypatch.setattr(device, "find_spec", lambda _: object() if torch else None)
    monkeypatch.setattr(device, "has_gpu_device", lambda: gpu)
    monkeypatch.setattr(device, "_runtime_gpu", lambda: runtime or None)


@pytest.mark.parametrize(
    ("provider", "torch", "gpu", "expected"),
    [
        ("auto", True, True, TorchEncoder),
        ("auto", True, False, OnnxEncoder),
        ("auto", False, True, OnnxEncoder),
        ("cuda", True, False, TorchEncoder),
        ("cuda", False, True, OnnxEncoder),
        ("cpu", True, True, OnnxEncoder),
        ("CUDAExecutionProvider", True, True, OnnxEncoder),
    ],
)
def test_the_encoder_of_kb_mini(
    provider: str, torch: bool, gpu: bool, expected: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, torch=torch, gpu=gpu)
    pair = encoder(config(provider), "kb-mini")
    assert isinstance(pair, LanguagePair)
    assert type(pair.english) is type(pair.others) is expected


def test_other_models_run_with_onnx_runtime(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, torch=True, gpu=True)
    assert type(encoder(config("auto"), str(tiny_folder))) is OnnxEncoder


@pytest.mark.parametrize(
    ("provider", "installed", "expected"),
    [
        ("auto", {"torch": True, "gpu": True}, "GPU with torch for passages, CPU for queries"),
        ("cpu", {"torch": True, "gpu": True}, "CPU, as set by models.provider"),
        ("auto", {"torch": False, "gpu": False}, "CPU"),
        (
            "auto",
            {"torch": False, "gpu": True},
            "CPU; to use the GPU, run: pip install 'kb-search[gpu]'",
        ),
        (
            "auto",
            {"torch": False, "gpu": True, "runtime": "CUDA"},
            "CPU: ONNX Runtime does not compute int8 graphs on CUDA; to use the GPU, run: "
            "pip install 'kb-search[gpu]'",
        ),
    ],
)
def test_what_info_says(
    provider: str, installed: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, **installed)
    assert info(config(provider), "kb-mini").device == expected


def test_an_int8_graph_stays_on_the_cpu_under_cuda(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real = onnx_session._open

    def noted(model: Any, provider: str, *, fall_back: bool) -> Any:
        opened.append(provider)
        return real(model, onnx_session.CPU, fall_back=fall_back)

    monkeypatch.setattr(onnx_session, "choose", lambda *_: "CUDAExecutionProvider")
    monkeypatch.setattr(onnx_session, "_open", noted)
    onnx_session.load(manifest.read(tiny_folder), "auto")
    onnx_session.load(manifest.read(tiny_folder), "cuda")
    assert opened == [onnx_session.CPU, "CUDAExecutionProvider"]
    assert onnx_session.is_int8(manifest.read(KB_MINI))
