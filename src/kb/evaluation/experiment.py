"""Measures search methods on a collection of judged queries.

    collection + setup (a store to search) -> a ranker per method -> runs.evaluate -> EvalReport

Each method runs the same pipeline as a user's search. The report states which parts were degraded:
a method without its dense retriever is not reported as if it had one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kb.config import Config
from kb.errors import EvalDataError, InvalidRequest, QuerySyntax
from kb.evaluation.beir import DEFAULT_SPLIT, load
from kb.evaluation.corpus_store import EvaluationSetup, OnProgress, open_corpus
from kb.evaluation.document_lookup import resolve_documents
from kb.evaluation.metrics import parse_measure
from kb.evaluation.qrels import Collection
from kb.evaluation.qrels_csv import load_csv
from kb.evaluation.runs import EvalReport, evaluate
from kb.ports import Encoder, Store
from kb.search import compare
from kb.search.profiles import Profile, profile_names, resolve, restrict, with_reranker
from kb.search.rerank.selection import JudgeSource, no_judge
from kb.search.searcher import Searcher
from kb.types import MATCHES, Degraded, Response, SearchRequest

_WARM_UP, _WARM_UP_TOP = "once more", 10
MEASURES = ("nDCG@10", "Recall@100", "MRR")

# Arguments of `Searcher.search`; and a function that returns them for a query.
SearchOptions = Mapping[str, Any]
OptionsByQuery = Callable[[str], SearchOptions]

# Named searches: three ways to match words, and the six methods of `kb compare`.
METHODS: Mapping[str, SearchOptions] = {
    **{f"match-{match}": {"profile": "lexical", "match": match} for match in MATCHES},
    **{
        name: {"profile": compare.PROFILE, **search_options}
        for name, search_options in compare.METHODS.items()
    },
}


def method_names(config: Config) -> tuple[str, ...]:
    """The methods to choose from: every profile, and the searches of `METHODS`."""
    return (*profile_names(config.profiles), *METHODS)


def run_experiment(
    data: Path | None = None,
    *,
    judgments: Path | None = None,
    documents: Path | None = None,
    split: str | None = None,
    methods: Sequence[str] = ("default",),
    measures: Sequence[str] = MEASURES,
    gain: str = "linear",
    baseline: str | None = None,
    limit_queries: int | None = None,
    config: Config | None = None,
    store: Path | Store | None = None,
    encoder: Encoder | None = None,
    judge: JudgeSource = no_judge,
    cache: Path | None = None,
    on_progress: OnProgress | None = None,
) -> EvalReport:
    """Measure `methods` on a `split` of the folder `data`, or by the CSV file `judgments`.

    Searches the corpus of `data`, the files in the folder `documents`, or else `store`. The
    `encoder` embeds the corpus; pass one if the methods need it. The folder `cache` keeps encoded
    passages for the next run.
    """
    config = config or Config()
    check_methods(methods, config)
    collection = load_collection(data, judgments, split, limit_queries)
    setup = EvaluationSetup(config, store, documents, encoder, judge, cache)
    if not measures:
        raise InvalidRequest("no measure is given", f"for example: {', '.join(MEASURES)}")
    wanted = [parse_measure(text) for text in measures]
    search_options = {name: METHODS.get(name, {"profile": name}) for name in methods}
    with open_corpus(collection, setup, parts_needed(methods, config), on_progress) as corpus:
        return measure_methods(
            corpus, setup, collection, search_options, wanted, gain,
            baseline=methods[0] if baseline is None else baseline, on_progress=on_progress,
        )  # fmt: skip


def measure_methods(
    store: Store,
    setup: EvaluationSetup,
    collection: Collection,
    search_options: Mapping[str, SearchOptions | OptionsByQuery],
    *how: Any,
    **options: Any,
) -> EvalReport:
    """Run named searches on a store that is ready, and return the report. `how` and `options` are
    arguments of `evaluate`."""
    collection, unknown = resolve_documents(
        collection, store, exact=setup.has_corpus_of(collection)
    )
    with ExitStack() as stack:
        # Each ranker has its own searcher, so that no method profits from the caches of another.
        rankers = {name: SearchRanker(setup, store, each) for name, each in search_options.items()}
        for ranker in rankers.values():
            stack.callback(ranker.close)
            ranker.warm_up(collection.queries[next(iter(collection.qrels))])
        report = evaluate(rankers, collection, *how, unknown=unknown, **options)
        methods = {
            name: replace(result, degraded=rankers[name].degraded())
            for name, result in report.methods.items()
        }
    documents = store.catalog.counts().documents
    model = setup.encoder.spec if setup.encoder is not None else None
    return replace(
        report,
        methods=methods,
        documents=documents,
        model=None if model is None else f"{model.name} {model.version}",
    )


def load_collection(
    data: Path | None, judgments: Path | None, split: str | None, limit_queries: int | None = None
) -> Collection:
    """Load the collection from a folder or a CSV file. Only a folder has splits."""
    if (data is None) == (judgments is None):
        raise InvalidRequest(
            "give either a folder or a CSV file of judgments", "use --data or --judgments"
        )
    if judgments is not None and split is not None:
        raise InvalidRequest(
            f"a CSV file of judgments has no split {split!r}", "only --data has splits"
        )
    if data is not None:
        collection = load(data, DEFAULT_SPLIT if split is None else split)
    else:
        collection = load_csv(judgments or "")
    if limit_queries is not None:
        collection = replace(collection, qrels=dict(list(collection.qrels.items())[:limit_queries]))
    if not any(grade > 0 for graded in collection.qrels.values() for grade in graded.values()):
        raise EvalDataError(
            f"{collection.name}: no query has a document with a grade above 0",
            "give relevant documents a grade of 1 or more",
        )
    return collection


def check_methods(methods: Sequence[str], config: Config) -> None:
    """Raise `InvalidRequest` for an unknown method, or for none."""
    known = method_names(config)
    if not methods:
        raise InvalidRequest("no method is given", f"methods: {', '.join(known)}")
    if unknown := [name for name in methods if name not in known]:
        raise InvalidRequest(f"no method {unknown[0]!r}", f"methods: {', '.join(known)}")


def parts_needed(methods: Sequence[str], config: Config) -> frozenset[str]:
    """The kinds of vectors that these methods search."""
    return frozenset().union(*(_profile(name, config).model_outputs() for name in methods))


def _profile(method: str, config: Config) -> Profile:
    search_options = METHODS.get(method, {"profile": method})
    profile = resolve(search_options["profile"], config.profiles, search_options.get("settings"))
    return with_reranker(
        restrict(profile, search_options.get("mode")), search_options.get("rerank")
    )


# --- rankers --------------------------------------------------------------------------------------


@dataclass(slots=True)
class SearchRanker:
    """A search as a `Ranker`. Records the degraded parts of each query."""

    setup: EvaluationSetup
    store: Store
    search_options: SearchOptions | OptionsByQuery
    _notes: dict[str, tuple[Degraded, ...]] = field(default_factory=dict)
    _searcher: Searcher = field(init=False)

    def __post_init__(self) -> None:
        self._searcher = self.setup.searcher(self.store)

    def __call__(self, query: str, k: int) -> list[str]:
        """Return the ids of the k best documents; a document ranks where its best passage does."""
        try:
            response = self._search(query, query, k)
        except QuerySyntax as error:  # a query in single quotes; it must not stop the experiment
            self._notes[query] = (Degraded("query", "syntax", error.message),)
            return []
        self._notes[query] = response.degraded
        return [hit.doc_path for hit in response.hits]

    def warm_up(self, query: str) -> None:
        """Load models and indexes, so that this does not count in the time of the first query. The
        query is altered: the searcher would cache the original, which would then cost nothing."""
        with suppress(QuerySyntax):
            self._search(f"{query} {_WARM_UP}", query, _WARM_UP_TOP)

    def _search(self, query: str, original: str, k: int) -> Response:
        search_options = (
            self.search_options(original) if callable(self.search_options) else self.search_options
        )
        settings = {**search_options.get("settings", {}), "group": True}
        return self._searcher.search(
            SearchRequest(query, top=k, snippets=False, **{**search_options, "settings": settings})
        )

    def degraded(self) -> dict[tuple[str, str], int]:
        """The number of queries in which a part was degraded, by part and reason."""
        counts = Counter(
            pair
            for notes in self._notes.values()
            for pair in {(note.part, note.reason) for note in notes}
        )
        return dict(sorted(counts.items()))

    def close(self) -> None:
        self._searcher.close()
