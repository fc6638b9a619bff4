"""Files that came through the browser: kept in a folder beside the store, and ingested from there.

The folder is the server's own. So a document that is removed takes its file along, which would
come back with the next ingest otherwise.
"""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path

from kb.app import KnowledgeBase
from kb.atomic import placed
from kb.errors import InvalidRequest, shown
from kb.types import Document, IngestReport

FOLDER = "uploads"
_MAX_NAME_BYTES = 200
_REFUSED = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|\ud800-\udfff]')
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # no file on Windows


def name_of(given: str) -> str:
    """A name that is a file's and nothing else on every system, or `InvalidRequest`."""
    name = unicodedata.normalize("NFC", given)
    usable = (
        name.strip(" .") == name.rstrip(" .") == name
        and name != ""
        and not _REFUSED.search(name)
        and not _DEVICES.fullmatch(name)
        and len(name.encode("utf-8", "replace")) <= _MAX_NAME_BYTES
    )
    if not usable:
        raise InvalidRequest(
            f"{shown(given)} cannot be the name of a file", "use letters, digits, dots and dashes"
        )
    return name


def folder_of(kb: KnowledgeBase) -> Path:
    return kb.path.parent / FOLDER


def keep(kb: KnowledgeBase, given: str, data: bytes) -> IngestReport:
    """Write the file and ingest it. One that kb cannot read is not kept."""
    path = folder_of(kb) / name_of(given)
    with placed(path, overwrite=True) as part:
        part.write_bytes(data)
    report = kb.ingest(path)
    if report.skipped or report.failed:
        path.unlink(missing_ok=True)
        why = (report.skipped or report.failed)[0].reason
        raise InvalidRequest(f"{path.name} cannot be taken: {why}", "see docs/how-to/papers.md")
    return report


def remove(kb: KnowledgeBase, name: str) -> list[str]:
    """Remove a document, and its file if that was uploaded."""
    document = kb.document(name)
    file = _file_of(kb, document)
    removed = kb.remove(document.doc_path)
    if file is not None:
        file.unlink(missing_ok=True)
    return removed


def _file_of(kb: KnowledgeBase, document: Document) -> Path | None:
    folder = os.path.realpath(folder_of(kb))
    own = (root["name"] for root in kb.status()["roots"] if root["path"] == folder)
    uploaded = any(document.doc_path == f"{name}/{document.path}" for name in own)
    return Path(folder) / document.path if uploaded else None
