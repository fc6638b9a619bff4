"""SqliteStore: the store port over one SQLite file.

Here stand the transactions; the SQL itself stands in the modules beside, by subject.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.ports import Clock, LexicalQuery, Matched, Written
from kb.store import documents, files, lexical, schema
from kb.store.connection import Database
from kb.store.functions import scalar
from kb.types import Chunk, ChunkDraft, Document, DocumentDraft, FileState, Filters, Root

if TYPE_CHECKING:
    from kb.store.backup import OnStep
    from kb.store.health import Health
    from kb.store.restore import OnLine
    from kb.types import ImportReport


def timestamp(seconds: float) -> str:
    """A moment as the store writes it: ISO 8601 in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class SqliteStore:
    """Safe to share between threads: each has its own connections."""

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        busy_timeout_s: float = 60.0,
        clock: Clock = time.time,
    ) -> None:
        self._database = Database(path, read_only=read_only, busy_timeout_s=busy_timeout_s)
        self._clock = clock

    @property
    def path(self) -> Path:
        return self._database.path

    def exists(self) -> bool:
        return self.path.exists()

    def close(self) -> None:
        self._database.close()

    def reading(self) -> AbstractContextManager[Any]:
        return self._database.reading()

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

    def os_path(self, doc_id: int) -> str | None:
        with self._database.reading() as connection:
            return files.os_path(connection, doc_id)

    # --- documents and chunks ---------------------------------------------------------------------

    def write_document(self, draft: DocumentDraft, chunks: Iterable[ChunkDraft]) -> Written:
        seconds = self._clock()
        with self._database.writing() as connection:
            now, now_ns = timestamp(seconds), int(seconds * 1e9)
            return documents.write(connection, draft, chunks, now, now_ns)

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

    def documents_by_id(self, doc_ids: Iterable[int]) -> dict[int, Document]:
        with self._database.reading() as connection:
            return documents.by_id(connection, doc_ids)

    def document_by_path(self, doc_path: str) -> Document | None:
        with self._database.reading() as connection:
            return documents.by_path(connection, doc_path)

    def documents(
        self, filters: Filters, now: str | None, *, limit: int = -1, offset: int = 0
    ) -> list[Document]:
        """By path; with `now`, without the expired ones."""
        with self._database.reading() as connection:
            return documents.listed(connection, filters, now, limit, offset)

    def documents_below(self, folder: str) -> list[Document]:
        with self._database.reading() as connection:
            return documents.below(connection, folder)

    def expired(self, now: str) -> list[Document]:
        with self._database.reading() as connection:
            return documents.expired(connection, now)

    def body(self, doc_id: int) -> str | None:
        with self._database.reading() as connection:
            return documents.body(connection, doc_id)

    def tags(self) -> dict[str, int]:
        with self._database.reading() as connection:
            return documents.tags(connection)

    def tag_sources(self, doc_id: int) -> dict[str, str]:
        with self._database.reading() as connection:
            return documents.tag_sources(connection, doc_id)

    def chunks_by_id(self, chunk_ids: Iterable[int]) -> dict[int, Chunk]:
        with self._database.reading() as connection:
            return documents.chunks_by_id(connection, chunk_ids)

    def chunks_of(self, doc_id: int) -> list[Chunk]:
        with self._database.reading() as connection:
            return documents.chunks_of(connection, doc_id)

    def counts(self) -> dict[str, Any]:
        """How much there is, for `kb status`."""
        with self._database.reading() as connection:
            return {
                "documents": scalar(connection, "SELECT count(*) FROM documents"),
                "chunks": scalar(connection, "SELECT chunks FROM state"),
                "per_root": files.per_root(connection),
                **{name: documents.counts(connection, name) for name in ("type", "kind", "scope")},
            }

    # --- care -------------------------------------------------------------------------------------

    @property
    def health(self) -> Health:
        """What can be asked and mended for `kb doctor`."""
        from kb.store.health import Health

        return Health(self._database)

    def backup(self, target: Path, *, overwrite: bool, on_step: OnStep) -> None:
        """Copy the store, as it is now, to the file `target`."""
        from kb.store import copies

        copies.backup(self._database, target, overwrite=overwrite, on_step=on_step)

    def export(self) -> Iterator[bytes]:
        """The lines of an `export.v1`, of one state of the store."""
        from kb.store import copies

        return copies.export(self._database)

    def load(self, lines: Iterable[bytes], *, merge: bool, on_line: OnLine) -> ImportReport:
        """Write what an export holds, or nothing at all."""
        from kb.store import copies

        return copies.load(self._database, lines, merge=merge, on_line=on_line)

    # --- lexical ----------------------------------------------------------------------------------

    def tokenise(self, text: str, wanted: Set[str] | None = None) -> list[tuple[int, int, str]]:
        with self._database.reading() as connection:
            return lexical.tokenise(connection, text, wanted)

    def match(
        self, query: LexicalQuery, *, every: bool, filters: Filters, now: str, limit: int
    ) -> Matched:
        with self._database.reading() as connection:
            return lexical.match(
                connection, query, every=every, filters=filters, now=now, limit=limit
            )

    def match_expression(
        self, expression: str, *, filters: Filters, now: str, limit: int
    ) -> Matched:
        with self._database.reading() as connection:
            return lexical.match_expression(
                connection, expression, filters=filters, now=now, limit=limit
            )

    def match_substrings(
        self, terms: Sequence[str], *, filters: Filters, now: str, limit: int, indexed: bool = True
    ) -> Matched:
        with self._database.reading() as connection:
            return lexical.match_substrings(
                connection, terms, filters=filters, now=now, limit=limit, indexed=indexed
            )
