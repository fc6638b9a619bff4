"""Vectors that are made once: an encoder that remembers every text in a file under `build/`.

Figures of quality are measured again and again over the same collections, and encoding them takes
longer than everything else together.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence, Set
from hashlib import sha256
from pathlib import Path

import apsw

from kb.ports import Encoder
from kb.types import Encoding, ModelSpec

FOLDER = Path("build/vectors")


class Remembering:
    """A `ports.Encoder` around another one, for dense vectors only."""

    def __init__(self, encoder: Encoder, folder: Path = FOLDER) -> None:
        self._encoder = encoder
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"{encoder.spec.name}-{encoder.spec.version}.sqlite"
        connection = apsw.Connection(str(self._file))
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE IF NOT EXISTS v (key BLOB PRIMARY KEY, dense BLOB)")
        connection.close()

    @property
    def spec(self) -> ModelSpec:
        return self._encoder.spec

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),  # noqa: ARG002  # the port's
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        connection = apsw.Connection(str(self._file))  # several threads encode at a time
        connection.set_busy_timeout(60_000)
        keys = [sha256(f"{as_query}\0{text}".encode()).digest() for text in texts]
        known = {key: self._known(connection, key) for key in keys}
        missing = [at for at, key in enumerate(keys) if known[key] is None]
        if missing:
            made = self._encoder.encode([texts[at] for at in missing], as_query=as_query)
            rows = [(keys[at], each.dense.tobytes()) for at, each in zip(missing, made, strict=True)
                    if each.dense is not None]  # fmt: skip
            with connection:
                connection.executemany("INSERT OR REPLACE INTO v VALUES (?, ?)", rows)
            known |= dict(rows)
        connection.close()
        if on_progress is not None:
            on_progress(len(texts))
        return [Encoding(dense=array("f", known[key] or b"")) for key in keys]

    def _known(self, connection: apsw.Connection, key: bytes) -> bytes | None:
        row = connection.execute("SELECT dense FROM v WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]
