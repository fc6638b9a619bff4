"""Fit the parameters of `kb.search.ranking.relevance`.

    python -m training.relevance PAIRS.jsonl.gz ... [--encoder NAME] [--cache FOLDER]
        [--observations FILE]
    python -m training.relevance PAIRS.jsonl.gz ... --foreign

The pairs are questions and passages, `{"query", "positive", "source"}`. Each source is a separate
collection: its store is searched for its own questions, and for as many questions of sources about
something else, with none, some and all of the vectors. What the searches know about the first hits
is the training data. Vectors are cached in a folder, so that an interrupted run, or another fit,
encodes nothing again; changed weights under the same name are noticed. With `--observations`, the
training data is written to a file; if the file exists, it is read instead of searching.

Words alone are also observed in larger stores with longer passages, where more words match by
chance. The weights of signals cannot be negative, so that better signals never lower an estimate.
For each collection, the report shows how well a fit to all others does.

Parameters exist for questions in English and for those in other languages. `--foreign` fits the
latter, from pairs that have a language (`"lang"`; `en-fr` is an English question for a passage in
French). Pass pairs in English as well: some collections need questions about something else. Stores
of articles are also searched for questions about other articles of the same encyclopedia.

The result is written to `src/kb/search/ranking/relevance_parameters.py`. Without `--encoder`, all
parameters are fitted: those of words alone, and with the vectors of kb-mini those of kb-mini and of
encoders without separate parameters. `--encoder NAME` fits that encoder only, and `--encoder none`
words alone: neither depends on the other, so that new weights of kb-mini need `--encoder kb-mini`
only.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from bench.relevance import auroc, calibration_error, error_by_chance

from kb import models
from kb.config import Config
from kb.evaluation.encoding_cache import cached_encoder
from kb.locations import cache_folder
from kb.ports import Encoder
from kb.search.ranking import relevance_parameters as current
from kb.search.ranking.relevance import Signals, features, probability
from kb.search.ranking.relevance_parameters import Parameters, ParameterSet
from training.relevance_data import (
    Collection,
    Observation,
    observe,
    read_encyclopedias,
    read_pairs,
)

BUNDLED, MULTILINGUAL, NO_ENCODER = "kb-mini", "kb-mini-multilingual", "none"
TARGET = Path(current.__file__)
# How queries in unspaced script differ, whose terms are pieces of two characters.
PIECES = ("pieces", "covered_pieces")
WORDS = ("coverage", "match", "matched_words", "known", "count", "length", "chars")
DENSE = ("cosine", "high_cosine", "coverage", "matches", "length", "short")
# In other languages than English. A store may know the words of a question about something else.
FOREIGN_WORDS = ("coverage", "match", "matched_words", "matches", "length", "chars", *PIECES)
FOREIGN_DENSE = ("lift", "coverage", "matches", "length", "short", *PIECES)
OTHER = ("margin", "coverage", "known", "matches", "length", *PIECES)
# Features that describe the query and the passage: their weights may be negative.
FREE = ("length", "chars", "short", "pieces")
# First parts of the names of sources that may answer each other's questions.
KINDS = {
    "software": (
        "code", "django", "faquad", "gimp", "git", "gnome", "godot", "libreoffice", "man",
        "manpages", "mdn", "ms", "postgresql", "python", "rust",
    ),
    "dialogue": ("friendsqa", "qmsum", "sgd", "synthetic", "topical"),
    "medicine": ("covid", "medquad"),
}  # fmt: skip
LARGE, MOST_JOINED = 1_500, 3  # passages of a large store, and texts that a passage is made of
LARGE_WEIGHT = 4.0  # real stores are rarely as small as the others
# There are more observations of words alone, and in other languages than English.
PENALTY, WORDS_PENALTY, FOREIGN_PENALTY = 1e-3, 3e-4, 3e-4
KNOT = 0.8  # the quantile of the cosines of hits about something else
COVERAGES = (0.25, 0.6, 1.0)  # shares of the passages that have vectors
_MOST_STEPS, _TINY = 100, 1e-9


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.relevance")
    parser.add_argument("pairs", type=Path, nargs="*")
    parser.add_argument("--encoder")
    parser.add_argument("--cache", type=Path, default=cache_folder() / "training")
    parser.add_argument("--observations", type=Path)
    parser.add_argument("--passages", type=int, default=250)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--foreign", action="store_true")
    args = parser.parse_args()
    if args.observations is not None and args.observations.exists():
        observations = read(args.observations)
    else:
        observations = search_all(args)
        if args.observations is not None:
            write(args.observations, observations)
    chosen = [each for each in observations if each.signals.english != args.foreign]
    before = current.FOREIGN if args.foreign else current.ENGLISH
    after = fit_set(chosen, before, args.encoder, foreign=args.foreign)
    save(*((current.ENGLISH, after) if args.foreign else (after, current.FOREIGN)))


def fit_set(
    observations: Sequence[Observation], before: ParameterSet, encoder: str | None, *, foreign: bool
) -> ParameterSet:
    """The parameters with those replaced that `encoder` names: an encoder, `none` for words alone,
    None for all. In other languages than English, kb-mini is kb-mini-multilingual."""
    words, models, other = before
    if encoder in (None, NO_ENCODER):
        words = fit_words(observations, FOREIGN_WORDS if foreign else WORDS)
    if encoder != NO_ENCODER:
        name = encoder or BUNDLED
        names = (BUNDLED, MULTILINGUAL) if foreign and name == BUNDLED else (name,)
        fitted = (fit_lift if foreign else fit_model)(observations, name)
        models = {**models, **dict.fromkeys(names, fitted)}
    if encoder in (None, BUNDLED):
        other = fit_other(observations)
    return ParameterSet(words, models, other)


def fit_words(observations: Sequence[Observation], names: Sequence[str]) -> Parameters:
    """The parameters of words alone."""
    words = [each for each in observations if each.signals.cosine is None]
    report("words", words, names, penalty=WORDS_PENALTY)
    return fit(words, names, penalty=WORDS_PENALTY)


def fit_model(observations: Sequence[Observation], name: str) -> Parameters:
    """The parameters of an encoder for queries in English."""
    dense = [each for each in observations if each.signals.cosine is not None]
    knot = float(np.quantile([e.signals.cosine or 0.0 for e in dense if not e.about], KNOT))
    report(name, dense, DENSE, knot)
    return fit(dense, DENSE, knot)


def fit_lift(observations: Sequence[Observation], name: str) -> Parameters:
    """The parameters of an encoder for queries in other languages."""
    dense = [each for each in observations if each.signals.cosine is not None]
    report(name, dense, FOREIGN_DENSE, penalty=FOREIGN_PENALTY)
    return fit(dense, FOREIGN_DENSE, penalty=FOREIGN_PENALTY)


def fit_other(observations: Sequence[Observation]) -> Parameters:
    """The parameters of encoders without separate ones."""
    dense = [each for each in observations if each.signals.cosine is not None]
    report("other encoders", dense, OTHER)
    return fit(dense, OTHER)


# --- observations ---------------------------------------------------------------------------------


def search_all(args: argparse.Namespace) -> list[Observation]:
    """Search the stores of all collections, and return the signals of the first hits."""
    observations: list[Observation] = []
    collections = read_pairs(args.pairs, args.passages, args.questions)
    foreign = args.foreign
    if args.encoder in (None, NO_ENCODER):
        observations += search(collections, None, (0.0,), foreign=foreign)
        # In larger stores, and in longer passages, more words match by chance.
        large = read_pairs(args.pairs, LARGE, args.questions, MOST_JOINED)
        observations += search(large, None, (0.0,), foreign=foreign)
    if args.encoder != NO_ENCODER:
        args.cache.mkdir(parents=True, exist_ok=True)
        encoder = models.encoder(Config(), args.encoder or BUNDLED)
        assert encoder is not None
        with cached_encoder(encoder, args.cache) as cached:
            observations += search(collections, cached, COVERAGES, foreign=foreign)
            for passages in (args.passages, LARGE) if foreign else ():
                near = read_encyclopedias(args.pairs, passages, args.questions)
                others = read_pairs(args.pairs, passages // 3, args.questions)
                observations += search(near, cached, COVERAGES, foreign=foreign, others=others)
    return observations


def search(
    collections: Sequence[Collection],
    encoder: Encoder | None,
    coverages: Sequence[float],
    *,
    foreign: bool,
    others: Sequence[Collection] | None = None,
) -> Iterator[Observation]:
    """Search the store of each collection for its own questions, and for as many about something
    else. With `foreign`, only the collections whose questions are in other languages than English,
    otherwise only those in English. The passages about something else are from `others`; without
    it, from the other collections."""
    began = time.monotonic()
    if others is None:
        others = collections
    searched = [each for each in collections if bool(language(each)) == foreign]
    for number, collection in enumerate(searched, start=1):
        chance = random.Random(collection.name)
        unrelated = [each for each in others if not related(collection.name, each.name)]
        if not unrelated:
            continue
        other, asking = draw_sources(collection, unrelated, chance)
        near = collection.strange
        strange = near or sample_evenly(asking, len(collection.questions), chance)
        for each in observe(collection, other, strange, encoder, coverages=coverages, top=1):
            # A passage with every word of a foreign query may be about it after all. Words alone
            # learn nothing from questions about other articles.
            has_every_word = not each.own and each.signals.has_every_word()
            if not has_every_word and not (near and each.signals.cosine is None):
                yield each
        passed = time.monotonic() - began
        print(f"{number}/{len(searched)} {collection.name} ({passed:.0f} s)", flush=True)


def draw_sources(
    collection: Collection, others: Sequence[Collection], chance: random.Random
) -> tuple[Collection, Sequence[Collection]]:
    """Draw the collection that supplies the store's other passages, and return it with collections
    whose questions the store cannot answer. If only one of the two can be in the language of
    `collection`, it is the questions."""
    other = chance.choice(in_language_of(collection, others))
    asking = in_language_of(collection, _unrelated(others, [other]))
    if not asking or language(asking[0]) != language(collection):
        same = in_language_of(collection, others)
        if strangers := _unrelated(others, same):
            return chance.choice(strangers), same
    return other, asking


def _unrelated(collections: Sequence[Collection], to: Sequence[Collection]) -> list[Collection]:
    return [each for each in collections if not any(related(each.name, one.name) for one in to)]


def language(collection: Collection) -> str:
    """The language of a collection's questions: `fr` of `mdn:fr`; empty for English, as of
    `mdn:en-fr`, which has English questions about French passages."""
    name = collection.name.partition(":")[2]
    return "" if name.startswith("en") else name


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


def in_language_of(collection: Collection, others: Sequence[Collection]) -> Sequence[Collection]:
    """The other collections in the same language; if there are none, those in any language but
    English, for a collection that is not in English either, or else all others."""
    wanted = language(collection)
    same = [each for each in others if language(each) == wanted]
    return same or [each for each in others if wanted and language(each)] or others


def related(one: str, other: str) -> bool:
    """Whether two sources may answer each other's questions: `code-go` and `man-pages`."""
    return kind(one) == kind(other)


def kind(source: str) -> str:
    """The topic of a source: the kind in `KINDS` that contains the first part of its name, or else
    that part."""
    first = source.partition(":")[0].partition("-")[0]
    return next((name for name, parts in KINDS.items() if first in parts), first)


def write(path: Path, observations: Sequence[Observation]) -> None:
    """Write observations to a JSON Lines file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(asdict(each)) + "\n" for each in observations)
    path.write_text("".join(lines), encoding="utf-8")


def read(path: Path) -> list[Observation]:
    """Read the observations that `write` has written."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_observation(json.loads(line)) for line in lines]


def _observation(values: dict[str, Any]) -> Observation:
    return Observation(**{**values, "signals": Signals(*values["signals"])})


# --- the fit --------------------------------------------------------------------------------------


def fit(
    observations: Sequence[Observation],
    names: Sequence[str],
    knot: float = 1.0,
    penalty: float = PENALTY,
) -> Parameters:
    """The logistic model with the least loss. All stores of a size have the same weight; within a
    store, the hits about the question and the other hits have half of it each."""
    rows = [features(each.signals, knot) for each in observations]
    matrix = np.array([[row[name] for name in names] for row in rows])
    labels = np.array([each.about for each in observations], float)
    center, scale = matrix.mean(0), matrix.std(0) + 1e-9
    standard = np.hstack([(matrix - center) / scale, np.ones((len(rows), 1))])
    bounded = np.array([*(name not in FREE for name in names), False])
    found = _least_loss(standard, labels, _balanced(observations), bounded, penalty)
    slopes = found[:-1] / scale
    chosen = {
        name: round(float(slope), 4)
        for name, slope in zip(names, slopes, strict=True)
        if abs(slope) >= 1e-4
    }
    return Parameters(round(float(found[-1] - center @ slopes), 4), chosen, round(knot, 4))


def _least_loss(rows: Any, labels: Any, weights: Any, bounded: Any, penalty: float) -> Any:
    """The coefficients with the least logistic loss plus ridge penalty, by Newton's method. Those
    in `bounded` are not negative; the last one has no penalty."""
    ridge = np.full(rows.shape[1], 2.0 * penalty)
    ridge[-1] = 0.0

    def loss(at: Any) -> float:
        logits = rows @ at
        losses = np.logaddexp(0.0, logits) - labels * logits
        return float(weights @ losses + ridge @ at**2 / 2.0)

    at = np.zeros(rows.shape[1])
    for _ in range(_MOST_STEPS):
        estimates = 1.0 / (1.0 + np.exp(-(rows @ at)))
        slope = rows.T @ (weights * (estimates - labels)) + ridge * at
        curvature = (rows * (weights * estimates * (1.0 - estimates))[:, None]).T @ rows
        curvature += np.diag(ridge + _TINY)
        free = ~(bounded & (at <= 0.0) & (slope > 0.0))  # the others stay at their bound
        step = np.zeros(len(at))
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
        before, size = loss(at), 1.0
        while size > _TINY:
            following = at - size * step
            following[bounded] = np.maximum(following[bounded], 0.0)
            if loss(following) < before:
                break
            size /= 2.0
        else:
            return at
        at = following
        if before - loss(at) < _TINY:
            return at
    return at


def _balanced(observations: Sequence[Observation]) -> Any:
    groups = [(each.collection, each.passages, each.about) for each in observations]
    sizes = Counter(groups)
    weights = np.array(
        [
            (LARGE_WEIGHT if each.passages >= LARGE else 1.0) / sizes[group]
            for each, group in zip(observations, groups, strict=True)
        ]
    )
    return weights / weights.sum()


def report(
    label: str,
    observations: Sequence[Observation],
    names: Sequence[str],
    knot: float = 1.0,
    penalty: float = PENALTY,
) -> None:
    """Print the figures of each collection, computed with a fit to all other collections."""
    rows = []
    for collection in sorted({each.collection for each in observations}):
        held = [each for each in observations if each.collection == collection]
        others = [each for each in observations if each.collection != collection]
        parameters = fit(others, names, knot, penalty)
        pairs = [(probability(each.signals, parameters), each.about) for each in held]
        rows.append((auroc(pairs), calibration_error(pairs), error_by_chance(pairs)))
        print(_figures(label, collection, rows[-1]), f" n {len(pairs)}")
    # A collection without hits for questions about something else has no AUROC.
    means = [fmean(v for v in column if not isnan(v)) for column in zip(*rows, strict=True)]
    print(_figures(label, "mean", means))


def _figures(label: str, collection: str, figures: Sequence[float]) -> str:
    return f"{label:16} {collection:28} " + "AUROC {:.3f}  ECE {:.3f}  by chance {:.3f}".format(
        *figures
    )


# --- the file -------------------------------------------------------------------------------------


def save(english: ParameterSet, foreign: ParameterSet) -> None:
    """Write the parameters as Python, which a search loads faster than JSON."""
    text = TARGET.read_text(encoding="utf-8")
    start = text.index("# Queries in English")
    lines = [
        "# Queries in English.",
        *_set_lines("ENGLISH", english),
        "",
        "# Queries in other languages.",
        *_set_lines("FOREIGN", foreign),
    ]
    TARGET.write_text(text[:start] + "\n".join(lines) + "\n", encoding="utf-8")


def _set_lines(name: str, parameters: ParameterSet) -> list[str]:
    indent, deeper = " " * 4, " " * 8
    models = sorted(parameters.models.items())
    return [
        f"{name} = ParameterSet(",
        f"{indent}words={_literal(parameters.words, indent)},",
        f"{indent}models={{",
        *(f'{deeper}"{model}": {_literal(each, deeper)},' for model, each in models),
        f"{indent}}},",
        f"{indent}other={_literal(parameters.other, indent)},",
        ")",
    ]


def _literal(parameters: Parameters, indent: str) -> str:
    entries = "".join(
        f'\n{indent}        "{name}": {weight},' for name, weight in parameters.weights.items()
    )
    values = (str(parameters.intercept), f"{{{entries}\n{indent}    }}", f"knot={parameters.knot}")
    return "Parameters(" + "".join(f"\n{indent}    {value}," for value in values) + f"\n{indent})"


if __name__ == "__main__":
    main()
