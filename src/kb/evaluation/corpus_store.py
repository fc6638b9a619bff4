"""Opens the store that an experiment searches: a temporary one, or the user's own.

corpus.jsonl of a BEIR folder    indexed into a temporary store
a folder of files                ingested into a temporary store
neither                          the user's store, read-only
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kb.atomic import scratch_folder
from kb.config import Config
from kb.embedding.embedder import Embedder, EmbedProgress, parts_to_store
from kb.errors import EvalDataError
from kb.evaluation.beir import read_corpus
from kb.evaluation.encoding_cache import cached_encoder
from kb.evaluation.qrels import Collection
from kb.ingest.document_builder import build_note
from kb.ingest.indexer import Indexer
from kb.ingest.progress import Progress
from kb.ports import Encoder, Store
from kb.search.rerank.selection import JudgeSource, no_judge
from kb.search.searcher import Searcher
from kb.store import open_store
from kb.types import Attributes

# (stage, done, total); the total is 0 if it is unknown
OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class EvaluationSetup:
    """What to search and with which models. `own` is the user's store, `documents` a folder of
    files, and `cache` a folder that keeps encoded passages."""

    config: Config
    own: Path | Store | None = None
    documents: Path | None = None
    encoder: Encoder | None = None
    judge: JudgeSource = no_judge
    cache: Path | None = None

    def has_corpus_of(self, collection: Collection) -> bool:
        """Whether the collection's own corpus is searched, so that document ids match exactly."""
        return self.documents is None and collection.corpus_path is not None

    def searcher(self, store: Store) -> Searcher:
        """A new searcher with empty caches."""
        return Searcher(store, self.config, time.time, lambda: self.encoder, self.judge)


@contextmanager
def open_corpus(
    collection: Collection,
    setup: EvaluationSetup,
    want: Set[str],
    on_progress: OnProgress | None = None,
) -> Iterator[Store]:
    """Yield the store to search. A temporary store gets the vectors `want`, in the format of the
    setting `models.tokens`."""
    if setup.documents is None and collection.corpus_path is None:
        yield from _own_store(collection, setup.own, setup.config)
        return
    report_progress = on_progress or _silent
    with scratch_folder("evaluation") as folder:
        tokens = setup.config.models.tokens
        store = open_store(
            folder / "kb.sqlite",
            vector_backend=setup.config.store.vector_backend,
            token_format=tokens,
        )
        try:
            store.create()
            if setup.documents is not None:
                _ingest(setup.documents, store, setup.config, report_progress)
            elif collection.corpus_path is not None:
                _index(collection.corpus_path, store, setup.config, report_progress)
            if setup.encoder is not None and want:
                parts = want & parts_to_store(setup.encoder.spec, tokens)
                _embed(store, setup, parts, report_progress)
            yield store
        finally:
            store.close()


def _own_store(collection: Collection, own: Path | Store | None, config: Config) -> Iterator[Store]:
    if own is None:
        raise EvalDataError(
            f"{collection.name} has no corpus",
            "give the store that contains its documents: --store PATH",
        )
    if not isinstance(own, Path):  # its owner closes it
        yield own
        return
    store = open_store(own, read_only=True, vector_backend=config.store.vector_backend)
    try:
        yield store
    finally:
        store.close()


def _index(corpus: Path, store: Store, config: Config, report_progress: OnProgress) -> None:
    for done, entry in enumerate(read_corpus(corpus), start=1):
        attributes = Attributes(title=entry.title or None)
        prepared = build_note(entry.text, attributes, 0, config.chunk.max_chars)
        title = "" if attributes.title is None else prepared.draft.title
        name = entry.doc_id
        document = replace(prepared.draft, path=name, doc_path=name, title=title, body=None)
        store.catalog.write_document(document, prepared.chunks)
        if done % 100 == 0:
            report_progress("index", done, 0)


def _ingest(folder: Path, store: Store, config: Config, report_progress: OnProgress) -> None:
    def event(now: Progress) -> None:
        report_progress("index", int(now.done), now.total)

    Indexer(store, config, time.time).ingest([str(folder)], on_event=event)


def _embed(
    store: Store, setup: EvaluationSetup, want: Set[str], report_progress: OnProgress
) -> None:
    assert setup.encoder is not None

    def event(now: EmbedProgress) -> None:
        report_progress("embed", now.done, now.total)

    with cached_encoder(setup.encoder, setup.cache) as encoder:
        exam = setup.config.models.exam
        Embedder(store, encoder, want=want, exam=exam).run(on_progress=event)


def _silent(_stage: str, _done: int, _total: int) -> None:
    """Ignore the progress."""
