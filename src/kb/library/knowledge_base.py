"""KnowledgeBase: the one thing every door calls.

with KnowledgeBase("notes.sqlite") as kb:
    kb.ingest("~/notes")
    for hit in kb.search("install git"):
        print(hit.citation.uri, hit.snippet)
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from kb import config as settings_module
from kb.config import Config, store_url
from kb.deadline import Deadline
from kb.embedding.service import Embedding, Encoders
from kb.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    StoreError,
    check_integer,
    check_path,
    check_text,
    short_repr,
)
from kb.search.searcher import Searcher
from kb.store import local_path, open_store
from kb.text.normalize import nfc
from kb.types import Document, Filters, Hit, Response, SearchRequest

if TYPE_CHECKING:
    from kb.embedding.embedder import OnEmbedded
    from kb.embedding.worker import Worker, WorkerState
    from kb.ingest.progress import Progress
    from kb.ports import Encoder, Judge, Store
    from kb.types import Chunk, Comparison, Jobs, Passage, Root
    from kb.types.reports import Diagnosis, EmbedReport, ImportReport, IngestReport

Pathlike = str | os.PathLike[str]
OnProgress = Callable[[int, int], None]  # done, in all
_COUNTER_S = 2.0  # how long a read waits for other writers, to count as an access


class KnowledgeBase:
    """A knowledge base in one SQLite file.

    `path` is the file, its `sqlite:///` URL, or a folder that holds `kb.sqlite`; without it,
    `KB_STORE`, the nearest `.kb/` upwards or the user data folder. The first write creates the
    file. Threads may share one object. `clock` returns the seconds since the epoch. `store` is an
    open store, such as `kb.store.open_store` returns, to use instead of `path`.

    `encoder` makes the vectors: an object of `kb.ports.Encoder`, or a name as in the setting
    `models.encoder`, where `none` means words only; without it, the setting. `judge` is the same
    for the setting `models.judge`: what a rerank by cross-encoder asks. Both are loaded when they
    are first needed.
    """

    def __init__(
        self,
        path: Pathlike | None = None,
        *,
        config: Config | None = None,
        read_only: bool = False,
        clock: Callable[[], float] = time.time,
        encoder: Encoder | str | None = None,
        judge: Judge | str | None = None,
        store: Store | None = None,
    ) -> None:
        url = store_url(path) if store is None else ""
        self.config = config or settings_module.load_logged(
            local_path(url) if store is None else store.path
        )
        self._clock = clock
        self._store = store or open_store(
            url,
            read_only=read_only,
            busy_timeout_s=self.config.store.busy_timeout_s,
            clock=clock,
            vector_backend=self.config.store.vector_backend,
            token_format=self.config.models.tokens,
        )
        self._encoders = Encoders(self._store, self.config, encoder)
        self._embedding = Embedding(self._store, self.config, self._encoders)
        self._judge = judge
        self._lock = threading.Lock()
        self._searcher = Searcher(self._store, self.config, clock, self.encoder, self.judge)

    @property
    def path(self) -> Path:
        """The store's file."""
        return self._store.path

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"KnowledgeBase({str(self.path)!r})"

    def close(self) -> None:
        self._embedding.close()
        self._searcher.close()
        self._store.close()

    def encoder(self) -> Encoder | None:
        """The encoder whose vectors answer, or would; None where encoders are switched off."""
        return self._encoders.current()

    def judge(self) -> Judge | None:
        """The judge that a rerank by cross-encoder asks; None where it is switched off."""
        with self._lock:
            if self._judge is None or isinstance(self._judge, str):
                from kb import models

                made = models.judge(self.config, self._judge)
                if made is None:
                    return None
                self._judge = made
            return self._judge

    # --- putting in -------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the store's file now rather than at the first write."""
        self._store.create()

    def ingest(
        self,
        *paths: Pathlike,
        dry_run: bool = False,
        force: bool = False,
        uploaded: bool = False,
        resolve_links: bool = True,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """Read files and folders into the store, or bring it up to date with them. Without paths,
        every root that was ingested before is looked at again. One bad file never stops a run: see
        `failed` in the report. `force` reads files again that look unchanged. `uploaded` files
        belong to their own folder, and one that cannot be read keeps its earlier document.
        Without `resolve_links`, a path that leads through a link is skipped."""
        from kb.ingest.indexer import Indexer
        from kb.library.status import notes_on

        if not paths and not self._store.catalog.roots():
            raise InvalidRequest("nothing was ingested yet", "name a folder: kb ingest FOLDER")
        indexer = Indexer(self._store, self.config, self._clock)
        if not all(isinstance(path, str | os.PathLike) and os.fspath(path) for path in paths):
            raise InvalidRequest("a path to ingest is empty or not a text", "name a file or folder")
        expanded = [os.path.expanduser(os.fspath(path)) for path in paths]
        options = {"dry_run": dry_run, "force": force, "uploaded": uploaded}
        options["resolve_links"] = resolve_links
        report = indexer.ingest(expanded, on_event=on_progress, **options)
        return replace(report, notes=notes_on(self._store, self.encoder, report))

    def attach(
        self,
        name: str,
        folder: Pathlike | None = None,
        *,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """Let the root called `name`, which an import brought or which has moved, lie at `folder`
        (without it, where it says itself), and read its files there. Documents whose files are not
        there keep their text."""
        from kb.library import archive

        name, ingest = check_text("a folder's name", name), self.config.ingest
        paths, root = archive.attach(self._store, name, folder, ingest)
        report = self.ingest(*paths, on_progress=on_progress)
        return replace(report, notes=(*report.notes, *archive.unattached(self._store, root)))

    def add(
        self,
        text: str,
        *,
        title: str | None = None,
        tags: Iterable[str] = (),
        kind: str | None = None,
        scope: str | None = None,
        trust: str | None = None,
        lang: str | None = None,
        ttl: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        on_warning: Callable[[str], None] | None = None,
    ) -> Document:
        """Store a note. `ttl` is how long it lives: `7d`, `12h`, `never`.

        `on_warning` is called for each part of the note's front matter that is ignored; without it,
        the warnings are logged.
        """
        from kb.ingest.indexer import Indexer
        from kb.library import notes

        attributes = notes.attributes(
            text,
            title=title,
            tags=tags,
            kind=kind,
            scope=scope,
            trust=trust,
            lang=lang,
            ttl=ttl,
            metadata=metadata,
            now_s=self._clock(),
        )
        indexer = Indexer(self._store, self.config, self._clock)
        doc_id = indexer.note(text, attributes, on_warning=on_warning).doc_id
        return self._store.catalog.documents_by_id([doc_id])[doc_id]

    def embed(
        self,
        *,
        document: str | None = None,
        limit: int | None = None,
        fill: bool = True,
        retry: bool = False,
        anew: bool = False,
        stop: Callable[[], bool] = lambda: False,
        on_progress: OnEmbedded | None = None,
    ) -> EmbedReport:
        """Give vectors to the passages that have none yet, or to at most `limit` of them, or only
        to those of `document`; and, unless told not to, `fill` in the parts that
        vectors lack. Can be stopped at any moment: what was written stays, and the next call goes
        on from there. Several may run at once, in whatever process. With `retry`, those that failed
        for good are tried again. With `anew`, all vectors there are, of whatever model, are dropped
        first; until theirs are made again, passages are found by their words."""
        if limit is not None:
            check_integer("limit", limit)
        return self._embedding.run(
            limit=limit,
            document=None if document is None else self.document(document),
            fill=fill,
            retry=retry,
            anew=anew,
            stop=stop,
            on_progress=on_progress,
        )

    def worker(self, on_change: Callable[[WorkerState], None] | None = None) -> Worker:
        """A thread that embeds what comes, once it is started; see `kb.embedding.worker`."""
        return self._embedding.worker(on_change)

    def jobs(self) -> Jobs:
        """What there is to embed, who is at it, and what went wrong."""
        return self._embedding.jobs()

    def retry(self) -> int:
        """Let passages that were given up be tried again; how many they are."""
        return self._embedding.retry()

    def reindex(
        self,
        model: str | Encoder,
        *,
        keep_old: bool = False,
        force: bool = False,
        grace_s: float | None = None,
        stop: Callable[[], bool] = lambda: False,
        on_progress: OnEmbedded | None = None,
    ) -> tuple[EmbedReport, bool]:
        """Change to the vectors of another encoder, by its name or the object itself, without a
        gap: they are built beside those that answer, for what is added meanwhile too, and answer
        at once when no passage waits for one and every passage that the old ones have has one; with
        `force`, those that the new encoder fails with do not count. Then the old ones are dropped,
        `grace_s` later so that no search that is under way misses them, or kept. What was done, and
        whether the new ones answer now; if not, `held` of the report says why. Stopped, the next
        call goes on, and so does a worker; the model that answers, named here, ends it."""
        return self._embedding.reindex(
            model,
            keep_old=keep_old,
            force=force,
            grace_s=grace_s,
            stop=stop,
            on_progress=on_progress,
        )

    def pending(self) -> int:
        """How many passages have no vectors yet, though there is an encoder to make them."""
        return 0 if self.encoder() is None else self._searcher.status().pending

    def remove(self, *names: str) -> list[str]:
        """Remove documents by path, or all below a root or folder (`notes/`). Their files on disk
        are not touched. Returns the paths removed."""
        gone: dict[int, str] = {}
        for name in names:
            check_text("a document's path", name)
            gone |= {document.doc_id: document.doc_path for document in self._named(name)}
        roots = [nfc(name).removesuffix("/") for name in names]
        self._store.catalog.delete_documents(gone, roots=roots)
        return list(gone.values())

    def tag(self, name: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> Document:
        """Give tags to a document, or take them away. Tags from a file's front matter stay as
        long as they stand there."""
        from kb.library.notes import check_tag_count, clean_tags, new_tags

        document = self.document(name)
        added, removed = new_tags(add), clean_tags(remove)
        sources = self._store.catalog.tag_sources(document.doc_id)
        for tag in removed:
            if tag not in sources:
                raise NotFound(f"{document.doc_path} has no tag {tag!r}", "kb list shows its tags")
            if sources[tag] == "file" and document.root_id is not None:
                raise InvalidRequest(
                    f"the tag {tag!r} stands in the front matter of {document.doc_path}",
                    "take it out there, and ingest the file again",
                )
        if added:
            check_tag_count(len((sources.keys() | added) - set(removed)))
        if added or removed:
            self._store.catalog.tag(document.doc_id, added, removed)
        return self.document(name)

    def gc(self, *, dry_run: bool = False) -> list[str]:
        """Remove expired documents; returns their paths."""
        expired = self._store.catalog.expired(self._now())
        if not dry_run and expired:
            self._store.catalog.delete_documents(document.doc_id for document in expired)
        return [document.doc_path for document in expired]

    # --- finding ----------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        top: int | None = None,
        profile: str | None = None,
        mode: str | None = None,
        match: str | None = None,
        filters: Filters | None = None,
        threshold: float | None = None,
        rerank: str | bool | None = None,
        budget_ms: int | None = None,
        explain: bool = False,
        malformed: str = "raise",
        settings: Mapping[str, Any] | None = None,
    ) -> Response:
        """The best passages for `query`, which may be any text.

        `rerank` has the first candidates read once more: by `colbert` or `cross-encoder`, or True
        for the better of them; `none` or False switches off what the profile has. `budget_ms` is
        how long that may take, once the model is loaded: fewer candidates are read then.

        A query in single quotes is an FTS5 expression; if it is malformed, that is an error, or,
        with `malformed="empty"`, an empty answer. `settings` change the profile for this search.
        """
        return self.execute(
            SearchRequest(
                query,
                top=top,
                profile=profile,
                mode=mode,
                match=match,
                filters=filters,
                threshold=threshold,
                rerank=rerank,
                budget_ms=budget_ms,
                explain=explain,
                malformed=malformed,
                settings=settings,
            )
        )

    def execute(self, request: SearchRequest) -> Response:
        """Run a search that is described by a `SearchRequest`, see `search`."""
        return self._searcher.search(request)

    def search_lexical(self, query: str, *, limit: int = 20, **options: Any) -> tuple[Hit, ...]:
        """The lexical retriever alone; a malformed expression finds nothing [004]."""
        options = _defaults(limit, "lexical", malformed="empty") | options
        return self.search(query, mode="lexical", **options).hits

    def search_vector(
        self,
        query: str = "",
        *,
        embedding: Sequence[float] | None = None,
        limit: int = 20,
        **options: Any,
    ) -> tuple[Hit, ...]:
        """The dense retriever alone, by a query or by a ready-made vector of it [004]. Where it
        cannot answer, it finds nothing."""
        from kb.search.query.query_encoder import is_empty

        if is_empty(embedding):
            return ()
        options = _defaults(limit, "notes") | options
        return self._by_vector(query, embedding, mode="vector", **options).hits

    def search_sparse(self, query: str, *, limit: int = 20, **options: Any) -> tuple[Hit, ...]:
        """The sparse retriever alone: by words, as a model weighs them. Where it cannot answer, it
        finds nothing."""
        options = _defaults(limit, "research") | options
        return self.search(query, mode="sparse", **options).hits

    def search_hybrid(
        self,
        query: str,
        *,
        embedding: Sequence[float] | None = None,
        limit: int = 10,
        k: float = 60,
        **options: Any,
    ) -> tuple[Hit, ...]:
        """Words and vectors, fused by rank, weighted by kind and by how often a document was read
        [004]. `embedding` is a ready-made vector of the query, `k` the constant of RRF; `settings`
        that name it too win."""
        settings = _settings({"k": k}, options.pop("settings", None))
        options = _defaults(limit, "knowledge", malformed="empty") | options
        from kb.search.query.query_encoder import is_empty

        given = None if is_empty(embedding) else embedding
        return self._by_vector(query, given, settings=settings, **options).hits

    def _by_vector(self, query: str, embedding: Sequence[float] | None, **options: Any) -> Response:
        from kb.search.query.query_encoder import normalize

        vector = None if embedding is None else normalize(embedding)
        return self.execute(SearchRequest(query, vector=vector, **options))

    def similar(
        self,
        name: str | int,
        *,
        top: int | None = None,
        filters: Filters | None = None,
        threshold: float | None = None,
        group: bool | None = None,
        explain: bool = False,
    ) -> Response:
        """Passages that are like one, or like a document. `name` is the number of a chunk, a
        citation, or a document's path; itself is not found again. With `group`, one hit a document,
        which is the default for a document."""
        from kb.library.passages import passages_at
        from kb.search.similar import similar

        with self._searcher.deadline(), self._store.snapshot():
            chunks, whole = passages_at(self._store, name)
            request = SearchRequest(
                str(name),
                top=top,
                filters=filters,
                threshold=threshold,
                explain=explain,
                settings={"group": whole if group is None else group},
            )
            return similar(self._searcher, self._store, request, chunks)

    def compare(
        self, query: str, *, top: int | None = None, filters: Filters | None = None
    ) -> Comparison:
        """One query by six methods, side by side: words, meaning and weighted terms each alone, the
        first two fused, all three fused, and that reranked [002]. Which hits each finds, in which
        time, and how many they share."""
        from kb.search.compare import compare

        return compare(self._searcher, self._store, query, top=top, filters=filters)

    def highlights(self, query: str, text: str) -> list[tuple[int, int]]:
        """Where `query`'s terms stand in `text`, for a door that marks them in a snippet: ranges
        of characters, in order, that do not overlap."""
        return self.highlights_in(query, [text])[0]

    def highlights_in(self, query: str, texts: Iterable[str]) -> list[list[tuple[int, int]]]:
        """The same of several texts at once."""
        return self._searcher.highlights(query, texts)

    def profiles(self) -> dict[str, dict[str, Any]]:
        """Every profile by name, with its settings as the config leaves them."""
        from kb.search.profiles import profile_names, resolve

        custom = self.config.profiles
        return {name: resolve(name, custom).settings() for name in profile_names(custom)}

    def index_version(self) -> dict[str, str]:
        """The version of every retriever's index; it changes when results could."""
        from kb.search.retrievers import registry

        return {spec.name: spec.index_version(self._store) for spec in registry.specs()}

    # --- reading ----------------------------------------------------------------------------------

    def get(self, uri: str, *, count: bool = True) -> Passage:
        """Open a citation or a document. Counts as an access, unless told otherwise."""
        from kb.library.passages import open_passage

        with self._searcher.deadline():
            passage = open_passage(self._store, check_text("a citation", uri), self.config.ingest)
        # A store that cannot be written now can still be read; only its counter stays.
        with suppress(StoreError, DeadlineExceeded), Deadline(_COUNTER_S):
            if count:
                self._store.catalog.record_access(passage.document.doc_id)
        return passage

    def document(self, name: str) -> Document:
        """One document, by its path in the store or on disk, or by `note:<id>`."""
        from kb.library.passages import find_document

        return find_document(self._store, check_text("a document's path", name))

    def documents(
        self,
        filters: Filters | None = None,
        *,
        limit: int | None = None,
        offset: int = 0,
        expired: bool = False,
    ) -> list[Document]:
        """Documents by path, without the expired ones unless asked for."""
        now = None if expired else self._now()
        if limit is not None:
            check_integer("limit", limit)
        check_integer("offset", offset)
        given = Filters() if filters is None else filters
        return self._store.catalog.documents(given, now, limit=limit, offset=offset)

    def documents_page(
        self, filters: Filters | None = None, *, limit: int, offset: int = 0
    ) -> tuple[list[Document], int | None]:
        """At most `limit` of the `documents`, fewer where their metadata is long, and the offset
        of the next page; None on the last one."""
        from kb.metadata import PAGE_BYTES

        return self._store.catalog.documents_page(
            Filters() if filters is None else filters,
            self._now(),
            limit=check_integer("limit", limit),
            offset=check_integer("offset", offset),
            max_bytes=PAGE_BYTES,
        )

    def chunks(self, name: str) -> list[Chunk]:
        """The passages of a document, in order."""
        return self._store.catalog.chunks(self.document(name).doc_id)

    def chunk(self, chunk_id: int) -> Chunk:
        """One passage, by its number."""
        if not isinstance(chunk_id, int):
            raise InvalidRequest(f"a chunk cannot be {short_repr(chunk_id)}", "give its number")
        if (found := self._store.catalog.chunks_by_id([chunk_id]).get(chunk_id)) is None:
            raise NotFound(f"no chunk {short_repr(chunk_id)}", "kb search --json shows chunk ids")
        return found

    def roots(self) -> list[Root]:
        """The folders that were ingested."""
        return self._store.catalog.roots()

    def tags(self) -> dict[str, int]:
        """Every tag with the number of documents that have it."""
        return self._store.catalog.tags()

    def status(self) -> dict[str, Any]:
        """`status.v1`: what there is, where, and in which state."""
        from kb.library.status import status

        return status(self._store, self._checked_encoder, self.index_version, self._now())

    # --- care -------------------------------------------------------------------------------------

    def doctor(self, *, fix: bool = False) -> Diagnosis:
        """Check the store. With `fix`, what is derived is made anew, and values that cannot be read
        are replaced; what can be read is never touched."""
        from kb.library.doctor import examine

        ingest = self.config.ingest
        return examine(self._store, self._now(), self._checked_encoder, ingest, fix=fix)

    def backup(
        self, path: Pathlike, *, overwrite: bool = False, on_progress: OnProgress | None = None
    ) -> Path:
        """Copy the store to one file, verified, while others may write. Returns the file."""
        target = check_path("a backup", path)
        self._store.maintenance.backup(
            target, overwrite=overwrite, on_progress=on_progress or _silent
        )
        return target

    def export(
        self,
        target: IO[bytes] | Pathlike,
        *,
        overwrite: bool = False,
        vectors: bool = False,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Write everything the store holds as JSON Lines, to a binary stream or to a file (one
        that ends in `.gz` is compressed); vectors, which can be computed again, only if asked for.
        Returns the header, `export.v1`."""
        from kb.library import archive

        return archive.export(self._store, target, overwrite=overwrite, vectors=vectors,
                              on_progress=on_progress or _silent)  # fmt: skip

    def import_(
        self,
        source: IO[bytes] | Pathlike,
        *,
        merge: bool = False,
        on_progress: OnProgress | None = None,
    ) -> ImportReport:
        """Bring back what `export` has written, all of it or nothing. An empty store becomes what
        the other was, ids included; with `merge`, one that is not takes what is new or newer."""
        from kb.library import archive

        return archive.import_(self._store, source, merge=merge, on_progress=on_progress or _silent)

    # --- parts ------------------------------------------------------------------------------------

    def _checked_encoder(self) -> Encoder | None:
        """The encoder, if a look at its files finds nothing wrong."""
        from kb.ports import traits_of

        encoder = self.encoder()
        if encoder is not None:
            traits_of(encoder).check()
        return encoder

    def _now(self) -> str:
        return self._searcher.now()

    def _named(self, name: str) -> list[Document]:
        if name.endswith("/"):
            found = self._store.catalog.documents_below(nfc(name))
            roots = self._store.catalog.roots()
            if not found and not any(f"{root.name}/" == nfc(name) for root in roots):
                raise NotFound(f"no documents below {name!r}", "kb list shows what there is")
            return found
        return [self.document(name)]


def _silent(_done: int, _total: int) -> None:
    """Progress that nobody asked for."""


def _settings(own: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """A door's own settings with those that its caller gives; what these are is checked later."""
    return {**own, **given} if isinstance(given, Mapping) else given or dict(own)


def _defaults(limit: int, profile: str, **more: str) -> dict[str, Any]:
    """What single retrievers call `limit` [004] is `top` everywhere else."""
    return {"top": limit, "profile": profile, **more}
