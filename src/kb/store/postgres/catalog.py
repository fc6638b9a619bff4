"""The catalog port over PostgreSQL: opens the transactions for `documents` and `files`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from kb.errors import StoreBusy
from kb.store.postgres import documents, embeddings, files, removed_documents, schema, segments
from kb.text.timestamps import utc_timestamp

if TYPE_CHECKING:
    from kb.ports import Clock
    from kb.store.postgres.connection import Database
    from kb.store.postgres.session import Session
    from kb.types import (
        BoostFields,
        Chunk,
        ChunkChanges,
        ChunkDraft,
        ChunkText,
        Counts,
        Document,
        DocumentDraft,
        DocumentWrite,
        FileLocation,
        FileState,
        Filters,
        Root,
    )


_ACCESS_WAIT_S = 0.05  # reads barely wait for writers


class PostgresCatalog:
    """See `kb.ports.Catalog`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._access_lock = Lock()
        self._accesses: Counter[int] = Counter()  # not written yet, because the store was busy

    def version(self) -> str:
        """The schema's version and the number of changes: `v<schema>.<changes>`."""
        return self._database.read(lambda session: f"v{schema.VERSION}.{session.state.changes}")

    # --- roots and files --------------------------------------------------------------------------

    def roots(self, filters: Filters | None = None) -> list[Root]:
        if not self._database.exists():
            return []
        return self._database.read(lambda session: files.roots(session, filters))

    def ensure_root(self, path: str, *, whole: bool) -> Root:
        return self._database.repeat(lambda session: files.ensure_root(session, path, whole=whole))

    def attach_root(self, root_id: int, path: str) -> None:
        with self._database.writing() as session:
            files.attach_root(session, root_id, path)

    def file_states(self, root_id: int) -> dict[str, FileState]:
        return self._database.read(lambda session: files.file_states(session, root_id))

    def touch_file(self, state: FileState) -> None:
        now_ns = int(self._clock() * 1e9)
        self._database.repeat(lambda session: files.touch_file(session, state, now_ns))

    def file_location(self, doc_id: int) -> FileLocation | None:
        return self._database.read(lambda session: files.locations(session, [doc_id]).get(doc_id))

    def file_locations(self, doc_ids: Iterable[int]) -> dict[int, FileLocation]:
        ids = list(doc_ids)
        return self._database.read(lambda session: files.locations(session, ids))

    def sample_files(self, limit: int) -> list[tuple[int, FileLocation]]:
        return self._database.read(lambda session: files.sample(session, limit))

    # --- writing documents ------------------------------------------------------------------------

    def write_document(
        self, draft: DocumentDraft, chunks: Iterable[ChunkDraft], *, moved_from: int | None = None
    ) -> ChunkChanges:
        from kb.types import DocumentWrite

        (changes,) = self.write_documents([DocumentWrite(draft, chunks, moved_from)])
        return changes

    def write_documents(self, writes: Sequence[DocumentWrite]) -> list[ChunkChanges]:
        seconds = self._clock()
        now, now_ns = utc_timestamp(seconds), int(seconds * 1e9)

        def write(session: Session) -> list[ChunkChanges]:
            return [documents.write(session, each, now, now_ns) for each in writes]

        # Files are written by path, so they may be written twice. Notes may not, nor may chunks
        # that are read from a stream.
        if all(each.draft.root_id is not None and isinstance(each.chunks, Sequence)
               for each in writes):  # fmt: skip
            written = self._database.repeat(write)
        else:
            with self._database.writing() as session:
                written = write(session)
        segments.flush_words(self._database)
        return written

    def write_chunks(self, doc_id: int, draft: DocumentDraft, chunks: Iterable[ChunkDraft]) -> None:
        with self._database.writing() as session:
            documents.write_chunks(session, doc_id, draft, chunks, utc_timestamp(self._clock()))

    def delete_documents(
        self, doc_ids: Iterable[int], roots: Iterable[str] = (), *, restorable: bool = False
    ) -> int:
        ids, names = list(doc_ids), list(roots)

        def delete(session: Session) -> int:
            if restorable:
                removed_documents.save(session, ids)
            removed_documents.delete(session, names)
            removed = documents.delete(session, ids)
            files.drop_empty_roots(session, names)
            return removed

        return self._database.repeat(delete)

    def record_access(self, doc_id: int) -> None:
        with self._access_lock:
            self._accesses[doc_id] += 1
            accesses, self._accesses = self._accesses, Counter()
        try:
            with self._database.writing(
                wait_s=_ACCESS_WAIT_S, exclusive=False, create=False
            ) as session:
                session.execute_many(
                    "UPDATE documents SET access_count = access_count + %s WHERE doc_id = %s",
                    [(count, each) for each, count in sorted(accesses.items())],
                )
        except StoreBusy:
            with self._access_lock:
                self._accesses.update(accesses)

    def tag(self, doc_id: int, add: Iterable[str], remove: Iterable[str]) -> None:
        added, removed = list(add), list(remove)
        self._database.repeat(lambda session: documents.tag(session, doc_id, added, removed))

    # --- reading documents ------------------------------------------------------------------------

    def documents_by_id(
        self, doc_ids: Iterable[int], *, metadata: bool = True
    ) -> dict[int, Document]:
        ids = list(doc_ids)
        return self._database.read(lambda session: documents.by_id(session, ids, metadata=metadata))

    def document_by_path(self, doc_path: str) -> Document | None:
        return self._database.read(lambda session: documents.by_path(session, doc_path))

    def documents(
        self, filters: Filters, now: str | None, *, limit: int | None = None, offset: int = 0
    ) -> list[Document]:
        return self._database.read(
            lambda session: documents.select(session, filters, now, limit=limit, offset=offset)
        )

    def documents_page(
        self, filters: Filters, now: str | None, *, limit: int, offset: int, max_bytes: int
    ) -> tuple[list[Document], int | None]:
        return self._database.read(
            lambda session: documents.page(
                session, filters, now, limit=limit, offset=offset, max_bytes=max_bytes
            )
        )

    def matching(self, doc_ids: Iterable[int], filters: Filters) -> set[int]:
        ids = list(doc_ids)
        return self._database.read(lambda session: documents.matching(session, ids, filters))

    def documents_below(self, folder: str) -> list[Document]:
        return self._database.read(lambda session: documents.below(session, folder))

    def expired(self, now: str) -> list[Document]:
        return self._database.read(lambda session: documents.expired(session, now))

    def body(self, doc_id: int) -> str | None:
        return self._database.read(lambda session: documents.body(session, doc_id))

    def tag_sources(self, doc_id: int) -> dict[str, str]:
        return self._database.read(lambda session: documents.tag_sources(session, doc_id))

    def has_folder(self, folder: str) -> bool:
        return self._database.read(lambda session: documents.has_folder(session, folder))

    def paths_with_suffix(
        self, suffix: str, limit: int, filters: Filters | None = None
    ) -> list[str]:
        return self._database.read(
            lambda session: documents.paths_with_suffix(session, suffix, limit, filters)
        )

    def neighboring_paths(self, path: str, limit: int, filters: Filters | None = None) -> list[str]:
        return self._database.read(
            lambda session: documents.neighboring_paths(session, path, limit, filters)
        )

    # --- chunks -----------------------------------------------------------------------------------

    def chunks(self, doc_id: int) -> list[Chunk]:
        return self._database.read(lambda session: documents.chunks(session, doc_id))

    def chunks_by_id(self, chunk_ids: Iterable[int]) -> dict[int, Chunk]:
        ids = list(chunk_ids)
        return self._database.read(lambda session: documents.chunks_by_id(session, ids))

    def chunk_texts(self, chunk_ids: Iterable[int], *, wide: bool = False) -> dict[int, str]:
        ids = list(chunk_ids)
        return self._database.read(lambda session: documents.chunk_texts(session, ids, wide=wide))

    def texts_with_copies(self, chunk_ids: Iterable[int]) -> dict[int, ChunkText]:
        ids = list(chunk_ids)
        return self._database.read(lambda session: documents.texts_with_copies(session, ids))

    def document_ids(self, chunk_ids: Iterable[int]) -> dict[int, int]:
        ids = list(chunk_ids)
        return self._database.read(lambda session: documents.document_ids(session, ids))

    def boost_fields(self, chunk_ids: Iterable[int]) -> dict[int, BoostFields]:
        ids = list(chunk_ids)
        return self._database.read(lambda session: documents.boost_fields(session, ids))

    def chunk_count(self, filters: Filters | None = None) -> int:
        with self._database.reading() as session:
            if filters:
                return documents.count_chunks(session, filters, utc_timestamp(self._clock()))
            return session.state.chunks - embeddings.expired_chunks(session)

    # --- totals -----------------------------------------------------------------------------------

    def counts(self, filters: Filters | None = None) -> Counts:
        from kb.types import Counts

        return self._database.read(
            lambda session: Counts(
                documents=documents.count(session, filters),
                chunks=documents.count_chunks(session, filters, None)
                if filters
                else session.state.chunks,
                by_root=files.per_root(session, filters),
                by_type=documents.counts(session, "type", filters),
                by_kind=documents.counts(session, "kind", filters),
                by_scope=documents.counts(session, "scope", filters),
            )
        )

    def languages(self, filters: Filters | None = None) -> dict[str | None, int]:
        return self._database.read(lambda session: documents.languages(session, filters))

    def tags(self, filters: Filters | None = None) -> dict[str, int]:
        return self._database.read(lambda session: documents.tags(session, filters))
