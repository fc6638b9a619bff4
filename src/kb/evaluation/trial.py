"""A trial: judged data, searched by named methods, measured.

The corpus of a BEIR folder goes into a scratch store, a document each, and is searched there by
the same pipeline that users have. A folder without a corpus judges the user's own store, by
document path.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from kb.config import Config
from kb.errors import EvalDataError, InvalidRequest
from kb.evaluation.beir import Judged, load, read_corpus
from kb.evaluation.metrics import parse_measure
from kb.evaluation.ranking import Ranker, documents_until
from kb.evaluation.runs import EvalReport, OnProgress, evaluate
from kb.ingest.draft import prepare_note
from kb.search.profiles import profile_names
from kb.search.searcher import Searcher
from kb.store import SqliteStore
from kb.types import MATCHES, Attributes

MEASURES = ("nDCG@10", "Recall@100", "MRR")


def method_names(config: Config) -> tuple[str, ...]:
    """What can be compared: every profile, and the lexical retriever by each way to match."""
    return (*profile_names(config.profiles), *(f"match-{match}" for match in MATCHES))


def run_trial(
    data: Path,
    *,
    split: str = "test",
    methods: Sequence[str] = ("default",),
    measures: Sequence[str] = MEASURES,
    gain: str = "linear",
    baseline: str | None = None,
    limit_queries: int | None = None,
    config: Config | None = None,
    store: Path | None = None,
    on_progress: OnProgress | None = None,
) -> EvalReport:
    """Measure `methods` on the folder `data`. `store` is used where the folder has no corpus."""
    config = config or Config()
    _check(methods, config)
    judged = load(data, split)
    if limit_queries is not None:
        some = dict(list(judged.qrels.items())[:limit_queries])
        judged = replace(judged, qrels=some)
    with _searched(judged, store, config, on_progress) as searched:
        searcher = Searcher(searched, config, time.time)
        return evaluate(
            {name: _ranker(searcher, name) for name in methods},
            judged,
            [parse_measure(text) for text in measures],
            gain,
            baseline=baseline if baseline is not None else methods[0],
            on_progress=on_progress,
        )


def _check(methods: Sequence[str], config: Config) -> None:
    known = method_names(config)
    if unknown := [name for name in methods if name not in known]:
        raise InvalidRequest(f"no method {unknown[0]!r}", f"methods: {', '.join(known)}")


@contextmanager
def _searched(
    judged: Judged, own: Path | None, config: Config, on_progress: OnProgress | None
) -> Iterator[SqliteStore]:
    """The store to search: a scratch one with the corpus, or the user's own."""
    if judged.corpus_path is None:
        if own is None:
            raise EvalDataError(
                f"{judged.name} has no corpus", "name the store its documents are in with --store"
            )
        store = SqliteStore(own, read_only=True)
        try:
            yield store
        finally:
            store.close()
        return
    with TemporaryDirectory(prefix="kb-trial-") as folder:
        store = SqliteStore(Path(folder) / "kb.sqlite")
        try:
            _index(judged.corpus_path, store, config, on_progress)
            yield store
        finally:
            store.close()


def _index(
    corpus: Path, store: SqliteStore, config: Config, on_progress: OnProgress | None
) -> None:
    store.create()
    for done, judged in enumerate(read_corpus(corpus), start=1):
        said = Attributes(title=judged.title or None)
        prepared = prepare_note(judged.text, said, 0, config.chunk.max_chars)
        title = "" if said.title is None else prepared.document.title
        document = replace(prepared.document, doc_path=judged.doc_id, title=title, body=None)
        store.write_document(document, prepared.chunks)
        if on_progress is not None and done % 100 == 0:
            on_progress("indexing", done, 0)


def _ranker(searcher: Searcher, method: str) -> Ranker:
    profile, match = (method, None)
    if method.startswith("match-"):
        profile, match = "lexical", method.removeprefix("match-")

    def ranked(query: str, k: int) -> list[str]:
        def documents(limit: int) -> list[str]:
            response = searcher.search(
                query, top=limit, profile=profile, match=match, snippets=False
            )
            return [hit.doc_path for hit in response.hits]

        return documents_until(documents, k)

    return ranked
