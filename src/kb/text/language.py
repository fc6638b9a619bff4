"""Which language a document is in, where it does not say so itself. Script first.

A script that one language is written in decides at once. For the others py3langid is asked, if it
is installed (extra `lang`); without it, or where it is not sure, the language stays unknown.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

_SAMPLE_CHARS = 4000
_GUESSED_CHARS = 1000  # what py3langid is given: it takes 0.6 ms a thousand
_LEAST_LETTERS = 40  # py3langid guesses below that
_LEAST_PROBABILITY = 0.9
_LEAST_SHARE = 0.2  # of the letters: names and quotations of another script do not decide
_SYLLABIC_SHARE = 0.1  # where a character is a syllable or a word, fewer say as much

# In this order: Japanese is written in kana and Han, Chinese in Han alone.
_SCRIPTS = (
    ("ja", re.compile("[\u3041-\u3096\u30a1-\u30fa\uff66-\uff9f]"), _SYLLABIC_SHARE / 2),
    ("ko", re.compile("[\uac00-\ud7a3\u1100-\u11ff\u3131-\u318e]"), _SYLLABIC_SHARE),
    (
        "zh",
        re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"),
        _SYLLABIC_SHARE,
    ),
    ("th", re.compile("[\u0e01-\u0e3a\u0e40-\u0e4e]"), _LEAST_SHARE),
    ("lo", re.compile("[\u0e81-\u0edf]"), _LEAST_SHARE),
    ("my", re.compile("[\u1000-\u109f]"), _LEAST_SHARE),
    ("km", re.compile("[\u1780-\u17ff]"), _LEAST_SHARE),
    ("el", re.compile("[\u0370-\u03ff]"), _LEAST_SHARE),
    ("he", re.compile("[\u0590-\u05ff]"), _LEAST_SHARE),
    ("ka", re.compile("[\u10a0-\u10ff]"), _LEAST_SHARE),
    ("hy", re.compile("[\u0530-\u058f]"), _LEAST_SHARE),
)
_LETTER = re.compile(r"[^\W\d_]")


def language_of(text: str, *, by_script_only: bool = False) -> str | None:
    """The ISO 639-1 code of the language of `text`, as far as its beginning tells. `by_script_only`
    spares the half second that loading py3langid takes."""
    sample = text[:_SAMPLE_CHARS]
    letters = len(_LETTER.findall(sample))
    if not letters:
        return None
    if not sample.isascii():
        for language, script, share in _SCRIPTS:
            if len(script.findall(sample)) >= share * letters:
                return language
    return (
        _guessed(sample[:_GUESSED_CHARS])
        if letters >= _LEAST_LETTERS and not by_script_only
        else None
    )


def _guessed(sample: str) -> str | None:
    if (identifier := _identifier()) is None:
        return None
    language, probability = identifier.classify(sample)
    return str(language) if probability >= _LEAST_PROBABILITY else None


@cache
def _identifier() -> Any:
    """py3langid's, with probabilities; None where it is not installed, or cannot unpack its model,
    for which it needs room on the disk: a document without a language is still a document."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    except (ImportError, OSError):
        return None
