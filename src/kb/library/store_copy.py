"""Copies a store into another one, of the same or another kind, and verifies the copy."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.atomic import atomic_path
from kb.errors import InvalidRequest, StoreError, StoreMissing
from kb.locations import store_url
from kb.paths import user_folder
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
            raise InvalidRequest("the path of one of the stores is empty", "give a path or a URL")
    store = open_store(store_url(source), read_only=True)
    target = open_store(store_url(dest))
    try:
        if not store.exists():
            raise StoreMissing(
                f"there is no store at {store.location}", "check the location of the source"
            )
        return copy_store(store, target, utc_timestamp(time.time()), on_progress)
    finally:
        store.close()
        target.close()


def copy_store(source: Store, target: Store, now: str, on_progress: OnProgress) -> CopyReport:
    """Copy everything with its ids and vectors into a store that is new or empty, and compare both.
    Others may write to the source in the meantime; the copy has the state at the start. An
    interrupted copy is resumed, unless the source has changed. Raises `StoreError` if the stores
    differ afterwards."""
    if source.path == target.path:
        raise InvalidRequest("a store cannot be copied to itself", "choose another target")
    with source.snapshot():
        digest = hashlib.blake2b()
        exported = source.maintenance.export(vectors=True)
        header = next(exported)
        unfinished = _UnfinishedCopy(source, target)
        unfinished.begin(header)
        lines = chain([header], _hash_lines(exported, digest.update))
        report = target.maintenance.load_in_steps(lines, on_progress=on_progress)
        _verify_rows(source, target, report, digest.hexdigest())
        searches = _verify_searches(source, target, now)
        unfinished.end()
    target.fulltext.build_index()
    for model in target.vectors.models():
        target.vectors.build_index(model.model_id)
    detached = tuple(root.name for root in target.catalog.roots() if root.detached)
    copied = (report.added, report.chunks, searches, detached)
    return CopyReport(source.location, target.location, *copied)


class _UnfinishedCopy:
    """The record of a copy in progress: a file in the user's state folder with the location and the
    export header of the source, so that other documents in the target are not mistaken for a part
    of the copy."""

    def __init__(self, source: Store, target: Store) -> None:
        self._source = source
        self._target = target
        place = hashlib.blake2b(target.location.encode(), digest_size=12).hexdigest()
        self._path = Path(user_folder("state")) / "copies" / f"{place}.json"

    def begin(self, header: bytes) -> None:
        """Record the copy. Raises `InvalidRequest` if the target has documents that do not come
        from a copy of the same state."""
        record = {"source": self._source.location, "header": header.decode()}
        if self._target.exists() and not self._is_empty():
            known = self._read()
            if known is None:
                raise InvalidRequest(
                    f"{self._target.location} has documents or folders",
                    "copy to a new store, or use kb import --merge",
                )
            if known != record:
                raise InvalidRequest(
                    f"{self._target.location} contains part of an earlier copy of "
                    f"{known.get('source', 'another store')} as it was earlier",
                    "remove it, or copy to a new store",
                )
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with atomic_path(self._path, overwrite=True, mode=0o600) as part:
            part.write_text(json.dumps(record), encoding="utf-8")

    def end(self) -> None:
        self._path.unlink(missing_ok=True)

    def _is_empty(self) -> bool:
        catalog = self._target.catalog
        return not catalog.counts().documents and not catalog.roots()

    def _read(self) -> dict[str, Any] | None:
        try:
            record = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) else None


def _hash_lines(lines: Iterable[bytes], update: Callable[[bytes], None]) -> Iterator[bytes]:
    """Yield the lines, and hash them as they are read."""
    for line in lines:
        update(_comparable(line))
        yield line


def _comparable(line: bytes) -> bytes:
    """A line in a form that is equal in every kind of store: PostgreSQL replaces U+0000 with
    U+FFFD, which also changes the digest of the text, and can change the order of tags."""
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
    for line in islice(target.maintenance.export(vectors=True), 1, None):  # without the header
        again.update(_comparable(line))
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
