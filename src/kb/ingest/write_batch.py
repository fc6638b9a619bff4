"""Documents that are written together.

A transaction costs as much as writing five passages, so short documents share one. A document is
still written completely or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kb.errors import DiskFull
from kb.ports import Catalog
from kb.types import ChunkChanges, DocumentWrite

_MAX_CHARS = 1 << 20  # of all texts: other writers wait for about a tenth of a second
_MAX_AGE_S = 0.5  # so that a slow parser does not delay documents that are ready

OnWritten = Callable[[ChunkChanges], None]


class WriteBatch:
    """Collects documents and writes them in the order in which they were added."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._documents: list[tuple[DocumentWrite, OnWritten]] = []
        self._chars = 0
        self._since = 0.0

    def add(self, document: DocumentWrite, on_written: OnWritten) -> None:
        """Add a document, whose chunks are a list. `on_written` is called after it is written."""
        if not self._documents:
            self._since = time.monotonic()
        self._documents.append((document, on_written))
        self._chars += sum(len(chunk.text) for chunk in document.chunks)
        if self._chars >= _MAX_CHARS:
            self.write()
        self.write_if_old()

    def write_if_old(self) -> None:
        if self._documents and time.monotonic() - self._since >= _MAX_AGE_S:
            self.write()

    def write(self) -> None:
        """Write all documents that were added, in one transaction. If the disk has no room for all
        of them, write as many as fit, and raise `DiskFull`."""
        documents, self._documents, self._chars = self._documents, [], 0
        try:
            self._write(documents)
        except DiskFull:
            if len(documents) < 2:
                raise
            for one in documents:
                self._write([one])

    def _write(self, documents: Sequence[tuple[DocumentWrite, OnWritten]]) -> None:
        if documents:
            changes = self._catalog.write_documents([document for document, _ in documents])
            for (_, on_written), change in zip(documents, changes, strict=True):
                on_written(change)
