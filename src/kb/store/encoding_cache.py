"""A cache of encoded texts, in a separate file.

Encoding a collection takes longer than evaluating it. The cache stores the encodings of texts under
the model's name and version and the hash of the text, and returns them bit for bit.

A cache must never change a measurement. Every row has a checksum, and every model has the encoding
of a fixed text (`probe`): if that differs, the weights have changed under the same name, and the
old encodings are dropped. An unreadable file counts as empty.
"""

from __future__ import annotations

import json
import threading
import time
from array import array
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import apsw

from kb.types import Encoding, ModelSpec, TokenVectors, Vector

LIMIT_BYTES = 2 * 1024**3
_KEPT_SHARE = 0.8  # of the size limit, after trimming
_DAY_S = 86_400
_BUSY_MS = 10_000
_LAYOUT = "1"  # of the file; another version is discarded

_SCHEMA = """
CREATE TABLE IF NOT EXISTS models (
    model_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL, version TEXT NOT NULL,
    probe BLOB NOT NULL,
    UNIQUE (name, version)
);
CREATE TABLE IF NOT EXISTS encodings (
    model_id INTEGER NOT NULL REFERENCES models,
    key BLOB NOT NULL,
    used_day INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    truncated INTEGER NOT NULL,
    dense BLOB, sparse TEXT, token_dimension INTEGER, tokens BLOB,
    PRIMARY KEY (model_id, key)
);
"""


class _Row(NamedTuple):
    dense: bytes | None
    sparse: str | None
    token_dimension: int | None
    tokens: bytes | None
    truncated: int

    def checksum(self) -> int:
        sum_of = crc32(f"{self.sparse}\0{self.token_dimension}\0{self.truncated}".encode())
        return crc32(self.tokens or b"", crc32(self.dense or b"", sum_of))

    def size(self) -> int:
        return len(self.dense or b"") + len(self.sparse or "") + len(self.tokens or b"")

    def has(self, parts: Set[str]) -> bool:
        return all(getattr(self, part) is not None for part in parts)

    def encoding(self, parts: Set[str]) -> Encoding:
        return Encoding(
            dense=_floats(self.dense) if "dense" in parts else None,
            sparse=json.loads(self.sparse) if "sparse" in parts and self.sparse else None,
            tokens=TokenVectors(self.token_dimension, _floats(self.tokens))
            if "tokens" in parts and self.token_dimension
            else None,
            truncated=self.truncated,
        )


class EncodingCache:
    """A cache of encodings in one file, which threads and processes may share. Closing it trims it
    to its size limit."""

    def __init__(self, path: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self.path = path
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._connection = _open(path)

    @property
    def usable(self) -> bool:
        return self._connection is not None

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                with suppress(apsw.Error):
                    _trim(self._connection, self._limit_bytes)
                self._connection.close()
            self._connection = None

    def model(self, spec: ModelSpec, probe: Encoding) -> int | None:
        """The id of the model in the cache; None if the cache cannot be used. Rows from other
        weights under the same name are deleted."""
        digest = _digest(probe)
        with self._lock, suppress(apsw.Error):
            if self._connection is None:
                return None
            with self._connection as db:
                named = (spec.name, spec.version)
                row = db.execute(
                    "SELECT model_id, probe FROM models WHERE name = ? AND version = ?", named
                ).fetchone()
                if row is not None and row[1] == digest:
                    return int(row[0])
                if row is not None:
                    db.execute("DELETE FROM encodings WHERE model_id = ?", (row[0],))
                    db.execute("DELETE FROM models WHERE model_id = ?", (row[0],))
                db.execute(
                    "INSERT INTO models (name, version, probe) VALUES (?, ?, ?)", (*named, digest)
                )
                return int(db.last_insert_rowid())
        return None

    def get(self, model_id: int, texts: Iterable[str], parts: Set[str]) -> dict[str, Encoding]:
        """The cached encodings of these texts that have all of `parts`."""
        known: dict[str, Encoding] = {}
        with self._lock, suppress(apsw.Error):
            if self._connection is None:
                return {}
            for text in texts:
                with suppress(ValueError, TypeError, RecursionError):  # a damaged row
                    row = _read(self._connection, model_id, _key(text))
                    if row is not None and row.has(parts):
                        known[text] = row.encoding(parts)
        return known

    def put(self, model_id: int, encodings: Mapping[str, Encoding]) -> None:
        """Store encodings. Parts of an earlier encoding that the new one lacks are dropped."""
        with self._lock, suppress(apsw.Error):
            if self._connection is None:
                return
            today = int(time.time()) // _DAY_S
            rows = [
                _cache_row(model_id, text, encoding, today) for text, encoding in encodings.items()
            ]
            with self._connection as db:
                db.executemany(
                    "INSERT OR REPLACE INTO encodings (model_id, key, used_day, bytes, checksum,"
                    " truncated, dense, sparse, token_dimension, tokens)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    rows,
                )


def _open(path: Path) -> apsw.Connection | None:
    """Open or create the file; None if that is not possible. A damaged file, or one with another
    layout, is deleted: it has no value."""
    for _ in range(2):
        with suppress(apsw.Error, OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            db = apsw.Connection(str(path))
            try:
                db.set_busy_timeout(_BUSY_MS)
                if _prepare(db):
                    return db
            except apsw.Error:
                pass
            db.close()
        with suppress(OSError):
            for end in ("", "-wal", "-shm"):
                path.with_name(path.name + end).unlink(missing_ok=True)
    return None


def _prepare(db: apsw.Connection) -> bool:
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = OFF")  # lost rows are computed again
    version = str(db.execute("PRAGMA user_version").get)
    if version not in ("0", _LAYOUT):
        return False
    with db:
        db.execute(_SCHEMA)
        db.execute(f"PRAGMA user_version = {_LAYOUT}")
    return True


def _read(db: apsw.Connection, model_id: int, key: bytes) -> _Row | None:
    record: Any = db.execute(
        "SELECT dense, sparse, token_dimension, tokens, truncated, checksum, used_day"
        " FROM encodings WHERE model_id = ? AND key = ?",
        (model_id, key),
    ).fetchone()
    if record is None:
        return None
    row = _Row(*record[:5])
    if row.checksum() != record[5]:
        return None
    today = int(time.time()) // _DAY_S
    if record[6] != today:
        db.execute(
            "UPDATE encodings SET used_day = ? WHERE model_id = ? AND key = ?",
            (today, model_id, key),
        )
    return row


def _row(encoding: Encoding) -> _Row:
    return _Row(
        None if encoding.dense is None else encoding.dense.tobytes(),
        None if encoding.sparse is None else json.dumps(dict(encoding.sparse)),
        None if encoding.tokens is None else encoding.tokens.dimension,
        None if encoding.tokens is None else encoding.tokens.data.tobytes(),
        encoding.truncated,
    )


def _cache_row(model_id: int, text: str, encoding: Encoding, today: int) -> Sequence[Any]:
    row = _row(encoding)
    return (
        model_id, _key(text), today, row.size(), row.checksum(),
        row.truncated, row.dense, row.sparse, row.token_dimension, row.tokens,
    )  # fmt: skip


def _trim(db: apsw.Connection, limit_bytes: int) -> None:
    """Delete the least recently used rows until the file is below the limit."""
    total = int(db.execute("SELECT coalesce(sum(bytes), 0) FROM encodings").get)
    if total <= limit_bytes:
        return
    surplus = total - int(limit_bytes * _KEPT_SHARE)
    db.execute(
        "DELETE FROM encodings WHERE rowid IN (SELECT rowid FROM (SELECT rowid,"
        " sum(bytes) OVER (ORDER BY used_day, rowid) - bytes AS before FROM encodings)"
        " WHERE before < ?)",
        (surplus,),
    )
    db.execute("PRAGMA incremental_vacuum").fetchall()


def _key(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _digest(encoding: Encoding) -> bytes:
    """A digest of all outputs of an encoder for a text."""
    return sha256(repr(tuple(_row(encoding))).encode()).digest()


def _floats(data: bytes | None) -> Vector[float]:
    floats = array("f")
    floats.frombytes(data or b"")
    return floats
