"""kb-mini: an English encoder and one for other languages, used as one.

Both have the same space of vectors, because the second was trained to put a translation where the
first puts the English text (`training/README.md`). English texts get the vectors of the English
encoder, to the last bit; the encoder for other languages is loaded with the first text in one of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from kb.errors import InvalidRequest
from kb.ports import ModelTraits
from kb.text.english import is_english
from kb.types import Encoding, ModelSpec

if TYPE_CHECKING:
    from kb.models.onnx_encoder import OnnxEncoder

VERSION = "3"


def pair_spec(english: ModelSpec, others: ModelSpec) -> ModelSpec:
    """The specification of the pair: the English model's name, and what the second one reads."""
    return replace(english, version=VERSION, scripts=others.scripts, languages=others.languages)


class LanguagePair(ModelTraits):
    """Encodes English texts with `english` and all others with `others`."""

    def __init__(self, english: OnnxEncoder, others: OnnxEncoder) -> None:
        self.english = english
        self.others = others
        self.spec = pair_spec(english.spec, others.spec)

    @property
    def batch_size(self) -> int:
        """The batch size of the English encoder. Loads it."""
        return self.english.batch_size

    def check(self) -> None:
        """Raise `ModelError` if a file is missing or has the wrong size. Loads nothing."""
        self.english.check()
        self.others.check()

    def load(self) -> None:
        """Load the English encoder, which most texts need."""
        self.english.load()

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        if isinstance(texts, str):
            raise InvalidRequest("encode takes a list of texts", "pass [text] for a single text")
        groups: dict[OnnxEncoder, list[int]] = {}
        for position, text in enumerate(texts):
            encoder = self.english if is_english(text) else self.others
            groups.setdefault(encoder, []).append(position)
        encodings: dict[int, Encoding] = {}
        for encoder, positions in groups.items():
            done = len(encodings)
            results = encoder.encode(
                [texts[position] for position in positions],
                as_query=as_query,
                want=want,
                on_progress=_after(done, on_progress),
            )
            encodings.update(zip(positions, results, strict=True))
        return [encodings[position] for position in range(len(texts))]


def _after(done: int, on_progress: Callable[[int], None] | None) -> Callable[[int], None] | None:
    """Report progress as a count that includes the `done` texts of the other encoder."""
    if on_progress is None or not done:
        return on_progress
    report = on_progress
    return lambda count: report(done + count)
