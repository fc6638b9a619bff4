"""A trial: judged data, searched by named methods, measured.

    judged data + ground (a store to search) -> a ranker per method -> runs.evaluate -> EvalReport

The same pipeline that users have is measured, and what it says about itself is reported with the
figures: a method whose dense part did not answer is not measured as if it had.
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
from kb.evaluation.corpus_store import Ground, OnProgress, searched
from kb.evaluation.document_lookup import known
from kb.evaluation.metrics import parse_measure
from kb.evaluation.qrels import Judged
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

# How a search is asked: arguments of `Searcher.search`; and that, by the query.
Asked = Mapping[str, Any]
AskedFor = Callable[[str], Asked]

# Searches with names of their own: words in three ways, and the six of `kb compare`.
METHODS: Mapping[str, Asked] = {
    **{f"match-{match}": {"profile": "lexical", "match": match} for match in MATCHES},
    **{name: {"profile": compare.PROFILE, **asked} for name, asked in compare.METHODS.items()},
}


def method_names(config: Config) -> tuple[str, ...]:
    """What can be compared: every profile, and the searches of `METHODS`."""
    return (*profile_names(config.profiles), *METHODS)


def run_trial(
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
    store: Path | None = None,
    encoder: Encoder | None = None,
    judge: JudgeSource = no_judge,
    cache: Path | None = None,
    on_progress: OnProgress | None = None,
) -> EvalReport:
    """Measure `methods` on a `split` of the folder `data`, or by the CSV file `judgments`.

    What is searched is the folder's corpus, the files in the folder `documents`, or, without
    either, `store`. With an `encoder`, a corpus is embedded by it; the caller says whether the
    methods need one. Encoded passages are kept in the folder `cache`, if one is named.
    """
    config = config or Config()
    check_methods(methods, config)
    judged = judged_data(data, judgments, split, limit_queries)
    ground = Ground(config, store, documents, encoder, judge, cache)
    if not measures:
        raise InvalidRequest("no measure is given", f"for example: {', '.join(MEASURES)}")
    wanted = [parse_measure(text) for text in measures]
    asked = {name: METHODS.get(name, {"profile": name}) for name in methods}
    with searched(judged, ground, parts_needed(methods, config), on_progress) as found:
        return measured(
            found, ground, judged, asked, wanted, gain,
            baseline=methods[0] if baseline is None else baseline, on_progress=on_progress,
        )  # fmt: skip


def measured(
    store: Store,
    ground: Ground,
    judged: Judged,
    asked: Mapping[str, Asked | AskedFor],
    *how: Any,
    **options: Any,
) -> EvalReport:
    """The report of searches, by name, on a store that is ready. `how` and `options` are those of
    `evaluate`."""
    judged, unknown = known(judged, store, exact=ground.has_corpus_of(judged))
    with ExitStack() as stack:
        # Each with a searcher of its own: what one has remembered of a query is no other's gain.
        rankers = {name: SearchRanker(ground, store, each) for name, each in asked.items()}
        for ranker in rankers.values():
            stack.callback(ranker.close)
            ranker.warm_up(judged.queries[next(iter(judged.qrels))])
        report = evaluate(rankers, judged, *how, unknown=unknown, **options)
        methods = {
            name: replace(result, degraded=rankers[name].degraded())
            for name, result in report.methods.items()
        }
    documents = store.catalog.counts().documents
    model = ground.encoder.spec if ground.encoder is not None else None
    return replace(
        report,
        methods=methods,
        documents=documents,
        model=None if model is None else f"{model.name} {model.version}",
    )


def judged_data(
    data: Path | None, judgments: Path | None, split: str | None, limit_queries: int | None = None
) -> Judged:
    """From a folder or from a CSV file; exactly one of them. Only a folder has splits."""
    if (data is None) == (judgments is None):
        raise InvalidRequest(
            "judged data comes from a folder or from a CSV file", "give --data or --judgments"
        )
    if judgments is not None and split is not None:
        raise InvalidRequest(
            f"a CSV file of judgments has no split {split!r}", "splits are those of --data"
        )
    if data is not None:
        judged = load(data, DEFAULT_SPLIT if split is None else split)
    else:
        judged = load_csv(judgments or "")
    if limit_queries is not None:
        judged = replace(judged, qrels=dict(list(judged.qrels.items())[:limit_queries]))
    if not any(grade > 0 for graded in judged.qrels.values() for grade in graded.values()):
        raise EvalDataError(
            f"{judged.name}: no query has an answer with a grade above 0, so nothing can be found",
            "grade what answers a query 1 or more",
        )
    return judged


def check_methods(methods: Sequence[str], config: Config) -> None:
    """Raise `InvalidRequest` for an unknown method, or for none."""
    known = method_names(config)
    if not methods:
        raise InvalidRequest("no method is given", f"methods: {', '.join(known)}")
    if unknown := [name for name in methods if name not in known]:
        raise InvalidRequest(f"no method {unknown[0]!r}", f"methods: {', '.join(known)}")


def parts_needed(methods: Sequence[str], config: Config) -> frozenset[str]:
    """Which parts of an encoder's work these methods search by."""
    return frozenset().union(*(_profile(name, config).model_outputs() for name in methods))


def _profile(method: str, config: Config) -> Profile:
    asked = METHODS.get(method, {"profile": method})
    profile = resolve(asked["profile"], config.profiles, asked.get("settings"))
    return with_reranker(restrict(profile, asked.get("mode")), asked.get("rerank"))


# --- a method under test --------------------------------------------------------------------------


@dataclass(slots=True)
class SearchRanker:
    """A search as a `Ranker`, which remembers what went wrong in which query."""

    ground: Ground
    store: Store
    asked: Asked | AskedFor
    _notes: dict[str, tuple[Degraded, ...]] = field(default_factory=dict)
    _searcher: Searcher = field(init=False)

    def __post_init__(self) -> None:
        self._searcher = self.ground.searcher(self.store)

    def __call__(self, query: str, k: int) -> list[str]:
        """One search: kb finds passages, judgments are about documents, and each stands where its
        best passage does. The pipeline itself goes on until there are k of them."""
        try:
            response = self._search(query, query, k)
        except QuerySyntax as error:  # a query in single quotes; one bad query stops no trial
            self._notes[query] = (Degraded("query", "syntax", error.message),)
            return []
        self._notes[query] = response.degraded
        return [hit.doc_path for hit in response.hits]

    def warm_up(self, query: str) -> None:
        """What is loaded on first use is not what a query costs. Asked is almost this one: the
        searcher remembers queries, and this one would cost nothing when its turn comes."""
        with suppress(QuerySyntax):
            self._search(f"{query} {_WARM_UP}", query, _WARM_UP_TOP)

    def _search(self, query: str, asked_as: str, k: int) -> Response:
        asked = self.asked(asked_as) if callable(self.asked) else self.asked
        settings = {**asked.get("settings", {}), "group": True}
        return self._searcher.search(
            SearchRequest(query, top=k, snippets=False, **{**asked, "settings": settings})
        )

    def degraded(self) -> dict[tuple[str, str], int]:
        """In how many queries a part did not do its work, by part and reason."""
        found = Counter(
            pair
            for notes in self._notes.values()
            for pair in {(note.part, note.reason) for note in notes}
        )
        return dict(sorted(found.items()))

    def close(self) -> None:
        self._searcher.close()
