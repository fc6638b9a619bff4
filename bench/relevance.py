"""`python -m bench.relevance`: whether `relevance` shows what a store can answer.

python -m bench.relevance [set ...]

For every judged collection (see `bench.quality`): a store of at most 1,500 of its passages, a
quarter of them about something else; questions that the collection answers, and questions of other
collections. None of these collections is used to fit the parameters (`training.relevance`).

AUROC is the probability that the first hit of an answerable question has a higher relevance than
that of another question. ECE, the expected calibration error, is the mean difference of relevance
and truth over ten bins; with few questions, even perfectly calibrated estimates show an error by
chance, which is shown beside it. All are shown for stores with none, some and all of their vectors.
The last columns are about the profile `memory`: how many of ten hits remain for questions about
something else, and the share of right hits that remain. KB_QUESTIONS sets the largest number of
questions, 100 by default.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from math import nan
from pathlib import Path
from statistics import fmean

from training.relevance_data import Collection, Observation, observe, read_judged

from bench.quality import CACHE
from bench.timing import table
from kb import models
from kb.config import Config
from kb.errors import ModelError
from kb.evaluation.encoding_cache import cached_encoder
from kb.ports import Encoder

PASSAGES = 1_500
BINS = 10
DRAWS = 100
# The collection that a quarter of the store is about, and those whose questions nothing answers.
OTHERS = {
    "scifact": ("cosqa", "xquad-en"),
    "nfcorpus": ("cosqa", "xquad-en"),
    "cranfield": ("nfcorpus", "cosqa"),
    "cosqa": ("cranfield", "xquad-en"),
    "xquad-en": ("cranfield", "cosqa"),
    "xquad-zh": ("jsquad", "cmrc2018"),
    "cmrc2018": ("jsquad", "xquad-zh"),
    "jsquad": ("cmrc2018", "xquad-zh"),
    "mdn-ko-heading": ("cmrc2018", "jsquad"),
}

Pairs = Sequence[tuple[float, bool]]  # relevance, and whether the hit is about the question


def main() -> int:
    folder = Path(os.environ.get("KB_DATA", "../shared/data"))
    present = [name for name in sys.argv[1:] or OTHERS if (folder / name).is_dir()]
    if not present:
        print(f"no judged collections in {folder}: nothing measured (set KB_DATA)")
        return 0
    questions = int(os.environ.get("KB_QUESTIONS", "100"))
    with cached_encoder(encoder, CACHE) if (encoder := _encoder()) else nullcontext() as cached:
        rows: list[tuple[object, ...]] = []
        for name in present:
            rows += _rows(folder, name, questions, cached)
            print(f"{name} measured", file=sys.stderr, flush=True)
    memory = ("memory: hits, foreign", "right hits kept")
    header = ("set", "vectors", "AUROC", "ECE", "by chance", *memory)
    print(table(f"Relevance of first hits, at most {questions} questions a kind", header, rows))
    return 0


def _rows(
    folder: Path, name: str, questions: int, encoder: Encoder | None
) -> Iterator[tuple[object, ...]]:
    other_name, third = OTHERS[name]
    collection = read_judged(folder / name, PASSAGES, questions)
    other = read_judged(folder / other_name, PASSAGES // 3, 1)
    foreign = read_judged(folder / third, 1, questions).questions
    observed = list(observe(collection, other, foreign, encoder))
    for coverage in sorted({each.coverage for each in observed}):
        pairs = first_hits(each for each in observed if each.coverage == coverage)
        errors = (calibration_error(pairs), error_by_chance(pairs))
        figures = (f"{each:.3f}" for each in (auroc(pairs), *errors))
        full = encoder is not None and coverage == 1.0
        memory = _memory(collection, other, foreign, encoder) if full else ("", "")
        yield (name, f"{coverage:.0%}", *figures, *memory)


def _memory(
    collection: Collection, other: Collection, foreign: Sequence[str], encoder: Encoder | None
) -> tuple[str, str]:
    """How many hits the profile `memory` returns for a question about something else, and the share
    of the right hits that its `min_score` keeps."""
    every, kept = (
        list(
            observe(
                collection, other, foreign, encoder,
                coverages=(1.0,), profile="memory", settings=settings,
            )
        )
        for settings in ({"min_score": "none"}, {})
    )  # fmt: skip
    right = [sum(each.answers for each in observed) for observed in (every, kept)]
    strange = sum(not each.own for each in kept) / len(foreign)
    return f"{strange:.2f}", f"{right[1] / max(1, right[0]):.3f}"


def _encoder() -> Encoder | None:
    try:
        return models.encoder(Config(), os.environ.get("KB_MODELS_ENCODER"))
    except ModelError as error:
        print(f"words alone are measured: {error.message}", file=sys.stderr)
        return None


# --- measures -------------------------------------------------------------------------------------


def first_hits(observed: Iterable[Observation]) -> list[tuple[float, bool]]:
    """The relevance of first hits, and whether they are about the question."""
    return [(each.relevance or 0.0, each.about) for each in observed if each.rank == 1]


def auroc(pairs: Pairs) -> float:
    """The probability that a hit about its question has a higher relevance than another hit."""
    good = [value for value, about in pairs if about]
    bad = [value for value, about in pairs if not about]
    if not good or not bad:
        return nan
    wins = sum((one > other) + 0.5 * (one == other) for one in good for other in bad)
    return wins / (len(good) * len(bad))


def calibration_error(pairs: Pairs) -> float:
    """The expected calibration error: the mean difference of relevance and truth over bins."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for value, about in pairs:
        bins.setdefault(min(int(value * BINS), BINS - 1), []).append((value, about))
    return sum(
        abs(sum(value for value, _ in each) - sum(about for _, about in each))
        for each in bins.values()
    ) / max(1, len(pairs))


def error_by_chance(pairs: Pairs) -> float:
    """The calibration error that perfectly calibrated estimates would show on average: with few
    hits in a bin, the share of right ones differs from the estimates by chance."""
    chance = random.Random(0)
    return fmean(
        calibration_error([(value, chance.random() < value) for value, _ in pairs])
        for _ in range(DRAWS)
    )


if __name__ == "__main__":
    sys.exit(main())
