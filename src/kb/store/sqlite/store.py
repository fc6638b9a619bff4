"""SqliteStore: the store port over one SQLite file.

Here stand the transactions; the SQL itself stands in the modules beside, by subject.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.index import token_codes
from kb.store.sqlite import documents, embeddings, files, fulltext, schema
from kb.store.sqlite.connection import Database
from kb.store.sqlite.functions import scalar
from kb.text.timestamps import utc_timestamp
from kb.types import (
    Chunk,
    Document,
    Filters,
    LexicalQuery,
    TextMatches,
    ToEmbed,
    VectorMatches,
    Written,
)

if TYPE_CHECKING:
    import apsw

    from kb.ports import Clock
    from kb.store.sqlite.backup import OnStep
    from kb.store.sqlite.import_rows import OnLine
    from kb.store.sqlite.integrity import Health
    from kb.store.sqlite.postings import Postings
    from kb.store.sqlite.vectors import Vectors
    from kb.types import (
        ChunkDraft,
        DocumentDraft,
        Embedded,
        Encoding,
        ExamMark,
        Failure,
        FilePlace,
        FileState,
        ImportReport,
        Job,
        ModelSpec,
        Outcome,
        Root,
        StoredModel,
        TokenVectors,
        Vector,
    )


def _due(now: float) -> embeddings.Due:
    return embeddings.Due(*(utc_timestamp(now - wait) for wait in embeddings.BACK_OFF_S))


class SqliteStore:
    """Safe to share between threads: each has its own connections."""

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        busy_timeout_s: float = 60.0,
        clock: Clock = time.time,
        vector_backend: str = "auto",
        token_format: str = token_codes.DEFAULT,
    ) -> None:
        """With `vector_backend="sqlite-vec"`, writing vectors makes that backend's table. Token
        vectors are written in `token_format` (`none`: nobody wants any), and read in any."""
        self._database = Database(
            path, read_only=read_only, busy_timeout_s=busy_timeout_s, clock=clock
        )
        self._clock = clock
        self._vector_backend = vector_backend
        self._lock = threading.Lock()
        self._token_format = token_codes.DEFAULT if token_format == "none" else token_format
        self._vectors: Vectors | None = None  # loaded by the first that asks for vectors
        self._postings: Postings | None = None

    @property
    def path(self) -> Path:
        return self._database.path

    def exists(self) -> bool:
        return self.path.exists()

    def close(self) -> None:
        self._database.close()
        if self._vectors is not None:
            self._vectors.forget()
        if self._postings is not None:
            self._postings.forget()

    def reading(self) -> AbstractContextManager[Any]:
        return self._database.reading()

    def fold_log(self) -> None:
        """Fold the write-ahead log into the store's file if it has grown large."""
        self._database.fold_log()

    def create(self) -> None:
        """Make the file, if there is none, and bring it to the newest schema."""
        with self._database.writing():
            pass

    def index_version(self) -> str:
        """Changes with every write that a search could notice: `v<schema>.<changes>`."""
        with self._database.reading() as connection:
            changes = scalar(connection, "SELECT changes FROM state")
        return f"v{schema.VERSION}.{changes}"

    # --- roots and files --------------------------------------------------------------------------

    def roots(self) -> list[Root]:
        if not self.exists():
            return []
        with self._database.reading() as connection:
            return files.roots(connection)

    def ensure_root(self, path: str, *, whole: bool) -> Root:
        with self._database.writing() as connection:
            return files.ensure_root(connection, path, whole=whole)

    def file_states(self, root_id: int) -> dict[str, FileState]:
        with self._database.reading() as connection:
            return files.file_states(connection, root_id)

    def touch_file(self, state: FileState) -> None:
        now_ns = int(self._clock() * 1e9)
        with self._database.writing() as connection:
            files.touch_file(connection, state, now_ns)

    def attach_root(self, root_id: int, path: str) -> None:
        with self._database.writing() as connection:
            files.attach_root(connection, root_id, path)

    def file_place(self, doc_id: int) -> FilePlace | None:
        with self._database.reading() as connection:
            return files.place(connection, doc_id)

    def os_path(self, doc_id: int) -> str | None:
        with self._database.reading() as connection:
            return files.os_path(connection, doc_id)

    # --- documents and chunks ---------------------------------------------------------------------

    def write_document(
        self, draft: DocumentDraft, chunks: Iterable[ChunkDraft], *, was: int | None = None
    ) -> Written:
        seconds = self._clock()
        with self._database.writing() as connection:
            now, now_ns = utc_timestamp(seconds), int(seconds * 1e9)
            if was is not None:
                documents.move(connection, was, draft.doc_path)
            return documents.write(connection, draft, chunks, now, now_ns)

    def write_chunks(self, doc_id: int, draft: DocumentDraft, chunks: Iterable[ChunkDraft]) -> None:
        """Replace the chunks of a document that is there; nothing else of it changes."""
        with self._database.writing() as connection:
            documents.write_chunks(connection, doc_id, draft, chunks, utc_timestamp(self._clock()))

    def delete_documents(self, doc_ids: Iterable[int], roots: Iterable[str] = ()) -> int:
        """Remove documents, and forget the roots of these names; all or nothing."""
        with self._database.writing() as connection:
            removed = documents.delete(connection, doc_ids)
            files.drop_empty_roots(connection, roots)
            return removed

    def record_access(self, doc_id: int) -> None:
        with self._database.writing() as connection:
            documents.record_access(connection, doc_id)

    def tag(self, doc_id: int, add: Iterable[str], remove: Iterable[str]) -> None:
        with self._database.writing() as connection:
            documents.tag(connection, doc_id, add, remove)

    def documents_by_id(
        self, doc_ids: Iterable[int], *, metadata: bool = True
    ) -> dict[int, Document]:
        with self._database.reading() as connection:
            return documents.by_id(connection, doc_ids, metadata=metadata)

    def document_by_path(self, doc_path: str) -> Document | None:
        with self._database.reading() as connection:
            return documents.by_path(connection, doc_path)

    def documents(
        self, filters: Filters, now: str | None, *, limit: int = -1, offset: int = 0
    ) -> list[Document]:
        """By path; with `now`, without the expired ones."""
        with self._database.reading() as connection:
            return documents.listed(connection, filters, now, limit, offset)

    def documents_page(
        self, filters: Filters, now: str | None, *, limit: int, offset: int, most_bytes: int
    ) -> tuple[list[Document], int | None]:
        """Some of `documents`, and where the next page begins: see `store.documents.page`."""
        with self._database.reading() as connection:
            return documents.page(
                connection, filters, now, limit=limit, offset=offset, most_bytes=most_bytes
            )

    def documents_below(self, folder: str) -> list[Document]:
        with self._database.reading() as connection:
            return documents.below(connection, folder)

    def expired(self, now: str) -> list[Document]:
        with self._database.reading() as connection:
            return documents.expired(connection, now)

    def body(self, doc_id: int) -> str | None:
        with self._database.reading() as connection:
            return documents.body(connection, doc_id)

    def has_folder(self, folder: str) -> bool:
        with self._database.reading() as connection:
            return documents.has_folder(connection, folder)

    def paths_ending(self, end: str, limit: int) -> list[str]:
        with self._database.reading() as connection:
            return documents.paths_ending(connection, end, limit)

    def paths_beside(self, path: str, limit: int) -> list[str]:
        with self._database.reading() as connection:
            return documents.paths_beside(connection, path, limit)

    def languages(self) -> dict[str | None, int]:
        with self._database.reading() as connection:
            return documents.languages(connection)

    def tags(self) -> dict[str, int]:
        with self._database.reading() as connection:
            return documents.tags(connection)

    def tag_sources(self, doc_id: int) -> dict[str, str]:
        with self._database.reading() as connection:
            return documents.tag_sources(connection, doc_id)

    def chunks_by_id(self, chunk_ids: Iterable[int]) -> dict[int, Chunk]:
        with self._database.reading() as connection:
            return documents.chunks_by_id(connection, chunk_ids)

    def owners(self, chunk_ids: Iterable[int]) -> dict[int, int]:
        with self._database.reading() as connection:
            return documents.owners(connection, chunk_ids)

    def chunks_of(self, doc_id: int) -> list[Chunk]:
        with self._database.reading() as connection:
            return documents.chunks_of(connection, doc_id)

    def chunk_count(self) -> int:
        """How many chunks can be found: those of expired documents cannot."""
        with self._database.reading() as connection:
            chunks = int(scalar(connection, "SELECT chunks FROM state"))
            return chunks - embeddings.expired_chunks(connection)

    def counts(self) -> dict[str, Any]:
        """How much there is, for `kb status`."""
        with self._database.reading() as connection:
            return {
                "documents": scalar(connection, "SELECT count(*) FROM documents"),
                "chunks": scalar(connection, "SELECT chunks FROM state"),
                "per_root": files.per_root(connection),
                **{name: documents.counts(connection, name) for name in ("type", "kind", "scope")},
                "models": embeddings.counts(connection),
            }

    # --- care -------------------------------------------------------------------------------------

    @property
    def health(self) -> Health:
        """What can be asked and mended for `kb doctor`."""
        from kb.store.sqlite.integrity import Health

        return Health(self._database, self.dense)

    def backup(self, target: Path, *, overwrite: bool, on_step: OnStep) -> None:
        """Copy the store, as it is now, to the file `target`."""
        from kb.store.sqlite import transfer

        transfer.backup(self._database, target, overwrite=overwrite, on_step=on_step)

    def export(self, *, vectors: bool = False) -> Generator[bytes]:
        """The lines of an `export.v1`, of one state of the store."""
        from kb.store.sqlite import transfer

        return transfer.export(self._database, vectors=vectors)

    def load(self, lines: Iterable[bytes], *, merge: bool, on_line: OnLine) -> ImportReport:
        """Write what an export holds, or nothing at all."""
        from kb.store.sqlite import transfer

        return transfer.load(self._database, lines, merge=merge, on_line=on_line)

    # --- lexical ----------------------------------------------------------------------------------

    def match(
        self, query: LexicalQuery, *, every: bool, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        with self._database.reading() as connection:
            return fulltext.match(
                connection, query, every=every, filters=filters, now=now, limit=limit
            )

    def match_expression(
        self, expression: str, *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        with self._database.reading() as connection:
            return fulltext.match_expression(
                connection, expression, filters=filters, now=now, limit=limit
            )

    def match_substrings(
        self, terms: Sequence[str], *, filters: Filters, now: str, limit: int, indexed: bool = True
    ) -> TextMatches:
        with self._database.reading() as connection:
            return fulltext.match_substrings(
                connection, terms, filters=filters, now=now, limit=limit, indexed=indexed
            )

    # --- vectors ----------------------------------------------------------------------------------

    @property
    def dense(self) -> Vectors:
        from kb.store.sqlite.vectors import Vectors

        with self._lock:
            if self._vectors is None:
                self._vectors = Vectors(self._database)
            return self._vectors

    def vector_version(self) -> str:
        """Changes with every change to vectors: `v<schema>.<changes>`."""
        with self._database.reading() as connection:
            return f"v{schema.VERSION}.{embeddings.mark(connection).change}"

    def models(self) -> list[StoredModel]:
        with self._database.reading() as connection:
            return embeddings.models(connection)

    def use_model(self, spec: ModelSpec, source: str | None = None) -> StoredModel:
        with self._database.writing() as connection:
            return embeddings.use_model(connection, spec, source)

    def set_marks(self, model_id: int, marks: Sequence[ExamMark] | None) -> None:
        with self._database.writing() as connection:
            embeddings.set_marks(connection, model_id, marks)

    def to_embed(self, model_id: int, *, limit: int, after: int = 0) -> list[ToEmbed]:
        with self._database.reading() as connection:
            return embeddings.to_embed(connection, model_id, limit, after)

    def write_embeddings(self, model_id: int, rows: Sequence[tuple[int, Encoding]]) -> int:
        from kb.store.sqlite import segments

        now = utc_timestamp(self._clock())
        with self._database.writing() as connection:
            written = embeddings.write(connection, model_id, rows, now, self._token_format)
            segments.fold(connection, model_id)
            self._follow(connection, model_id, make=self._vector_backend == "sqlite-vec")
            return written

    def fail_embeddings(self, model_id: int, chunk_ids: Sequence[int], error: str) -> None:
        now = utc_timestamp(self._clock())
        with self._database.writing() as connection:
            embeddings.fail(connection, model_id, chunk_ids, error, now)

    def retry_embeddings(self, model_id: int, *, doc_id: int | None = None) -> int:
        """Make those that failed for good pending again, of one document or of all; how many there
        were."""
        with self._database.writing() as connection:
            return embeddings.retry(connection, model_id, doc_id)

    def begin_switch(
        self, spec: ModelSpec, source: str | None, *, keep_old: bool = False
    ) -> StoredModel:
        from kb.store.sqlite import model_switch

        with self._database.writing() as connection:
            return model_switch.begin(connection, spec, source, keep_old=keep_old)

    def can_switch(self, model_id: int) -> bool:
        from kb.store.sqlite import model_switch

        with self._database.reading() as connection:
            return model_switch.is_ready(connection, model_id, force=False)

    def switch(self, model_id: int, *, force: bool = False) -> bool:
        from kb.store.sqlite import model_switch

        with self._database.writing() as connection:
            return model_switch.to(connection, model_id, force=force)

    def drop_some(self, limit: int = 500) -> bool:
        from kb.store.sqlite import model_switch

        with self._database.writing() as connection:
            return model_switch.drop_some(connection, limit)

    def drop_vectors(self) -> int:
        """Forget all vectors and the models that made them; how many vectors there were."""
        with self._database.writing() as connection:
            return embeddings.drop(connection)

    # --- jobs -------------------------------------------------------------------------------------

    def start_job(self, model_id: int) -> int:
        from kb.store.sqlite import jobs

        with self._database.writing() as connection:
            return jobs.start(connection, model_id, self._clock())

    def lease(
        self,
        job_id: int,
        model_id: int,
        *,
        limit: int,
        after: int = 0,
        doc_id: int | None = None,
        lacking: Set[str] = frozenset(),
        patient: bool = False,
    ) -> list[ToEmbed]:
        from kb.store.sqlite import jobs

        now = self._clock()
        with self._database.writing() as connection:
            return jobs.lease(
                connection,
                job_id,
                model_id,
                limit=limit,
                after=after,
                doc_id=doc_id,
                lacking=lacking,
                due=_due(now) if patient else None,
                now=now,
            )

    def has_work(self, model_id: int, lacking: Set[str]) -> bool:
        """Whether a patient worker would find something to lease."""
        from kb.store.sqlite import jobs

        now = self._clock()
        with self._database.reading() as connection:
            return jobs.has_work(connection, model_id, lacking, _due(now), now)

    def renew_job(self, job_id: int) -> None:
        from kb.store.sqlite import jobs

        with self._database.writing() as connection:
            jobs.renew(connection, job_id, self._clock())

    def finish(self, job_id: int, model_id: int, outcomes: Sequence[Outcome]) -> Embedded:
        from kb.store.sqlite import jobs, segments

        now = self._clock()
        with self._database.writing() as connection:
            written = jobs.finish(
                connection,
                job_id,
                model_id,
                outcomes,
                stamp=utc_timestamp(now),
                now=now,
                token_format=self._token_format,
            )
            if any(written):
                segments.fold(connection, model_id)
                self._follow(connection, model_id, make=self._vector_backend == "sqlite-vec")
            return written

    def end_job(self, job_id: int) -> None:
        from kb.store.sqlite import jobs

        with self._database.writing() as connection:
            jobs.end(connection, job_id)

    def jobs(self) -> list[Job]:
        """Who is at work, or was when the process ended."""
        from kb.store.sqlite import jobs

        with self._database.reading() as connection:
            return jobs.jobs(connection, self._clock())

    def failures(self, model_id: int, limit: int = 20) -> list[Failure]:
        """What went wrong last, the newest first."""
        from kb.store.sqlite import jobs

        with self._database.reading() as connection:
            return jobs.failures(connection, model_id, limit)

    def without_part(self, model_id: int, part: str) -> int:
        with self._database.reading() as connection:
            return embeddings.without_part(connection, model_id, part)

    def last_error(self, model_id: int) -> str | None:
        """Why the last chunk that failed has no vectors."""
        with self._database.reading() as connection:
            return embeddings.last_error(connection, model_id)

    def index_vectors(self, model_id: int) -> None:
        """Bring what is derived from vectors up to date, so that no search has to: the file that
        numpy maps, and sqlite-vec's table where it is wanted. Worth a call after much was written.
        """
        from kb.store.sqlite import vectors

        if self._vector_backend == "sqlite-vec" and not self._database.read_only:
            with self._database.writing() as connection:
                self._follow(connection, model_id, make=True)
        with self._database.reading() as connection:
            model = embeddings.model(connection, model_id)
            if model.ready > vectors.SMALL and vectors.numpy_is_there():
                self.dense.current(connection, model)

    def vectors_of(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, Vector[float]]:
        """The dense vectors of those chunks that have one."""
        with self._database.reading() as connection:
            return embeddings.vectors_of(connection, model_id, chunk_ids)

    def nearest(
        self,
        model_id: int,
        vector: Sequence[float],
        *,
        filters: Filters,
        now: str,
        limit: int,
        backend: str = "auto",
    ) -> VectorMatches:
        with self._database.reading() as connection:
            model = embeddings.model(connection, model_id)
            return self.dense.nearest(
                connection, model, vector, filters=filters, now=now, limit=limit, backend=backend
            )

    # --- sparse and token vectors -----------------------------------------------------------------

    @property
    def postings(self) -> Postings:
        from kb.store.sqlite.postings import Postings

        dense = self.dense
        with self._lock:
            if self._postings is None:
                self._postings = Postings(dense)
            return self._postings

    def sparse_nearest(
        self,
        model_id: int,
        query: Mapping[str, float],
        *,
        filters: Filters,
        now: str,
        limit: int,
        backend: str = "auto",
    ) -> VectorMatches:
        with self._database.reading() as connection:
            model = embeddings.model(connection, model_id)
            return self.postings.nearest(
                connection, model, query, filters=filters, now=now, limit=limit, backend=backend
            )

    def sparse_of(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, dict[str, float]]:
        """The sparse vectors of those chunks that have one."""
        with self._database.reading() as connection:
            return embeddings.sparse_of(connection, model_id, chunk_ids)

    def tokens_of(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, TokenVectors]:
        """The token vectors of those chunks that have some."""
        with self._database.reading() as connection:
            return embeddings.tokens_of(connection, model_id, chunk_ids)

    def _follow(self, connection: apsw.Connection, model_id: int, *, make: bool) -> None:
        """sqlite-vec's table, where there is one or one is to be made, and it can be written. It is
        of the vectors that answer, not of those that are built beside them."""
        from kb.store.sqlite import vec0

        answering = embeddings.models(connection)[0]
        if answering.model_id != model_id:
            return
        if (make or vec0.exists(connection)) and vec0.load(connection):
            vec0.reconcile(connection, answering)
