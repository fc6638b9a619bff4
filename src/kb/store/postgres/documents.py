"""Documents, tags and chunks as rows. Each function runs in the caller's transaction."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kb.store.document_rows import check_replaced, chunk_place, content_digest, document_columns
from kb.store.postgres import embeddings, removed_documents, segments
from kb.store.postgres import filters as where
from kb.text.headings import heading_text
from kb.text.normalize import subwords, unspaced_ngrams
from kb.types import BoostFields, Chunk, ChunkChanges, ChunkText, Document, Filters, Span

if TYPE_CHECKING:
    from kb.store.postgres.session import Session
    from kb.types import ChunkDraft, DocumentDraft, DocumentWrite

_DOCUMENT_FIELDS = tuple(item.name for item in fields(Document))  # in the order of the columns
_DOCUMENT = """
SELECT d.doc_id, d.root_id, d.path, d.doc_path, d.title, d.type, d.kind, d.scope, d.lang, d.trust,
  ARRAY(SELECT tag FROM document_tags t WHERE t.doc_id = d.doc_id ORDER BY tag),
  d.date, d.created_at, d.updated_at, d.expires_at, d.indexed_at, d.access_count, d.content_hash,
  d.size_bytes, {metadata}, (SELECT count(*) FROM chunks c WHERE c.doc_id = d.doc_id)
FROM documents d
"""
_FULL, _BARE = _DOCUMENT.format(metadata="d.metadata"), _DOCUMENT.format(metadata="'{}'")
_PATH_AT = _DOCUMENT_FIELDS.index("doc_path")
_BY_PATH = "ORDER BY left(d.doc_path, 600), d.doc_path"
_BELOW = "left(d.doc_path, 600) >= %(low)s AND left(d.doc_path, 600) <= %(high)s AND " \
    "starts_with(d.doc_path, %(folder)s)"  # fmt: skip
_JSON_BYTES = """
SELECT coalesce(octet_length(metadata), 0)
  + (SELECT coalesce(sum(octet_length(tag)), 0) FROM document_tags t WHERE t.doc_id = d.doc_id)
FROM documents d WHERE doc_id = %s
"""
_CHUNK_COLUMNS = (
    "chunk_id", "doc_id", "ordinal", "text", "heading_path", "section_label", "spans",
    "chunker_version", "content_hash", "indexed_at",
)  # fmt: skip
_CHUNK = f"SELECT {', '.join(_CHUNK_COLUMNS)} FROM chunks "
_TEXT_AT = _CHUNK_COLUMNS.index("text")
# Reads a bounded number of copies, because a text may be repeated any number of times.
_TEXTS = f"""
SELECT {", ".join(f"c.{name}" for name in _CHUNK_COLUMNS)},
  CASE WHEN length(c.text) <= 200 THEN (
    SELECT least(5, count(DISTINCT copy.doc_id)) FROM (
      SELECT doc_id FROM chunks WHERE text = c.text AND length(text) <= 200
      ORDER BY text, doc_id LIMIT 50
    ) copy
    JOIN documents d ON d.doc_id = copy.doc_id
    JOIN documents own ON own.doc_id = c.doc_id
    WHERE d.root_id = own.root_id
  ) ELSE 0 END
FROM chunks c WHERE c.chunk_id = ANY (%s)
"""


# --- writing --------------------------------------------------------------------------------------


def write(session: Session, document: DocumentWrite, now: str, now_ns: int) -> ChunkChanges:
    """Insert a document, or replace the one with the same path. Chunks with the same heading and
    text keep their ids and vectors."""
    draft, chunks, moved_from, displaces, replaces = document
    if replaces is not None:
        check_replaced(by_path(session, draft.doc_path), replaces)
    if displaces is not None:
        suffix = f".moved-{displaces}"
        session.execute(
            "UPDATE documents SET path = path || %s, doc_path = doc_path || %s "
            "WHERE doc_id = %s AND doc_path = %s",
            (suffix, suffix, displaces, draft.doc_path),
        )
    if moved_from is not None:  # `doc_path` must be free
        session.execute(
            "UPDATE documents SET doc_path = %s WHERE doc_id = %s", (draft.doc_path, moved_from)
        )
    doc_id, is_new = _write_row(session, draft, now, now_ns)
    if draft.attributes.tags or not is_new:
        _write_tags(session, doc_id, draft.attributes.tags, all_sources=replaces is not None)
    if draft.root_id is not None:
        removed_documents.restore(session, doc_id)
    old = {} if is_new else _chunks_by_digest(session, doc_id)
    added, kept, removed = _write_chunks(session, doc_id, old, draft, chunks, now)
    count_change(session, added - removed)
    return ChunkChanges(doc_id, added, kept, removed)


def write_chunks(
    session: Session, doc_id: int, draft: DocumentDraft, chunks: Iterable[ChunkDraft], now: str
) -> None:
    """Replace the chunks of an existing document and nothing else."""
    old = _chunks_by_digest(session, doc_id)
    added, _, removed = _write_chunks(session, doc_id, old, draft, chunks, now)
    count_change(session, added - removed)


def count_change(session: Session, chunks: int = 0) -> None:
    """Count a write that can change search results."""
    session.changes.changes += 1
    session.changes.chunks += chunks


def _write_row(session: Session, draft: DocumentDraft, now: str, now_ns: int) -> tuple[int, bool]:
    """Write the document's row. Returns its id, and whether the document is new."""
    known = session.value(f"SELECT doc_id FROM documents {_AT_PATH}", (draft.doc_path,) * 2)
    row = document_columns(draft, now) | {"indexed_ns": now_ns, "detached": False}
    if known is not None:
        assignments = ", ".join(f"{name} = %({name})s" for name in row)
        session.execute(
            f"UPDATE documents SET {assignments} WHERE doc_id = %(doc_id)s", row | {"doc_id": known}
        )
        return int(known), False
    doc_id = next_id(session)
    if not draft.doc_path:  # the path of a note contains its id
        row |= {"path": f"note:{doc_id}", "doc_path": f"note:{doc_id}"}
    insert(session, "documents", row | {"doc_id": doc_id})
    return doc_id, True


def insert(session: Session, table: str, row: Mapping[str, Any]) -> None:
    names = ", ".join(row)
    values = ", ".join(f"%({name})s" for name in row)
    session.execute(f"INSERT INTO {table} ({names}) VALUES ({values})", row)


def next_id(session: Session) -> int:
    return int(session.value("SELECT nextval(pg_get_serial_sequence('documents', 'doc_id'))"))


def _write_tags(session: Session, doc_id: int, tags: Iterable[str], *, all_sources: bool) -> None:
    """Replace the tags from the file. The tags from `kb tag` stay, unless `all_sources`."""
    session.execute(
        "DELETE FROM document_tags WHERE doc_id = %s AND (%s OR source = 'file')",
        (doc_id, all_sources),
    )
    if names := list(dict.fromkeys(tags)):
        session.execute(
            "INSERT INTO document_tags (doc_id, tag, source) "
            "SELECT %s, each, 'file' FROM unnest(%s::text[]) AS each "
            "ON CONFLICT (doc_id, md5(tag)) DO UPDATE SET source = 'file'",
            (doc_id, names),
        )


def _chunks_by_digest(session: Session, doc_id: int) -> dict[str, deque[int]]:
    chunk_ids: dict[str, deque[int]] = defaultdict(deque)
    rows = session.execute(
        "SELECT chunk_id, content_hash FROM chunks WHERE doc_id = %s ORDER BY ordinal", (doc_id,)
    )
    for chunk_id, digest in rows:
        chunk_ids[digest].append(chunk_id)
    return chunk_ids


def _write_chunks(
    session: Session,
    doc_id: int,
    old: Mapping[str, deque[int]],
    draft: DocumentDraft,
    chunks: Iterable[ChunkDraft],
    now: str,
) -> tuple[int, int, int]:
    """Insert new chunks, and update those in `old` that have the same digest. Returns how many
    were added, kept and removed."""
    kept: list[tuple[Any, ...]] = []
    new: list[tuple[Any, ...]] = []
    for ordinal, chunk in enumerate(chunks):
        heading = heading_text(draft.title, chunk.heading_path)
        digest = content_digest(heading, chunk.text)
        place = chunk_place(chunk, draft.chunker_version)
        if same := old.get(digest):  # old[digest] would add a key to the defaultdict
            kept.append((ordinal, *place, same.popleft()))
        else:
            new.append((doc_id, ordinal, *place, digest, now, heading, chunk.text,
                        subwords(heading, chunk.text),
                        unspaced_ngrams(heading, chunk.text)))  # fmt: skip
    if new:
        add_chunks(session, new)
    if kept:
        session.execute_many(
            "UPDATE chunks SET ordinal = %s, section_label = %s, chunker_version = %s, "
            "spans = %s, heading_path = %s WHERE chunk_id = %s",
            kept,
        )
    gone = [chunk_id for left in old.values() for chunk_id in left]
    delete_chunks(session, gone)
    return len(new), len(kept), len(gone)


NEW_COLUMNS = (
    "doc_id", "ordinal", "section_label", "chunker_version", "spans", "heading_path",
    "content_hash", "indexed_at", "heading", "text", "parts", "cjk",
)  # fmt: skip


def add_chunks(session: Session, rows: Sequence[Sequence[Any]]) -> None:
    """Insert chunks with new ids."""
    chunk_ids = next_chunk_ids(session, len(rows))
    pairs = zip(chunk_ids, rows, strict=True)
    insert_chunks(session, [(chunk_id, *row) for chunk_id, row in pairs])


def next_chunk_ids(session: Session, count: int) -> list[int]:
    """New ids, in order."""
    rows = session.execute(
        "SELECT nextval(pg_get_serial_sequence('chunks', 'chunk_id')) "
        "FROM generate_series(1, %s) ORDER BY 1",
        (count,),
    )
    return [chunk_id for (chunk_id,) in rows]


def insert_chunks(session: Session, rows: Sequence[Sequence[Any]]) -> None:
    """Insert chunks with given ids, and add them to the word index."""
    session.copy(
        f"chunks (chunk_id, {', '.join(NEW_COLUMNS)})",
        rows,
        ("int8", "int8", "int4", *["text"] * 10),
    )
    segments.add_pending(session, "word", 0, [row[0] for row in rows])
    segments.add_pending(session, "ngram", 0, [row[0] for row in rows if row[-1]])


def delete_chunks(session: Session, chunk_ids: Sequence[int]) -> None:
    """Delete chunks and their vectors. Locks the rows first, so that a job that is writing a vector
    has either finished or finds no chunk."""
    if not chunk_ids:
        return
    ids = list(chunk_ids)
    session.execute(
        "SELECT 1 FROM chunks WHERE chunk_id = ANY (%s) ORDER BY chunk_id FOR UPDATE", (ids,)
    )
    segments.lock_shared(session)
    embeddings.delete(session, ids)
    segments.remove(session, ids, kinds=("word", "ngram"))
    session.execute("DELETE FROM leases WHERE chunk_id = ANY (%s)", (ids,))
    session.execute("DELETE FROM chunks WHERE chunk_id = ANY (%s)", (ids,))


def delete(session: Session, doc_ids: Iterable[int]) -> int:
    """Delete documents and their chunks, tags and vectors. Returns how many existed."""
    ids = list(doc_ids)
    rows = session.execute("SELECT chunk_id FROM chunks WHERE doc_id = ANY (%s)", (ids,))
    chunk_ids = [chunk_id for (chunk_id,) in rows]
    delete_chunks(session, chunk_ids)
    removed = session.execute("DELETE FROM documents WHERE doc_id = ANY (%s)", (ids,)).rowcount
    if removed:
        count_change(session, -len(chunk_ids))
    return removed


def tag(session: Session, doc_id: int, add: Iterable[str], remove: Iterable[str]) -> None:
    add_tags(session, doc_id, dict.fromkeys(add, "user"))
    session.execute(
        "DELETE FROM document_tags WHERE doc_id = %s AND md5(tag) IN "
        "(SELECT md5(each) FROM unnest(%s::text[]) AS each)",
        (doc_id, list(remove)),
    )
    count_change(session)


def add_tags(session: Session, doc_id: int, tags: Mapping[str, str]) -> None:
    """Add tags with their sources. A tag that the document already has keeps its source."""
    if tags:
        session.execute(
            "INSERT INTO document_tags (doc_id, tag, source) SELECT %s, tag, source "
            "FROM unnest(%s::text[], %s::text[]) AS each (tag, source) "
            "ON CONFLICT (doc_id, md5(tag)) DO NOTHING",
            (doc_id, list(tags), list(tags.values())),
        )


# --- reading --------------------------------------------------------------------------------------


_AT_PATH = "WHERE md5(doc_path) = md5(%s) AND doc_path = %s"


def by_id(
    session: Session, doc_ids: Iterable[int], *, metadata: bool = True
) -> dict[int, Document]:
    select = _FULL if metadata else _BARE
    rows = session.execute(select + "WHERE d.doc_id = ANY (%s)", (list(doc_ids),))
    return {row[0]: _document(row) for row in rows}


def by_path(session: Session, doc_path: str) -> Document | None:
    row = session.execute(_FULL + _AT_PATH, (doc_path, doc_path)).fetchone()
    return _document(row) if row else None


def select(
    session: Session,
    filters: Filters,
    now: str | None,
    *,
    limit: int | None = None,
    offset: int = 0,
) -> list[Document]:
    sql, params = where.condition(session, filters, now)
    rows = _page(session, f"{_FULL}WHERE {sql} {_BY_PATH}", params, limit, offset)
    return [_document(row) for row in rows]


def _page(
    session: Session, sql: str, params: Sequence[Any], limit: int | None, offset: int
) -> list[tuple[Any, ...]]:
    """Rows ordered by path, which is their fourth column."""
    if len(session.shards) == 1:
        return session.execute(f"{sql} LIMIT %s OFFSET %s", (*params, limit, offset)).fetchall()
    most = None if limit is None else offset + limit
    rows = session.execute(f"{sql} LIMIT %s", (*params, most)).fetchall()
    return sorted(rows, key=itemgetter(_PATH_AT))[offset:most]


def page(
    session: Session,
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
    sql, params = where.condition(session, filters, now)
    select_ids = f"SELECT d.doc_id, NULL, NULL, d.doc_path FROM documents d WHERE {sql} {_BY_PATH}"
    doc_ids = [row[0] for row in _page(session, select_ids, params, limit + 1, offset)]
    documents: list[Document] = []
    size_bytes = 0
    for doc_id in doc_ids[:limit]:
        size_bytes += int(session.value(_JSON_BYTES, (doc_id,)))
        if documents and size_bytes > max_bytes:
            break
        documents.extend(by_id(session, [doc_id]).values())
    following = offset + len(documents) if len(documents) < len(doc_ids) else None
    return documents, following


def matching(session: Session, doc_ids: Iterable[int], filters: Filters) -> set[int]:
    sql, params = where.condition(session, filters, None)
    rows = session.execute(
        f"SELECT d.doc_id FROM documents d WHERE d.doc_id = ANY (%s) AND {sql}",
        (list(doc_ids), *params),
    )
    return {doc_id for (doc_id,) in rows}


def count(session: Session, filters: Filters | None) -> int:
    only, params = where.among(session, filters)
    return session.total(f"SELECT count(*) FROM documents WHERE true{only}", params)


def count_chunks(session: Session, filters: Filters, now: str | None) -> int:
    """How many chunks the matching documents have; with `now`, without expired documents."""
    sql, params = where.condition(session, filters, now)
    return session.total(f"SELECT count(*) FROM ({where.CHUNKS_OF}{sql}) c", params)


def _below(folder: str) -> dict[str, str]:
    return {"folder": folder, "low": folder[:600], "high": folder[:600] + "\U0010ffff"}


def below(session: Session, folder: str) -> list[Document]:
    """Documents whose path starts with `folder`, which ends with a slash and is not a pattern."""
    rows = session.execute(f"{_FULL}WHERE {_BELOW}", _below(folder)).fetchall()
    return [_document(row) for row in sorted(rows, key=itemgetter(_PATH_AT))]


def expired(session: Session, now: str) -> list[Document]:
    rows = session.execute(f"{_FULL}WHERE d.expires_at <= %s", (now,)).fetchall()
    return [_document(row) for row in sorted(rows, key=itemgetter(_PATH_AT))]


def has_folder(session: Session, folder: str) -> bool:
    """Whether any document's path starts with `folder`, which ends with a slash."""
    sql = f"SELECT 1 FROM documents d WHERE {_BELOW} LIMIT 1"
    return bool(session.value(sql, _below(folder)))


def paths_with_suffix(
    session: Session, suffix: str, limit: int, filters: Filters | None = None
) -> list[str]:
    """The first paths that end with `suffix`. Reads every path."""
    only, params = where.among(session, filters)
    rows = session.execute(
        f"SELECT doc_path FROM documents WHERE right(doc_path, %s) = %s{only} ORDER BY 1 LIMIT %s",
        (len(suffix), suffix, *params, limit),
    )
    return sorted(path for (path,) in rows)[:limit]


def neighboring_paths(
    session: Session, path: str, limit: int, filters: Filters | None = None
) -> list[str]:
    """The paths before and after `path` in order, at most `limit` of each."""
    only, values = where.among(session, filters)
    sql = (
        "SELECT doc_path FROM documents WHERE left(doc_path, 600) {0}= %s AND doc_path {0} %s"
        f"{only} ORDER BY left(doc_path, 600) {{1}}, doc_path {{1}} LIMIT %s"
    )
    params = (path[:600], path, *values, limit)
    before = sorted(one for (one,) in session.execute(sql.format("<", "DESC"), params))
    after = sorted(one for (one,) in session.execute(sql.format(">", "ASC"), params))
    return [*before[-limit:], *after[:limit]] if limit > 0 else []


def languages(session: Session, filters: Filters | None = None) -> dict[str | None, int]:
    """How many documents each language has; None stands for an unknown language."""
    only, params = where.among(session, filters)
    sql = f"SELECT lang, count(*) FROM documents WHERE true{only} GROUP BY lang"
    return summed(session.execute(sql, params))


def tags(session: Session, filters: Filters | None = None) -> dict[str, int]:
    only, params = where.among(session, filters)
    sql = f"SELECT tag, count(*) FROM document_tags WHERE true{only} GROUP BY tag"
    return dict(sorted(summed(session.execute(sql, params)).items()))


def tag_sources(session: Session, doc_id: int) -> dict[str, str]:
    sql = "SELECT tag, source FROM document_tags WHERE doc_id = %s ORDER BY tag"
    return dict(session.execute(sql, (doc_id,)).fetchall())


def body(session: Session, doc_id: int) -> str | None:
    text: str | None = session.value("SELECT body FROM documents WHERE doc_id = %s", (doc_id,))
    return text


def chunks_by_id(session: Session, chunk_ids: Iterable[int]) -> dict[int, Chunk]:
    rows = session.execute(_CHUNK + "WHERE chunk_id = ANY (%s)", (list(chunk_ids),))
    return {row[0]: _chunk(row) for row in rows}


def chunk_texts(session: Session, chunk_ids: Iterable[int], *, wide: bool) -> dict[int, str]:
    """The texts of chunks. `wide` texts have more than 1.25 bytes per character: English has one,
    Russian nearly two, Japanese three."""
    only = " AND octet_length(text) > 1.25 * length(text)" if wide else ""
    rows = session.execute(
        f"SELECT chunk_id, text FROM chunks WHERE chunk_id = ANY (%s){only}", (list(chunk_ids),)
    )
    return dict(sorted(rows))


def texts_with_copies(session: Session, chunk_ids: Iterable[int]) -> dict[int, ChunkText]:
    """The texts of chunks, each with the number of documents in its root that repeat it."""
    rows = session.execute(_TEXTS, (list(chunk_ids),))
    return {
        row[0]: ChunkText(row[1], row[_TEXT_AT], row[-1], partial(_chunk, row[:-1])) for row in rows
    }


def document_ids(session: Session, chunk_ids: Iterable[int]) -> dict[int, int]:
    """The document id of each chunk. Reads no text."""
    rows = session.execute(
        "SELECT chunk_id, doc_id FROM chunks WHERE chunk_id = ANY (%s)", (list(chunk_ids),)
    )
    return dict(rows.fetchall())


def boost_fields(session: Session, chunk_ids: Iterable[int]) -> dict[int, BoostFields]:
    """The fields of each chunk's document that boosts use. Reads no text."""
    rows = session.execute(
        "SELECT c.chunk_id, d.doc_id, d.doc_path, d.kind, d.access_count "
        "FROM chunks c JOIN documents d ON d.doc_id = c.doc_id WHERE c.chunk_id = ANY (%s)",
        (list(chunk_ids),),
    )
    return {row[0]: BoostFields(*row[1:]) for row in rows}


def chunks(session: Session, doc_id: int) -> list[Chunk]:
    rows = session.execute(_CHUNK + "WHERE doc_id = %s ORDER BY ordinal", (doc_id,))
    return [_chunk(row) for row in rows]


def counts(session: Session, column: str, filters: Filters | None = None) -> dict[str, int]:
    """How many documents have each value of `column`. The name of the column must not be user
    input."""
    only, params = where.among(session, filters)
    rows = session.execute(
        f"SELECT coalesce({column}, 'none'), count(*) FROM documents WHERE true{only} GROUP BY 1",
        params,
    )
    return dict(sorted(summed(rows).items()))


def summed(rows: Iterable[tuple[Any, ...]]) -> dict[Any, int]:
    """The sum of the counts of each value."""
    counts: dict[Any, int] = defaultdict(int)
    for value, count in rows:
        counts[value] += count
    return dict(counts)


def _document(row: Sequence[Any]) -> Document:
    values = dict(zip(_DOCUMENT_FIELDS, row, strict=True))
    values["tags"] = tuple(values["tags"])
    values["metadata"] = {} if values["metadata"] == "{}" else json.loads(values["metadata"])
    return Document(**values)


def _chunk(row: Sequence[Any]) -> Chunk:
    chunk_id, doc_id, ordinal, text, heading_path, label, spans, version, digest, indexed = row
    return Chunk(
        chunk_id, doc_id, ordinal, text, tuple(json.loads(heading_path)), label,
        tuple(Span.from_dict(span) for span in json.loads(spans)), version, digest, indexed,
    )  # fmt: skip
