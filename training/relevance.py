"""Fit the parameters of `kb.search.ranking.relevance`.

    python -m training.relevance PAIRS.jsonl.gz ... [--encoder NAME] [--observations FILE]

The pairs are questions and passages, `{"query", "positive", "source"}`. Each source is a collection
of its own: its store is searched for its own questions, and for as many questions of sources about
something else, with none, some and all of the vectors. What the searches know about the
first hits is written to the file of observations; if the file exists, it is read instead.

Words alone are also observed in larger stores with longer passages, where more words match by
chance. The weights of signals cannot be negative, so that better signals never lower an estimate.
For each collection, the report shows how well a fit to all others does. The result is written to
`src/kb/search/ranking/relevance_parameters.py`. With `--encoder`, the parameters of that encoder
are added, and all others stay.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from bench.relevance import auroc, calibration_error
from scipy.optimize import minimize  # type: ignore[import-untyped]

from kb import models
from kb.config import Config
from kb.ports import Encoder
from kb.search.ranking import relevance_parameters as current
from kb.search.ranking.relevance import Signals, features, probability
from kb.search.ranking.relevance_parameters import Parameters
from training.relevance_data import Collection, Observation, observe, read_pairs

BUNDLED = "kb-mini"
TARGET = Path(current.__file__)
WORDS = ("coverage", "known", "matches", "count", "length", "chars")
DENSE = ("cosine", "high_cosine", "coverage", "known", "matches", "length", "short")
OTHER = ("margin", "coverage", "known", "matches", "length")
# Features that describe the query and the passage: their weights may be negative.
FREE = ("length", "chars", "short")
# First parts of the names of sources that may answer each other's questions.
KINDS = {
    "software": (
        "code", "django", "gimp", "git", "gnome", "godot", "libreoffice", "man", "manpages", "mdn",
        "ms", "postgresql", "python", "rust",
    ),
    "dialogue": ("friendsqa", "qmsum", "sgd", "synthetic", "topical"),
    "medicine": ("covid", "medquad"),
}  # fmt: skip
LARGE, MOST_JOINED = 1_500, 3  # passages of a large store, and texts that a passage is made of
PENALTY = 1e-3
KNOT = 0.8  # the quantile of the cosines of hits about something else


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.relevance")
    parser.add_argument("pairs", type=Path, nargs="*")
    parser.add_argument("--encoder", default=BUNDLED)
    parser.add_argument("--observations", type=Path, default=Path("build/relevance.jsonl"))
    parser.add_argument("--passages", type=int, default=250)
    parser.add_argument("--questions", type=int, default=60)
    args = parser.parse_args()
    if not args.observations.exists():
        encoder = models.encoder(Config(), args.encoder)
        collections = read_pairs(args.pairs, args.passages, args.questions)
        write(args.observations, collections, encoder)
        # In larger stores, and in longer passages, more words match by chance.
        large = read_pairs(args.pairs, LARGE, args.questions, MOST_JOINED)
        write(args.observations, large, None)
    first = [each for each in read(args.observations) if each.rank == 1]
    words = [each for each in first if each.signals.cosine is None]
    dense = [each for each in first if each.signals.cosine is not None]
    knot = float(np.quantile([e.signals.cosine or 0.0 for e in dense if not e.about], KNOT))
    report("words", words, WORDS)
    report(args.encoder, dense, DENSE, knot)
    report("other encoders", dense, OTHER)
    tables = {**current.MODELS, args.encoder: fit(dense, DENSE, knot)}
    if args.encoder == BUNDLED:
        save(fit(words, WORDS), tables, fit(dense, OTHER))
    else:
        save(current.WORDS, tables, current.OTHER)


# --- observations ---------------------------------------------------------------------------------


def write(path: Path, collections: Sequence[Collection], encoder: Encoder | None) -> None:
    """Search the stores of all collections, and append what was observed to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for collection in collections:
            chance = random.Random(collection.name)
            others = [each for each in collections if not related(collection.name, each.name)]
            if not others:
                continue
            other = chance.choice(others)
            # The store holds passages of `other`, too: it must not answer the foreign questions.
            strangers = [each for each in others if not related(other.name, each.name)]
            foreign = sample_evenly(strangers, len(collection.questions), chance)
            for each in observe(collection, other, foreign, encoder):
                # A passage with every word of a foreign query may be about it after all.
                if not each.own and each.signals.has_every_word():
                    continue
                file.write(json.dumps(asdict(each)) + "\n")
            print(collection.name, flush=True)


def sample_evenly(
    collections: Sequence[Collection], count: int, chance: random.Random
) -> list[str]:
    """Questions of these collections, equally many from each kind of source."""
    by_kind: dict[str, list[str]] = {}
    for each in collections:
        by_kind.setdefault(kind(each.name), []).extend(each.questions)
    share = -(-count // max(1, len(by_kind)))
    sampled = [
        question
        for questions in by_kind.values()
        for question in chance.sample(questions, min(share, len(questions)))
    ]
    chance.shuffle(sampled)
    return sampled[:count]


def related(one: str, other: str) -> bool:
    """Whether two sources may answer each other's questions (`code-go` and `man-pages`), or are in
    different languages (`mdn:fr` and `mdn:ja`)."""
    return kind(one) == kind(other) or one.partition(":")[2] != other.partition(":")[2]


def kind(source: str) -> str:
    """What a source is about: the kind in `KINDS` that has the first part of its name, or else
    that part."""
    first = source.partition(":")[0].partition("-")[0]
    return next((name for name, parts in KINDS.items() if first in parts), first)


def read(path: Path) -> list[Observation]:
    """Read what `write` has written."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_observation(json.loads(line)) for line in lines]


def _observation(values: dict[str, Any]) -> Observation:
    return Observation(**{**values, "signals": Signals(*values["signals"])})


# --- the fit --------------------------------------------------------------------------------------


def fit(observations: Sequence[Observation], names: Sequence[str], knot: float = 1.0) -> Parameters:
    """The logistic model with the least loss. All stores have the same weight; within a store, the
    hits about the question and the other hits have half of it each."""
    rows = [features(each.signals, knot) for each in observations]
    matrix = np.array([[row[name] for name in names] for row in rows])
    labels = np.array([each.about for each in observations], float)
    weights = _balanced(observations)
    center, scale = matrix.mean(0), matrix.std(0) + 1e-9
    standard = np.hstack([(matrix - center) / scale, np.ones((len(rows), 1))])

    def loss(coefficients: Any) -> tuple[float, Any]:
        logits = standard @ coefficients
        losses = np.logaddexp(0.0, logits) - labels * logits
        slopes = weights * (1.0 / (1.0 + np.exp(-logits)) - labels)
        ridge = np.append(coefficients[:-1], 0.0)
        return (
            float(weights @ losses + PENALTY * ridge @ ridge),
            standard.T @ slopes + 2.0 * PENALTY * ridge,
        )

    bounds = [(None, None) if name in FREE else (0.0, None) for name in names] + [(None, None)]
    found = minimize(loss, np.zeros(len(names) + 1), jac=True, method="L-BFGS-B", bounds=bounds).x
    slopes = found[:-1] / scale
    chosen = {
        name: round(float(slope), 4)
        for name, slope in zip(names, slopes, strict=True)
        if abs(slope) >= 1e-4
    }
    return Parameters(round(float(found[-1] - center @ slopes), 4), chosen, round(knot, 4))


def _balanced(observations: Sequence[Observation]) -> Any:
    groups = [(each.collection, each.passages, each.about) for each in observations]
    sizes = {group: groups.count(group) for group in set(groups)}
    weights = np.array([1.0 / sizes[group] for group in groups])
    return weights / weights.sum()


def report(
    label: str, observations: Sequence[Observation], names: Sequence[str], knot: float = 1.0
) -> None:
    """Print the figures of each collection, from a fit to all others."""
    for collection in sorted({each.collection for each in observations}):
        held = [each for each in observations if each.collection == collection]
        parameters = fit([e for e in observations if e.collection != collection], names, knot)
        pairs = [(probability(each.signals, parameters), each.about) for each in held]
        print(
            f"{label:16} {collection:28} AUROC {auroc(pairs):.3f}  "
            f"ECE {calibration_error(pairs):.3f}  n {len(pairs)}"
        )


# --- the file -------------------------------------------------------------------------------------


def save(words: Parameters, tables: Mapping[str, Parameters], other: Parameters) -> None:
    """Write the parameters as Python, which a search loads faster than JSON."""
    text = TARGET.read_text(encoding="utf-8")
    start = text.index("# Words alone")
    lines = [
        "# Words alone: without a model, or while a passage has no vector yet.",
        f"WORDS = {_literal(words)}",
        "",
        "# Encoders whose cosines are calibrated.",
        "MODELS: Mapping[str, Parameters] = {",
        *(f'    "{name}": {_literal(each, "    ")},' for name, each in sorted(tables.items())),
        "}",
        "",
        "# All other encoders: cosines in relation to those of the other candidates.",
        f"OTHER = {_literal(other)}",
    ]
    TARGET.write_text(text[:start] + "\n".join(lines) + "\n", encoding="utf-8")


def _literal(parameters: Parameters, indent: str = "") -> str:
    entries = "".join(
        f'\n{indent}        "{name}": {weight},' for name, weight in parameters.weights.items()
    )
    values = (str(parameters.intercept), f"{{{entries}\n{indent}    }}", f"knot={parameters.knot}")
    return "Parameters(" + "".join(f"\n{indent}    {value}," for value in values) + f"\n{indent})"


if __name__ == "__main__":
    main()
