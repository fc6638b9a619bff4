"""The common base of the ONNX encoder and judge: a graph and a tokenizer from a folder with a
`model.json`, loaded on first use and shared between threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from kb.errors import ModelBroken, ModelError
from kb.models import manifest as manifests
from kb.models.manifest import HINT, Manifest
from kb.models.onnx_session import Session, load
from kb.models.runtime import load_runtime
from kb.ports import ModelTraits
from kb.types import ModelSpec

if TYPE_CHECKING:
    from pathlib import Path

TokenizerT = TypeVar("TokenizerT")


@dataclass(frozen=True, slots=True)
class LoadedModel(Generic[TokenizerT]):
    """A loaded model, and the threads that run it."""

    session: Session
    tokenizer: TokenizerT
    pool: ThreadPoolExecutor


class OnnxModel(ModelTraits, Generic[TokenizerT]):
    """Loads nothing before the first text. `threads` 0 means one per core."""

    _thread_name = "kb-model"

    def __init__(self, manifest: Manifest, *, provider: str = "auto", threads: int = 0) -> None:
        self.manifest = manifest
        self._provider = provider
        self._threads = threads or cores()
        self._lock = Lock()
        self._loaded: LoadedModel[TokenizerT] | None = None

    @property
    def spec(self) -> ModelSpec:
        """The specification from the manifest."""
        return self.manifest.spec

    def check(self) -> None:
        """Raise `ModelError` if a file is missing or has the wrong size. Loads nothing."""
        manifests.check_sizes(self.manifest)

    def load(self) -> None:
        """Load the model, unless it is loaded."""
        self.loaded()

    def loaded(self) -> LoadedModel[TokenizerT]:
        """Return the loaded model; the first call loads it."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> LoadedModel[TokenizerT]:
        # Check every byte: a graph with a few changed bytes loads, and its wrong vectors would be
        # stored among good ones. This takes 20 ms, while the libraries are loaded; the hashes of
        # very large files, which would take seconds, are cached.
        with ThreadPoolExecutor(1) as pool:
            check = pool.submit(manifests.check_hashes, self.manifest, anew=False)
            _load_libraries()
            check.result()
            # The graph takes longest, and is loaded without the interpreter lock.
            session = pool.submit(load, self.manifest, self._provider)
            tokenizer = self._load_tokenizer()
            return LoadedModel(
                session.result(),
                tokenizer,
                ThreadPoolExecutor(self._threads, self._thread_name),
            )

    def _load_tokenizer(self) -> TokenizerT:
        path = self.manifest.path(manifests.TOKENIZER)
        try:
            import tokenizers  # noqa: F401  # separately, so that the error names the right cause
        except (ImportError, OSError) as error:
            raise ModelError(
                f"tokenizers cannot be loaded: {error}", "pip install --force-reinstall tokenizers"
            ) from error
        try:
            return self._read_tokenizer(path)
        # The library raises plain Exceptions for files that it cannot read.
        except Exception as error:
            raise ModelBroken(f"{path} cannot be loaded: {error}", HINT) from error

    def _read_tokenizer(self, path: Path) -> TokenizerT:
        raise NotImplementedError


def _load_libraries() -> None:
    """Import the libraries; errors are reported where a library is used. numpy comes first, as in
    `onnx_session.load`."""
    with suppress(ImportError, OSError):
        import numpy  # noqa: F401

        load_runtime()
        import tokenizers  # noqa: F401


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
