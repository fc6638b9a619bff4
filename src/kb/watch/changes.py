"""From changed paths to the folders that are to be read again. Pure, but for a look at what is
there.

Folders rather than files: a new ignore file concerns everything below it, a moved folder comes
with all that is in it, and the old place of a renamed file tells nothing without the new one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from kb.ingest.file_names import TOOL_FOLDERS
from kb.ingest.ignore import IGNORE_FILES


def concerns(path: str, root: str, *, hidden: bool) -> bool:
    """Whether a change at `path` could mean something to a store that knows `root`."""
    *folders, name = os.path.relpath(path, root).split(os.sep)
    for step in (*folders, *([] if name in IGNORE_FILES else [name])):
        if step in TOOL_FOLDERS or (step.startswith(".") and step != "." and not hidden):
            return False
    return True


def folders_of(
    paths: Iterable[str], roots: Sequence[str], *, hidden: bool, store: str
) -> list[str]:
    """The folders to be read again after changes at `paths`, none inside another. `store` is the
    store's file, whose changes are our own."""
    found: set[str] = set()
    for path in paths:
        if path.startswith(store):
            continue
        # Innermost: roots may lie in each other.
        root = max((one for one in roots if _inside(path, one)), key=len, default=None)
        if root is not None and concerns(path, root, hidden=hidden):
            found.add(_nearest(path, root))
    return outermost(found)


def outermost(folders: Iterable[str]) -> list[str]:
    """`folders` without those that lie in another of them."""
    kept: list[str] = []
    for folder in sorted(folders, key=len):
        if not any(_inside(folder, other) for other in kept):
            kept.append(folder)
    return sorted(kept)


def _nearest(path: str, root: str) -> str:
    """The folder that `path` is in, or the nearest one above that is still there, and no link."""
    folder = os.path.dirname(path) if path != root else root
    while folder != root and not (os.path.isdir(folder) and os.path.realpath(folder) == folder):
        folder = os.path.dirname(folder)
    return folder


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
