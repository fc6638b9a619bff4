"""The Porter stemmer of FTS5's `porter` tokenizer. Pure.

Like SQLite, it works on UTF-8: each byte of a letter beyond ASCII counts as a consonant. Words
shorter than 3 or longer than 64 bytes are not stemmed.
"""

from __future__ import annotations

_MIN_BYTES, MAX_BYTES = 3, 64

# "v" for vowels and "c" for consonants; whether "y" is a vowel depends on the letter before it.
_LETTER_KINDS = bytes(
    ord("v" if chr(byte) in "aeiou" else "y" if chr(byte) == "y" else "c") for byte in range(256)
)
_NEVER_HALVED = b"aeioulsz"

Rules = dict[bytes, list[tuple[bytes, bytes]]]


def _rules(text: str) -> Rules:
    """Parse rules of the form `suffix>replacement`, grouped by the last two letters of the suffix.
    In a group, the first matching suffix decides."""
    groups: Rules = {}
    for rule in text.encode().split():
        suffix, _, replacement = rule.partition(b">")
        groups.setdefault(suffix[-2:], []).append((suffix, replacement))
    return groups


_STEP_2 = _rules(
    "ational>ate tional>tion enci>ence anci>ance izer>ize logi>log bli>ble alli>al entli>ent eli>e "
    "ousli>ous ization>ize ation>ate ator>ate alism>al iveness>ive fulness>ful ousness>ous "
    "aliti>al iviti>ive biliti>ble"
)
_STEP_3 = _rules("ical>ic ness> icate>ic iciti>ic ful> ative> alize>al")
_STEP_4 = _rules(
    "al> ance> ence> er> ic> able> ible> ant> ement> ment> ent> ion> ou> ism> ate> iti> ous> ive> "
    "ize>"
)


def stem(word: str) -> str:
    """The stem of a word in lower case, without diacritics."""
    letters = word.encode()
    if not _MIN_BYTES <= len(letters) <= MAX_BYTES:
        return word
    if letters[-1:] == b"s":
        letters = _remove_plural(letters)
    if letters[-1:] in (b"d", b"g"):
        letters = _remove_participle(letters)
    if letters[-1:] == b"y" and _has_vowel(letters[:-1]):
        letters = letters[:-1] + b"i"
    for rules, min_measure in ((_STEP_2, 1), (_STEP_3, 1), (_STEP_4, 2)):
        if group := rules.get(letters[-2:]):
            letters = _replace_suffix(letters, group, min_measure)
    if letters[-1:] in (b"e", b"l"):
        letters = _remove_final_letter(letters)
    # SQLite also removes one of two equal bytes of a letter beyond ASCII, which breaks the letter.
    return letters.decode("utf-8", "replace")


# --- steps ----------------------------------------------------------------------------------------


def _remove_plural(letters: bytes) -> bytes:
    if letters.endswith(b"ss"):
        return letters
    if len(letters) > 4 and letters.endswith(b"sses"):
        return letters[:-2]
    if len(letters) > 3 and letters.endswith(b"ies"):
        return letters[:-2]
    return letters[:-1]


def _remove_participle(letters: bytes) -> bytes:
    """Remove -ed or -ing, and restore the e that it replaced."""
    if len(letters) > 3 and letters.endswith(b"eed"):
        return letters[:-1] if _measure(letters[:-3]) else letters
    if len(letters) > 2 and letters.endswith(b"ed"):
        rest = letters[:-2]
    elif len(letters) > 3 and letters.endswith(b"ing"):
        rest = letters[:-3]
    else:
        return letters
    if not _has_vowel(rest):
        return letters
    if len(rest) > 2 and rest.endswith((b"at", b"bl", b"iz")):
        return rest + b"e"
    if rest[-1] not in _NEVER_HALVED and rest[-1:] == rest[-2:-1]:
        return rest[:-1]
    return rest + b"e" if _measure(rest) == 1 and _ends_in_short_syllable(rest) else rest


def _replace_suffix(letters: bytes, group: list[tuple[bytes, bytes]], min_measure: int) -> bytes:
    for suffix, replacement in group:
        if len(letters) > len(suffix) and letters.endswith(suffix):
            rest = letters[: -len(suffix)]
            if suffix == b"ion" and not rest.endswith((b"s", b"t")):
                return letters
            return rest + replacement if _measure(rest) >= min_measure else letters
    return letters


def _remove_final_letter(letters: bytes) -> bytes:
    """Remove a final e and one l of a final ll, unless the word is short."""
    if letters[-1:] == b"e":
        rest = letters[:-1]
        measure = _measure(rest)
        if measure > 1 or (measure == 1 and not _ends_in_short_syllable(rest)):
            letters = rest
    if letters.endswith(b"ll") and _measure(letters[:-1]) > 1:
        return letters[:-1]
    return letters


# --- conditions -----------------------------------------------------------------------------------


def _kinds(letters: bytes) -> bytes:
    """A "v" for each vowel and a "c" for each consonant."""
    kinds = letters.translate(_LETTER_KINDS)
    while (at := kinds.find(b"y")) >= 0:
        kind = b"v" if kinds[at - 1 : at] == b"c" else b"c"
        kinds = kinds[:at] + kind + kinds[at + 1 :]
    return kinds


def _measure(letters: bytes) -> int:
    """Porter's m: the number of times that a consonant follows a vowel."""
    return _kinds(letters).count(b"vc")


def _has_vowel(letters: bytes) -> bool:
    return b"v" in _kinds(letters)


def _ends_in_short_syllable(letters: bytes) -> bool:
    """Porter's *o: whether the letters end in consonant, vowel, consonant, the last not w, x, y."""
    return _kinds(letters).endswith(b"cvc") and not letters.endswith((b"w", b"x", b"y"))
