"""Detection of a document's language, for documents that do not declare one.

A script that only one language uses decides at once. Otherwise py3langid is used if it is installed
(extra `lang`). Without it, or if its confidence is low, the language stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.types import ChunkDraft

_SAMPLE_CHUNKS = 4
_SAMPLE_CHARS = 4000
_CLASSIFIED_CHARS = 1000
_MIN_LETTERS = 40  # py3langid is unreliable below
_MIN_PROBABILITY = 0.9
_MIN_SHARE = 0.2  # of the letters, so that names and quotations do not decide
_MIN_SYLLABIC_SHARE = 0.1  # lower, since a character is a syllable or a word

# The order matters: Japanese uses kana and Han, Chinese Han only.
_SCRIPTS = (
    ("ja", re.compile("[\u3041-\u3096\u30a1-\u30fa\uff66-\uff9f]"), _MIN_SYLLABIC_SHARE / 2),
    ("ko", re.compile("[\uac00-\ud7a3\u1100-\u11ff\u3131-\u318e]"), _MIN_SYLLABIC_SHARE),
    (
        "zh",
        re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"),
        _MIN_SYLLABIC_SHARE,
    ),
    ("th", re.compile("[\u0e01-\u0e3a\u0e40-\u0e4e]"), _MIN_SHARE),
    ("lo", re.compile("[\u0e81-\u0edf]"), _MIN_SHARE),
    ("my", re.compile("[\u1000-\u109f]"), _MIN_SHARE),
    ("km", re.compile("[\u1780-\u17ff]"), _MIN_SHARE),
    ("el", re.compile("[\u0370-\u03ff]"), _MIN_SHARE),
    ("he", re.compile("[\u0590-\u05ff]"), _MIN_SHARE),
    ("ka", re.compile("[\u10a0-\u10ff]"), _MIN_SHARE),
    ("hy", re.compile("[\u0530-\u058f]"), _MIN_SHARE),
)
_LETTER = re.compile(r"[^\W\d_]")
_ASCII_NON_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha())


def detect_language(text: str, *, script_only: bool = False) -> str | None:
    """The ISO 639-1 code of the language of `text`, judged by its beginning; None if unknown.
    `script_only` avoids loading py3langid, which takes half a second."""
    sample = text[:_SAMPLE_CHARS]
    letters = _count_letters(sample)
    if not letters:
        return None
    if not sample.isascii():
        for language, script, share in _SCRIPTS:
            if len(script.findall(sample)) >= share * letters:
                return language
    if script_only or letters < _MIN_LETTERS:
        return None
    return _classify(sample[:_CLASSIFIED_CHARS])


def sample_language(chunks: Sequence[ChunkDraft]) -> str | None:
    """The language of a document, by several of its first chunks, since a single one may be a
    heading or a license."""
    return detect_language("\n".join(chunk.text for chunk in chunks[:_SAMPLE_CHUNKS]))


def _count_letters(sample: str) -> int:
    if sample.isascii():  # ten times as fast as the expression
        return len(sample.encode().translate(None, _ASCII_NON_LETTERS))
    return len(_LETTER.findall(sample))


def _classify(sample: str) -> str | None:
    if (identifier := _identifier()) is None:
        return None
    language, probability = identifier.classify(sample)
    return str(language) if probability >= _MIN_PROBABILITY else None


@cache
def _identifier() -> Any:
    """py3langid's identifier; None if it is not installed or has no disk space to unpack its model:
    a document can do without a language."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        vectorized: Any = type("Vectorized", (LanguageIdentifier,), {"_raw_score": _raw_score})
        return vectorized.from_model_file(MODEL_FILE, norm_probs=True)
    except (ImportError, OSError):
        return None


def _raw_score(identifier: Any, text: bytes) -> Any:
    """Replaces the method of py3langid, which runs its automaton byte by byte. This version
    computes the next state at all positions at once, and repeats that until no state changes, which
    takes at most as many rounds as the longest feature has bytes. The states are then the same as
    after a sequential run."""
    import numpy as np

    next_state, row, feature_of = _automaton(identifier)
    letters = np.frombuffer(text, np.uint8)
    states = np.zeros(len(letters) + 1, np.int64)
    while True:
        following = next_state[row[states[:-1]] + letters]
        if np.array_equal(following, states[1:]):
            break
        states[1:] = following
    features = feature_of[states[1:]]
    features, counts = np.unique(features[features >= 0], return_counts=True)
    weights = np.log1p(counts.astype(np.float32))
    return weights @ identifier.nb_ptc[features] + (identifier.nb_pc if len(features) else 0)


@cache
def _automaton(identifier: Any) -> tuple[Any, Any, Any]:
    import numpy as np

    return (
        np.asarray(identifier.tk_nextmove),
        np.asarray(identifier._rowbase, np.int32),
        np.asarray(identifier.tk_output, np.int32),
    )
