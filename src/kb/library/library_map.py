"""A map of the library: a point for each document, close to documents of similar meaning.

The position of a document is computed from the mean vector of its passages: neighbors attract each
other, and other documents repel each other. Topics are clusters of the same vectors, named by the
words that are more common in their titles and headings than elsewhere. The same store always
produces the same map.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from math import log
from typing import TYPE_CHECKING

from kb.errors import InvalidRequest
from kb.text.function_words import is_function_word
from kb.types import Document, LibraryMap, MapPoint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.ports import Store

    Array = NDArray[np.float32]

MAX_DOCUMENTS = 3_000
_PASSAGES = 8  # per document
_NEIGHBORS, _NEGATIVES, _STEPS = 10, 8, 200
_MAX_TOPICS = 12
_TERMS = 3  # that name a topic
_WORD = re.compile(r"[^\W\d_]{3,}")


def make_map(store: Store, documents: Sequence[Document]) -> LibraryMap:
    """The map of these documents, at most `MAX_DOCUMENTS`. Raises `InvalidRequest` if fewer than
    three have vectors."""
    points = mean_vectors(store, documents)
    if len(points) < 3:  # two points are not a map
        raise InvalidRequest("too few documents have vectors for a map", "run: kb embed")
    import numpy as np

    rows = np.array([center for _, center, _ in points], np.float32)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    places, topics = lay_out(rows), cluster(rows)
    names = name_topics([text for _, _, text in points], topics)
    return LibraryMap(
        tuple(
            MapPoint(document.doc_path, document.title, document.kind, document.type,
                     document.date[:10], round(float(x), 4), round(float(y), 4), int(topic))
            for (document, _, _), (x, y), topic in zip(points, places, topics, strict=True)
        ),
        tuple(names),
        max(0, len(documents) - MAX_DOCUMENTS),
    )  # fmt: skip


def mean_vectors(
    store: Store, documents: Sequence[Document]
) -> list[tuple[Document, list[float], str]]:
    """The documents with vectors, at most `MAX_DOCUMENTS`: each with the sum of the vectors of its
    first passages, and with its title and headings."""
    model = next(iter(store.vectors.models()), None)
    points: list[tuple[Document, list[float], str]] = []
    for document in documents[:MAX_DOCUMENTS] if model is not None else ():
        chunks = list(islice(store.catalog.chunks(document.doc_id), _PASSAGES))
        assert model is not None
        vectors = store.vectors.dense_vectors(model.model_id, [each.chunk_id for each in chunks])
        if vectors:
            center = [sum(values) for values in zip(*vectors.values(), strict=True)]
            headings = " ".join(heading for each in chunks for heading in each.heading_path)
            points.append((document, center, f"{document.title} {headings}"))
    return points


def lay_out(rows: Array) -> Array:
    """A position in the unit square for each row. Starts with the principal components; then
    neighbors attract each other and random pairs repel each other, as in UMAP."""
    import numpy as np

    chance = np.random.default_rng(7)
    centered = rows - rows.mean(axis=0)
    _, _, axes = np.linalg.svd(centered, full_matrices=False)
    places = centered @ axes[:2].T
    if places.shape[1] < 2:  # vectors with one dimension
        places = np.hstack([places, np.zeros_like(places)])
    places = places / max(1e-9, float(np.abs(places).max())) * 10
    count = len(rows)
    near = min(_NEIGHBORS, count - 1)
    similarity = rows @ rows.T
    np.fill_diagonal(similarity, -2.0)
    neighbors = np.argsort(-similarity, axis=1, kind="stable")[:, :near]
    for step in range(_STEPS):
        rate = 0.5 * (1 - step / _STEPS)
        pull = places[neighbors] - places[:, None]
        square = (pull**2).sum(axis=2, keepdims=True)
        attraction = (pull / (1 + square)).sum(axis=1) / near * 2
        others = chance.integers(0, count, (count, _NEGATIVES))
        push = places[:, None] - places[others]
        square = (push**2).sum(axis=2, keepdims=True)
        repulsion = (push / ((0.05 + square) * (1 + square))).sum(axis=1) / _NEGATIVES
        places = places + rate * np.clip(attraction + repulsion, -4, 4)
    return _spread(places)


def _spread(places: Array) -> Array:
    """Scale the positions to the unit square. Each coordinate is mixed with its rank, so that an
    outlier does not squeeze the rest into a corner."""
    import numpy as np

    low, high = places.min(axis=0), places.max(axis=0)
    linear = (places - low) / np.maximum(high - low, 1e-9)
    ranks = places.argsort(axis=0, kind="stable").argsort(axis=0) / max(1, len(places) - 1)
    return np.asarray((linear + 3 * ranks) / 4, np.float32)


def cluster(rows: Array) -> list[int]:
    """The topic of each row, by k-means with distant rows as the first centers."""
    import numpy as np

    count = max(1, min(_MAX_TOPICS, round((len(rows) / 3) ** 0.5)))
    centers = [rows[0]]
    while len(centers) < count:
        nearest = (rows @ np.array(centers).T).max(axis=1)
        centers.append(rows[int(nearest.argmin())])
    middle = np.array(centers)
    topics = np.zeros(len(rows), int)
    for _ in range(30):
        topics = (rows @ middle.T).argmax(axis=1)
        for number in range(count):
            members = rows[topics == number]
            if len(members):
                total = members.sum(axis=0)
                middle[number] = total / max(1e-9, float(np.linalg.norm(total)))
    return [int(topic) for topic in topics]


def name_topics(texts: Sequence[str], topics: Sequence[int]) -> list[str]:
    """A name for each topic: the words that are most common in it compared with the other
    topics."""
    words = [set(map(str.lower, _WORD.findall(text))) for text in texts]
    everywhere = Counter(word for each in words for word in each)
    names = []
    for topic in range(max(topics, default=-1) + 1):
        members = [each for each, one in zip(words, topics, strict=True) if one == topic]
        inside = Counter(word for each in members for word in each if not is_function_word(word))
        weight = {
            word: count * log(1 + len(texts) / everywhere[word]) for word, count in inside.items()
        }
        best = sorted(weight, key=lambda word: (-weight[word], word))[:_TERMS]
        names.append(", ".join(best))
    return names
