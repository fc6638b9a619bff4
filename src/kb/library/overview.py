"""Maps and statistics of a store, which are computed again only after it has changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from kb.library.library_map import make_map
from kb.library.statistics import near_duplicates, statistics
from kb.types import Filters

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.types import Document, JsonDict, LibraryMap

_MAX_RESULTS = 8


class Overview:
    """The maps and statistics of one store. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._results: dict[Hashable, Any] = {}

    def map(self, filters: Filters, now: str) -> LibraryMap:
        """The map of the documents that match. `now` is an ISO 8601 time."""
        version = self._version()
        documents = self._store.catalog.documents(filters, now)
        key = ("map", version, _ids(documents))
        result: LibraryMap = self._cached(key, lambda: make_map(self._store, documents))
        return result

    def statistics(self, now: str) -> JsonDict:
        """Figures about the documents as `statistics.v1`. `now` is an ISO 8601 time."""
        version = self._version()
        documents = self._store.catalog.documents(Filters(), now)
        key = ("near_duplicates", version, _ids(documents))
        pairs = self._cached(key, lambda: near_duplicates(self._store, documents))
        return statistics(documents, pairs, now)

    def _version(self) -> tuple[str, str]:
        """The version of texts and attributes, and that of the vectors. Read it before the data: a
        write in between then causes a needless computation, not an outdated result."""
        return self._store.catalog.version(), self._store.vectors.version()

    def _cached(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return the result for this key, and compute it if it is not cached."""
        with self._lock:
            if key in self._results:
                self._results[key] = self._results.pop(key)  # the most recently used comes last
                return self._results[key]
        result = compute()
        with self._lock:
            self._results[key] = result
            while len(self._results) > _MAX_RESULTS:
                del self._results[next(iter(self._results))]
        return result


def _ids(documents: Sequence[Document]) -> tuple[int, ...]:
    """The documents, as a part of the cache key: filters and expiry change which documents there
    are, without a write to the store."""
    return tuple(document.doc_id for document in documents)
