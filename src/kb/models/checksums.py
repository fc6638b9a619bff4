"""SHA-256 of files, and the memory of what large ones had.

Models of gigabytes are loaded by commands that take a second: reading every byte each time would
take longer than loading. What was read once is remembered in the cache folder for as long as the
file keeps its size and its time; `kb models verify` reads every byte again.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from kb.config import cache_folder
from kb.errors import KbError
from kb.regular_files import open_file

_BLOCK_BYTES = 1 << 20
_LARGE_BYTES = 64 << 20  # smaller ones are read in less than a tenth of a second


def sha256_of(path: Path) -> str:
    """Of every byte, as they are now. Raises `OSError`."""
    from hashlib import sha256

    digest = sha256()
    with open_file(path, links="follow") as file:
        while block := os.read(file.descriptor, _BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def known_sha256(path: Path, *, large_bytes: int = _LARGE_BYTES) -> str:
    """The same, from memory where the file is large and looks as it did then."""
    facts = path.stat()
    if facts.st_size < large_bytes:
        return sha256_of(path)
    mark = [facts.st_size, facts.st_mtime_ns]
    memory = _read()
    known = memory.get(str(path))
    if isinstance(known, dict) and known.get("mark") == mark:
        return str(known["sha256"])
    found = sha256_of(path)
    _write(memory | {str(path): {"mark": mark, "sha256": found}})
    return found


def _file() -> Path:
    return cache_folder() / "hashes.json"


def _read() -> dict[str, Any]:
    try:
        data = json.loads(_file().read_bytes())
    except (OSError, ValueError):  # a memory that is not there or damaged is an empty one
        return {}
    return data if isinstance(data, dict) else {}


def _write(memory: dict[str, Any]) -> None:
    from kb.atomic import atomic_path

    kept = {path: known for path, known in memory.items() if Path(path).exists()}
    # Without a memory everything works, only slower.
    with suppress(OSError, KbError), atomic_path(_file(), overwrite=True) as part:
        part.write_text(json.dumps(kept), encoding="utf-8")
