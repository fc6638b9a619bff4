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
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from kb import config as settings_module
from kb.config import Config, store_path
from kb.errors import (
    InvalidRequest,
    ModelMissing,
    NotFound,
    StoreMissing,
    StoreReadOnly,
    choose,
    text_of,
    whole_number,
)
from kb.search.searcher import Searcher
from kb.store import SqliteStore
from kb.types import KINDS, SCOPES, TRUSTS, Attributes, Document, Filters, Hit, Passage, Response
from kb.words import nfc

if TYPE_CHECKING:
    from kb.ingest.embed import OnEmbedded
    from kb.ingest.progress import Progress
    from kb.ports import Encoder
    from kb.types import Chunk, Diagnosis, EmbedReport, ImportReport, IngestReport

Pathlike = str | os.PathLike[str]
OnProgress = Callable[[int, int], None]  # done, in all


class KnowledgeBase:
    """A knowledge base in one SQLite file.

    `path` is the file, or a folder that holds `kb.sqlite`; without it, `KB_STORE`, the nearest
    `.kb/` upwards or the user data folder. The file is made by the first write. One object may be
    shared between threads. `clock` gives the seconds since the epoch.

    `encoder` makes the vectors: an object of `kb.ports.Encoder`, or a name as in the setting
    `models.encoder`, where `none` means words only; without it, the setting. It is loaded when it
    is first needed.
    """

    def __init__(
        self,
        path: Pathlike | None = None,
        *,
        config: Config | None = None,
        read_only: bool = False,
        clock: Callable[[], float] = time.time,
        encoder: Encoder | str | None = None,
    ) -> None:
        file = store_path(path)
        self.config = config or settings_module.load(file)
        self._clock = clock
        self._store = SqliteStore(
            file,
            read_only=read_only,
            busy_timeout_s=self.config.store.busy_timeout_s,
            clock=clock,
            vector_backend=self.config.store.vector_backend,
        )
        self._encoder = encoder
        self._lock = threading.Lock()
        self._searcher = Searcher(self._store, self.config, clock, self.encoder)

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
        self._searcher.close()
        self._store.close()

    def encoder(self) -> Encoder | None:
        """The encoder that makes the vectors; None where it is switched off."""
        with self._lock:
            if self._encoder is None or isinstance(self._encoder, str):
                from kb import models

                made = models.encoder(self.config, self._encoder)
                if made is None:
                    return None
                self._encoder = made
            return self._encoder

    # --- putting in -------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the store's file now rather than at the first write."""
        self._store.create()

    def ingest(
        self,
        *paths: Pathlike,
        dry_run: bool = False,
        force: bool = False,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> IngestReport:
        """Read files and folders into the store, or bring it up to date with them. Without paths,
        every root that was ingested before is looked at again. One bad file never stops a run: see
        `failed` in the report. `force` reads files again that look unchanged."""
        from kb.ingest.indexer import Indexer

        if not paths and not self._store.roots():
            raise InvalidRequest("nothing was ingested yet", "name a folder: kb ingest FOLDER")
        indexer = Indexer(self._store, self.config, self._clock)
        if not all(isinstance(path, str | os.PathLike) and os.fspath(path) for path in paths):
            raise InvalidRequest("a path to ingest is empty or not a text", "name a file or folder")
        expanded = [os.path.expanduser(os.fspath(path)) for path in paths]
        return indexer.ingest(expanded, dry_run=dry_run, force=force, on_event=on_progress)

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
    ) -> Document:
        """Store a note. `ttl` is how long it lives: `7d`, `12h`, `never`."""
        from kb.ingest.indexer import Indexer

        for name, value in (("title", title), ("lang", lang), ("ttl", ttl)):
            if value is not None:
                text_of(name, value)
        for name, value, valid in (("kind", kind, KINDS), ("scope", scope, SCOPES),
                                   ("trust", trust, TRUSTS)):  # fmt: skip
            if value is not None:
                choose(name, value, valid)
        if not text_of("a note", text).strip():
            raise InvalidRequest("the note is empty", "give it a text")
        attributes = Attributes(
            title=title,
            tags=_clean_tags(tags),
            kind=kind,
            scope=scope,
            trust=trust,
            lang=lang,
            expires_at=None if ttl is None else self._expiry(ttl),
            metadata=_jsonable(metadata or {}),
        )
        doc_id = Indexer(self._store, self.config, self._clock).note(text, attributes).doc_id
        return self._store.documents_by_id([doc_id])[doc_id]

    def embed(
        self,
        *,
        document: str | None = None,
        limit: int | None = None,
        retry: bool = False,
        anew: bool = False,
        stop: Callable[[], bool] = lambda: False,
        on_progress: OnEmbedded | None = None,
    ) -> EmbedReport:
        """Give vectors to the passages that have none yet, or to at most `limit` of them, or only
        to those of the newest `document` and what came after it. Can be stopped at any moment: what
        was written stays, and the next call goes on from there. With `retry`, those that failed for
        good are tried again. With `anew`, all vectors there are, of whatever model, are dropped
        first; until theirs are made again, passages are found by their words."""
        from kb.ingest.embed import Embedder

        encoder = self.encoder()
        if encoder is None:
            raise ModelMissing("the encoder is switched off", "name one in models.encoder")
        after = 0 if document is None else self.chunks(document)[0].chunk_id - 1
        report = Embedder(self._store, encoder).run(
            limit=limit,
            after=after,
            retry=retry,
            anew=anew,
            stop=stop,
            on_progress=on_progress,
        )
        self._store.index_vectors(self._store.use_model(encoder.spec).model_id)
        return report

    def pending(self) -> int:
        """How many passages have no vectors yet, though there is an encoder to make them."""
        return 0 if self.encoder() is None else self._searcher.standing().pending

    def remove(self, *names: str) -> list[str]:
        """Remove documents by path, or all below a root or folder (`notes/`). Their files on disk
        are not touched. Returns the paths removed."""
        gone: dict[int, str] = {}
        for name in names:
            gone |= {document.doc_id: document.doc_path for document in self._named(name)}
        self._store.delete_documents(gone, roots=[nfc(name).removesuffix("/") for name in names])
        return list(gone.values())

    def tag(self, name: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> Document:
        """Give tags to a document, or take them away. Tags from a file's front matter stay as
        long as they stand there."""
        document = self.document(name)
        added, removed = _clean_tags(add), _clean_tags(remove)
        sources = self._store.tag_sources(document.doc_id)
        for tag in removed:
            if tag not in sources:
                raise NotFound(f"{document.doc_path} has no tag {tag!r}", "kb list shows its tags")
            if sources[tag] == "file" and document.root_id is not None:
                raise InvalidRequest(
                    f"the tag {tag!r} stands in the front matter of {document.doc_path}",
                    "take it out there, and ingest the file again",
                )
        if added or removed:
            self._store.tag(document.doc_id, added, removed)
        return self.document(name)

    def gc(self, *, dry_run: bool = False) -> list[str]:
        """Remove expired documents; returns their paths."""
        expired = self._store.expired(self._now())
        if not dry_run and expired:
            self._store.delete_documents(document.doc_id for document in expired)
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
        explain: bool = False,
        malformed: str = "raise",
        settings: Mapping[str, Any] | None = None,
    ) -> Response:
        """The best passages for `query`, which may be any text.

        A query in single quotes is an FTS5 expression; if it is malformed, that is an error, or,
        with `malformed="empty"`, an empty answer. `settings` change the profile for this search.
        """
        return self._searcher.search(
            query,
            top=top,
            profile=profile,
            mode=mode,
            match=match,
            filters=filters,
            threshold=threshold,
            explain=explain,
            malformed=malformed,
            settings=settings,
        )

    def search_lexical(self, query: str, *, limit: int = 20, **options: Any) -> tuple[Hit, ...]:
        """The lexical retriever alone; a malformed expression finds nothing [004]."""
        options = {"malformed": "empty", "profile": "lexical"} | options
        return self.search(query, top=limit, mode="lexical", **options).hits

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
        if _is_empty(embedding):
            return ()
        options = {"profile": "notes"} | options
        return self._by_vector(query, embedding, top=limit, mode="vector", **options).hits

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
        options = {"profile": "knowledge", "malformed": "empty"} | options
        given = None if _is_empty(embedding) else embedding
        return self._by_vector(query, given, top=limit, settings=settings, **options).hits

    def _by_vector(self, query: str, embedding: Sequence[float] | None, **options: Any) -> Response:
        if embedding is None:
            return self._searcher.search(query, **options)
        from kb.search.dense import normalize

        return self._searcher.search(query, vector=normalize(embedding), **options)

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
        from kb.passages import chunks_at
        from kb.search.similar import similar

        label = str(name)
        with self._store.reading():
            if label.isdecimal():
                chunks = list(self._store.chunks_by_id([int(label)]).values())
                if not chunks:
                    raise NotFound(f"no chunk {label}", "kb search --json shows chunk ids")
                whole = False
            else:
                document, chunks = chunks_at(self._store, text_of("a passage", name))
                whole = len(chunks) == document.chunks
            return similar(
                self._searcher,
                self._store,
                label,
                chunks,
                top=top,
                filters=filters,
                threshold=threshold,
                explain=explain,
                settings={"group": whole if group is None else group},
            )

    def highlights(self, query: str, text: str) -> list[tuple[int, int]]:
        """Where `query`'s terms stand in `text`, for a door that marks them in a snippet: ranges
        of characters, in order, that do not overlap."""
        return self._searcher.highlights(query, text)

    def profiles(self) -> dict[str, dict[str, Any]]:
        """Every profile by name, with its settings as the config leaves them."""
        from kb.search.profiles import profile_names, resolve

        custom = self.config.profiles
        return {name: resolve(name, custom).settings() for name in profile_names(custom)}

    def index_version(self) -> dict[str, str]:
        """The version of every retriever's index; it changes when an answer could."""
        return {"lexical": self._store.index_version(), "dense": self._store.vector_version()}

    # --- reading ----------------------------------------------------------------------------------

    def get(self, uri: str) -> Passage:
        """Open a citation or a document. Counts as an access."""
        from kb.passages import open_passage

        passage = open_passage(self._store, text_of("a citation", uri))
        # A store that cannot be written can still be read; only its counter stays.
        with suppress(StoreReadOnly):
            self._store.record_access(passage.document.doc_id)
        return passage

    def document(self, name: str) -> Document:
        """One document, by its path in the store or on disk, or by `note:<id>`."""
        from kb.passages import find_document

        return find_document(self._store, text_of("a document's path", name))

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
        count = -1 if limit is None else whole_number("limit", limit)
        return self._store.documents(filters or Filters(), now, limit=count, offset=offset)

    def chunks(self, name: str) -> list[Chunk]:
        """The passages of a document, in order."""
        return self._store.chunks_of(self.document(name).doc_id)

    def tags(self) -> dict[str, int]:
        """Every tag with the number of documents that have it."""
        return self._store.tags()

    def status(self) -> dict[str, Any]:
        """`status.v1`: what there is, where, and in which state."""
        from dataclasses import asdict

        from kb.search.standing import standing

        if not self._store.exists():
            raise StoreMissing(
                f"there is no store at {self.path}", "make one with: kb ingest FOLDER"
            )
        with self._store.reading():
            counts = self._store.counts()
            stands = standing(self._store, self._checked_encoder)
            roots = [
                {
                    "name": root.name,
                    "path": os.fsencode(root.path).decode("utf-8", "backslashreplace"),
                    "documents": counts["per_root"].get(root.name, 0),
                    "missing": not os.path.isdir(root.path),
                }
                for root in self._store.roots()
            ]
            return {
                "schema_version": "status.v1",
                "store": str(self.path),
                "size_bytes": self.path.stat().st_size,
                "documents": counts["documents"],
                "chunks": counts["chunks"],
                "expired": len(self._store.expired(self._now())),
                "by_type": counts["type"],
                "by_kind": counts["kind"],
                "by_scope": counts["scope"],
                "tags": self._store.tags(),
                "roots": roots,
                "index_version": self.index_version(),
                "vectors": {
                    "state": stands.state,
                    "encoder": stands.encoder,
                    "pending": stands.pending,
                    "models": counts["models"],
                },
                "degraded": [asdict(part) for part in stands.degraded],
            }

    # --- care -------------------------------------------------------------------------------------

    def doctor(self, *, fix: bool = False) -> Diagnosis:
        """Is the store what it should be? With `fix`, what is derived is made anew; documents and
        their text are never touched."""
        from kb.doctor import examine

        return examine(self._store, self._now(), self._checked_encoder, fix=fix)

    def backup(
        self, path: Pathlike, *, overwrite: bool = False, on_progress: OnProgress | None = None
    ) -> Path:
        """Copy the store to one file, verified, while others may write. Returns the file."""
        target = Path(path).expanduser()
        self._store.backup(target, overwrite=overwrite, on_step=on_progress or _silent)
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
        from kb import archive

        say = on_progress or _silent
        return archive.export(
            self._store, target, overwrite=overwrite, on_progress=say, vectors=vectors
        )

    def import_(
        self,
        source: IO[bytes] | Pathlike,
        *,
        merge: bool = False,
        on_progress: OnProgress | None = None,
    ) -> ImportReport:
        """Bring back what `export` has written, all of it or nothing. An empty store becomes what
        the other was, ids included; with `merge`, one that is not takes what is new or newer."""
        from kb import archive

        say = on_progress or _silent
        return archive.import_(self._store, source, merge=merge, on_progress=say)

    # --- helpers ----------------------------------------------------------------------------------

    def _checked_encoder(self) -> Encoder | None:
        """The encoder, if a look at its files finds nothing wrong."""
        from kb import models

        encoder = self.encoder()
        if encoder is not None:
            models.check(encoder)
        return encoder

    def _now(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))

    def _expiry(self, ttl: str) -> str | None:
        from datetime import UTC, datetime

        from kb.ingest.dates import expiry

        try:
            return expiry(ttl, datetime.fromtimestamp(self._clock(), UTC))
        except ValueError as error:
            raise InvalidRequest(str(error), "units: s, m, h, d, w") from error

    def _named(self, name: str) -> list[Document]:
        if name.endswith("/"):
            found = self._store.documents_below(nfc(name))
            if not found and not any(f"{root.name}/" == nfc(name) for root in self._store.roots()):
                raise NotFound(f"no documents below {name!r}", "kb list shows what there is")
            return found
        return [self.document(name)]


def _silent(_done: int, _total: int) -> None:
    """Progress that nobody asked for."""


def _is_empty(embedding: Sequence[float] | None) -> bool:
    if embedding is None:
        return False
    from kb.search.dense import check_list

    check_list(embedding)
    return not len(embedding)


def _settings(own: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """A door's own settings with those that its caller gives; what these are is checked later."""
    return {**own, **given} if isinstance(given, Mapping) else given or dict(own)


def _jsonable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    import json

    try:
        return json.loads(json.dumps(dict(metadata), allow_nan=False))  # type: ignore[no-any-return]  # a dict again
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"metadata is not JSON: {error}", "use texts, numbers, lists"
        ) from error


def _clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    listed = tags.split(",") if isinstance(tags, str) else tags
    clean = (nfc(text_of("a tag", tag)).strip().lstrip("#") for tag in listed)
    return tuple(dict.fromkeys(tag for tag in clean if tag))
