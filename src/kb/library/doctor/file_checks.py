"""Checks of `doctor` that look beyond the store: at its folders, at its files, at the clock."""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import suppress

from kb.config import IngestConfig
from kb.errors import InvalidCitation, NotFound
from kb.ingest.document_builder import content_digest
from kb.ingest.plan import is_missing
from kb.library.passages import file_data, open_passage
from kb.store import SqliteStore
from kb.text.citations import cite
from kb.types import LINE_TYPES, Document, FilePlace, Finding

_SAMPLED_FILES = 50
_OPENED = ("line", "code", "page")  # kinds of span that a citation leads to


def roots(store: SqliteStore) -> Finding:
    attached = [root for root in store.roots() if not root.detached]
    detached = [root.name for root in store.roots() if root.detached]
    missing = [_shown(root.path) for root in attached if is_missing(root)]
    also = f"; detached: {_some(detached)}" if detached else ""
    if missing:
        advice = "mount or put back the folder, or forget it with: kb rm NAME/"
        return Finding("roots", "warning", f"not there: {_some(missing)}{also}", advice)
    what = f"{_count(len(attached), 'folder')}, all there{also}"
    advice = "to read their files: kb attach NAME FOLDER" if detached else ""
    return Finding("roots", "ok", what, advice)


def expired(store: SqliteStore, now: str) -> Finding:
    count = len(store.expired(now))
    what = f"{_count(count, 'document')} waiting to be removed"
    return Finding("expired", "warning" if count else "ok", what, "kb gc" if count else "")


def files(store: SqliteStore, ingest: IngestConfig) -> Finding:
    """Of some documents: is the file there, is it the one that was read, and does a citation lead
    to the text that was found?"""
    sample = store.health.some_files(_SAMPLED_FILES)
    documents = store.documents_by_id(doc_id for doc_id, _ in sample)
    there = {root.root_id for root in store.roots() if not is_missing(root)}
    sample = [each for each in sample if documents[each[0]].root_id in there]
    states = Counter(_state(store, documents[doc_id], place, ingest) for doc_id, place in sample)
    what = f"{_count(len(sample), 'file')} looked at"
    for state in ("misplaced", "extracted otherwise", "gone", "not readable", "changed"):
        what += f", {states[state]} {state}" if states[state] else ""
    if states["misplaced"]:
        return Finding("files", "error", what, "kb rm the documents, and ingest their folder again")
    if set(states) - {"exact"}:
        return Finding("files", "warning", what, "kb ingest")
    return Finding("files", "ok", f"{what}, as they were read")


def _state(store: SqliteStore, document: Document, place: FilePlace, ingest: IngestConfig) -> str:
    try:
        now = content_digest(file_data(place, ingest))
    except (FileNotFoundError, NotADirectoryError):
        return "gone"
    except OSError:
        return "not readable"
    if now != document.content_hash:
        return "changed"
    return _place(store, document, ingest)


def _place(store: SqliteStore, document: Document, ingest: IngestConfig) -> str:
    """Whether one of its chunks, at random, stands where its citation says."""
    chunks = [chunk for chunk in store.chunks_of(document.doc_id)
              if chunk.spans and chunk.spans[0].kind in _OPENED]  # fmt: skip
    if not chunks:
        return "exact"
    chunk = random.choice(chunks)
    uri = cite(document.doc_path, chunk.spans[0], chunk.section_label).uri
    with suppress(NotFound, InvalidCitation):  # no such line, or page
        if open_passage(store, uri, ingest).state == "exact":
            return "exact"
    # What is taken out of a PDF may change with the library that does it: not the store's fault.
    return "misplaced" if document.type in LINE_TYPES else "extracted otherwise"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (" ..." if names[5:] else "")


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
