"""English sentences with some words replaced by Chinese or Japanese ones.

A sentence keeps its meaning, so it should keep its vector: a model that learns this knows a word of
the dictionary in a context, not only alone.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

LANGUAGES = ("zh", "ja")
LONGEST = 3  # words of an English phrase
LETTERS = 4  # of the longest sequence whose frequency is counted
KEPT = frozenset(
    "a about after all also am an and any are as at be been before being but by can could "
    "did do does doing done each for from had has have having he her here him his how i if "
    "in into is it its just me more most my no nor not of off on once only or other our out "
    "over own same shall she should so some such than that the their them then there these "
    "they this those through to too under until up very was we were what when where which "
    "while who whom why will with would you your s t".split()
)  # function words: a dictionary of words does not translate them well
Row = tuple[str, str, str]
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*|\d+|[^\sA-Za-z\d]")


def phrases(words: Iterable[Row], texts: Iterable[Row], language: str) -> dict[str, list[str]]:
    """English phrases of up to three words, and their most common translations: a dictionary also
    has obsolete words. `texts` tell how common one is, by its letters."""
    counts: Counter[str] = Counter()
    for _, code, text in texts:
        if code == language:
            for size in range(1, LETTERS + 1):
                counts.update(text[at : at + size] for at in range(len(text) - size + 1))
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for english, code, text in words:
        if code == language and english.count(" ") < LONGEST and english.lower() not in KEPT:
            often = min(counts[text[:LETTERS]], counts[text[-LETTERS:]])
            found[english.lower()].append((often / 10 if len(text) == 1 else often, text))
    return {
        english: [text for often, text in choices if often * 3 >= max(choices)[0]]
        for english, choices in found.items()
    }


def mixed_sentence(
    sentence: str, known: dict[str, list[str]], share: float, rng: random.Random
) -> str | None:
    """The sentence with about `share` of its known phrases replaced; None if too few are."""
    words, out, at, changed = WORD.findall(sentence), [], 0, 0
    while at < len(words):
        for size in range(min(LONGEST, len(words) - at), 0, -1):
            phrase = " ".join(words[at : at + size]).lower()
            choices = known.get(phrase) or (
                known.get(phrase.removesuffix("s")) if size == 1 else None
            )
            if choices and rng.random() < share:
                out.append(rng.choice(choices))
                changed += size
                at += size
                break
        else:
            out.append(words[at])
            at += 1
    return " ".join(out) if changed * 4 >= len(words) else None


def mixed_sentences(
    sentences: Iterable[str], dictionaries: dict[str, dict[str, list[str]]], seed: int = 0
) -> Iterator[Row]:
    """Rows of a sentence, a language and the mixed sentence. `dictionaries` has the `phrases` of
    each language."""
    rng = random.Random(seed)
    for sentence in sentences:
        for language, known in dictionaries.items():
            text = mixed_sentence(sentence, known, rng.choice((0.5, 0.8, 1.0)), rng)
            if text is not None:
                yield sentence, language, text
