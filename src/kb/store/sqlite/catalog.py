"""The catalog port over SQLite: opens the transactions for `documents` and `files`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from threading import Lock

from kb.errors import StoreBusy
from kb.store.sqlite import documents, files, removed_documents, schema
from kb.store.sqlite.functions import scalar
from kb.store.sqlite.snapshot_cache import store_state
from kb.text.timestamps import utc_timestamp
from kb.values import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.ports import Clock
    from kb.store.sqlite.connection import Database
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


class SqliteCatalog:
    """See `kb.ports.Catalog`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._access_lock = Lock()
        self._accesses: Counter[int] = Counter()  # not written yet, because the store was busy

    def version(self) -> str:
        """The schema's version and the number of changes: `v<schema>.<changes>`."""
        with self._database.reading() as connection:
            return f"v{schema.VERSION}.{store_state(connection).changes}"

    # --- roots and files --------------------------------------------------------------------------

    def roots(self, filters: Filters | None = None) -> list[Root]:
        if not os.path.exists(self._database.file):
            return []
        with self._database.reading() as connection:
            return files.roots(connection, filters)

    def ensure_root(self, path: str, *, whole: bool) -> Root:
        with self._database.writing() as connection:
            return files.ensure_root(connection, path, whole=whole)

    def attach_root(self, root_id: int, path: str) -> None:
        with self._database.writing() as connection:
            files.attach_root(connection, root_id, path)

    def file_states(self, root_id: int) -> dict[str, FileState]:
        with self._database.reading() as connection:
            return files.file_states(connection, root_id)

    def touch_file(self, state: FileState) -> None:
        now_ns = int(self._clock() * 1e9)
        with self._database.writing() as connection:
            files.touch_file(connection, state, now_ns)

    def file_location(self, doc_id: int) -> FileLocation | None:
        with self._database.reading() as connection:
            return files.locations(connection, [doc_id]).get(doc_id)

    def file_locations(self, doc_ids: Iterable[int]) -> dict[int, FileLocation]:
        with self._database.reading() as connection:
            return files.locations(connection, doc_ids)

    def sample_files(self, limit: int) -> list[tuple[int, FileLocation]]:
        with self._database.reading() as connection:
            return files.sample(connection, limit)

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
        with self._database.writing() as connection:
            return [documents.write(connection, each, now, now_ns) for each in writes]

    def write_chunks(self, doc_id: int, draft: DocumentDraft, chunks: Iterable[ChunkDraft]) -> None:
        with self._database.writing() as connection:
            documents.write_chunks(connection, doc_id, draft, chunks, utc_timestamp(self._clock()))

    def delete_documents(
        self, doc_ids: Iterable[int], roots: Iterable[str] = (), *, restorable: bool = False
    ) -> int:
        doc_ids, roots = list(doc_ids), list(roots)
        with self._database.writing() as connection:
            if restorable:
                removed_documents.save(connection, doc_ids)
            removed_documents.delete(connection, roots)
            removed = documents.delete(connection, doc_ids)
            files.drop_empty_roots(connection, roots)
        if removed:
            self._database.release_free_pages()
        return removed

    def record_access(self, doc_id: int) -> None:
        with self._access_lock:
            self._accesses[doc_id] += 1
            accesses, self._accesses = self._accesses, Counter()
        try:
            with self._database.writing(wait_s=_ACCESS_WAIT_S) as connection:
                for each, count in accesses.items():
                    documents.record_access(connection, each, count)
        except StoreBusy:
            with self._access_lock:
                self._accesses.update(accesses)

    def tag(self, doc_id: int, add: Iterable[str], remove: Iterable[str]) -> None:
        with self._database.writing() as connection:
            documents.tag(connection, doc_id, add, remove)

    # --- reading documents ------------------------------------------------------------------------

    def documents_by_id(
        self, doc_ids: Iterable[int], *, metadata: bool = True
    ) -> dict[int, Document]:
        with self._database.reading() as connection:
            return documents.by_id(connection, doc_ids, metadata=metadata)

    def document_by_path(self, doc_path: str) -> Document | None:
        with self._database.reading() as connection:
            return documents.by_path(connection, doc_path)

    def documents(
        self, filters: Filters, now: str | None, *, limit: int | None = None, offset: int = 0
    ) -> list[Document]:
        with self._database.reading() as connection:
            return documents.select(connection, filters, now, limit=limit, offset=offset)

    def documents_page(
        self, filters: Filters, now: str | None, *, limit: int, offset: int, max_bytes: int
    ) -> tuple[list[Document], int | None]:
        with self._database.reading() as connection:
            return documents.page(
                connection, filters, now, limit=limit, offset=offset, max_bytes=max_bytes
            )

    def matching(self, doc_ids: Iterable[int], filters: Filters) -> set[int]:
        with self._database.reading() as connection:
            return documents.matching(connection, doc_ids, filters)

    def documents_below(self, folder: str) -> list[Document]:
        with self._database.reading() as connection:
            return documents.below(connection, folder)

    def expired(self, now: str) -> list[Document]:
        with self._database.reading() as connection:
            return documents.expired(connection, now)

    def body(self, doc_id: int) -> str | None:
        with self._database.reading() as connection:
            return documents.body(connection, doc_id)

    def tag_sources(self, doc_id: int) -> dict[str, str]:
        with self._database.reading() as connection:
            return documents.tag_sources(connection, doc_id)

    def has_folder(self, folder: str) -> bool:
        with self._database.reading() as connection:
            return documents.has_folder(connection, folder)

    def paths_with_suffix(
        self, suffix: str, limit: int, filters: Filters | None = None
    ) -> list[str]:
        with self._database.reading() as connection:
            return documents.paths_with_suffix(connection, suffix, limit, filters)

    def neighboring_paths(self, path: str, limit: int, filters: Filters | None = None) -> list[str]:
        with self._database.reading() as connection:
            return documents.neighboring_paths(connection, path, limit, filters)

    # --- chunks -----------------------------------------------------------------------------------

    def chunks(self, doc_id: int) -> list[Chunk]:
        with self._database.reading() as connection:
            return documents.chunks(connection, doc_id)

    def chunks_by_id(self, chunk_ids: Iterable[int]) -> dict[int, Chunk]:
        with self._database.reading() as connection:
            return documents.chunks_by_id(connection, chunk_ids)

    def chunk_texts(self, chunk_ids: Iterable[int], *, wide: bool = False) -> dict[int, str]:
        with self._database.reading() as connection:
            return documents.chunk_texts(connection, chunk_ids, wide=wide)

    def texts_with_copies(self, chunk_ids: Iterable[int]) -> dict[int, ChunkText]:
        with self._database.reading() as connection:
            return documents.texts_with_copies(connection, chunk_ids)

    def document_ids(self, chunk_ids: Iterable[int]) -> dict[int, int]:
        with self._database.reading() as connection:
            return documents.document_ids(connection, chunk_ids)

    def boost_fields(self, chunk_ids: Iterable[int]) -> dict[int, BoostFields]:
        with self._database.reading() as connection:
            return documents.boost_fields(connection, chunk_ids)

    def chunk_count(self, filters: Filters | None = None) -> int:
        from kb.store.sqlite.embeddings import expired_chunks  # loads more than a search needs

        with self._database.reading() as connection:
            if filters:
                now = utc_timestamp(self._clock())
                return documents.count_chunks(connection, filters, now)
            chunks = int(scalar(connection, "SELECT chunks FROM state"))
            return chunks - expired_chunks(connection)

    # --- totals -----------------------------------------------------------------------------------

    def counts(self, filters: Filters | None = None) -> Counts:
        from kb.types import Counts

        with self._database.reading() as connection:
            return Counts(
                documents=documents.count(connection, filters),
                chunks=documents.count_chunks(connection, filters, None)
                if filters
                else int(scalar(connection, "SELECT chunks FROM state")),
                by_root=files.per_root(connection, filters),
                by_type=documents.counts(connection, "type", filters),
                by_kind=documents.counts(connection, "kind", filters),
                by_scope=documents.counts(connection, "scope", filters),
            )

    def languages(self, filters: Filters | None = None) -> dict[str | None, int]:
        with self._database.reading() as connection:
            return documents.languages(connection, filters)

    def tags(self, filters: Filters | None = None) -> dict[str, int]:
        with self._database.reading() as connection:
            return documents.tags(connection, filters)
