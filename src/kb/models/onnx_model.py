"""What an encoder and a judge have in common: a graph and a tokenizer from a folder with a
`model.json`, loaded when they are first needed, and shared between threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from kb.errors import ModelBroken, ModelError
from kb.models import manifest as manifests
from kb.models.manifest import MEND, Manifest
from kb.models.onnx_session import Session, load
from kb.models.runtime import load_runtime
from kb.ports import ModelTraits
from kb.types import ModelSpec

if TYPE_CHECKING:
    from pathlib import Path

Tokenising = TypeVar("Tokenising")


@dataclass(frozen=True, slots=True)
class Loaded(Generic[Tokenising]):
    session: Session
    tokeniser: Tokenising
    pool: ThreadPoolExecutor


class OnnxModel(ModelTraits, Generic[Tokenising]):
    """Nothing is loaded before the first text. `threads` 0 means one a core."""

    _work = "kb-model"  # the name of its threads

    def __init__(self, manifest: Manifest, *, provider: str = "auto", threads: int = 0) -> None:
        self.manifest = manifest
        self._provider = provider
        self._threads = threads or cores()
        self._lock = Lock()
        self._loaded: Loaded[Tokenising] | None = None

    @property
    def spec(self) -> ModelSpec:
        return self.manifest.spec

    def check(self) -> None:
        """Raises where a file is missing or has another size; loads nothing."""
        manifests.check_sizes(self.manifest)

    def load(self) -> None:
        """Load the model, unless it is loaded."""
        self.loaded()

    def loaded(self) -> Loaded[Tokenising]:
        """Return the loaded model; the first call loads it."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Loaded[Tokenising]:
        # All of each file: a graph with a few bytes changed loads, and gives other vectors, which
        # would then stand beside good ones for ever. It takes 20 ms, in which the libraries are
        # loaded; the hashes of files of gigabytes, which would take seconds, are remembered.
        with ThreadPoolExecutor(1) as beside:
            checked = beside.submit(manifests.check_hashes, self.manifest, anew=False)
            _load_libraries()
            checked.result()
        session = load(self.manifest, self._provider)
        return Loaded(session, self._tokeniser(), ThreadPoolExecutor(self._threads, self._work))

    def _tokeniser(self) -> Tokenising:
        path = self.manifest.path(manifests.TOKENIZER)
        try:
            import tokenizers  # noqa: F401  # before the file: neither is blamed for the other
        except (ImportError, OSError) as error:
            raise ModelError(
                f"tokenizers cannot be loaded: {error}", "pip install --force-reinstall tokenizers"
            ) from error
        try:
            return self._read_tokenizer(path)
        # The library raises bare Exceptions for files that it cannot read.
        except Exception as error:
            raise ModelBroken(f"{path} cannot be loaded: {error}", MEND) from error

    def _read_tokenizer(self, path: Path) -> Tokenising:
        raise NotImplementedError


def _load_libraries() -> None:
    """What is wrong with one is told by who needs it. numpy is the first, as in `session.load`."""
    with suppress(ImportError, OSError):
        import numpy  # noqa: F401

        load_runtime()
        import tokenizers  # noqa: F401


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
