"""Observations for the calibration of relevance: searches for questions that a store can answer,
and for questions that it cannot, with none, some and all of its vectors.

A collection is a set of passages with questions. A quarter of each store is about something else,
and is embedded first: in a user's store, the first notes may be about something else as well.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import islice
from math import log, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kb import KnowledgeBase
from kb.config import Config
from kb.ingest.document_builder import build_note
from kb.ports import Encoder
from kb.search.query.analysis import analyze
from kb.search.ranking.relevance import Signals
from kb.types import Attributes
from training.data import held_out_pair, is_licensed

COVERAGES = (0.0, 0.03, 0.25, 0.6, 1.0)  # shares of the passages that have vectors
_OTHER = "other-"
_YEAR = 2025
# How often questions of pairs are replaced: with one or two words, with keywords, and with a
# literal span.
_SHORT_EVERY, _KEYWORDS_EVERY, _SPAN_EVERY = 5, 8, 12
_KEYWORDS, _SPAN = 3, 6  # words
_LONG_WORD = 4
# Sources of questions that people asked about articles of an encyclopedia.
ENCYCLOPEDIAS = ("arcd", "drcd", "iapp-wiki-qa", "jaquad")
_NEAR = 0.01  # the share of the passages that may be from the same article as one of them
_PIECE, _MOST_COMMON = 4, 0.05  # characters of a piece; the share of passages with a rare piece


@dataclass(frozen=True)
class Collection:
    """Passages by id, and questions that some of them answer."""

    name: str
    passages: Mapping[str, tuple[str, str]]  # title and text
    questions: Sequence[str]
    answers: Mapping[str, frozenset[str]]  # question -> ids of passages
    strange: Sequence[str] = ()  # questions of the same source that no passage answers


@dataclass(frozen=True)
class Observation:
    """A hit of a search. `about` is whether the store has answers and the hit is not from the part
    that is about something else."""

    collection: str
    coverage: float
    about: bool
    rank: int
    signals: Signals
    relevance: float | None
    own: bool  # whether the collection answers the question
    answers: bool = False  # whether the hit is judged to answer it
    passages: int = 0  # in the store


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file, which may be compressed."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def read_pairs(
    paths: Sequence[Path], passages: int, questions: int, most_joined: int = 1
) -> list[Collection]:
    """A collection for each source in files of pairs: `{"query", "positive", "source"}`. A passage
    is made of one text, or of up to `most_joined`. Sources with too few texts or without a
    suitable license are left out. Pairs that kb-mini was not trained on come first, so
    that the questions are taken from these."""
    sizes = [1 + number % most_joined for number in range(passages)]
    return [
        _from_pairs(source, pairs[: sum(sizes)], sizes, questions)
        for source, pairs in _pairs_by_source(paths).items()
        if len(pairs) >= sum(sizes)
    ]


def read_encyclopedias(paths: Sequence[Path], passages: int, questions: int) -> list[Collection]:
    """A collection for each source in `ENCYCLOPEDIAS`, with questions about other articles. These
    are harder to tell from its own ones than questions about software."""
    collections = []
    for source, pairs in _pairs_by_source(paths).items():
        if source.partition(":")[0] not in ENCYCLOPEDIAS:
            continue
        held_out = sum(held_out_pair(text) for _, text in pairs)
        strange, rest = split_articles(pairs, min(questions, held_out // 3))
        if strange and len(rest) >= passages:
            collection = _from_pairs(source, rest[:passages], [1] * passages, questions)
            chance = random.Random(source)
            asked = [_vary(number, *pair, chance) for number, pair in enumerate(strange)]
            collections.append(replace(collection, strange=list(dict.fromkeys(asked))))
    return collections


def split_articles(
    pairs: Sequence[tuple[str, str]], count: int
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The first `count` pairs with different passages, and the pairs about other articles: those
    whose passages are not among the `_NEAR` most similar to one of these. Passages are similar if
    they share rare pieces of four characters. Neither questions nor vectors are compared, because
    the fit learns from these."""
    texts = list(dict.fromkeys(text for _, text in pairs))
    chosen = texts[:count]
    containing: dict[str, list[str]] = {}
    lengths: dict[str, float] = {}
    for text in texts:
        for piece in _pieces(text):
            containing.setdefault(piece, []).append(text)
    weights = {piece: log(len(texts) / len(each)) for piece, each in containing.items()}
    for text in texts:
        lengths[text] = sqrt(1.0 + sum(weights[piece] for piece in _pieces(text)))
    near = set(chosen)
    for text in chosen:
        shared: dict[str, float] = {}
        for piece in _pieces(text):
            if len(containing[piece]) <= _MOST_COMMON * len(texts):
                for other in containing[piece]:
                    shared[other] = shared.get(other, 0.0) + weights[piece] / lengths[other]
        near |= set(nlargest(max(1, round(_NEAR * len(texts))), shared, key=shared.__getitem__))
    first = {text: (query, text) for query, text in reversed(pairs)}
    return [first[text] for text in chosen], [pair for pair in pairs if pair[1] not in near]


def _pieces(text: str) -> set[str]:
    return {text[start : start + _PIECE] for start in range(len(text) - _PIECE + 1)}


def _pairs_by_source(paths: Sequence[Path]) -> dict[str, list[tuple[str, str]]]:
    """The pairs of each source with a suitable license, those that kb-mini has not learned first,
    in a random order otherwise."""
    by_source: dict[str, list[tuple[str, str]]] = {}
    for path in paths:
        for line in read_lines(path):
            if is_licensed(line["source"]):
                source = f"{line['source']}:{line['lang']}" if "lang" in line else line["source"]
                by_source.setdefault(source, []).append((line["query"], line["positive"]))
    return {
        source: sorted(
            random.Random(source).sample(pairs, len(pairs)),
            key=lambda pair: not held_out_pair(pair[1]),
        )
        for source, pairs in by_source.items()
    }


def _from_pairs(
    source: str, pairs: Sequence[tuple[str, str]], sizes: Sequence[int], questions: int
) -> Collection:
    chance = random.Random(source)
    rest = iter(pairs)
    groups = [list(islice(rest, size)) for size in sizes]
    texts = ["\n\n".join(text for _, text in group) for group in groups]
    ids = {text: f"p{number}" for number, text in enumerate(dict.fromkeys(texts))}
    asked = list(zip(groups, texts, strict=True))[:questions]
    answers = {
        _vary(number, *group[0], chance): frozenset({ids[text]})
        for number, (group, text) in enumerate(asked)
    }
    passages = {doc_id: ("", text) for text, doc_id in ids.items()}
    return Collection(source, passages, list(answers), answers)


def _vary(number: int, query: str, text: str, chance: random.Random) -> str:
    """The question or, for some numbers, a few of its words or words from the passage."""
    long_words = [word for word in query.split() if len(word) >= _LONG_WORD]
    if number % _SHORT_EVERY == 0 and long_words:
        return " ".join(sorted(long_words, key=len)[-chance.choice((1, 1, 2)) :])
    if number % _KEYWORDS_EVERY == 3 and len(long_words) > _KEYWORDS:
        return " ".join(long_words[-_KEYWORDS:])
    words = text.split()
    if number % _SPAN_EVERY == 1 and len(words) > 2 * _SPAN:
        start = chance.randrange(len(words) - _SPAN)
        return " ".join(words[start : start + _SPAN])
    return query


def read_judged(folder: Path, passages: int, questions: int, split: str = "test") -> Collection:
    """A sample of a judged collection in BEIR's layout, with all passages that answer."""
    chance = random.Random(7)
    texts = {line["_id"]: line["text"] for line in read_lines(_file(folder, "queries.jsonl"))}
    judged: dict[str, set[str]] = {}
    for row in (folder / "qrels" / f"{split}.tsv").read_text().splitlines()[1:]:
        query_id, doc_id, grade = row.split("\t")[:3]
        if float(grade) > 0 and query_id in texts:
            judged.setdefault(query_id, set()).add(doc_id)
    asked = chance.sample(sorted(judged), min(questions, len(judged)))
    corpus = {
        line["_id"]: ((line.get("title") or "").strip(), line["text"])
        for line in read_lines(_file(folder, "corpus.jsonl"))
    }
    wanted = {doc_id for query_id in asked for doc_id in sorted(judged[query_id])[:20]}
    rest = sorted(corpus.keys() - wanted)
    chance.shuffle(rest)
    kept = [*sorted(wanted & corpus.keys()), *rest][: max(passages, len(wanted))]
    return Collection(
        folder.name,
        {doc_id: corpus[doc_id] for doc_id in kept},
        [texts[query_id] for query_id in asked],
        {texts[query_id]: frozenset(judged[query_id]) for query_id in asked},
    )


def _file(folder: Path, name: str) -> Path:
    return path if (path := folder / name).exists() else folder / f"{name}.gz"


def observe(
    collection: Collection,
    other: Collection,
    foreign: Sequence[str],
    encoder: Encoder | None,
    *,
    coverages: Sequence[float] = COVERAGES,
    profile: str | None = None,
    settings: Mapping[str, Any] | None = None,
    top: int | None = None,
) -> Iterator[Observation]:
    """Build a store from `collection` and a part of `other`, run the collection's questions and the
    `foreign` ones, and yield every hit."""
    part = dict(list(other.passages.items())[: len(collection.passages) // 3])
    passages = {f"{_OTHER}{doc_id}": text for doc_id, text in part.items()}
    with (
        TemporaryDirectory() as folder,
        KnowledgeBase(Path(folder) / "kb.sqlite", encoder=encoder or "none") as kb,
    ):
        # The newest documents are embedded first.
        fill(kb, collection.passages, f"{_YEAR}-01-01T00:00:00Z")
        fill(kb, passages, f"{_YEAR + 1}-01-01T00:00:00Z")
        total = kb.pending() if encoder is not None else 0
        embedded = 0
        for coverage in coverages if total else (0.0,):
            target = round(total * coverage)
            if target > embedded:
                kb.embed(limit=target - embedded)
                embedded = target
            asked = [(query, True) for query in collection.questions]
            for query, own in asked + [(query, False) for query in foreign]:
                if analyze(query).expression is not None:  # has no relevance
                    continue
                response = kb.search(
                    query, profile=profile, settings=settings, top=top, explain=True
                )
                explained = (response.explain or {}).get("hits", ())
                gold = collection.answers.get(query, frozenset()) if own else frozenset()
                for hit, facts in zip(response.hits, explained, strict=True):
                    yield Observation(
                        collection.name,
                        coverage,
                        own and not hit.doc_path.startswith(_OTHER),
                        hit.rank,
                        Signals(**facts["signals"]),
                        hit.relevance,
                        own,
                        hit.doc_path in gold,
                        len(passages) + len(collection.passages),
                    )


def fill(
    kb: KnowledgeBase, passages: Mapping[str, tuple[str, str]], updated_at: str | None = None
) -> None:
    """Write passages as documents, with their ids as paths."""
    for doc_id, (title, text) in passages.items():
        attributes = Attributes(title=title or None, updated_at=updated_at)
        prepared = build_note(text, attributes, 0, Config().chunk.max_chars)
        draft = replace(
            prepared.draft,
            doc_path=doc_id,
            title=prepared.draft.title if title else "",
            body=None,
        )
        kb._store.catalog.write_document(draft, prepared.chunks)
