"""Blocks of postings that recent searches have read. They never change, like their segments."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kb.store.postgres.segments import term_key

if TYPE_CHECKING:
    from kb.store.postgres.session import Session

MAX_BYTES = 128 << 20
_ENTRY_BYTES = 200  # the overhead of an entry
Key = tuple[int, str]  # segment, term


class BlockCache:
    """Keeps the blocks that were used last, up to `max_bytes`. Threads may share it."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._blocks: OrderedDict[Key, bytes | None] = OrderedDict()
        self._bytes = 0

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._blocks.clear()
            self._bytes = 0

    def read(
        self, session: Session, segments: Sequence[int], terms: Iterable[str]
    ) -> dict[Key, bytes]:
        """The blocks of these terms. Terms that a segment does not contain are left out. Blocks
        that are not cached are read with one statement."""
        found: dict[Key, bytes] = {}
        missing: list[Key] = []
        with self._lock:
            for term in dict.fromkeys(terms):
                for segment in segments:
                    key = (segment, term)
                    if key not in self._blocks:
                        missing.append(key)
                        continue
                    self._blocks.move_to_end(key)
                    if (data := self._blocks[key]) is not None:
                        found[key] = data
        if missing:
            found |= self._fetch(session, missing)
        return found

    def _fetch(self, session: Session, missing: Sequence[Key]) -> dict[Key, bytes]:
        names = {term_key(term): term for _, term in missing}
        segments = sorted({segment for segment, _ in missing})
        rows = session.execute(
            "SELECT b.segment, b.term, b.postings FROM unnest(%s::bigint[]) AS s "
            "CROSS JOIN unnest(%s::text[]) AS t JOIN blocks b ON b.segment = s AND b.term = t",
            (segments, list(names)),
        )
        read = {(segment, names[key]): data for segment, key, data in rows}
        with self._lock:
            for key in missing:
                self._put(key, read.get(key))
        return read

    def _put(self, key: Key, data: bytes | None) -> None:
        if key in self._blocks:
            return
        self._blocks[key] = data
        self._bytes += _ENTRY_BYTES + len(data or b"")
        while self._bytes > self._max_bytes and self._blocks:
            _, old = self._blocks.popitem(last=False)
            self._bytes -= _ENTRY_BYTES + len(old or b"")
