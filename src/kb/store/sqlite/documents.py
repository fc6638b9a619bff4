"""Documents, tags and chunks as rows. Each function runs in the caller's transaction."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import apsw

from kb.store.sqlite import column_checks, removed_documents
from kb.store.sqlite import filters as where
from kb.store.sqlite.files import attach_document
from kb.store.sqlite.functions import scalar
from kb.text.headings import heading_text
from kb.text.normalize import subwords, unspaced_ngrams
from kb.types import BoostFields, Chunk, ChunkChanges, ChunkText, Document, Filters, Span
from kb.values import TYPE_CHECKING, Any, fields

if TYPE_CHECKING:
    from kb.types import ChunkDraft, DocumentDraft, DocumentWrite

_DOCUMENT_FIELDS = tuple(item.name for item in fields(Document))  # in the order of the columns
_DOCUMENT = """
SELECT d.doc_id, d.root_id, d.path, d.doc_path, d.title, d.type, d.kind, d.scope, d.lang, d.trust,
  (SELECT json_group_array(tag) FROM (SELECT tag FROM document_tags t WHERE t.doc_id = d.doc_id
                                      ORDER BY tag)),
  d.date, d.created_at, d.updated_at, d.expires_at, d.indexed_at, d.access_count, d.content_hash,
  d.size_bytes, d.metadata, (SELECT count(*) FROM chunks c WHERE c.doc_id = d.doc_id)
FROM documents d
"""
_JSON_BYTES = """
SELECT coalesce(octet_length(metadata), 0)
  + (SELECT coalesce(sum(octet_length(tag)), 0) FROM document_tags WHERE doc_id = ?)
FROM documents WHERE doc_id = ?
"""
_CHUNK_COLUMNS = (
    "chunk_id", "doc_id", "ordinal", "text", "heading_path", "section_label", "spans",
    "chunker_version", "content_hash", "indexed_at",
)  # fmt: skip
_CHUNK = f"SELECT {', '.join(_CHUNK_COLUMNS)} FROM chunks "
_CHUNK_OF_C = ", ".join(f"c.{name}" for name in _CHUNK_COLUMNS)
_TEXT_AT = _CHUNK_COLUMNS.index("text")
_CHUNK_TEXT = (
    "SELECT chunk_id, text FROM chunks {index} WHERE chunk_id IN (SELECT value FROM json_each(?))"
)
_TEXT = """
SELECT {columns}, {copies}
FROM chunks c WHERE c.chunk_id IN (SELECT value FROM json_each(?))
"""
# Reads a bounded number of copies, because a text may be repeated any number of times.
_COPIES = """
CASE WHEN length(c.text) <= 200 THEN (
  SELECT min(5, count(DISTINCT copy.doc_id)) FROM (
    SELECT doc_id FROM chunks INDEXED BY chunks_short_text
    WHERE text = c.text AND length(text) <= 200 LIMIT 50
  ) copy
  JOIN documents d ON d.doc_id = copy.doc_id
  JOIN documents own ON own.doc_id = c.doc_id
  WHERE d.root_id = own.root_id
) ELSE 0 END
"""


# --- writing --------------------------------------------------------------------------------------


def write(
    connection: apsw.Connection, document: DocumentWrite, now: str, now_ns: int
) -> ChunkChanges:
    """Insert a document, or replace the one with the same path. Chunks with the same heading and
    text keep their ids and vectors."""
    draft, chunks, moved_from, displaces, replaces = document
    if replaces is not None:
        from kb.store.document_rows import check_replaced

        check_replaced(by_path(connection, draft.doc_path), replaces)
    if displaces is not None:
        suffix = f".moved-{displaces}"
        connection.execute(
            "UPDATE documents SET path = path || ?1, doc_path = doc_path || ?1 "
            "WHERE doc_id = ?2 AND doc_path = ?3",
            (suffix, displaces, draft.doc_path),
        )
    if moved_from is not None:
        _move(connection, moved_from, draft.doc_path)
    doc_id, is_new = _write_row(connection, draft, now, now_ns)
    if draft.attributes.tags or not is_new:
        _write_tags(connection, doc_id, draft.attributes.tags, all_sources=replaces is not None)
    if draft.root_id is not None:
        removed_documents.restore(connection, doc_id)
    old = {} if is_new else _chunks_by_digest(connection, doc_id)
    added, kept, removed = _write_chunks(connection, doc_id, old, draft, chunks, now)
    count_change(connection, added - removed)
    return ChunkChanges(doc_id, added, kept, removed)


def write_chunks(
    connection: apsw.Connection, doc_id: int, draft: DocumentDraft, chunks: Iterable[ChunkDraft],
    now: str,
) -> None:  # fmt: skip
    """Replace the chunks of an existing document and nothing else."""
    old = _chunks_by_digest(connection, doc_id)
    added, _, removed = _write_chunks(connection, doc_id, old, draft, chunks, now)
    count_change(connection, added - removed)


def _move(connection: apsw.Connection, doc_id: int, doc_path: str) -> None:
    """Change a document's path to `doc_path`, which must be free, so that `write` replaces it."""
    connection.execute("UPDATE documents SET doc_path = ? WHERE doc_id = ?", (doc_path, doc_id))


def count_change(connection: apsw.Connection, chunks: int = 0) -> None:
    """Count a write that can change search results. Caches compare `state.changes`."""
    connection.execute("UPDATE state SET changes = changes + 1, chunks = chunks + ?", (chunks,))


def _write_row(
    connection: apsw.Connection, draft: DocumentDraft, now: str, now_ns: int
) -> tuple[int, bool]:
    """Write the document's row. Returns its id, and whether the document is new."""
    from kb.store.document_rows import document_columns  # not needed by a search

    by_path = "SELECT doc_id FROM documents WHERE doc_path = ?"
    known = scalar(connection, by_path, (draft.doc_path,))
    row = document_columns(draft, now) | {"indexed_ns": now_ns}
    if known is not None:
        assignments = ", ".join(f"{name} = :{name}" for name in row)
        connection.execute(
            f"UPDATE documents SET {assignments} WHERE doc_id = :doc_id", row | {"doc_id": known}
        )
        attach_document(connection, int(known))
        return int(known), False
    doc_id = next_id(connection)
    if not draft.doc_path:  # the path of a note contains its id
        row |= {"path": f"note:{doc_id}", "doc_path": f"note:{doc_id}"}
    names = ", ".join(row)
    values = ", ".join(f":{name}" for name in row)
    connection.execute(
        f"INSERT INTO documents (doc_id, {names}) VALUES (:doc_id, {values})",
        row | {"doc_id": doc_id},
    )
    return doc_id, True


def next_id(connection: apsw.Connection) -> int:
    last = scalar(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'documents'")
    return int(last or 0) + 1


def _write_tags(
    connection: apsw.Connection, doc_id: int, tags: Iterable[str], *, all_sources: bool
) -> None:
    """Replace the tags from the file. The tags from `kb tag` stay, unless `all_sources`."""
    connection.execute(
        "DELETE FROM document_tags WHERE doc_id = ? AND (? OR source = 'file')",
        (doc_id, all_sources),
    )
    connection.executemany(
        "INSERT INTO document_tags (doc_id, tag, source) VALUES (?, ?, 'file') "
        "ON CONFLICT DO UPDATE SET source = 'file'",
        [(doc_id, tag) for tag in dict.fromkeys(tags)],
    )


def _chunks_by_digest(connection: apsw.Connection, doc_id: int) -> dict[str, deque[int]]:
    chunk_ids: dict[str, deque[int]] = defaultdict(deque)
    for chunk_id, digest in connection.execute(
        "SELECT chunk_id, content_hash FROM chunks WHERE doc_id = ? ORDER BY ordinal", (doc_id,)
    ):
        chunk_ids[digest].append(chunk_id)
    return chunk_ids


def _write_chunks(
    connection: apsw.Connection,
    doc_id: int,
    old: Mapping[str, deque[int]],
    draft: DocumentDraft,
    chunks: Iterable[ChunkDraft],
    now: str,
) -> tuple[int, int, int]:
    """Insert new chunks, and update those in `old` that have the same digest. Returns how many
    were added, kept and removed."""
    from kb.store.document_rows import chunk_place, content_digest

    kept: list[tuple[Any, ...]] = []
    added = 0

    def new_rows() -> Iterator[tuple[Any, ...]]:
        nonlocal added
        for ordinal, chunk in enumerate(chunks):
            heading = heading_text(draft.title, chunk.heading_path)
            digest = content_digest(heading, chunk.text)
            place = chunk_place(chunk, draft.chunker_version)
            if same := old.get(digest):  # old[digest] would add a key to the defaultdict
                kept.append((ordinal, *place, same.popleft()))
                continue
            added += 1
            yield (doc_id, ordinal, *place, digest, now, heading, chunk.text,
                   subwords(heading, chunk.text),
                   unspaced_ngrams(heading, chunk.text))  # fmt: skip

    connection.executemany(
        "INSERT INTO chunks (doc_id, ordinal, section_label, chunker_version, spans, "
        "heading_path, content_hash, indexed_at, heading, text, parts, cjk) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        new_rows(),
    )
    connection.executemany(
        "UPDATE chunks SET ordinal = ?, section_label = ?, chunker_version = ?, spans = ?, "
        "heading_path = ? WHERE chunk_id = ?",
        kept,
    )
    gone = [(chunk_id,) for left in old.values() for chunk_id in left]
    connection.executemany("DELETE FROM chunks WHERE chunk_id = ?", gone)
    return added, len(kept), len(gone)


def delete(connection: apsw.Connection, doc_ids: Iterable[int]) -> int:
    """Delete documents and their chunks, tags and vectors. Returns how many existed."""
    removed = 0
    for doc_id in doc_ids:
        connection.execute("DELETE FROM chunks WHERE doc_id = ?", (doc_id,))
        chunks = connection.changes()
        connection.execute("DELETE FROM documents WHERE doc_id = ?", (doc_id,))
        if connection.changes():
            removed += 1
            count_change(connection, -chunks)
    return removed


def record_access(connection: apsw.Connection, doc_id: int, count: int) -> None:
    connection.execute(
        "UPDATE documents SET access_count = access_count + ? WHERE doc_id = ?", (count, doc_id)
    )


def tag(
    connection: apsw.Connection, doc_id: int, add: Iterable[str], remove: Iterable[str]
) -> None:
    connection.executemany(
        "INSERT INTO document_tags (doc_id, tag, source) VALUES (?, ?, 'user') "
        "ON CONFLICT DO NOTHING",
        [(doc_id, name) for name in add],
    )
    connection.executemany(
        "DELETE FROM document_tags WHERE doc_id = ? AND tag = ?",
        [(doc_id, name) for name in remove],
    )
    count_change(connection)


# --- reading --------------------------------------------------------------------------------------


def by_id(
    connection: apsw.Connection, doc_ids: Iterable[int], *, metadata: bool = True
) -> dict[int, Document]:
    select = _DOCUMENT if metadata else _DOCUMENT.replace("d.metadata", "'{}'")
    rows = connection.execute(
        select + "WHERE d.doc_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(doc_ids)),),
    )
    return {row[0]: _document(row) for row in rows}


def by_path(connection: apsw.Connection, doc_path: str) -> Document | None:
    row = connection.execute(_DOCUMENT + "WHERE d.doc_path = ?", (doc_path,)).fetchone()
    return _document(row) if row else None


def select(
    connection: apsw.Connection,
    filters: Filters,
    now: str | None,
    *,
    limit: int | None = None,
    offset: int = 0,
) -> list[Document]:
    sql, params = where.condition(connection, filters, now)
    rows = connection.execute(
        _DOCUMENT + f"WHERE {sql} ORDER BY d.doc_path LIMIT ? OFFSET ?",
        (*params, -1 if limit is None else limit, offset),
    )
    return [_document(row) for row in rows]


def page(
    connection: apsw.Connection,
    filters: Filters,
    now: str | None,
    *,
    limit: int,
    offset: int,
    max_bytes: int,
) -> tuple[list[Document], int | None]:
    """One page of `select`, and the offset of the next page. A page has up to `max_bytes` of tags
    and metadata, but at least one document. Documents are read one by one, so that none is parsed
    needlessly."""
    sql, params = where.condition(connection, filters, now)
    rows = connection.execute(
        f"SELECT d.doc_id FROM documents d WHERE {sql} ORDER BY d.doc_path LIMIT ? OFFSET ?",
        (*params, limit + 1, offset),
    )
    doc_ids: list[Any] = [doc_id for (doc_id,) in rows]
    documents: list[Document] = []
    size_bytes = 0
    for doc_id in doc_ids[:limit]:
        size_bytes += int(scalar(connection, _JSON_BYTES, (doc_id, doc_id)))
        if documents and size_bytes > max_bytes:
            break
        documents.extend(by_id(connection, [doc_id]).values())
    following = offset + len(documents) if len(documents) < len(doc_ids) else None
    return documents, following


def matching(connection: apsw.Connection, doc_ids: Iterable[int], filters: Filters) -> set[int]:
    sql, params = where.condition(connection, filters, None)
    rows = connection.execute(
        "SELECT d.doc_id FROM documents d "
        f"WHERE d.doc_id IN (SELECT value FROM json_each(?)) AND {sql}",
        (json.dumps(list(doc_ids)), *params),
    )
    return {doc_id for (doc_id,) in rows}


def count(connection: apsw.Connection, filters: Filters | None) -> int:
    only, params = where.among(connection, filters)
    return int(scalar(connection, f"SELECT count(*) FROM documents WHERE 1{only}", tuple(params)))


def count_chunks(connection: apsw.Connection, filters: Filters, now: str | None) -> int:
    """How many chunks the matching documents have; with `now`, without expired documents."""
    sql, params = where.condition(connection, filters, now)
    return int(scalar(connection, f"SELECT count(*) FROM ({where.CHUNKS_OF}{sql})", tuple(params)))


def below(connection: apsw.Connection, folder: str) -> list[Document]:
    """Documents whose path starts with `folder`, which ends with a slash and is not a pattern."""
    rows = connection.execute(
        _DOCUMENT + "WHERE d.doc_path >= ? AND d.doc_path < ? ORDER BY d.doc_path",
        (folder, folder + "\U0010ffff"),
    )
    return [_document(row) for row in rows]


def expired(connection: apsw.Connection, now: str) -> list[Document]:
    rows = connection.execute(_DOCUMENT + "WHERE d.expires_at <= ? ORDER BY d.doc_path", (now,))
    return [_document(row) for row in rows]


def has_folder(connection: apsw.Connection, folder: str) -> bool:
    """Whether any document's path starts with `folder`, which ends with a slash."""
    sql = "SELECT 1 FROM documents WHERE doc_path >= ? AND doc_path < ? LIMIT 1"
    return bool(scalar(connection, sql, (folder, folder + "\U0010ffff")))


def paths_with_suffix(
    connection: apsw.Connection, suffix: str, limit: int, filters: Filters | None = None
) -> list[str]:
    """The first paths that end with `suffix`. Scans the path index: half a second for a million
    documents."""
    only, params = where.among(connection, filters)
    rows = connection.execute(
        f"SELECT doc_path FROM documents WHERE substr(doc_path, ?) = ?{only} ORDER BY 1 LIMIT ?",
        (-len(suffix), suffix, *params, limit),
    )
    paths = [path for (path,) in rows]
    column_checks.check_texts(paths, "documents: doc_path")
    return paths


def neighboring_paths(
    connection: apsw.Connection, path: str, limit: int, filters: Filters | None = None
) -> list[str]:
    """The paths before and after `path` in order, at most `limit` of each."""
    only, params = where.among(connection, filters)
    sql = f"SELECT doc_path FROM documents WHERE doc_path {{}} ?{only} ORDER BY 1 {{}} LIMIT ?"
    before = connection.execute(sql.format("<", "DESC"), (path, *params, limit)).fetchall()
    after = connection.execute(sql.format(">", "ASC"), (path, *params, limit)).fetchall()
    paths = [neighbor for (neighbor,) in [*reversed(before), *after]]
    column_checks.check_texts(paths, "documents: doc_path")
    return paths


def languages(connection: apsw.Connection, filters: Filters | None = None) -> dict[str | None, int]:
    """How many documents each language has; None stands for an unknown language."""
    only, params = where.among(connection, filters)
    sql = f"SELECT lang, count(*) FROM documents WHERE 1{only} GROUP BY lang"
    counts = dict(connection.execute(sql, tuple(params)))
    column_checks.check_texts(counts, "documents: lang")
    return counts


def tags(connection: apsw.Connection, filters: Filters | None = None) -> dict[str, int]:
    only, params = where.among(connection, filters)
    sql = f"SELECT tag, count(*) FROM document_tags WHERE 1{only} GROUP BY tag ORDER BY tag"
    counts = dict(connection.execute(sql, tuple(params)))
    column_checks.check_texts(counts, "document_tags: tag")
    return counts


def tag_sources(connection: apsw.Connection, doc_id: int) -> dict[str, str]:
    return dict(
        connection.execute("SELECT tag, source FROM document_tags WHERE doc_id = ?", (doc_id,))
    )


def body(connection: apsw.Connection, doc_id: int) -> str | None:
    text: str | None = scalar(connection, "SELECT body FROM documents WHERE doc_id = ?", (doc_id,))
    column_checks.check_texts([text], f"documents {doc_id}: body")
    return text


def chunks_by_id(connection: apsw.Connection, chunk_ids: Iterable[int]) -> dict[int, Chunk]:
    rows = connection.execute(
        _CHUNK + "WHERE chunk_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(chunk_ids)),),
    )
    return {row[0]: _chunk(row) for row in rows}


def chunk_texts(
    connection: apsw.Connection, chunk_ids: Iterable[int], *, wide: bool
) -> dict[int, str]:
    """The texts of chunks. `wide` texts have more than 1.25 bytes per character: English has one,
    Russian nearly two, Japanese three. An older store that is opened read-only has no index of
    wide texts."""
    bindings = (json.dumps(list(chunk_ids)),)
    if not wide:
        return dict(connection.execute(_CHUNK_TEXT.format(index=""), bindings))
    sql = _CHUNK_TEXT + " AND length(CAST(text AS BLOB)) > 1.25 * length(text)"
    try:
        return dict(connection.execute(sql.format(index="INDEXED BY chunks_wide_text"), bindings))
    except apsw.SQLError as error:
        if "no such index" not in str(error):
            raise
        return dict(connection.execute(sql.format(index=""), bindings))


def texts_with_copies(
    connection: apsw.Connection, chunk_ids: Iterable[int]
) -> dict[int, ChunkText]:
    """The texts of chunks. An older store that is opened read-only has no index of short texts, so
    no copies are counted."""
    bindings = (json.dumps(list(chunk_ids)),)
    try:
        rows = list(connection.execute(_TEXT.format(columns=_CHUNK_OF_C, copies=_COPIES), bindings))
    except apsw.SQLError as error:
        if "no such index" not in str(error):
            raise
        rows = list(connection.execute(_TEXT.format(columns=_CHUNK_OF_C, copies="0"), bindings))
    if not all(isinstance(row[_TEXT_AT], str) for row in rows):
        raise column_checks.damage_error("chunks: text")
    return {
        row[0]: ChunkText(row[1], row[_TEXT_AT], row[-1], partial(_chunk, row[:-1])) for row in rows
    }


def document_ids(connection: apsw.Connection, chunk_ids: Iterable[int]) -> dict[int, int]:
    """The document id of each chunk. Reads no text."""
    return dict(
        connection.execute(
            "SELECT chunk_id, doc_id FROM chunks "
            "WHERE chunk_id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(chunk_ids)),),
        )
    )


def boost_fields(connection: apsw.Connection, chunk_ids: Iterable[int]) -> dict[int, BoostFields]:
    """The fields of each chunk's document that boosts use. Reads no text."""
    rows = connection.execute(
        "SELECT c.chunk_id, d.doc_id, d.doc_path, d.kind, d.access_count "
        "FROM chunks c JOIN documents d ON d.doc_id = c.doc_id "
        "WHERE c.chunk_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(chunk_ids)),),
    )
    fields = {row[0]: BoostFields(*row[1:]) for row in rows}
    for each in fields.values():
        if not isinstance(each.doc_path, str) or not isinstance(each.access_count, int):
            raise column_checks.damage_error(f"documents {each.doc_id}: doc_path or access_count")
    return fields


def chunks(connection: apsw.Connection, doc_id: int) -> list[Chunk]:
    rows = connection.execute(_CHUNK + "WHERE doc_id = ? ORDER BY ordinal", (doc_id,))
    return [_chunk(row) for row in rows]


def counts(
    connection: apsw.Connection, column: str, filters: Filters | None = None
) -> dict[str, int]:
    """How many documents have each value of `column`. The name of the column must not be user
    input."""
    only, params = where.among(connection, filters)
    rows = connection.execute(
        f"SELECT coalesce({column}, 'none'), count(*) FROM documents WHERE 1{only} "
        "GROUP BY 1 ORDER BY 1",
        tuple(params),
    )
    values = dict(rows)
    column_checks.check_texts(values, f"documents: {column}")
    return values


_DOCUMENT_SHAPE = column_checks.Shape("documents", _DOCUMENT_FIELDS)
_CHUNK_SHAPE = column_checks.Shape("chunks", _CHUNK_COLUMNS)


def _document(row: Sequence[Any]) -> Document:
    _DOCUMENT_SHAPE.check(row)
    values = dict(zip(_DOCUMENT_FIELDS, row, strict=True))
    # Most are empty, and a search reads the documents of all candidates.
    tags = () if values["tags"] == "[]" else tuple(json.loads(values["tags"]))
    metadata = {} if values["metadata"] == "{}" else json.loads(values["metadata"])
    if not column_checks.is_object(metadata) or not column_checks.is_names(list(tags)):
        raise column_checks.damage_error(f"documents {row[0]}: metadata or tags")
    values["tags"], values["metadata"] = tags, metadata
    return Document(**values)


def _chunk(row: Sequence[Any]) -> Chunk:
    _CHUNK_SHAPE.check(row)
    chunk_id, doc_id, ordinal, text, heading_path, label, spans, version, digest, indexed = row
    names, places = json.loads(heading_path), json.loads(spans)
    if not column_checks.is_names(names) or not column_checks.is_spans(places):
        raise column_checks.damage_error(f"chunks {chunk_id}: heading_path or spans")
    return Chunk(
        chunk_id, doc_id, ordinal, text, tuple(names), label,
        tuple(Span.from_dict(span) for span in places), version, digest, indexed,
    )  # fmt: skip
