from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from kb.errors import ConfigError, ModelError
from kb.models import manifest
from kb.models.onnx_session import CPU, choose, load

CUDA, COREML = "CUDAExecutionProvider", "CoreMLExecutionProvider"


@pytest.mark.parametrize(
    ("wanted", "offered", "chosen"),
    [
        ("auto", (CPU,), CPU),
        ("auto", ("AzureExecutionProvider", CPU), CPU),
        ("auto", ("TensorrtExecutionProvider", CUDA, CPU), CUDA),
        ("auto", (COREML, CPU), CPU),
        ("coreml", (COREML, CPU), COREML),
        (CUDA, (CUDA, CPU), CUDA),
        ("cuda", (CUDA, CPU), CUDA),
        ("cpu", (CUDA, CPU), CPU),
    ],
)
def test_the_provider(wanted: str, offered: tuple[str, ...], chosen: str) -> None:
    assert choose(wanted, offered) == chosen


def test_a_provider_that_is_not_there(tiny_folder: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(manifest.read(tiny_folder), "abacus")
    assert "models.provider is 'abacus'" in error.value.message
    assert CPU in error.value.hint


def test_the_choice_is_logged(tiny_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kb"):
        session = load(manifest.read(tiny_folder), "cpu")
    assert session.provider == CPU
    assert "tiny runs on CPUExecutionProvider" in caplog.text


def test_a_failing_run_is_told(tiny_folder: Path) -> None:
    session = load(manifest.read(tiny_folder), "cpu")
    with pytest.raises(ModelError, match="failed on a text of 2 tokens"):
        session.run([3, 10**6], ["dense_vecs"])  # no such token


def test_only_what_is_asked_for_is_worked_out(tiny_folder: Path) -> None:
    session = load(manifest.read(tiny_folder), "cpu")
    assert set(session.run([2, 9, 3], ["dense_vecs"])) == {"dense_vecs"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("numpy", "numpy cannot be loaded"),
        ("onnxruntime", "ONNX Runtime cannot be loaded"),
        ("tokenizers", "tokenizers cannot be loaded"),
    ],
)
@pytest.mark.parametrize("error", ["ImportError('gone')", "OSError('libstdc++ is too old')"])
def test_a_library_that_cannot_be_loaded(
    tiny_folder: Path, name: str, said: str, error: str
) -> None:
    """The error names the library; in a process that has not loaded it."""
    code = (
        "import sys; from pathlib import Path\n"
        "class Without:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {name!r}: raise {error}\n"
        "sys.meta_path.insert(0, Without())\n"
        "from kb.errors import ModelError; from kb.models import manifest\n"
        "from kb.models.onnx_encoder import OnnxEncoder\n"
        "try: OnnxEncoder(manifest.read(Path(sys.argv[1]))).encode(['a text'])\n"
        "except ModelError as error: print(error.code, error.message, error.hint, sep='; ')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tiny_folder)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.startswith(f"model_error; {said}: ")
    assert f"pip install --force-reinstall {name}" in done.stdout
