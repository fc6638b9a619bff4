"""Generated text with the word frequencies of prose, and queries about it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

_STOP_WORDS = """
the of and to in a is that it was for on are with as at be this have from or had by but not what all
were when we there can an your which their said if do will each about how
""".split()
_SYLLABLES = """
ba ce di fo gu ha je ki lo mu na pe qui ro su ta ve wi xo yu zan bel cor dim
""".split()


class Prose:
    """A vocabulary of 30,000 words under Zipf's law, stop words first."""

    def __init__(self, seed: int = 1) -> None:
        self._chance = random.Random(seed)
        vocabulary: dict[str, None] = dict.fromkeys(_STOP_WORDS)
        while len(vocabulary) < 30_000:
            vocabulary["".join(self._chance.choices(_SYLLABLES, k=self._chance.randint(2, 4)))] = (
                None
            )
        self._words = list(vocabulary)
        self._cumulated = list(accumulate(1 / (rank + 3) for rank in range(len(vocabulary))))

    def words(self, count: int) -> list[str]:
        return self._chance.choices(self._words, cum_weights=self._cumulated, k=count)

    def passage(self, characters: int = 840) -> str:
        sentences, length = [], 0
        while length < characters:
            sentence = " ".join(self.words(self._chance.randint(6, 18))).capitalize() + "."
            sentences.append(sentence)
            length += len(sentence) + 1
        return " ".join(sentences)

    def query(self, passage: str) -> str:
        """A query about a passage: some of its words, and some stop words."""
        own = [word for word in passage.lower().replace(".", "").split() if len(word) > 4]
        words = [*self._chance.sample(own, min(5, len(own))), *self._chance.sample(_STOP_WORDS, 4)]
        self._chance.shuffle(words)
        return " ".join(words)

    def markdown(self, characters: int) -> str:
        sections, length = [f"# {' '.join(self.words(3)).capitalize()}\n"], 0
        while length < characters:
            body = self.passage(self._chance.randint(300, 900))
            sections.append(f"## {' '.join(self.words(4)).capitalize()}\n\n{body}\n")
            length += len(body)
        return "\n".join(sections)


def write_markdown(folder: Path, files: int, characters: int) -> None:
    prose = Prose(seed=2)
    for number in range(files):
        path = folder / f"{number % 20:02d}" / f"note-{number:05d}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(prose.markdown(characters), encoding="utf-8")


def passages(count: int) -> Iterator[str]:
    prose = Prose(seed=3)
    return (prose.passage() for _ in range(count))
