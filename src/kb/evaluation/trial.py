"""A trial: judged data, searched by named methods, measured.

The corpus of a BEIR folder goes into a scratch store, a document each, and is searched there by
the same pipeline that users have. A folder without a corpus judges the user's own store, by
document path.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kb.config import Config
from kb.errors import EvalDataError, InvalidRequest
from kb.evaluation.beir import Judged, load, read_corpus
from kb.evaluation.metrics import parse_measure
from kb.evaluation.ranking import Ranker, documents_until
from kb.evaluation.runs import EvalReport, OnProgress, evaluate
from kb.ingest.draft import prepare_note
from kb.ingest.embed import Embedder, EmbedProgress
from kb.ports import Encoder
from kb.search.profiles import profile_names, resolve, restrict
from kb.search.searcher import Searcher
from kb.store import SqliteStore
from kb.types import MATCHES, Attributes

MEASURES = ("nDCG@10", "Recall@100", "MRR")

# Searches with names of their own: single retrievers, and their plain fusion by rank.
METHODS: Mapping[str, Mapping[str, Any]] = {
    **{f"match-{match}": {"profile": "lexical", "match": match} for match in MATCHES},
    "fts5_only": {"profile": "notes", "mode": "lexical"},
    "dense_only": {"profile": "notes", "mode": "vector"},
    "two_way_hybrid": {"profile": "notes", "settings": {"candidates": "100"}},
}


def method_names(config: Config) -> tuple[str, ...]:
    """What can be compared: every profile, and the searches of `METHODS`."""
    return (*profile_names(config.profiles), *METHODS)


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
    encoder: Encoder | None = None,
    on_progress: OnProgress | None = None,
) -> EvalReport:
    """Measure `methods` on the folder `data`. `store` is used where the folder has no corpus. With
    an `encoder`, a corpus is embedded by it; the caller says whether the methods need one."""
    config = config or Config()
    check_methods(methods, config)
    judged = load(data, split)
    if limit_queries is not None:
        some = dict(list(judged.qrels.items())[:limit_queries])
        judged = replace(judged, qrels=some)
    with _searched(judged, store, config, on_progress) as searched:
        if encoder is not None and judged.corpus_path is not None:
            _embed(searched, encoder, on_progress)
        searcher = Searcher(searched, config, time.time, lambda: encoder)
        return evaluate(
            {name: _ranker(searcher, name) for name in methods},
            judged,
            [parse_measure(text) for text in measures],
            gain,
            baseline=baseline if baseline is not None else methods[0],
            on_progress=on_progress,
        )


def check_methods(methods: Sequence[str], config: Config) -> None:
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


def needs_vectors(methods: Sequence[str], config: Config) -> bool:
    """Whether any of these methods searches by meaning."""
    asked = [METHODS.get(name, {"profile": name}) for name in methods]
    profiles = [restrict(resolve(each["profile"], config.profiles), each.get("mode"))
                for each in asked]  # fmt: skip
    return any("dense" in profile.retrievers for profile in profiles)


def _embed(store: SqliteStore, encoder: Encoder, on_progress: OnProgress | None) -> None:
    def tell(now: EmbedProgress) -> None:
        if on_progress is not None:
            on_progress("embedding", now.done, now.total)

    Embedder(store, encoder).run(on_progress=tell)


def _ranker(searcher: Searcher, method: str) -> Ranker:
    asked = METHODS.get(method, {"profile": method})

    def ranked(query: str, k: int) -> list[str]:
        def documents(limit: int) -> list[str]:
            response = searcher.search(query, top=limit, snippets=False, **asked)
            return [hit.doc_path for hit in response.hits]

        return documents_until(documents, k)

    return ranked
