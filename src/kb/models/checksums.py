"""SHA-256 of model files, cached for large ones.

Hashing a file of gigabytes takes longer than loading it. So its hash is kept in the cache folder
and used until the size or modification time of the file changes; `kb models verify` reads every
byte again.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from kb.errors import KbError
from kb.locations import cache_folder
from kb.regular_files import open_file

_BLOCK_BYTES = 1 << 20
_LARGE_BYTES = 64 << 20  # smaller files take less than 0.1 s


def sha256_of(path: Path) -> str:
    """Hash every byte of the file. Raises `OSError`."""
    from hashlib import sha256

    digest = sha256()
    with open_file(path, links="follow") as file:
        while block := os.read(file.descriptor, _BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def cached_sha256(path: Path, *, large_bytes: int = _LARGE_BYTES) -> str:
    """The hash of a file, from the cache if the file is large and unchanged. Raises `OSError`."""
    info = path.stat()
    if info.st_size < large_bytes:
        return sha256_of(path)
    mark = [info.st_size, info.st_mtime_ns]
    cache = _read()
    entry = cache.get(str(path))
    if isinstance(entry, dict) and entry.get("mark") == mark:
        known = entry.get("sha256")
        if isinstance(known, str):
            return known
    digest = sha256_of(path)
    _write(cache | {str(path): {"mark": mark, "sha256": digest}})
    return digest


def _file() -> Path:
    return cache_folder() / "hashes.json"


def _read() -> dict[str, Any]:
    try:
        data = json.loads(_file().read_bytes())
    except (OSError, ValueError, RecursionError):  # a missing or damaged cache is an empty one
        return {}
    return data if isinstance(data, dict) else {}


def _write(cache: dict[str, Any]) -> None:
    from kb.atomic import atomic_path

    kept = {path: entry for path, entry in cache.items() if Path(path).exists()}
    # Everything works without the cache, only more slowly.
    with suppress(OSError, KbError), atomic_path(_file(), overwrite=True) as part:
        part.write_text(json.dumps(kept), encoding="utf-8")
