"""Imports lines as rows in the caller's transaction: an import is complete or has no effect.

An empty store becomes a copy, with the same ids. Into any other store, documents are merged: see
`_Merge`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import apsw

from kb.errors import InvalidRequest, ModelBroken, StoreUnusable
from kb.index import cosine, sparse_weights, token_codes
from kb.store.sqlite import documents, embeddings, export_format, files, segments
from kb.store.sqlite.functions import scalar
from kb.text.normalize import subwords, unspaced_ngrams
from kb.types import ImportReport, JsonDict

OnProgress = Callable[[int, int], None]  # done, total


def load(
    connection: apsw.Connection,
    header: JsonDict,
    lines: Iterable[bytes],
    *,
    merge: bool,
    on_progress: OnProgress,
) -> ImportReport:
    """Write the records of `lines`, which start after the header."""
    empty = _is_empty(connection)
    if not empty and not merge:
        raise InvalidRequest(
            "the store is not empty", "import into a new one (--store), or use --merge"
        )
    work = _Restore(connection) if empty else _Merge(connection)
    work.store_schema = header["store_schema"]
    _attempt(1, partial(work.models, header["models"]))
    seen = dict.fromkeys(export_format.RECORDS, 0)
    total = sum(header["counts"].values())
    number = 1
    for number, raw in enumerate(lines, start=2):
        kind, record = export_format.record(raw, number)
        seen[kind] += 1
        if seen[kind] > header["counts"][export_format.TABLES[kind]]:
            raise export_format.broken(
                number, f"more records of kind {kind} than the header declares"
            )
        _attempt(number, partial(work.take, kind, record))
        on_progress(number - 1, total)
    for kind, table in export_format.TABLES.items():
        if seen[kind] != header["counts"][table]:
            expected = f"{header['counts'][table]} {table}, not {seen[kind]}"
            raise export_format.broken(number, f"incomplete: the header declares {expected}")
    _attempt(1, partial(work.finish, header))
    segments.flush_all(connection)
    return work.report()


def _attempt(number: int, step: Callable[[], None]) -> None:
    """Report a value that the database refuses as an error of its line."""
    try:
        step()
    except (apsw.ConstraintError, OverflowError, UnicodeEncodeError, struct.error) as error:
        raise export_format.broken(number, str(error)) from error


def _is_empty(connection: apsw.Connection) -> bool:
    sql = "SELECT EXISTS (SELECT 1 FROM documents) OR EXISTS (SELECT 1 FROM roots)"
    return not scalar(connection, sql)


class _Restore:
    """Imports into an empty store: every row as it was."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.added = self.replaced = self.kept = self.chunks = 0
        self.model_ids: dict[int, tuple[int, int]] = {}  # imported id -> own id and dimension
        self.token_dimensions: dict[int, int] = {}  # of imported documents
        self.root_names: dict[int, str] = {}  # by imported id
        self.store_schema = 0  # of the exported store

    def models(self, exported: list[JsonDict]) -> None:
        """Register the models of the export, unless the store has another one: vectors of two
        models are not mixed, and chunks without vectors are embedded later."""
        ours = embeddings.models(self.connection)
        for model in exported:
            same = [one.model_id for one in ours if (one.name, one.version, one.dimension)
                    == (model["name"], model["version"], model["dimension"])]  # fmt: skip
            if same or not ours:
                ids = same or [self._insert("models", export_format.as_columns(model))]
                self.model_ids[model["model_id"]] = ids[0], model["dimension"]
                self.token_dimensions[model["model_id"]] = model["token_dimension"] or 0

    def take(self, kind: str, record: JsonDict) -> None:
        {"root": self.root, "document": self.document, "chunk": self.chunk}[kind](record)

    def root(self, record: JsonDict) -> None:
        files.detach_root(self.connection, self._insert("roots", record))
        self.root_names[record["root_id"]] = record["name"]

    def document(self, record: JsonDict) -> None:
        _check_note_path(record)
        root_id = record["root_id"]
        place = f"{self.root_names.get(root_id)}/{record['path']}"
        if root_id is not None and record["doc_path"] != place:
            raise apsw.ConstraintError(f"document {record['doc_id']} is not in its root")
        self._insert_document(record)
        self._add_tags(record["doc_id"], record["tags"])
        self.added += 1

    def chunk(self, record: JsonDict) -> None:
        derived = {
            "content_hash": documents.content_digest(record["heading"], record["text"]),
            "parts": subwords(record["heading"], record["text"]),
            "cjk": unspaced_ngrams(record["heading"], record["text"]),
        }
        chunk_id = self._insert("chunks", export_format.as_columns(record) | derived)
        self.chunks += 1
        for embedding in record["embeddings"]:
            self._embedding(chunk_id, embedding)

    def finish(self, header: JsonDict) -> None:
        """Keep the counters of a store that was used before and emptied: ids are not used again,
        and versions do not repeat."""
        for table, last in header["sequences"].items():
            known = scalar(
                self.connection, "SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)
            )
            if last > (known or 0):
                self.connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
                self.connection.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (table, last))
        self.connection.execute(
            "UPDATE state SET chunks = ?, created_at = ?, "
            "changes = max(?, iif(changes, changes + 1, 0))",
            (self.chunks, header["created_at"], header["changes"]),
        )

    def report(self) -> ImportReport:
        return ImportReport(self.added, self.replaced, self.kept, self.chunks)

    def _insert(self, table: str, row: JsonDict) -> int:
        names = ", ".join(row)
        values = ", ".join(f":{name}" for name in row)
        self.connection.execute(f"INSERT INTO {table} ({names}) VALUES ({values})", row)
        return self.connection.last_insert_rowid()

    def _insert_document(self, record: JsonDict) -> int:
        """Insert a detached document: its file is not read until the user attaches the root. The
        hash of a note is computed, since an archive can claim any hash."""
        row = export_format.as_columns(record)
        if record["root_id"] is None and record["body"] is not None:
            row["content_hash"] = documents.body_digest(record["body"])
        doc_id = self._insert("documents", row)
        if record["root_id"] is not None:
            files.detach_document(self.connection, doc_id)
        return doc_id

    def _embedding(self, chunk_id: int, record: JsonDict) -> None:
        """Write vectors bit for bit as they were exported."""
        if record["model_id"] not in self.model_ids:
            return
        model_id, dimension = self.model_ids[record["model_id"]]
        if not cosine.is_unit(record["dense"], dimension):
            raise apsw.ConstraintError("a damaged vector")
        embeddings.put(
            self.connection, model_id, chunk_id, record["embedded_at"], record["dense"],
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
            raise apsw.ConstraintError("damaged token vectors") from error
        return data

    def _add_tags(self, doc_id: int, tags: dict[str, str]) -> None:
        self.connection.executemany(
            "INSERT INTO document_tags (doc_id, tag, source) VALUES (?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            [(doc_id, tag, source) for tag, source in tags.items()],
        )


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

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self.roots: dict[int, tuple[int, str]] = {}  # imported id -> own id and name
        self.documents: dict[int, int | None] = {}  # imported id -> own id; None: kept
        self.newer: dict[int, tuple[int, JsonDict, dict[str, str]]] = {}  # wait for a passage
        self.removed = 0
        self.at_path = {root.path: root for root in files.roots(connection)}
        self.notes = _notes(connection)

    def root(self, record: JsonDict) -> None:
        path = os.fsdecode(record["path"])
        ours = self.at_path.get(path) or files.ensure_root(
            self.connection, path, whole=bool(record["whole"]), detached=True
        )
        self.roots[record["root_id"]] = ours.root_id, ours.name

    def document(self, record: JsonDict) -> None:
        _check_note_path(record)
        theirs, tags = record.pop("doc_id"), record.pop("tags")
        if theirs in self.documents:
            raise apsw.ConstraintError(f"document {theirs} occurs twice")
        is_note = record["doc_path"] == f"note:{theirs}"
        known = self._same_note(record) if is_note else self._same_path(record)
        if known is None:
            self.documents[theirs] = doc_id = self._add(record, is_note=is_note)
            self._add_tags(doc_id, tags)
            return
        doc_id, indexed_ns, detached = known
        self.documents[theirs] = None
        if detached and indexed_ns < record["indexed_ns"]:
            self.newer[theirs] = doc_id, record, tags
        else:
            self._keep(doc_id, tags)

    def chunk(self, record: JsonDict) -> None:
        theirs = record["doc_id"]
        if theirs not in self.documents:
            raise apsw.ConstraintError(f"there is no document {theirs}")
        if theirs in self.newer:
            self.documents[theirs] = self._replace(*self.newer.pop(theirs))
        if (ours := self.documents[theirs]) is not None:
            del record["chunk_id"]
            super().chunk(record | {"doc_id": ours})

    def finish(self, header: JsonDict) -> None:  # noqa: ARG002  # the counters of the store stay
        for doc_id, _, tags in self.newer.values():
            self._keep(doc_id, tags)
        documents.count_change(self.connection, self.chunks - self.removed)

    def _same_note(self, record: JsonDict) -> tuple[int, int, bool] | None:
        """This store's note with the same text and time, which is never replaced."""
        if record["body"] is None:
            return None
        doc_id = self.notes.get((documents.body_digest(record["body"]), record["created_at"]))
        return None if doc_id is None else (doc_id, 0, False)

    def _same_path(self, record: JsonDict) -> tuple[int, int, bool] | None:
        """This store's document at the same path: its id, when it was indexed, and whether it is
        detached."""
        if record["root_id"] is not None:
            if record["root_id"] not in self.roots:
                raise apsw.ConstraintError(f"there is no root {record['root_id']}")
            record["root_id"], name = self.roots[record["root_id"]]
            record["doc_path"] = f"{name}/{record['path']}"
        row: Any = self.connection.execute(
            "SELECT doc_id, indexed_ns, root_id IS ? "
            "AND doc_id IN (SELECT doc_id FROM detached_documents) "
            "FROM documents WHERE doc_path = ?",
            (record["root_id"], record["doc_path"]),
        ).fetchone()
        return None if row is None else (row[0], row[1], bool(row[2]))

    def _add(self, record: JsonDict, *, is_note: bool) -> int:
        if is_note:
            number = documents.next_id(self.connection)
            record |= {"doc_id": number, "path": f"note:{number}", "doc_path": f"note:{number}"}
        self.added += 1
        return self._insert_document(record)

    def _keep(self, doc_id: int, tags: dict[str, str]) -> None:
        self.kept += 1
        self._add_tags(doc_id, {tag: by for tag, by in tags.items() if by == "user"})

    def _replace(self, doc_id: int, record: JsonDict, tags: dict[str, str]) -> int:
        """Remove the document's chunks and the tags of its file; the id and the access count
        stay, and it does not expire earlier than before."""
        row = {key: value for key, value in export_format.as_columns(record).items()
               if key not in ("access_count", "path", "doc_path", "expires_at")}  # fmt: skip
        assignments = ", ".join(f"{name} = :{name}" for name in row)
        self.connection.execute(
            f"UPDATE documents SET {assignments}, access_count = max(access_count, :accesses), "
            "expires_at = max(expires_at, :expires_at) WHERE doc_id = :doc_id",  # NULL: never
            row
            | {
                "accesses": record["access_count"],
                "expires_at": record["expires_at"],
                "doc_id": doc_id,
            },
        )
        self.connection.execute("DELETE FROM chunks WHERE doc_id = ?", (doc_id,))
        self.removed += self.connection.changes()
        by_hand = {tag: source for tag, source in documents.tag_sources(
            self.connection, doc_id).items() if source == "user"}  # fmt: skip
        self.connection.execute("DELETE FROM document_tags WHERE doc_id = ?", (doc_id,))
        self._add_tags(doc_id, by_hand | tags)
        self.replaced += 1
        return doc_id


def _check_note_path(record: JsonDict) -> None:
    """Raise `ConstraintError` for a note whose number belongs to another document."""
    own, path = f"note:{record['doc_id']}", record["doc_path"]
    if path.startswith("note:") and (record["root_id"] is not None or path != own):
        raise apsw.ConstraintError(f"document {record['doc_id']} cannot be {path!r}")


def _weights(weights: dict[str, float] | None) -> str | None:
    try:
        return None if weights is None else sparse_weights.to_text(weights)
    except ModelBroken as error:
        raise apsw.ConstraintError(error.message) from error


def _notes(connection: apsw.Connection) -> dict[tuple[str, str], int]:
    """The ids of the existing notes by the digest of their text and their time."""
    rows: Any = connection.execute(
        "SELECT body, created_at, doc_id FROM documents "
        "WHERE root_id IS NULL AND doc_path = 'note:' || doc_id AND body IS NOT NULL"
    )
    return {(documents.body_digest(body), created): doc_id for body, created, doc_id in rows}
