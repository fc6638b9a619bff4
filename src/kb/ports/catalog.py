"""The catalog port: documents, chunks, tags and roots. All other data is derived from these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
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


class Catalog(Protocol):
    """Reads and writes documents. Every write is one transaction."""

    def version(self) -> str:
        """A value that changes with every write that can change the results of a lexical search."""
        ...

    # --- roots and files --------------------------------------------------------------------------

    def roots(self, filters: Filters | None = None) -> list[Root]:
        """Every ingested folder, ordered by path; empty if the store does not exist yet. With
        `filters`, only folders of documents that match."""
        ...

    def ensure_root(self, path: str, *, whole: bool) -> Root:
        """Return the root at `path`, and create it if needed. `whole` marks a root whose folder is
        ingested completely, rather than for single files; a root that is marked stays so."""
        ...

    def attach_root(self, root_id: int, path: str) -> None:
        """Set the folder of a root, and mark the root as attached."""
        ...

    def file_states(self, root_id: int) -> dict[str, FileState]:
        """The recorded state of every file of a root, by its path in the root."""
        ...

    def touch_file(self, state: FileState) -> None:
        """Record a new file state for a document whose content has not changed."""
        ...

    def file_location(self, doc_id: int) -> FileLocation | None:
        """The location of a document's file; None for a note."""
        ...

    def file_locations(self, doc_ids: Iterable[int]) -> dict[int, FileLocation]:
        """The locations of documents' files, by id; notes and unknown ids are left out."""
        ...

    def sample_files(self, limit: int) -> list[tuple[int, FileLocation]]:
        """A random sample of documents with files in attached roots: their ids and files."""
        ...

    # --- writing documents ------------------------------------------------------------------------

    def write_document(
        self, draft: DocumentDraft, chunks: Iterable[ChunkDraft], *, moved_from: int | None = None
    ) -> ChunkChanges:
        """Insert a document, or replace the one with the same path. `moved_from` is the id of a
        document whose file has moved here; the id is kept. Chunks with unchanged text keep their
        ids and vectors."""
        ...

    def write_documents(self, writes: Sequence[DocumentWrite]) -> list[ChunkChanges]:
        """Write several documents in one transaction: all of them, or none after an error."""
        ...

    def write_chunks(self, doc_id: int, draft: DocumentDraft, chunks: Iterable[ChunkDraft]) -> None:
        """Replace the chunks of an existing document and nothing else."""
        ...

    def delete_documents(
        self, doc_ids: Iterable[int], roots: Iterable[str] = (), *, restorable: bool = False
    ) -> int:
        """Delete documents with their chunks and vectors, and the roots with these names that have
        no documents left. Returns how many documents were deleted. With `restorable`, the user's
        tags and the access count are kept for a document that is written at the same path of the
        same root later, until a call names the path or a folder above it in `roots`."""
        ...

    def record_access(self, doc_id: int) -> None:
        """Add one to the document's access count. If another writer holds the store, the access may
        be counted together with a later one."""
        ...

    def tag(self, doc_id: int, add: Iterable[str], remove: Iterable[str]) -> None:
        """Add and remove tags of a document."""
        ...

    # --- reading documents ------------------------------------------------------------------------

    def documents_by_id(
        self, doc_ids: Iterable[int], *, metadata: bool = True
    ) -> dict[int, Document]:
        """Documents by id; unknown ids are left out. With `metadata=False`, metadata is not read,
        which is faster."""
        ...

    def document_by_path(self, doc_path: str) -> Document | None:
        """The document with exactly this path."""
        ...

    def documents(
        self, filters: Filters, now: str | None, *, limit: int | None = None, offset: int = 0
    ) -> list[Document]:
        """Documents that match `filters`, ordered by path. `now` leaves out documents that have
        expired by then; None includes them."""
        ...

    def documents_page(
        self, filters: Filters, now: str | None, *, limit: int, offset: int, max_bytes: int
    ) -> tuple[list[Document], int | None]:
        """One page of `documents`, and the offset of the next page (None after the last one). A
        page ends early when its tags and metadata exceed `max_bytes`, but never before its first
        document."""
        ...

    def matching(self, doc_ids: Iterable[int], filters: Filters) -> set[int]:
        """Which of these documents match `filters`. Expired documents are included."""
        ...

    def documents_below(self, folder: str) -> list[Document]:
        """Documents whose path starts with `folder`, which ends with a slash; ordered by path."""
        ...

    def expired(self, now: str) -> list[Document]:
        """Documents that have expired by `now`, ordered by path."""
        ...

    def body(self, doc_id: int) -> str | None:
        """The text of a note; None for a document with a file."""
        ...

    def tag_sources(self, doc_id: int) -> dict[str, str]:
        """The tags of a document, each with its source: `file` or `user`."""
        ...

    def has_folder(self, folder: str) -> bool:
        """Whether the path of any document starts with `folder`, which ends with a slash."""
        ...

    def paths_with_suffix(
        self, suffix: str, limit: int, filters: Filters | None = None
    ) -> list[str]:
        """The first `limit` paths of documents that match `filters` and end with `suffix`, in
        order."""
        ...

    def neighboring_paths(self, path: str, limit: int, filters: Filters | None = None) -> list[str]:
        """The paths of documents that match `filters` just before and after `path` in order, at
        most `limit` on each side."""
        ...

    # --- chunks -----------------------------------------------------------------------------------

    def chunks(self, doc_id: int) -> list[Chunk]:
        """The chunks of a document, in the order of its text."""
        ...

    def chunks_by_id(self, chunk_ids: Iterable[int]) -> dict[int, Chunk]:
        """Chunks by id; unknown ids are left out."""
        ...

    def chunk_texts(self, chunk_ids: Iterable[int], *, wide: bool = False) -> dict[int, str]:
        """The texts of chunks by id; unknown ids are left out. With `wide`, only texts whose UTF-8
        form has many more bytes than characters, which are mostly not in Latin script."""
        ...

    def texts_with_copies(self, chunk_ids: Iterable[int]) -> dict[int, ChunkText]:
        """The texts of chunks by id, with the number of their copies; unknown ids are left out."""
        ...

    def document_ids(self, chunk_ids: Iterable[int]) -> dict[int, int]:
        """The id of each chunk's document; unknown chunks are left out."""
        ...

    def boost_fields(self, chunk_ids: Iterable[int]) -> dict[int, BoostFields]:
        """The fields of each chunk's document that boosts use; unknown chunks are left out."""
        ...

    def chunk_count(self, filters: Filters | None = None) -> int:
        """How many chunks a search can return: those of documents that match `filters` and have
        not expired."""
        ...

    # --- totals -----------------------------------------------------------------------------------

    # With `filters`, only documents that match are counted.

    def counts(self, filters: Filters | None = None) -> Counts:
        """How many documents and chunks the store holds, in total and by group."""
        ...

    def languages(self, filters: Filters | None = None) -> dict[str | None, int]:
        """How many documents each language has; None stands for an unknown language."""
        ...

    def tags(self, filters: Filters | None = None) -> dict[str, int]:
        """How many documents each tag has, ordered by tag."""
        ...
