"""`python -m bench.fusion`: whether a search is ever worse than its best retriever.

python -m bench.fusion [set ...]

For every judged collection (see `bench.quality`): each retriever alone, fusion by rank, and the
profile `default` three times: as it is; with weights fitted only to the other collections; and with
one retriever missing. The fit maximizes the smallest gain over the best retriever of any
collection. The last column replaces the real encoder with one that only hashes words.
`default` may be worse than its best retriever by at most 0.005; otherwise this is printed, and the
exit status is 1.

Weights are fitted on the train or dev split, if a collection has one, and reported on `test`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from statistics import fmean

from tests.models.weightless import Weightless

from bench.quality import CACHE, FLOORS
from bench.timing import table
from kb import models
from kb.config import Config
from kb.evaluation.beir import splits
from kb.evaluation.candidate_lists import QueryCandidates, retrieve_all
from kb.evaluation.corpus_store import EvaluationSetup, open_corpus
from kb.evaluation.experiment import load_collection
from kb.evaluation.grid import simplex
from kb.evaluation.metrics import parse_measure
from kb.evaluation.qrels import Collection
from kb.ports import Encoder
from kb.search.profiles import Profile, resolve
from kb.search.retrievers.base import Candidates

NAMES = ("lexical", "dense", "sparse")
MAY_LOSE = 0.005
STEP = 0.1
FIT_QUERIES = 300
MEASURE, GAIN, DEPTH = parse_measure("nDCG@10"), "exp", 10
DEFAULT = resolve("default", {})
BY_RANK = replace(DEFAULT, fusion="rrf", adaptive=False, agreement=False, weights={})


class Queries:
    """Judged queries of one split, with the candidates of every retriever."""

    def __init__(self, collection: Collection, retrieved: Mapping[str, QueryCandidates]) -> None:
        self.collection = collection
        self.retrieved = retrieved
        self._known: dict[tuple[float, ...], float] = {}

    def worth(self, profile: Profile, names: Set[str] = frozenset(NAMES)) -> float:
        """The quality of a profile with only the named retrievers."""
        return fmean(
            MEASURE.score(_only(each, names).fuse(profile), self.collection.qrels[query], GAIN)
            for query, each in self.retrieved.items()
        )

    def gain(self, weights: tuple[float, ...]) -> float:
        """The gain of `default` with these weights over the best retriever; computed once."""
        if weights not in self._known:
            reached = self.worth(replace(DEFAULT, weights=_by_name(weights)))
            self._known[weights] = reached - self.best_alone
        return self._known[weights]

    def ran(self, names: Set[str]) -> bool:
        """Whether one of the retrievers ran for any query."""
        return any(
            each.by_retriever[name].ran for each in self.retrieved.values() for name in names
        )

    @cached_property
    def best_alone(self) -> float:
        return self.best()

    def best(self, names: Set[str] = frozenset(NAMES)) -> float:
        """The quality of the best single retriever."""
        return max(self.worth(DEFAULT, {name}) for name in names)


def _only(each: QueryCandidates, names: Set[str]) -> QueryCandidates:
    """The candidates of the named retrievers only."""
    found = {
        name: found if name in names else Candidates(ran=False)
        for name, found in each.by_retriever.items()
    }
    return replace(each, by_retriever=found)


def _by_name(weights: Sequence[float]) -> dict[str, float]:
    return dict(zip(NAMES, weights, strict=True))


def main() -> int:
    folder = Path(os.environ.get("KB_DATA", "../shared/data"))
    present = [name for name in sys.argv[1:] or list(FLOORS) if (folder / name).is_dir()]
    encoder = models.encoder(Config(), "kb-mini")
    if not present or encoder is None:
        print(f"no judged collections in {folder}: nothing measured (set KB_DATA)")
        return 0
    fits, tests, blind = {}, {}, {}
    for name in present:
        fit, tests[name] = _queries(folder / name, encoder, CACHE)
        blind[name] = _queries(folder / name, Weightless(384), None)[1]
        if any(each.by_retriever["dense"].ran for each in fit.retrieved.values()):
            fits[name] = fit
        print(f"{name} retrieved", file=sys.stderr, flush=True)
    rows = [_row(name, tests[name], blind[name], fits) for name in present]
    header = ("set", *NAMES, "by rank", "default", "fitted to others", "weights",
              *(f"no {name}" for name in NAMES), "cannot read")  # fmt: skip
    print(
        table("nDCG@10 of test, gain 2^rel - 1; after the slash: the best retriever", header, rows)
    )
    means = [fmean(float(row[at].rstrip("!")) for row in rows) for at in (4, 5, 6)]
    print("means: by rank {:.4f}, default {:.4f}, fitted to others {:.4f}".format(*means))
    below = [f"{row[0]}: {cell}" for row in rows for cell in row[5:] if "!" in cell]
    print("\n".join(below) or f"Nothing is below its best retriever by more than {MAY_LOSE}.")
    return 1 if below else 0


def _queries(data: Path, encoder: Encoder, cache: Path | None) -> tuple[Queries, Queries]:
    """The queries to fit to and those to report; the same if there is only one split."""
    there = splits(data)
    fit = next((name for name in ("dev", "train") if name in there), "test")
    setup = EvaluationSetup(Config(), encoder=encoder, cache=cache)
    test = load_collection(data, None, "test")
    with open_corpus(test, setup, DEFAULT.model_outputs()) as store:
        searcher = setup.searcher(store)
        try:
            found = []
            for split in dict.fromkeys((fit, "test")):
                limit = FIT_QUERIES if split != "test" else None
                collection = load_collection(data, None, split, limit)
                retrieved = retrieve_all(searcher, collection, DEFAULT, DEPTH, lambda *_: None)
                found.append(Queries(collection, retrieved))
        finally:
            searcher.close()
    return found[0], found[-1]


def _row(name: str, test: Queries, blind: Queries, fits: Mapping[str, Queries]) -> tuple[str, ...]:
    others = [queries for other, queries in fits.items() if other != name]
    weights = max(simplex(3, STEP), key=lambda each: min(one.gain(each) for one in others))
    best = test.best()
    lacking = [frozenset(NAMES) - {gone} for gone in NAMES]
    return (
        name,
        *(f"{test.worth(DEFAULT, {each}):.3f}" if test.ran({each}) else "-" for each in NAMES),
        f"{test.worth(BY_RANK):.4f}",
        _mark(test.worth(DEFAULT), best),
        _mark(test.worth(replace(DEFAULT, weights=_by_name(weights))), best),
        " ".join(f"{weight:.1f}" for weight in weights),
        *(
            _beside(test.worth(DEFAULT, names), test.best(names)) if test.ran(names) else "-"
            for names in lacking
        ),
        _beside(blind.worth(DEFAULT), blind.best()),
    )


def _mark(reached: float, limit: float) -> str:
    return f"{reached:.4f}" + ("!" if reached < limit - MAY_LOSE else "")


def _beside(reached: float, limit: float) -> str:
    return f"{_mark(reached, limit)}/{limit:.3f}"


if __name__ == "__main__":
    sys.exit(main())
