"""`python -m bench.everyday`: searches as people type them, of kinds that judged collections lack.

python -m bench.everyday [set ...]

For every judged collection in English (see `bench.quality`): a store of at most 1,500 of its
passages, a quarter of them about something else. The newest quarter is embedded first. Measured
are

- a rare word (in two to six passages, with no other inflections), and a literal span of six words:
  how often the first hit contains it, by words alone and with `default`;
- nDCG@10 of at most 100 questions, by words alone and with `default` at 3, 25, 60 and 100 % of the
  vectors;
- AUROC: the probability that the first hit of an answerable question has a higher relevance than
  that of a question of another collection;
- `memory`: how many hits the profile returns for a question of another collection.

Missed targets are printed, and the exit status is then 1. KB_PASSAGES sets another number of
passages.
"""

from __future__ import annotations

import os
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from training.relevance_data import Collection, fill, read_judged

from bench.quality import CACHE
from bench.relevance import OTHERS, auroc
from bench.timing import table
from kb import KnowledgeBase, models
from kb.config import Config
from kb.evaluation.encoding_cache import cached_encoder
from kb.evaluation.metrics import parse_measure
from kb.ports import Encoder
from kb.text.tokenize import tokenize

SETS = ("scifact", "nfcorpus", "cranfield", "cosqa", "xquad-en")
QUESTIONS, RARE_WORDS, SPANS, SPAN_WORDS = 100, 200, 150, 6
SHARES = (0.03, 0.25, 0.6, 1.0)
OLD, NEW = "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
MEASURE = parse_measure("nDCG@10")
SPAN_FIRST, WORD_FIRST, MAY_LOSE, TOLD_APART, STRANGE_HITS = 0.97, 0.98, 0.003, 0.97, 1.0
_WORD = re.compile(r"\b[a-z]{3,12}\b")


@dataclass
class Figures:
    """What was measured on one collection; first hits by words alone and with `default`."""

    name: str
    rare_words: tuple[float, float]
    spans: tuple[float, float]
    words: float
    shares: dict[float, float] = field(default_factory=dict)
    auroc: float = 0.0
    memory: float = 0.0

    def row(self) -> tuple[object, ...]:
        """The row of the table."""
        shares = (f"{value:.3f}" for value in self.shares.values())
        pairs = (f"{words:.3f} {default:.3f}" for words, default in (self.rare_words, self.spans))
        return (self.name, *pairs, f"{self.words:.3f}", *shares, f"{self.auroc:.3f}",
                f"{self.memory:.2f}")  # fmt: skip

    def failures(self) -> list[str]:
        """Descriptions of the figures that are too low."""
        found = []
        for label, (words, default), least in (
            ("rare words", self.rare_words, WORD_FIRST),
            ("spans", self.spans, SPAN_FIRST),
        ):
            if default < max(least, words):
                found.append(f"{label}: {default:.3f} (words {words:.3f})")
        for share, value in self.shares.items():
            if value < self.words - MAY_LOSE:
                found.append(f"{share:.0%} of the vectors: {value:.4f} (words {self.words:.4f})")
        if self.auroc < TOLD_APART:
            found.append(f"AUROC {self.auroc:.3f}")
        if self.memory >= STRANGE_HITS:
            found.append(f"memory: {self.memory:.2f} hits for questions about something else")
        return [f"{self.name}, {each}" for each in found]


def main() -> int:
    folder = Path(os.environ.get("KB_DATA", "../shared/data"))
    present = [name for name in sys.argv[1:] or SETS if (folder / name).is_dir()]
    encoder = models.encoder(Config(), os.environ.get("KB_MODELS_ENCODER")) if present else None
    if encoder is None:
        print(f"no judged collections in {folder}, or no encoder: nothing measured (set KB_DATA)")
        return 0
    passages = int(os.environ.get("KB_PASSAGES", "1500"))
    measured = []
    with cached_encoder(encoder, CACHE) as cached:
        for name in present:
            measured.append(measure(folder, name, passages, cached))
            print(f"{name} measured", file=sys.stderr, flush=True)
    header = ("set", "rare word first: words, default", "span first: words, default",
              "nDCG@10, words", *(f"{share:.0%}" for share in SHARES), "AUROC",
              "memory: hits, foreign")  # fmt: skip
    title = f"Everyday searches, at most {passages} passages of each collection"
    print(table(title, header, [each.row() for each in measured]))
    failures = [line for each in measured for line in each.failures()]
    print("\n".join(failures) or "Every required figure is reached.")
    return 1 if failures else 0


def measure(folder: Path, name: str, passages: int, encoder: Encoder) -> Figures:
    """All figures of one collection."""
    other_name, third = OTHERS[name]
    collection = read_judged(folder / name, passages, QUESTIONS)
    other = read_judged(folder / other_name, passages, 1)
    strange = dict(list(other.passages.items())[: len(collection.passages) // 3])
    foreign = read_judged(folder / third, 1, QUESTIONS).questions
    texts = {
        doc_id: " ".join(f"{title}\n{text}".lower().split())
        for doc_id, (title, text) in [
            *collection.passages.items(),
            *((f"other-{doc_id}", each) for doc_id, each in strange.items()),
        ]
    }
    with (
        TemporaryDirectory() as temporary,
        KnowledgeBase(Path(temporary) / "kb.sqlite", encoder=encoder) as kb,
    ):
        fill(kb, collection.passages, OLD)
        fill(kb, {f"other-{doc_id}": each for doc_id, each in strange.items()}, NEW)
        words = _quality(kb, collection, mode="lexical")
        shares = _by_share(kb, collection)
        figures = Figures(
            name,
            _first_hits(kb, rare_words(texts), texts, _has_word),
            _first_hits(kb, spans(texts), texts, lambda span, text: span in text),
            words,
            shares,
        )
        pairs = [
            (hits[0].relevance or 0.0 if (hits := kb.search(query).hits) else 0.0, own)
            for own, queries in ((True, collection.questions), (False, foreign))
            for query in queries
        ]
        figures.auroc = auroc(pairs)
        figures.memory = fmean(len(kb.search(query, profile="memory").hits) for query in foreign)
        return figures


def _by_share(kb: KnowledgeBase, collection: Collection) -> dict[float, float]:
    """The quality of `default` with a part of the vectors, by share."""
    total, embedded, found = kb.pending(), 0, {}
    for share in SHARES:
        kb.embed(limit=round(total * share) - embedded)
        embedded = round(total * share)
        found[share] = _quality(kb, collection)
    return found


def _quality(kb: KnowledgeBase, collection: Collection, mode: str | None = None) -> float:
    """The mean nDCG@10; every passage that answers a question has the same grade."""
    scores = []
    for query in collection.questions:
        hits = kb.search(query, mode=mode, top=30).hits
        ranked = list(dict.fromkeys(hit.doc_path for hit in hits))
        grades = dict.fromkeys(collection.answers[query] & collection.passages.keys(), 1)
        scores.append(MEASURE.score(ranked, grades, "linear"))
    return fmean(scores)


def _first_hits(
    kb: KnowledgeBase,
    queries: Sequence[str],
    texts: Mapping[str, str],
    holds: Callable[[str, str], bool],
) -> tuple[float, float]:
    """How often the first hit contains the query, by words alone and with `default`."""
    shares = []
    for mode in ("lexical", None):
        firsts = [(query, kb.search(query, mode=mode, top=1).hits) for query in queries]
        shares.append(fmean(bool(hits) and holds(query, texts[hits[0].doc_path])
                            for query, hits in firsts))  # fmt: skip
    return shares[0], shares[1]


# --- queries --------------------------------------------------------------------------------------


def rare_words(texts: Mapping[str, str]) -> list[str]:
    """Words of two to six texts, of which no other inflection occurs."""
    words: Counter[str] = Counter()
    stems: Counter[str] = Counter()
    for text in texts.values():
        found = set(_WORD.findall(text))
        words.update(found)
        stems.update({_stem(word) for word in found})
    rare = sorted(w for w, count in words.items() if 2 <= count <= 6 and stems[_stem(w)] == count)
    return random.Random(11).sample(rare, min(RARE_WORDS, len(rare)))


def spans(texts: Mapping[str, str]) -> list[str]:
    """Six adjacent words of random texts."""
    chance = random.Random(12)
    long = [words for text in texts.values() if len(words := text.split()) > 2 * SPAN_WORDS]
    return [
        " ".join(words[start : start + SPAN_WORDS])
        for words in chance.choices(long, k=SPANS)
        for start in (chance.randrange(len(words) - SPAN_WORDS),)
    ]


def _stem(word: str) -> str:
    return "".join(stem for *_, stem in tokenize(word))


def _has_word(word: str, text: str) -> bool:
    return re.search(rf"\b{word}\b", text) is not None


if __name__ == "__main__":
    sys.exit(main())
