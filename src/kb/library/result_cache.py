"""Keeps results that take long to compute until the store changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence

from kb.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.types import Document

_MAX_RESULTS = 8


class ResultCache:
    """The most recent results, by what they were computed from. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[Hashable, Any] = {}

    def get(self, key: Hashable, compute: Callable[[], Any]) -> Any:
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


def store_version(store: Store) -> tuple[str, str]:
    """The version of texts and attributes, and that of the vectors. Read it before the data: a
    write in between then causes a needless computation, not an outdated result."""
    return store.catalog.version(), store.vectors.version()


def ids_of(documents: Sequence[Document]) -> tuple[int, ...]:
    """The documents as a part of a key: without a write, filters and expiry can change them."""
    return tuple(document.doc_id for document in documents)
