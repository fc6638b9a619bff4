"""Writes each line of an import in the caller's transaction, so that an import is complete or has
no effect. Shared by all stores.

An empty store becomes a copy, with the same ids. In any other store, documents are merged: see
`_Merge`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Protocol

from kb.errors import InvalidRequest, ModelBroken, StoreUnusable
from kb.index import cosine, sparse_weights, token_codes
from kb.store import export_format
from kb.store.document_rows import body_digest, content_digest
from kb.text.normalize import subwords, unspaced_ngrams
from kb.types import ImportReport, JsonDict, Root, StoredModel

STEP = 2000  # records in a transaction of a copy
OnProgress = Callable[[int, int], None]  # done, total


class ImportConflict(ValueError):
    """An imported value contradicts other lines or the store."""


class KnownDocument(NamedTuple):
    """A document that the store already has. A detached one was imported itself."""

    doc_id: int
    indexed_ns: int
    detached: bool


class ImportTarget(Protocol):
    """The rows of a store, written in one transaction. Rows are columns by name, as in
    `export_format`."""

    refused: tuple[type[Exception], ...]  # the errors that the database raises for an invalid value
    is_shard: bool  # of several: some ids belong to others

    def is_empty(self) -> bool: ...

    def record_count(self) -> int:
        """How many roots, documents, chunks and removed documents there are."""
        ...

    def flush(self) -> None:
        """Write rows that are still buffered, before the transaction ends."""
        ...

    def models(self) -> list[StoredModel]: ...

    def add_model(self, row: JsonDict) -> int: ...

    def roots(self) -> list[Root]: ...

    def add_root(self, row: JsonDict) -> None:
        """Add a detached root with its id."""
        ...

    def ensure_root(self, path: str, *, whole: bool) -> Root:
        """The root at `path`, or a new one that is detached."""
        ...

    def next_document_id(self) -> int: ...

    def add_document(self, row: JsonDict) -> int:
        """Add a document, which is detached if it has a root. Returns its id."""
        ...

    def replace_document(self, doc_id: int, row: JsonDict) -> None:
        """Replace the columns of a document. Its access count does not fall, and it does not expire
        earlier than before."""
        ...

    def document_at(self, root_id: int | None, doc_path: str) -> KnownDocument | None: ...

    def notes(self) -> Iterable[tuple[str, str, int]]:
        """The text, the time and the id of every note whose path contains its id."""
        ...

    def tag_sources(self, doc_id: int) -> dict[str, str]: ...

    def add_tags(self, doc_id: int, tags: dict[str, str]) -> None: ...

    def remove_tags(self, doc_id: int) -> None: ...

    def add_chunk(self, row: JsonDict) -> int: ...

    def remove_chunks(self, doc_id: int) -> int:
        """Remove the chunks of a document. Returns how many."""
        ...

    def add_vectors(
        self,
        model_id: int,
        chunk_id: int,
        embedded_at: str | None,
        dense: bytes,
        sparse: str | None,
        tokens: bytes | None,
    ) -> None: ...

    def add_removed_document(self, row: JsonDict) -> None:
        """Add the saved tags and access count of a removed document to those saved for its path."""
        ...

    def restore_documents(self) -> None:
        """Restore the saved tags and access counts of documents that exist again."""
        ...

    def finish_copy(self, header: JsonDict, chunks: int) -> None:
        """Adopt the counters of the exported store, so that ids are not reused and versions do not
        repeat."""
        ...

    def finish_merge(self, chunks: int) -> None:
        """Count the change; `chunks` is how many were added, less those removed."""
        ...


def load(
    target: ImportTarget,
    header: JsonDict,
    lines: Iterable[bytes],
    *,
    merge: bool,
    on_progress: OnProgress,
) -> ImportReport:
    """Write the records of `lines`, which start after the header."""
    empty = target.is_empty()
    if not empty and not merge:
        raise InvalidRequest(
            "the store is not empty", "import into a new one (--store), or use --merge"
        )
    keeps_ids = empty and not (merge and target.is_shard)
    work = _Restore(target) if keeps_ids else _Merge(target)
    work.store_schema = header["store_schema"]
    attempt = partial(_attempt, target)
    attempt(1, partial(work.models, header["models"]))
    total = sum(header["counts"].values())
    for number, kind, record in _records(header, lines):
        attempt(number, partial(work.take, kind, record))
        on_progress(number - 1, total)
    attempt(1, partial(work.finish, header))
    return work.report()


def load_in_steps(
    transaction: Callable[[], AbstractContextManager[ImportTarget]],
    header: JsonDict,
    lines: Iterable[bytes],
    *,
    on_progress: OnProgress,
) -> ImportReport:
    """Write the records of `lines` into an empty store in several transactions. Records that an
    earlier, interrupted call has written are skipped: they are the first ones, since each
    transaction is complete or has no effect."""
    total = sum(header["counts"].values())
    records = _records(header, lines)
    with transaction() as target:
        done = target.record_count()
        if done > total:
            raise InvalidRequest("the store has other documents", "copy to a new store")
        work = _Restore(target)
        work.store_schema = header["store_schema"]
        _attempt(target, 1, partial(work.models, header["models"]))
    for number, kind, record in islice(records, done):
        work.skip(kind, record)
        on_progress(number - 1, total)
    while batch := list(islice(records, STEP)):
        with transaction() as work.target:
            for number, kind, record in batch:
                _attempt(work.target, number, partial(work.take, kind, record))
            work.target.flush()
        on_progress(batch[-1][0] - 1, total)
    with transaction() as work.target:
        _attempt(work.target, 1, partial(work.finish, header))
    return work.report()


def _records(header: JsonDict, lines: Iterable[bytes]) -> Iterator[tuple[int, str, JsonDict]]:
    """The number, kind and content of each line after the header. Raises `BrokenImport` if there
    are more or fewer than the header declares."""
    seen = dict.fromkeys(export_format.RECORDS, 0)
    number = 1
    for number, raw in enumerate(lines, start=2):
        kind, record = export_format.record(raw, number)
        seen[kind] += 1
        if seen[kind] > header["counts"][export_format.TABLES[kind]]:
            raise export_format.broken_line(
                number, f"more records of kind {kind} than the header declares"
            )
        yield number, kind, record
    for kind, table in export_format.TABLES.items():
        if seen[kind] != header["counts"][table]:
            expected = f"{header['counts'][table]} {table}, not {seen[kind]}"
            raise export_format.broken_line(number, f"incomplete: the header declares {expected}")


def _attempt(target: ImportTarget, number: int, step: Callable[[], None]) -> None:
    """Report a value that the database refuses as an error of its line."""
    invalid: tuple[type[Exception], ...] = (
        ImportConflict, OverflowError, UnicodeEncodeError, struct.error, *target.refused,
    )  # fmt: skip
    try:
        step()
    except invalid as error:
        raise export_format.broken_line(number, str(error)) from error


class _Restore:
    """Imports into an empty store: every row as it was."""

    def __init__(self, target: ImportTarget) -> None:
        self.target = target
        self.added = self.replaced = self.kept = self.chunks = 0
        self.model_ids: dict[int, tuple[int, int]] = {}  # imported id -> own id and dimension
        self.token_dimensions: dict[int, int] = {}  # of imported documents
        self.root_names: dict[int, str] = {}  # by imported id
        self.store_schema = 0  # of the exported store

    def models(self, exported: list[JsonDict]) -> None:
        """Register the models of the export, unless the store has another one: vectors of two
        models are not mixed, and chunks without vectors are embedded later."""
        ours = self.target.models()
        for model in exported:
            same = [one.model_id for one in ours if (one.name, one.version, one.dimension)
                    == (model["name"], model["version"], model["dimension"])]  # fmt: skip
            if same or not ours:
                ids = same or [self.target.add_model(export_format.as_columns(model))]
                self.model_ids[model["model_id"]] = ids[0], model["dimension"]
                self.token_dimensions[model["model_id"]] = model["token_dimension"] or 0

    def take(self, kind: str, record: JsonDict) -> None:
        {
            "root": self.root,
            "document": self.document,
            "chunk": self.chunk,
            "removed_document": self.removed_document,
        }[kind](record)

    def skip(self, kind: str, record: JsonDict) -> None:
        """Count a record that is already in the store."""
        if kind == "root":
            self.root_names[record["root_id"]] = record["name"]
        self.added += kind == "document"
        self.chunks += kind == "chunk"

    def root(self, record: JsonDict) -> None:
        self.target.add_root(record)
        self.root_names[record["root_id"]] = record["name"]

    def document(self, record: JsonDict) -> None:
        _check_note_path(record)
        root_id = record["root_id"]
        place = f"{self.root_names.get(root_id)}/{record['path']}"
        if root_id is not None and record["doc_path"] != place:
            raise ImportConflict(f"document {record['doc_id']} is not in its root")
        self._add_document(record)
        self.target.add_tags(record["doc_id"], record["tags"])
        self.added += 1

    def chunk(self, record: JsonDict) -> None:
        derived = {
            "content_hash": content_digest(record["heading"], record["text"]),
            "parts": subwords(record["heading"], record["text"]),
            "cjk": unspaced_ngrams(record["heading"], record["text"]),
        }
        chunk_id = self.target.add_chunk(export_format.as_columns(record) | derived)
        self.chunks += 1
        for embedding in record["embeddings"]:
            self._embedding(chunk_id, embedding)

    def removed_document(self, record: JsonDict) -> None:
        self.target.add_removed_document(export_format.as_columns(record))

    def finish(self, header: JsonDict) -> None:
        self.target.restore_documents()
        self.target.finish_copy(header, self.chunks)

    def report(self) -> ImportReport:
        return ImportReport(self.added, self.replaced, self.kept, self.chunks)

    def _add_document(self, record: JsonDict) -> int:
        """Add a document whose file is not read until the user attaches the root. The hash of a
        note is computed, since an archive can claim any hash."""
        row = export_format.as_columns(record)
        if record["root_id"] is None and record["body"] is not None:
            row["content_hash"] = body_digest(record["body"])
        return self.target.add_document(row)

    def _embedding(self, chunk_id: int, record: JsonDict) -> None:
        """Write vectors bit for bit as they were exported."""
        if record["model_id"] not in self.model_ids:
            return
        model_id, dimension = self.model_ids[record["model_id"]]
        if not cosine.is_unit(record["dense"], dimension):
            raise ImportConflict("a damaged vector")
        self.target.add_vectors(
            model_id, chunk_id, record["embedded_at"], record["dense"],
            _weights(record["sparse"]), self._tokens(record),
        )  # fmt: skip

    def _tokens(self, record: JsonDict) -> bytes | None:
        data: bytes | None = record["tokens"]
        if data is None:
            return None
        if self.store_schema < 3:  # older schemas stored plain float32
            dimension = self.token_dimensions[record["model_id"]]
            count = len(data) // (4 * dimension) if dimension else 0
            data = token_codes.header("float32", dimension, count) + data
        try:
            token_codes.parse_header(data)
        except StoreUnusable as error:
            raise ImportConflict("damaged token vectors") from error
        return data


class _Merge(_Restore):
    """Imports into a store that has documents. Ids are new.

    A root is identified by its path; if its name is taken, it gets a number. A document is
    identified by its root and path. A note has no path, because its number belongs to one store:
    notes with the same text and time are the same, all others are added.

    Nothing in an archive can be verified, neither its times nor its texts. Therefore notes and
    documents of attached files are kept as they are: the next ingest reads the files. A detached
    document, which was imported itself, is replaced by a version that was indexed later and has
    passages. Tags from users are kept from both sides.
    """

    def __init__(self, target: ImportTarget) -> None:
        super().__init__(target)
        self.roots: dict[int, tuple[int, str]] = {}  # imported id -> own id and name
        self.documents: dict[int, int | None] = {}  # imported id -> own id; None: kept
        # Kept until a passage of theirs arrives.
        self.newer: dict[int, tuple[int, JsonDict, dict[str, str]]] = {}
        self.removed = 0
        self.at_path = {root.path: root for root in target.roots()}
        self.notes = {
            (body_digest(body), created): doc_id for body, created, doc_id in target.notes()
        }

    def root(self, record: JsonDict) -> None:
        path = os.fsdecode(record["path"])
        ours = self.at_path.get(path) or self.target.ensure_root(path, whole=bool(record["whole"]))
        self.roots[record["root_id"]] = ours.root_id, ours.name

    def document(self, record: JsonDict) -> None:
        _check_note_path(record)
        theirs, tags = record.pop("doc_id"), record.pop("tags")
        if theirs in self.documents:
            raise ImportConflict(f"document {theirs} occurs twice")
        is_note = record["doc_path"] == f"note:{theirs}"
        known = self._same_note(record) if is_note else self._same_path(record)
        if known is None:
            self.documents[theirs] = doc_id = self._add(record, is_note=is_note)
            self.target.add_tags(doc_id, tags)
            return
        self.documents[theirs] = None
        if known.detached and known.indexed_ns < record["indexed_ns"]:
            self.newer[theirs] = known.doc_id, record, tags
        else:
            self._keep(known.doc_id, tags)

    def chunk(self, record: JsonDict) -> None:
        theirs = record["doc_id"]
        if theirs not in self.documents:
            raise ImportConflict(f"there is no document {theirs}")
        if theirs in self.newer:
            self.documents[theirs] = self._replace(*self.newer.pop(theirs))
        if (ours := self.documents[theirs]) is not None:
            del record["chunk_id"]
            super().chunk(record | {"doc_id": ours})

    def removed_document(self, record: JsonDict) -> None:
        del record["removed_id"]
        super().removed_document(record)

    def finish(self, header: JsonDict) -> None:  # noqa: ARG002  # the counters of the store stay
        for doc_id, _, tags in self.newer.values():
            self._keep(doc_id, tags)
        self.target.restore_documents()
        self.target.finish_merge(self.chunks - self.removed)

    def _same_note(self, record: JsonDict) -> KnownDocument | None:
        """This store's note with the same text and time, which is never replaced."""
        if record["body"] is None:
            return None
        doc_id = self.notes.get((body_digest(record["body"]), record["created_at"]))
        return None if doc_id is None else KnownDocument(doc_id, 0, False)

    def _same_path(self, record: JsonDict) -> KnownDocument | None:
        """This store's document at the same path."""
        if record["root_id"] is not None:
            if record["root_id"] not in self.roots:
                raise ImportConflict(f"there is no root {record['root_id']}")
            record["root_id"], name = self.roots[record["root_id"]]
            record["doc_path"] = f"{name}/{record['path']}"
        return self.target.document_at(record["root_id"], record["doc_path"])

    def _add(self, record: JsonDict, *, is_note: bool) -> int:
        if is_note:
            number = self.target.next_document_id()
            record |= {"doc_id": number, "path": f"note:{number}", "doc_path": f"note:{number}"}
        self.added += 1
        return self._add_document(record)

    def _keep(self, doc_id: int, tags: dict[str, str]) -> None:
        self.kept += 1
        self.target.add_tags(doc_id, {tag: by for tag, by in tags.items() if by == "user"})

    def _replace(self, doc_id: int, record: JsonDict, tags: dict[str, str]) -> int:
        """Remove the document's chunks and the tags of its file; the id stays."""
        row = {key: value for key, value in export_format.as_columns(record).items()
               if key not in ("path", "doc_path")}  # fmt: skip
        self.target.replace_document(doc_id, row)
        self.removed += self.target.remove_chunks(doc_id)
        sources = self.target.tag_sources(doc_id)
        by_hand = {tag: source for tag, source in sources.items() if source == "user"}
        self.target.remove_tags(doc_id)
        self.target.add_tags(doc_id, by_hand | tags)
        self.replaced += 1
        return doc_id


def _check_note_path(record: JsonDict) -> None:
    """Raise `ImportConflict` for a note whose number belongs to another document."""
    own, path = f"note:{record['doc_id']}", record["doc_path"]
    if path.startswith("note:") and (record["root_id"] is not None or path != own):
        raise ImportConflict(f"document {record['doc_id']} cannot be {path!r}")


def _weights(weights: dict[str, Any] | None) -> str | None:
    try:
        return None if weights is None else sparse_weights.to_text(weights)
    except ModelBroken as error:
        raise ImportConflict(error.message) from error
