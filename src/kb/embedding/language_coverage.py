"""Detects stores with much text that their encoder cannot read, and suggests a model for it. Pure.

Text in every language can be found by its words. Finding it by meaning needs a model that reads it,
which is suggested and never chosen automatically: all passages have to be embedded again.
"""

from __future__ import annotations

from collections.abc import Mapping

from kb.text.function_words import NAMES
from kb.types import ModelSpec

_LEAST_SHARE = 0.2  # share of all documents below which no model is suggested
# The script that identifies a language, for models that declare scripts only.
_SCRIPTS = {"zh": "CJK", "ja": "HIRAGANA", "ko": "HANGUL"}


def suggestion(languages: Mapping[str | None, int], spec: ModelSpec, other: ModelSpec) -> str:
    """Suggest the model `other` for a store with these numbers of documents by language; empty if
    the model with `spec` reads them, or the other does not."""
    unread = {
        NAMES.get(code, code): count
        for code, count in languages.items()
        if code is not None and code in other.languages and count and not _reads(spec, code)
    }
    count, total = sum(unread.values()), sum(languages.values())
    if not count or count < _LEAST_SHARE * total:
        return ""
    are = "document is" if total == 1 else "documents are"
    *first, last = sorted(unread)
    names = f"{', '.join(first)} and {last}" if first else last
    return (
        f"{count} of {total} {are} in {names}, which {spec.name} {spec.version} does not read: "
        "they are found by their words only. To find them by meaning too: "
        f"kb reindex --model {other.name}"
    )


def _reads(spec: ModelSpec, language: str) -> bool:
    if spec.languages:
        return language in spec.languages
    script = _SCRIPTS.get(language)
    return script is None or not spec.scripts or script in {one.upper() for one in spec.scripts}
