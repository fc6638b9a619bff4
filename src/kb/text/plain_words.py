"""The plain form of words with characters that readers do not see or cannot tell apart. Pure.

- invisible characters: soft hyphens, zero-width spaces and joiners, direction marks;
- characters for several letters, or for a letter's form: `ﬁ`, full-width Latin, Arabic forms.

The full-text index ends a word at an invisible character, and treats `ﬁ` as a separate letter. So
the plain form is indexed beside the text, which stays as it is; queries and highlights use it too.
A zero-width space may also separate words, as in Thai and Khmer. Both readings are found, since the
words on both sides of it are indexed as well.
"""

from __future__ import annotations

import re
import unicodedata

_SEPARATORS = "\u200b-\u200d"  # zero-width space, non-joiner, joiner: may separate words
_INVISIBLE = "\u00ad\u034f\u061c\u180e\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
_FORMS = (
    "\u0132\u0133\u01c4-\u01cc\u01f1-\u01f3"  # Ĳ, Ǆ
    "\ufb00-\ufb06\ufb13-\ufb17"  # Latin and Armenian ligatures
    "\ufb50-\ufbb1\ufbd3-\ufd3d\ufd50-\ufdc7\ufdf0-\ufdfb\ufe70-\ufefc"  # Arabic
    "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a"  # full-width digits and Latin letters
)
_ASCII = bytes(range(128))
# Compiled by `re` on first use: most texts need none of them.
_ANY = f"[{_SEPARATORS}{_INVISIBLE}{_FORMS}]"
_REMOVED = f"[{_SEPARATORS}{_INVISIBLE}]+"
_FORM = f"[{_FORMS}]+"
_RUN = r"[^\s\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+"
# In these scripts, a word is written without separators. In a query they are noise.
_LETTER = "0-9A-Za-z\u00c0-\u058f"
_NOISE = f"[{_INVISIBLE}]+|(?<=[{_LETTER}])[{_SEPARATORS}]+(?=[{_LETTER}])"


def not_ascii(text: str) -> str:
    """The characters of `text` that are not ASCII. Deleting the bytes of the others is much faster
    than a regular expression."""
    if text.isascii():
        return ""
    rest = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return rest.decode("utf-8", "surrogatepass")


def has_plain_form(text: str) -> bool:
    """Whether the plain form of `text` differs from it."""
    return not text.isascii() and re.search(_ANY, not_ascii(text)) is not None


def plain_form(text: str) -> str:
    """`text` without invisible characters, and with plain letters: `oﬃ\u00adce` -> `office`."""
    if not has_plain_form(text):
        return text
    return re.sub(_FORM, _plain_letters, re.sub(_REMOVED, "", text))


def plain_query(text: str) -> str:
    """The plain form of a query. A zero-width space beside a script that needs it is kept, so that
    the words on both sides of it match."""
    if not has_plain_form(text):
        return text
    return re.sub(_FORM, _plain_letters, re.sub(_NOISE, "", text))


def plain_words(text: str) -> list[str]:
    """The plain forms of the words in `text` that differ from their plain form, in order."""
    if not has_plain_form(text):
        return []
    return [plain_form(run) for run in re.findall(_RUN, text) if has_plain_form(run)]


def plain_offsets(text: str) -> tuple[str, list[int]]:
    """The plain form of `text`, and the offset in `text` of each of its characters."""
    parts: list[str] = []
    offsets: list[int] = []
    end = 0
    for match in re.finditer(_ANY, text):
        parts.append(text[end : match.start()])
        offsets.extend(range(end, match.start()))
        plain = plain_form(match[0])
        parts.append(plain)
        offsets.extend([match.start()] * len(plain))
        end = match.end()
    parts.append(text[end:])
    offsets.extend(range(end, len(text)))
    return "".join(parts), offsets


def _plain_letters(match: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", match[0])
