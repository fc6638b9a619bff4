"""Copies a store into another one, of the same or another kind, and verifies the copy."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from kb.config import store_url
from kb.errors import InvalidRequest, StoreError, StoreMissing
from kb.store import open_store
from kb.text.normalize import STOP_WORDS, unspaced_runs, without_unspaced_runs
from kb.text.timestamps import utc_timestamp
from kb.text.tokenize import split_words
from kb.types import CopyReport, Filters, LexicalQuery, ScoredChunk

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.types import ImportReport

OnProgress = Callable[[int, int], None]  # done, total
Options = dict[str, Any]  # of a search, as the ports take them
Search = Callable[["Store"], list[ScoredChunk]]
SEARCHES = 50
_HITS = 20
_WORDS = 6  # of a query
_NUL, _REPLACEMENT = b"\\u0000", "\ufffd".encode()  # in a line of JSON
_HINT = "remove the copy and copy again; kb doctor checks both stores"


def copy(source: str, dest: str, on_progress: OnProgress) -> CopyReport:
    """Copy the store at `source`, a path or a URL, to `dest`: see `copy_store`."""
    for each in (source, dest):
        if not each:
            raise InvalidRequest("a store to copy has no name", "give a path or a URL")
        if each.startswith(("postgresql:", "sqlite:/")) and "://" not in each:
            raise InvalidRequest(
                f"the store's URL has no '//' after '{each.partition(':')[0]}:'",
                "use postgresql://USER@HOST/DATABASE, sqlite:///PATH, or a path",
            )
    store = open_store(store_url(source), read_only=True)
    target = open_store(store_url(dest))
    try:
        if not store.exists():
            raise StoreMissing(f"there is no store at {store.location}", "name another store")
        return copy_store(store, target, utc_timestamp(time.time()), on_progress)
    finally:
        store.close()
        target.close()


def copy_store(source: Store, target: Store, now: str, on_progress: OnProgress) -> CopyReport:
    """Copy everything with its ids and vectors into a store that is new or empty, completely or not
    at all, and compare both. Others may write to the source meanwhile: the copy has the state at
    the beginning. Raises `StoreError` if the stores differ afterwards."""
    if source.path == target.path:
        raise InvalidRequest("a store cannot be copied to itself", "name another store")
    if target.exists() and target.catalog.counts().documents:
        raise InvalidRequest(
            f"{target.location} has documents", "copy to a new store, or use kb import --merge"
        )
    with source.snapshot():
        digest = hashlib.blake2b()
        lines = _hashed(source.maintenance.export(vectors=True), digest.update)
        report = target.maintenance.load(lines, merge=False, on_progress=on_progress)
        _verify_rows(source, target, report, digest.hexdigest())
        searches = _verify_searches(source, target, now)
    target.fulltext.build_index()
    for model in target.vectors.models():
        target.vectors.build_index(model.model_id)
    detached = tuple(root.name for root in target.catalog.roots() if root.detached)
    copied = (report.added, report.chunks, searches, detached)
    return CopyReport(source.location, target.location, *copied)


def _hashed(lines: Iterable[bytes], update: Callable[[bytes], None]) -> Iterator[bytes]:
    """The lines, with those after the header hashed: the header counts writes."""
    for number, line in enumerate(lines):
        if number:
            update(_comparable(line))
        yield line


def _comparable(line: bytes) -> bytes:
    """A line as every kind of store has it: PostgreSQL replaces U+0000 by U+FFFD, which also
    changes the digest of the text, and can change the order of tags."""
    if _NUL not in line and _REPLACEMENT not in line:
        return line
    record = _without_nul(json.loads(line))
    record.pop("content_hash", None)
    return json.dumps(record, sort_keys=True).encode()


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, list):
        return [_without_nul(each) for each in value]
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(each) for key, each in value.items()}
    return value


def _verify_rows(source: Store, target: Store, report: ImportReport, digest: str) -> None:
    expected, found = source.catalog.counts(), target.catalog.counts()
    if expected != found or report.added != found.documents:
        raise StoreError(
            f"the copy has {found.documents} documents with {found.chunks} passages, the store "
            f"{expected.documents} with {expected.chunks}",
            _HINT,
        )
    again = hashlib.blake2b()
    for _ in _hashed(target.maintenance.export(vectors=True), again.update):
        pass
    if again.hexdigest() != digest:
        raise StoreError("the copy's documents or vectors differ from the store's", _HINT)


def _verify_searches(source: Store, target: Store, now: str) -> int:
    """Search both stores for the words and the vectors of random passages. Returns how many
    passages were compared."""
    chosen = _sample(source)
    model = next((one for one in source.vectors.models() if one.role == "search"), None)
    options: Options = {"filters": Filters(), "now": now, "limit": _HITS}
    for chunk_id, text in source.catalog.chunk_texts(chosen).items():
        searches = [_by_words(text, options)]
        if model is not None:
            searches += _by_vectors(source, model.model_id, chunk_id, options)
        if any(search(source) != search(target) for search in searches):
            raise StoreError(
                f"a search for the text of passage {chunk_id} ranks differently in the copy", _HINT
            )
    return len(chosen)


def _by_words(text: str, options: Options) -> Search:
    words = [word for word in split_words(without_unspaced_runs(text)) if word not in STOP_WORDS]
    runs = dict.fromkeys(unspaced_runs(text))
    query = LexicalQuery(
        tuple((word,) for word in dict.fromkeys(words[:_WORDS])), tuple(islice(runs, _WORDS))
    )
    return lambda store: store.fulltext.match(query, every=False, **options).chunks


def _by_vectors(source: Store, model_id: int, chunk_id: int, options: Options) -> list[Search]:
    """One search for each vector, dense or sparse, that the passage has."""
    dense = source.vectors.dense_vectors(model_id, [chunk_id]).get(chunk_id)
    weights = source.vectors.sparse_vectors(model_id, [chunk_id]).get(chunk_id)
    searches: list[Search] = []
    if dense is not None:
        searches.append(
            lambda store: store.vectors.nearest_dense(model_id, dense, **options).chunks
        )
    if weights is not None:
        searches.append(
            lambda store: store.vectors.nearest_sparse(model_id, weights, **options).chunks
        )
    return searches


def _sample(store: Store) -> list[int]:
    """The ids of random passages of random documents."""
    documents = [one.doc_id for one in store.catalog.documents(Filters(), None) if one.chunks]
    chosen = random.choices(documents, k=SEARCHES) if documents else []
    return list({random.choice(store.catalog.chunks(each)).chunk_id for each in chosen})
