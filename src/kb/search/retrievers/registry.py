"""The registry of retrievers: the properties of each retriever, by name.

A retriever is one class and one entry here. Profiles, fusion, hits, the command line, the JSON
output and the web page read the entry. `register` adds a retriever from outside kb.
"""

from __future__ import annotations

from collections.abc import Callable

from kb.errors import InvalidRequest, check_choice
from kb.search.ranking.calibration import bound, identity, keyword_score, positive, spread
from kb.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.search.context import SearchContext
    from kb.search.retrievers.base import Retriever

LEXICAL = "lexical"  # breaks ties between fused scores, and answers if no other retriever can
HYBRID = "hybrid"  # the mode of a search with several retrievers


class RetrieverSpec(NamedTuple):
    """The properties of a retriever that the rest of kb uses.

    `name` is its name in profiles, in explanations and as a degraded part. `mode` is the search
    mode that runs it alone, and the prefix of its JSON fields: `vector_score`, `vector_rank`.
    `label` is its display name. `source` stands for it in the `sources` of a hit. `score_kind` is
    the scale of its scores.

    `implementation` is the retriever class as `module:class`. It is imported on first use and
    called with the `SearchContext`. `index_version` returns the version of the index it reads.
    `model_output` is the output of the model that it needs, if any.

    `absence` is the score that fusion gives to a chunk that is missing from the list: `zero` (the
    chunk shares no term with the query) or `least` (the lowest score in the list). `unit_score`
    maps a score to [0, 1] for the weighted sum; `linear_score` prepares it for the convex sum.
    """

    name: str
    mode: str
    label: str
    source: str
    score_kind: str
    implementation: str
    index_version: Callable[[Store], str]
    model_output: str | None = None
    absence: str = "zero"
    unit_score: Callable[[float], float] = positive
    linear_score: Callable[[float], float] = identity

    def create(self, context: SearchContext) -> Retriever:
        """Create the retriever for one search."""
        from importlib import import_module

        module, _, name = self.implementation.partition(":")
        retriever: Retriever = getattr(import_module(module), name)(context)
        return retriever


def _text_version(store: Store) -> str:
    return store.catalog.version()


def _vector_version(store: Store) -> str:
    return store.vectors.version()


_BUILT_IN = (
    RetrieverSpec(
        name=LEXICAL,
        mode="lexical",
        label="words",
        source="fts",
        score_kind="bm25",
        implementation="kb.search.retrievers.lexical:LexicalRetriever",
        index_version=_text_version,
        unit_score=keyword_score,
        linear_score=spread,
    ),
    RetrieverSpec(
        name="dense",
        mode="vector",
        label="meaning",
        source="vec",
        score_kind="cosine",
        implementation="kb.search.retrievers.dense:DenseRetriever",
        index_version=_vector_version,
        model_output="dense",
        absence="least",
    ),
    RetrieverSpec(
        name="sparse",
        mode="sparse",
        label="terms",
        source="sparse",
        score_kind="sparse",
        implementation="kb.search.retrievers.sparse:SparseRetriever",
        index_version=_vector_version,
        model_output="sparse",
        unit_score=bound,
    ),
)
_specs: dict[str, RetrieverSpec] = {spec.name: spec for spec in _BUILT_IN}


def register(spec: RetrieverSpec) -> None:
    """Add a retriever. Profiles may then name it. Its name, mode and source must be new."""
    for known in _specs.values():
        if spec.name == known.name or spec.mode in (known.mode, HYBRID):
            raise InvalidRequest(
                f"the retriever {spec.name} ({spec.mode}) is already registered",
                "choose another name and mode",
            )
    _specs[spec.name] = spec


def unregister(name: str) -> None:
    """Remove a retriever that `register` added."""
    if name not in {spec.name for spec in _BUILT_IN}:
        _specs.pop(name, None)


def specs() -> tuple[RetrieverSpec, ...]:
    """All retrievers, in the order in which a profile runs them."""
    return tuple(_specs.values())


def names() -> tuple[str, ...]:
    """The names of all retrievers."""
    return tuple(_specs)


def modes() -> tuple[str, ...]:
    """All search modes: one for each retriever, and `hybrid`."""
    return (*(spec.mode for spec in specs()), HYBRID)


def get(name: str) -> RetrieverSpec:
    """The retriever `name`; raises `InvalidRequest` if there is none."""
    return _specs[check_choice("retriever", name, names())]


def find(name: str) -> RetrieverSpec | None:
    """The retriever `name`, or None."""
    return _specs.get(name)


def of_mode(mode: str) -> tuple[str, ...]:
    """The names of the retrievers that a search in this mode runs; none for `hybrid`."""
    return tuple(spec.name for spec in specs() if spec.mode == mode)
