"""The hits of the last search in this terminal, so that `kb get 3` prints one
and `kb open 3` opens it.

A file in the user's state folder holds the citations of one search: the last one of a store in a
terminal. Only the user can read it. It is a convenience: if it cannot be written, searches still
work, and `kb get` and `kb open` need a citation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from zlib import crc32  # `hashlib` takes longer to import

from kb.paths import user_folder
from kb.values import Any

_FOLDER = "hits"
_MAX_BYTES = 1 << 20
_MAX_FILES = 100  # the oldest are removed


def save(store: str | os.PathLike[str], terminal: str, uris: Sequence[str]) -> None:
    """Record the citations of a search, in the order of the hits."""
    key = _key(store, terminal)
    content = json.dumps(key | {"uris": list(uris)}).encode()
    with suppress(OSError):
        folder = _make_folder()
        if len(content) <= _MAX_BYTES:
            _replace(os.path.join(folder, _file_name(key)), content)
        _remove_oldest(folder)


def load(store: str | os.PathLike[str], terminal: str) -> list[str] | None:
    """Return the citations of the last search; None if none is recorded."""
    from kb.regular_files import read_file

    key = _key(store, terminal)
    try:
        record = json.loads(read_file(os.path.join(_folder(), _file_name(key)), _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or any(record.get(name) != key[name] for name in key):
        return None
    uris = record.get("uris")
    return uris if isinstance(uris, list) and all(isinstance(uri, str) for uri in uris) else None


def _key(store: str | os.PathLike[str], terminal: str) -> dict[str, Any]:
    """The key of a search. Terminal names are reused, but sessions are not."""
    name, _, session = terminal.rpartition(" ")
    return {"store": os.path.realpath(store), "terminal": name, "session": session}


def _file_name(key: dict[str, Any]) -> str:
    """The name of a file that a later session of the same terminal replaces."""
    return f"{crc32(os.fsencode(key['store'])):08x}-{crc32(key['terminal'].encode()):08x}.json"


def _folder() -> str:
    return os.path.join(user_folder("state"), _FOLDER)


def _make_folder() -> str:
    folder = _folder()
    if not os.path.isdir(folder):
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def _replace(path: str, content: bytes) -> None:
    """Replace a file that only the user can read; never follows a link."""
    part = f"{path}.{os.getpid()}"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(part, path)
    except OSError:
        os.unlink(part)
        raise


def _remove_oldest(folder: str) -> None:
    names = os.listdir(folder)
    if len(names) <= _MAX_FILES:
        return
    paths = [os.path.join(folder, name) for name in names]
    for path in sorted(paths, key=os.path.getmtime)[:-_MAX_FILES]:
        os.unlink(path)
