"""A tiny model, created once: int8, with every output. Tests damage copies of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kb.models import manifest
from kb.models.onnx_encoder import OnnxEncoder
from tests.models import tiny


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.lay(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def encoder(tiny_folder: Path) -> OnnxEncoder:
    return open_encoder(tiny_folder, threads=4)


def open_encoder(folder: Path, **settings: int | str) -> OnnxEncoder:
    return OnnxEncoder(manifest.read(folder), **settings)  # type: ignore[arg-type]  # by name


@pytest.fixture
def copied(tiny_folder: Path, tmp_path: Path) -> Callable[[], Path]:
    """A copy of the tiny model that tests may damage."""

    def copy() -> Path:
        return Path(shutil.copytree(tiny_folder, tmp_path / "copied"))

    return copy
