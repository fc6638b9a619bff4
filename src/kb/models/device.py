"""Chooses where a local encoder runs, and describes the choice.

The setting `models.provider` is `auto`, `cpu`, `cuda` or the name of an ONNX Runtime provider. With
`auto` and `cuda`, kb-mini runs on a GPU with torch (`torch_encoder`), if torch is installed; other
models run with ONNX Runtime (`onnx_session`).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kb.models.manifest import SCORE, Manifest

if TYPE_CHECKING:
    from kb.config import Config
    from kb.models.onnx_encoder import OnnxEncoder

AUTO, CPU, CUDA = "auto", "cpu", "cuda"
_GPU_RUNTIMES = {  # packages of ONNX Runtime, and where they run models
    "onnxruntime-gpu": "CUDA",
    "onnxruntime-rocm": "ROCm",
    "onnxruntime-migraphx": "MIGraphX",
    "onnxruntime-directml": "DirectML",
}
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")  # NVIDIA, the same under WSL, AMD


def open_encoder(manifest: Manifest, config: Config) -> OnnxEncoder:
    """Open the encoder of a model in a folder. Loads nothing."""
    provider, threads = config.models.provider, config.models.threads
    if _uses_torch(manifest, provider):
        from kb.models.torch_encoder import TorchEncoder

        return TorchEncoder(manifest, required=provider == CUDA, threads=threads)
    from kb.models.onnx_encoder import OnnxEncoder

    return OnnxEncoder(manifest, provider=provider, threads=threads)


def describe(manifest: Manifest, config: Config) -> str:
    """Where the model runs, and what is missing if a GPU stays idle. Loads no model."""
    provider = config.models.provider
    if _uses_torch(manifest, provider):
        return "GPU with torch for passages, CPU for queries"
    if provider == CPU:
        return "CPU, as set by models.provider"
    from kb.models.onnx_session import INSTALL_GPU, is_int8

    advice = f"; to use the GPU, run: {INSTALL_GPU}" if is_kb_mini(manifest) else ""
    gpu = _runtime_gpu() if provider == AUTO else provider
    if gpu is None:
        return f"CPU{advice}" if has_gpu_device() else "CPU"
    if is_int8(manifest):
        return f"CPU: ONNX Runtime does not compute int8 graphs on {gpu}{advice}"
    return gpu


def is_kb_mini(manifest: Manifest) -> bool:
    """Whether the model is declared like kb-mini, the only network that runs with torch."""
    return manifest.stems and "query_sparse" in manifest.outputs and SCORE not in manifest.outputs


def has_gpu_device() -> bool:
    """Whether the machine seems to have a GPU for CUDA or ROCm. Always true on Windows, where this
    cannot be determined."""
    if sys.platform == "win32":
        return True
    return sys.platform != "darwin" and any(map(os.path.exists, _DEVICE_FILES))


def _uses_torch(manifest: Manifest, provider: str) -> bool:
    """Whether the model runs with torch. Imports nothing, because importing torch takes seconds."""
    if provider not in (AUTO, CUDA) or not is_kb_mini(manifest) or find_spec("torch") is None:
        return False
    return provider == CUDA or has_gpu_device()


def _runtime_gpu() -> str | None:
    """The kind of GPU that the installed ONNX Runtime supports; None if it is for CPUs only."""
    from importlib.metadata import PackageNotFoundError, distribution

    for package, gpu in _GPU_RUNTIMES.items():
        with suppress(PackageNotFoundError):
            distribution(package)
            return gpu
    return None
