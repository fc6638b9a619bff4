"""The store that a trial searches: a scratch one, or the user's own.

corpus.jsonl of a BEIR folder    into a scratch store, a document each
a folder of files                into a scratch store, by `kb ingest`'s own indexer
neither                          the user's store as it is, read only
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kb.atomic import scratch_folder
from kb.config import Config
from kb.embedding.embedder import Embedder, EmbedProgress, wanted
from kb.errors import EvalDataError
from kb.evaluation.beir import read_corpus
from kb.evaluation.encoding_cache import remembering
from kb.evaluation.qrels import Judged
from kb.ingest.document_builder import build_note
from kb.ingest.indexer import Indexer
from kb.ingest.progress import Progress
from kb.ports import Encoder, Store
from kb.search.rerank.selection import JudgeSource, no_judge
from kb.search.searcher import Searcher
from kb.store import open_store
from kb.types import Attributes

# (stage, done, in all; 0 where that is not known)
OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Ground:
    """What is searched, and by which model. `own` is the user's store, `documents` a folder of
    files; `cache` is the folder where encoded passages are kept, if they are."""

    config: Config
    own: Path | None = None
    documents: Path | None = None
    encoder: Encoder | None = None
    judge: JudgeSource = no_judge
    cache: Path | None = None

    def has_corpus_of(self, judged: Judged) -> bool:
        """Whether the data's own corpus is what is searched, so that its ids are exact."""
        return self.documents is None and judged.corpus_path is not None

    def searcher(self, store: Store) -> Searcher:
        """A new one, which remembers nothing yet."""
        return Searcher(store, self.config, time.time, lambda: self.encoder, self.judge)


@contextmanager
def searched(
    judged: Judged, ground: Ground, want: Set[str], on_progress: OnProgress | None = None
) -> Iterator[Store]:
    """The store to search. A scratch one gets the parts `want` of the encoder's vectors, as the
    settings would have them stored: `models.tokens`."""
    if ground.documents is None and judged.corpus_path is None:
        yield from _own_store(judged, ground.own, ground.config)
        return
    tell = on_progress or _silent
    with scratch_folder("trial") as folder:
        tokens = ground.config.models.tokens
        store = open_store(
            folder / "kb.sqlite",
            vector_backend=ground.config.store.vector_backend,
            token_format=tokens,
        )
        try:
            store.create()
            if ground.documents is not None:
                _ingest(ground.documents, store, ground.config, tell)
            elif judged.corpus_path is not None:
                _index(judged.corpus_path, store, ground.config, tell)
            if ground.encoder is not None and want:
                parts = want & wanted(ground.encoder.spec, tokens)
                _embed(store, ground, parts, tell)
            yield store
        finally:
            store.close()


def _own_store(judged: Judged, own: Path | None, config: Config) -> Iterator[Store]:
    if own is None:
        raise EvalDataError(
            f"{judged.name} has no corpus", "name the store its documents are in with --store"
        )
    store = open_store(own, read_only=True, vector_backend=config.store.vector_backend)
    try:
        yield store
    finally:
        store.close()


def _index(corpus: Path, store: Store, config: Config, tell: OnProgress) -> None:
    for done, judged in enumerate(read_corpus(corpus), start=1):
        said = Attributes(title=judged.title or None)
        prepared = build_note(judged.text, said, 0, config.chunk.max_chars)
        title = "" if said.title is None else prepared.draft.title
        document = replace(prepared.draft, doc_path=judged.doc_id, title=title, body=None)
        store.catalog.write_document(document, prepared.chunks)
        if done % 100 == 0:
            tell("index", done, 0)


def _ingest(folder: Path, store: Store, config: Config, tell: OnProgress) -> None:
    def event(now: Progress) -> None:
        tell("index", int(now.done), now.total)

    Indexer(store, config, time.time).ingest([str(folder)], on_event=event)


def _embed(store: Store, ground: Ground, want: Set[str], tell: OnProgress) -> None:
    assert ground.encoder is not None

    def event(now: EmbedProgress) -> None:
        tell("embed", now.done, now.total)

    with remembering(ground.encoder, ground.cache) as remembers:
        exam = ground.config.models.exam
        Embedder(store, remembers, want=want, exam=exam).run(on_progress=event)


def _silent(_stage: str, _done: int, _total: int) -> None:
    """Progress that nobody asked for."""
