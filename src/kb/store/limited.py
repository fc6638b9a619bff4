"""A view of a store for a caller that may see only some of its documents.

Every retrieval gets the limits as a part of its filters, so that the store applies them before it
ranks and counts. Every id is first looked up among the visible documents. Operations on the store
as a whole are refused. Because the view has the same ports as the store, no caller of the ports can
bypass the limits.

Two things still reflect the whole store: the rarity of words, which is a part of scores, and
whether anything has changed. Versions show the latter, but not how many changes there were.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from kb.errors import Forbidden
from kb.store.model_rows import status_of
from kb.types import NOTES_ROOT, Filters, Limits

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.types import (
        BoostFields,
        Chunk,
        ChunkChanges,
        ChunkDraft,
        ChunkText,
        Counts,
        Degraded,
        Document,
        DocumentDraft,
        DocumentWrite,
        Failure,
        FileLocation,
        Job,
        JsonDict,
        LexicalQuery,
        Root,
        StoredModel,
        TextMatches,
        TokenVectors,
        Vector,
        VectorMatches,
    )

_COUNTED_FOR_S = 10.0
_VERSION_KEY = secrets.token_bytes(16)


class LimitedStore:
    """See `kb.ports.Store`."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self.catalog = LimitedCatalog(store, limits)
        self.fulltext = LimitedFulltext(store, limits)
        self.vectors = LimitedVectors(store, limits, self.catalog)
        self.queue = LimitedQueue(store, limits)
        self.maintenance = LimitedMaintenance()

    @property
    def location(self) -> str:
        return self._store.location

    @property
    def path(self) -> Path:
        return self._store.path

    def exists(self) -> bool:
        return self._store.exists()

    def create(self) -> None:
        self._store.create()

    def store_id(self) -> str:
        return self._store.store_id()

    def snapshot(self) -> AbstractContextManager[object]:
        return self._store.snapshot()

    def degraded(self) -> tuple[Degraded, ...]:
        return self._store.degraded()

    def close(self) -> None:
        """Do nothing: the caller who opened the store closes it."""


def _with_limits(filters: Filters | None, limits: Limits) -> Filters:
    return replace(Filters() if filters is None else filters, limits=limits)


def _hide_count(version: str) -> str:
    """A version that changes with `version`, but hides how many changes there were."""
    return blake2b(version.encode(), key=_VERSION_KEY, digest_size=8).hexdigest()


def _refuse(*_values: Any, **_options: Any) -> NoReturn:
    raise Forbidden("a token with limits cannot do this", "use a token that sees the whole store")


class LimitedCatalog:
    """See `kb.ports.Catalog`."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._catalog = store.catalog
        self._limits = limits
        self._filters = Filters(limits=limits)

    def version(self) -> str:
        return _hide_count(self._catalog.version())

    # --- limits -----------------------------------------------------------------------------------

    def _visible(self, doc_ids: Iterable[int]) -> set[int]:
        return self._catalog.matching(doc_ids, self._filters)

    def visible_chunks(self, chunk_ids: Iterable[int]) -> list[int]:
        """Which of these chunks belong to visible documents."""
        owners = self._catalog.document_ids(chunk_ids)
        visible = self._visible(set(owners.values()))
        return [chunk_id for chunk_id, doc_id in owners.items() if doc_id in visible]

    def _is_visible(self, doc_id: int) -> bool:
        return bool(self._visible([doc_id]))

    def _check_note(self, draft: DocumentDraft) -> None:
        """Raise `Forbidden` unless the draft is a note that the caller will see."""
        limits, attributes = self._limits, draft.attributes
        if draft.root_id is not None:
            _refuse()
        if limits.roots and NOTES_ROOT not in limits.roots:
            raise Forbidden("this token cannot see notes", f"add the root {NOTES_ROOT} to it")
        scope = attributes.scope or "global"
        if limits.scopes and scope not in limits.scopes:
            raise Forbidden(
                f"this token has no access to the scope {scope}",
                f"set the scope to: {' or '.join(limits.scopes)}",
            )
        if limits.tags and not set(limits.tags) & set(attributes.tags):
            raise Forbidden(
                "this token only sees documents with certain tags",
                f"add one of the tags: {', '.join(limits.tags)}",
            )

    # --- writing ----------------------------------------------------------------------------------

    def write_document(
        self, draft: DocumentDraft, chunks: Iterable[ChunkDraft], *, moved_from: int | None = None
    ) -> ChunkChanges:
        if moved_from is not None:
            _refuse()
        self._check_note(draft)
        return self._catalog.write_document(draft, chunks)

    def write_documents(self, writes: Sequence[DocumentWrite]) -> list[ChunkChanges]:
        for each in writes:
            if each.moved_from is not None:
                _refuse()
            self._check_note(each.draft)
        return self._catalog.write_documents(writes)

    def delete_documents(
        self,
        doc_ids: Iterable[int],
        roots: Iterable[str] = (),  # noqa: ARG002  # roots stay
        *,
        restorable: bool = False,
    ) -> int:
        return self._catalog.delete_documents(self._visible(doc_ids), restorable=restorable)

    def record_access(self, doc_id: int) -> None:
        if self._is_visible(doc_id):
            self._catalog.record_access(doc_id)

    def tag(self, doc_id: int, add: Iterable[str], remove: Iterable[str]) -> None:
        if not self._is_visible(doc_id):
            _refuse()
        add, remove = list(add), list(remove)
        needed = set(self._limits.tags)
        kept = (set(self._catalog.tag_sources(doc_id)) | set(add)) - set(remove)
        if needed and not needed & kept:
            raise Forbidden(
                "this token would no longer see the document",
                f"keep one of the tags: {', '.join(sorted(needed))}",
            )
        self._catalog.tag(doc_id, add, remove)

    ensure_root = attach_root = file_states = touch_file = sample_files = write_chunks = _refuse

    # --- reading documents ------------------------------------------------------------------------

    def roots(self, filters: Filters | None = None) -> list[Root]:
        return self._catalog.roots(_with_limits(filters, self._limits))

    def file_location(self, doc_id: int) -> FileLocation | None:
        return self.file_locations([doc_id]).get(doc_id)

    def file_locations(self, doc_ids: Iterable[int]) -> dict[int, FileLocation]:
        return self._catalog.file_locations(self._visible(doc_ids))

    def documents_by_id(
        self, doc_ids: Iterable[int], *, metadata: bool = True
    ) -> dict[int, Document]:
        return self._catalog.documents_by_id(self._visible(doc_ids), metadata=metadata)

    def document_by_path(self, doc_path: str) -> Document | None:
        document = self._catalog.document_by_path(doc_path)
        return document if document is not None and self._is_visible(document.doc_id) else None

    def documents(
        self, filters: Filters, now: str | None, *, limit: int | None = None, offset: int = 0
    ) -> list[Document]:
        limited = _with_limits(filters, self._limits)
        return self._catalog.documents(limited, now, limit=limit, offset=offset)

    def documents_page(
        self, filters: Filters, now: str | None, *, limit: int, offset: int, max_bytes: int
    ) -> tuple[list[Document], int | None]:
        limited = _with_limits(filters, self._limits)
        return self._catalog.documents_page(
            limited, now, limit=limit, offset=offset, max_bytes=max_bytes
        )

    def matching(self, doc_ids: Iterable[int], filters: Filters) -> set[int]:
        return self._catalog.matching(doc_ids, _with_limits(filters, self._limits))

    def documents_below(self, folder: str) -> list[Document]:
        return self._only_visible(self._catalog.documents_below(folder))

    def expired(self, now: str) -> list[Document]:
        return self._only_visible(self._catalog.expired(now))

    def _only_visible(self, documents: list[Document]) -> list[Document]:
        visible = self._visible([each.doc_id for each in documents])
        return [each for each in documents if each.doc_id in visible]

    def body(self, doc_id: int) -> str | None:
        return self._catalog.body(doc_id) if self._is_visible(doc_id) else None

    def tag_sources(self, doc_id: int) -> dict[str, str]:
        return self._catalog.tag_sources(doc_id) if self._is_visible(doc_id) else {}

    def has_folder(self, folder: str) -> bool:
        return bool(self.documents_below(folder))

    def paths_with_suffix(
        self, suffix: str, limit: int, filters: Filters | None = None
    ) -> list[str]:
        return self._catalog.paths_with_suffix(suffix, limit, _with_limits(filters, self._limits))

    def neighboring_paths(self, path: str, limit: int, filters: Filters | None = None) -> list[str]:
        return self._catalog.neighboring_paths(path, limit, _with_limits(filters, self._limits))

    # --- chunks -----------------------------------------------------------------------------------

    def chunks(self, doc_id: int) -> list[Chunk]:
        return self._catalog.chunks(doc_id) if self._is_visible(doc_id) else []

    def chunks_by_id(self, chunk_ids: Iterable[int]) -> dict[int, Chunk]:
        return self._catalog.chunks_by_id(self.visible_chunks(chunk_ids))

    def chunk_texts(self, chunk_ids: Iterable[int], *, wide: bool = False) -> dict[int, str]:
        return self._catalog.chunk_texts(self.visible_chunks(chunk_ids), wide=wide)

    def texts_with_copies(self, chunk_ids: Iterable[int]) -> dict[int, ChunkText]:
        """The texts; copies are not counted, since some may be in hidden documents."""
        texts = self._catalog.texts_with_copies(self.visible_chunks(chunk_ids))
        return {chunk_id: text._replace(copies=0) for chunk_id, text in texts.items()}

    def document_ids(self, chunk_ids: Iterable[int]) -> dict[int, int]:
        return self._catalog.document_ids(self.visible_chunks(chunk_ids))

    def boost_fields(self, chunk_ids: Iterable[int]) -> dict[int, BoostFields]:
        return self._catalog.boost_fields(self.visible_chunks(chunk_ids))

    def chunk_count(self, filters: Filters | None = None) -> int:
        return self._catalog.chunk_count(_with_limits(filters, self._limits))

    # --- totals -----------------------------------------------------------------------------------

    def counts(self, filters: Filters | None = None) -> Counts:
        return self._catalog.counts(_with_limits(filters, self._limits))

    def languages(self, filters: Filters | None = None) -> dict[str | None, int]:
        return self._catalog.languages(_with_limits(filters, self._limits))

    def tags(self, filters: Filters | None = None) -> dict[str, int]:
        return self._catalog.tags(_with_limits(filters, self._limits))


class LimitedFulltext:
    """See `kb.ports.Fulltext`."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._fulltext = store.fulltext
        self._limits = limits

    def match(
        self, query: LexicalQuery, *, every: bool, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        limited = _with_limits(filters, self._limits)
        return _without_common(
            self._fulltext.match(query, every=every, filters=limited, now=now, limit=limit)
        )

    def match_expression(
        self, expression: str, *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        limited = _with_limits(filters, self._limits)
        return _without_common(
            self._fulltext.match_expression(expression, filters=limited, now=now, limit=limit)
        )

    def match_phrases(
        self,
        phrases: Sequence[str],
        *,
        prefer: Iterable[int],
        filters: Filters,
        now: str,
        limit: int,
    ) -> dict[int, str]:
        limited = _with_limits(filters, self._limits)
        return self._fulltext.match_phrases(
            phrases, prefer=prefer, filters=limited, now=now, limit=limit
        )

    def match_substrings(
        self, terms: Sequence[str], *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        limited = _with_limits(filters, self._limits)
        return _without_common(
            self._fulltext.match_substrings(terms, filters=limited, now=now, limit=limit)
        )

    def scan_substrings(
        self, terms: Sequence[str], *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        limited = _with_limits(filters, self._limits)
        return _without_common(
            self._fulltext.scan_substrings(terms, filters=limited, now=now, limit=limit)
        )

    build_index = _refuse


def _without_common(matches: TextMatches) -> TextMatches:
    """The matches, without the list of terms that are too common in the whole store."""
    return matches._replace(dropped_terms=())


class LimitedVectors:
    """See `kb.ports.Vectors`."""

    def __init__(self, store: Store, limits: Limits, catalog: LimitedCatalog) -> None:
        self._vectors = store.vectors
        self._queue = store.queue
        self._limits = limits
        self._filters = Filters(limits=limits)
        self._catalog = catalog
        self._models: tuple[tuple[str, str, int], list[StoredModel]] | None = None

    def version(self) -> str:
        return _hide_count(self._vectors.version())

    def models(self) -> list[StoredModel]:
        """The models, with the counts of visible chunks. Counting reads all of them, so the result
        is cached until something changes; failures and expiry show up a little later."""
        period = int(time.monotonic() / _COUNTED_FOR_S)
        key = (self._catalog.version(), self._vectors.version(), period)
        known = self._models
        if known is None or known[0] != key:
            known = self._models = (key, self._vectors.models_within(self._filters))
        return list(known[1])

    def models_within(self, filters: Filters) -> list[StoredModel]:
        return self._vectors.models_within(_with_limits(filters, self._limits))

    def model_counts(self) -> list[JsonDict]:
        counts = []
        for model in self.models():
            failures = self._queue.failures(model.model_id, 1, self._filters)
            counts.append(status_of(model, failures[0].error if failures else None))
        return counts

    def count_missing_part(self, model_id: int, part: str, filters: Filters | None = None) -> int:
        limited = _with_limits(filters, self._limits)
        return self._vectors.count_missing_part(model_id, part, limited)

    def nearest_dense(
        self,
        model_id: int,
        vector: Sequence[float],
        *,
        filters: Filters,
        now: str,
        limit: int,
        exact: bool = False,
    ) -> VectorMatches:
        limited = _with_limits(filters, self._limits)
        return self._vectors.nearest_dense(
            model_id, vector, filters=limited, now=now, limit=limit, exact=exact
        )

    def nearest_sparse(
        self, model_id: int, query: Mapping[str, float], *, filters: Filters, now: str, limit: int
    ) -> VectorMatches:
        limited = _with_limits(filters, self._limits)
        return self._vectors.nearest_sparse(model_id, query, filters=limited, now=now, limit=limit)

    def dense_vectors(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, Vector[float]]:
        return self._vectors.dense_vectors(model_id, self._catalog.visible_chunks(chunk_ids))

    def sparse_vectors(
        self, model_id: int, chunk_ids: Iterable[int]
    ) -> dict[int, dict[str, float]]:
        return self._vectors.sparse_vectors(model_id, self._catalog.visible_chunks(chunk_ids))

    def chunks_with(self, model_id: int, part: str, chunk_ids: Iterable[int]) -> set[int]:
        visible = self._catalog.visible_chunks(chunk_ids)
        return self._vectors.chunks_with(model_id, part, visible)

    def token_vectors(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, TokenVectors]:
        return self._vectors.token_vectors(model_id, self._catalog.visible_chunks(chunk_ids))

    use_model = set_exam_marks = begin_switch = can_switch = switch = _refuse
    drop_retired = drop_all = build_index = _refuse


class LimitedQueue:
    """See `kb.ports.Queue`. Jobs embed the passages of all documents, so none are listed."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._queue = store.queue
        self._limits = limits

    def jobs(self) -> list[Job]:
        return []

    def failures(
        self, model_id: int, limit: int = 20, filters: Filters | None = None
    ) -> list[Failure]:
        return self._queue.failures(model_id, limit, _with_limits(filters, self._limits))

    def last_error(self, model_id: int) -> str | None:
        failures = self.failures(model_id, 1)
        return failures[0].error if failures else None

    start_job = lease = newest = has_work = renew_job = finish = end_job = _refuse
    retry = listening = _refuse


class LimitedMaintenance:
    """See `kb.ports.Maintenance`. The size is hidden, because it is that of all documents."""

    def size_bytes(self) -> int:
        return 0

    versions = disk_usage = checks = checkpoint = compact = backup = export = load = _refuse
    load_in_steps = _refuse
