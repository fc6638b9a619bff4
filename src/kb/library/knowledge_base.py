"""KnowledgeBase: the API that every interface calls."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from kb import config as settings_module
from kb.config import Config
from kb.deadline import Deadline
from kb.errors import DeadlineExceeded, StoreError, check_integer, check_path, check_text
from kb.library.retriever_searches import RetrieverSearches
from kb.library.services import Services
from kb.locations import store_url
from kb.snapshots import repeat_if_lost
from kb.store import local_file, open_store
from kb.text.normalize import nfc
from kb.types import Document, Filters, Response, SearchRequest
from kb.values import IO, TYPE_CHECKING, Any, replace

if TYPE_CHECKING:
    from pathlib import Path

    from kb.embedding.embedder import OnEmbedded
    from kb.embedding.worker import Worker, WorkerState
    from kb.ingest.progress import Progress
    from kb.ports import Encoder, Judge, Store
    from kb.types import Answer, Chunk, Comparison, Jobs, LibraryMap, Passage, Root
    from kb.types.reports import Diagnosis, EmbedReport, ImportReport, IngestReport

Pathlike = str | os.PathLike[str]
OnProgress = Callable[[int, int], None]  # done, total
_ACCESS_TIMEOUT_S = 2.0  # counting an access gives up after this time


class KnowledgeBase(RetrieverSearches):
    """A knowledge base in one SQLite file, or in a PostgreSQL database.

    `path` is the file, a folder that holds `kb.sqlite`, or a URL (`sqlite:///`, `postgresql://`);
    without it, `KB_STORE`, the nearest `.kb/` upwards or the user data folder. The first write
    creates the store. Threads may share one object. `clock` returns the seconds since the epoch.
    `store` is an open store, such as `kb.store.open_store` returns, to use instead of `path`.

    `encoder` computes the vectors: a `kb.ports.Encoder`, or a name as in the setting
    `models.encoder`, which is the default; `none` means search by words only. `judge` reranks by
    cross-encoder: a `kb.ports.Judge`, or a name as in `models.judge`. Both are loaded on first use.
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
            local_file(url) if store is None else store.path
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
        self._services = Services(self._store, self.config, clock, encoder=encoder, judge=judge)

    @property
    def path(self) -> Path:
        """The store's file, or the local path that stands for a store on a server."""
        return self._store.path

    @property
    def location(self) -> str:
        """Where the store is: a path, or a URL without its password."""
        return self._store.location

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"KnowledgeBase({str(self.path)!r})"

    def close(self) -> None:
        """Stop workers, and close the store."""
        self._services.close()
        self._store.close()

    def encoder(self) -> Encoder | None:
        """The encoder of the active model; None if encoders are disabled."""
        return self._services.encoder()

    def judge(self) -> Judge | None:
        """The cross-encoder for reranking; None if it is disabled."""
        return self._services.judge()

    # --- writing ----------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether the store has been created."""
        return self._store.exists()

    def create(self) -> None:
        """Create the store now rather than with the first write."""
        self._store.create()

    def ingest(
        self,
        *paths: Pathlike,
        dry_run: bool = False,
        force: bool = False,
        resolve_links: bool = True,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """Ingest files and folders, or update the documents of those that have changed.

        Without paths, all roots are ingested again. A file that cannot be parsed does not stop the
        run; the report lists it as `failed`. `dry_run` writes nothing. `force` also parses files
        that look unchanged. With `resolve_links=False`, paths that lead through a symbolic link are
        skipped.
        """
        from kb.library import ingestion

        return ingestion.ingest(
            self, paths, dry_run=dry_run, force=force, resolve_links=resolve_links,
            on_progress=on_progress,
        )  # fmt: skip

    def attach(
        self,
        name: str,
        folder: Pathlike | None = None,
        *,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """Set the folder of the root `name`, which was imported or has moved (by default, the path
        it has), and ingest it. Documents whose files are missing keep their text."""
        from kb.library import archive

        name, ingest = check_text("a folder's name", name), self.config.ingest
        paths, root = archive.attach(self._store, name, folder, ingest)
        report = self.ingest(*paths, on_progress=on_progress)
        return replace(
            report, notes=(*report.notes, *archive.missing_files_note(self._store, root))
        )

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
        """Store a note. `ttl` is its lifetime: `7d`, `12h`, `never`.

        `on_warning` is called for ignored front matter and for a secret token in the text; without
        it, the warnings are logged.
        """
        from kb.library import notes

        return notes.add(
            self, text, title=title, tags=tags, kind=kind, scope=scope, trust=trust, lang=lang,
            ttl=ttl, metadata=metadata, on_warning=on_warning,
        )  # fmt: skip

    def edit(
        self,
        name: str,
        text: str,
        *,
        title: str | None = None,
        tags: Iterable[str] = (),
        kind: str | None = None,
        ttl: str | None = None,
        version: str | None = None,
    ) -> Document:
        """Replace the text, title, tags and kind of a note, which keeps its path and its other
        attributes. Without `ttl`, it expires as before. With `version`, from
        `kb.library.notes.version`, the note must be unchanged: otherwise `EditConflict` is
        raised."""
        from kb.library import notes

        return notes.edit(
            self, name, text, title=title, tags=tags, kind=kind, ttl=ttl, version=version
        )

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
        """Embed the passages that have no vectors yet: all of them, at most `limit`, or only those
        of `document`. With `fill`, also compute the parts that existing vectors lack. `retry`
        includes passages that failed permanently. `anew` first drops all vectors, of any model.

        The run can be stopped at any time: vectors already written are kept, and the next call
        continues. Several runs may work at once, in any process.
        """
        if limit is not None:
            check_integer("limit", limit)
        return self._services.embedding.run(
            limit=limit,
            document=None if document is None else self.document(document),
            fill=fill,
            retry=retry,
            anew=anew,
            stop=stop,
            on_progress=on_progress,
        )

    def worker(self, on_change: Callable[[WorkerState], None] | None = None) -> Worker:
        """A background thread that embeds new passages once it is started."""
        return self._services.embedding.worker(on_change)

    def jobs(self) -> Jobs:
        """The embedding work: pending passages, running jobs and recent failures."""
        return self._services.embedding.jobs()

    def retry(self) -> int:
        """Make the passages that failed permanently pending again, and return their number."""
        return self._services.embedding.retry()

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
        """Switch to another model without interrupting searches. `model` is an encoder, or the name
        of one.

        The new vectors are built beside the old ones, including those of documents that are added
        in the meantime. The switch happens when no passage is pending and the new model has vectors
        for every passage that the old one had; `force` ignores passages that the new model failed
        on. The old vectors are dropped `grace_s` seconds later, when no search uses them anymore,
        unless `keep_old` is set.

        Returns the report, and whether searches use the new model now; otherwise `report.held` has
        the reason. Naming the active model abandons a switch to another one.
        """
        return self._services.embedding.reindex(
            model, keep_old=keep_old, force=force, grace_s=grace_s, stop=stop,
            on_progress=on_progress,
        )  # fmt: skip

    def pending(self) -> int:
        """How many passages wait for vectors; 0 if encoders are disabled."""
        return 0 if self.encoder() is None else self._services.searcher.status().pending

    def remove(self, *names: str) -> list[str]:
        """Remove a document by path, or all documents of a folder (`notes/`). Files on disk are
        kept. Returns the paths."""
        from kb.library.lookup import find_documents

        removed: dict[int, str] = {}
        for name in names:
            documents = find_documents(self._store, check_text("a document's path", name))
            removed |= {document.doc_id: document.doc_path for document in documents}
        roots = [nfc(name).removesuffix("/") for name in names]
        self._store.catalog.delete_documents(removed, roots=roots)
        return list(removed.values())

    def tag(self, name: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> Document:
        """Add and remove tags of a document, except those in its front matter. Returns the
        document."""
        from kb.library.notes import change_tags

        change_tags(self._store, self.document(name), add, remove)
        return self.document(name)

    def gc(self, *, dry_run: bool = False) -> list[str]:
        """Remove expired documents, and return their paths. `dry_run` removes nothing."""
        expired = self._store.catalog.expired(self._now())
        if not dry_run and expired:
            self._store.catalog.delete_documents([one.doc_id for one in expired], restorable=True)
        return [document.doc_path for document in expired]

    def compact(self) -> int:
        """Free the disk space of removed documents; return the bytes freed. Blocks writers."""
        return self._store.maintenance.compact()

    # --- searching --------------------------------------------------------------------------------

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
        min_relevance: float | None = None,
        collapse: bool | None = None,
        rerank: str | bool | None = None,
        budget_ms: int | None = None,
        explain: bool = False,
        malformed: str = "raise",
        settings: Mapping[str, Any] | None = None,
        include_text: bool = False,
        exact: bool = False,
    ) -> Response:
        """Search for the passages that match `query` best. Any text is a valid query.
        `threshold` drops hits with a lower `score`, whose scale depends on the profile.
        `min_relevance` drops hits with a lower `relevance`, a probability. With `collapse=False`,
        duplicates have their own hits, and a document may fill the list.

        `rerank` selects a reranker for the best candidates: `colbert`, `cross-encoder`, or True for
        the better one that is available; `none` or False disables the profile's reranker.
        `budget_ms` limits the time for reranking, not counting the loading of a model, by reading
        fewer candidates.
        A query in single quotes is an FTS5 expression. If its syntax is wrong, `QuerySyntax` is
        raised, or, with `malformed="empty"`, the response has no hits. `settings` override the
        profile's settings for this search. With `include_text`, hits have their whole passage, and
        with `exact`, the query is compared with all vectors, also in a very large store.
        """
        return self.execute(SearchRequest(
            query, top=top, profile=profile, mode=mode, match=match, filters=filters,
            threshold=threshold, min_relevance=min_relevance, collapse=collapse, rerank=rerank,
            budget_ms=budget_ms, explain=explain, malformed=malformed, settings=settings,
            include_text=include_text, exact=exact,
        ))  # fmt: skip

    def execute(self, request: SearchRequest) -> Response:
        """Run a search from a `SearchRequest`; see `search` for its fields."""
        return self._services.searcher.search(request)

    @repeat_if_lost
    def similar(
        self,
        name: str | int,
        *,
        top: int | None = None,
        filters: Filters | None = None,
        threshold: float | None = None,
        group: bool | None = None,
        explain: bool = False,
        include_text: bool = False,
    ) -> Response:
        """Find passages similar to a passage or a document: a chunk id, a citation or a path.
        `group` returns one hit per document, which is the default if `name` is a document."""
        from kb.library.lookup import find_passages
        from kb.search.similar import similar

        with self._services.searcher.deadline(), self._store.snapshot():
            chunks, whole = find_passages(self._store, name)
            request = SearchRequest(
                str(name), top=top, filters=filters, threshold=threshold, explain=explain,
                settings={"group": whole if group is None else group}, include_text=include_text,
            )  # fmt: skip
            return similar(self._services.searcher, self._store, request, chunks)

    def compare(
        self, query: str, *, top: int | None = None, filters: Filters | None = None
    ) -> Comparison:
        """Run one query with six methods [002]: lexical, dense and sparse alone, the first two
        fused, all three fused, and all three reranked; with their times and shared hits."""
        from kb.search.compare import compare

        return compare(self._services.searcher, self._store, query, top=top, filters=filters)

    def ask(
        self, question: str, *, sentences: int = 3, top: int | None = None,
        profile: str | None = None, filters: Filters | None = None,
    ) -> Answer:  # fmt: skip
        """Answer a question with at most `sentences` sentences of the store, each with its
        citation. The answer has no sentences if nothing in the store answers the question. `top` is
        the number of passages to take sentences from."""
        from kb.search.answers import ask

        request = SearchRequest(question, top=top, profile=profile, filters=filters)
        return ask(self._services.searcher, self._store, request, sentences, self.config.open.links)

    def highlights(self, query: str, text: str) -> list[tuple[int, int]]:
        """Where the terms of `query` occur in `text`: ordered ranges of characters."""
        return self.highlights_in(query, [text])[0]

    def highlights_in(self, query: str, texts: Iterable[str]) -> list[list[tuple[int, int]]]:
        """The `highlights` of several texts."""
        return self._services.searcher.highlights(query, texts)

    def profiles(self) -> dict[str, dict[str, Any]]:
        """The settings of every profile by name, including changes from the configuration."""
        from kb.search.profiles import profile_names, resolve

        custom = self.config.profiles
        return {name: resolve(name, custom).settings() for name in profile_names(custom)}

    def index_version(self) -> dict[str, str]:
        """The version of every retriever's index. It changes whenever results may change."""
        from kb.search.retrievers import registry

        return {spec.name: spec.index_version(self._store) for spec in registry.specs()}

    # --- reading ----------------------------------------------------------------------------------

    def get(self, uri: str, *, count: bool = True) -> Passage:
        """Open a citation or a document. With `count`, counts as an access of the document."""
        from kb.library.passages import open_passage

        with self._services.searcher.deadline():
            config, uri = self.config, check_text("a citation", uri)
            passage = open_passage(self._store, uri, config.ingest, config.open.links)
        # A store that cannot be written can still be read, without counting the access.
        with suppress(StoreError, DeadlineExceeded), Deadline(_ACCESS_TIMEOUT_S):
            if count:
                self._store.catalog.record_access(passage.document.doc_id)
        return passage

    def original(self, name: str) -> bytes:
        """The bytes of a document's file."""
        from kb.library.passages import original

        return original(self._store, self.document(name), self.config.ingest)

    def image(self, name: str, path: str) -> tuple[str, bytes]:
        """The media type and the bytes of an image that a document shows as `path`."""
        from kb.library.images import read_image

        passage = self.get(self.document(name).doc_path, count=False)
        return read_image(self._store, passage.document, passage.text, path, self.config.ingest)

    def document(self, name: str) -> Document:
        """The document with this path in the store or on disk, or with this name, `note:<id>`."""
        from kb.library.lookup import find_document

        return find_document(self._store, check_text("a document's path", name))

    def documents(
        self,
        filters: Filters | None = None,
        *,
        limit: int | None = None,
        offset: int = 0,
        expired: bool = False,
    ) -> list[Document]:
        """Documents, ordered by path. `expired` includes those that have expired."""
        now = None if expired else self._now()
        if limit is not None:
            check_integer("limit", limit)
        check_integer("offset", offset)
        given = Filters() if filters is None else filters
        return self._store.catalog.documents(given, now, limit=limit, offset=offset)

    def documents_page(
        self, filters: Filters | None = None, *, limit: int, offset: int = 0
    ) -> tuple[list[Document], int | None]:
        """One page of at most `limit` documents, and the offset of the next one, or None."""
        from kb.metadata import PAGE_BYTES

        return self._store.catalog.documents_page(
            Filters() if filters is None else filters,
            self._now(),
            limit=check_integer("limit", limit),
            offset=check_integer("offset", offset),
            max_bytes=PAGE_BYTES,
        )

    def chunks(self, name: str) -> list[Chunk]:
        """The passages of a document, in the order of the text."""
        return self._store.catalog.chunks(self.document(name).doc_id)

    def chunk(self, chunk_id: int) -> Chunk:
        """The passage with this id."""
        from kb.library.lookup import find_chunk

        return find_chunk(self._store, chunk_id)

    def map(self, filters: Filters | None = None) -> LibraryMap:
        """The documents as points on a map, each close to similar ones. Needs vectors."""
        return self._services.overview.map(Filters() if filters is None else filters, self._now())

    def statistics(self) -> dict[str, Any]:
        """Figures about the documents as `statistics.v1`: growth, kinds, languages, and those that
        are most read, stale, orphans or near-duplicates."""
        return self._services.overview.statistics(self._now())

    def roots(self) -> list[Root]:
        """The ingested folders."""
        return self._store.catalog.roots()

    def tags(self) -> dict[str, int]:
        """Every tag, with the number of its documents."""
        return self._store.catalog.tags()

    def status(self) -> dict[str, Any]:
        """The state of the store, its documents and its vectors, as `status.v1`."""
        from kb.library.status import status

        return status(self._store, self.encoder, self.index_version, self._now())

    # --- maintenance ------------------------------------------------------------------------------

    def doctor(self, *, fix: bool = False) -> Diagnosis:
        """Check the store. `fix` rebuilds derived data and replaces unreadable values only."""
        from kb.library.doctor import examine

        return examine(self._store, self._now(), self.encoder, self.config.ingest, fix=fix)

    def backup(
        self, path: Pathlike, *, overwrite: bool = False, on_progress: OnProgress | None = None
    ) -> Path:
        """Copy the store to one file, verify the copy and return its path. Does not block
        writers."""
        target = check_path("a backup", path)
        show = on_progress or _ignore_progress
        self._store.maintenance.backup(target, overwrite=overwrite, on_progress=show)
        return target

    def export(
        self,
        target: IO[bytes] | Pathlike,
        *,
        overwrite: bool = False,
        vectors: bool = False,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Write the store as JSON Lines to a stream or a file, compressed if its name ends in
        `.gz`. `vectors` includes the vectors. Returns the header, `export.v1`."""
        from kb.library import archive

        return archive.export(self._store, target, overwrite=overwrite, vectors=vectors,
                              on_progress=on_progress or _ignore_progress)  # fmt: skip

    def import_(
        self,
        source: IO[bytes] | Pathlike,
        *,
        merge: bool = False,
        on_progress: OnProgress | None = None,
    ) -> ImportReport:
        """Import the output of `export`, completely or, after an error, not at all. An empty store
        becomes a copy, with the same ids; `merge` adds new and newer documents to any other."""
        from kb.library import archive

        show = on_progress or _ignore_progress
        return archive.import_(self._store, source, merge=merge, on_progress=show)

    def _now(self) -> str:
        return self._services.searcher.now()


def _ignore_progress(_done: int, _total: int) -> None:
    """Ignore the progress."""
