"""`kb doctor`: runs all checks of a store, and rebuilds derived data.

The store provides the checks of its own data. The checks here cover the rest: the model, folders
and files, the clock and the disk. A failed check does not stop the others, and a store too damaged
to be opened is reported as a finding.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from kb import __version__
from kb.config import Config, IngestConfig
from kb.errors import (
    InvalidCitation,
    KbError,
    ModelBroken,
    NotFound,
    StoreMissing,
    StoreReadOnly,
    StoreTooNew,
    StoreUnusable,
)
from kb.ingest.document_builder import build_note, content_digest
from kb.ingest.plan import is_missing
from kb.library.passages import file_data, open_passage
from kb.library.status import checked_encoder
from kb.ports import Check, Store
from kb.search.retrievers.availability import EncoderSource, no_encoder
from kb.text.citations import cite
from kb.text.units import format_bytes
from kb.types import LINE_TYPES, Attributes, Diagnosis, Document, FileLocation, Finding

_RESTORE = "restore a backup, or remove the store and ingest again"
_SAMPLED_FILES = 50
_OPENABLE_SPANS = ("line", "code", "page")  # the kinds of span whose citations can be opened


def examine(
    store: Store,
    now: str,
    source: EncoderSource = no_encoder,
    ingest: IngestConfig | None = None,
    *,
    fix: bool = False,
) -> Diagnosis:
    """Check every part of the store, and with `fix` repair it. `now` decides which documents have
    expired, `source` returns the encoder, and `ingest` decides which files may be read."""
    opened = _open(store)
    findings = [opened]
    if opened.state != "error":
        checks = _checks(store, now, source, ingest or IngestConfig())
        findings += [_examine(check, fix) for check in checks]
    return Diagnosis(store.location, tuple(findings))


def _open(store: Store) -> Finding:
    if not store.exists():
        raise StoreMissing(
            f"there is no store at {store.location}", "create one with: kb ingest FOLDER"
        )
    try:
        versions = {"kb": __version__} | store.maintenance.versions()
    except (StoreUnusable, StoreTooNew) as error:
        return Finding("file", "error", error.message, error.hint)
    return Finding("file", "ok", f"can be opened; {', '.join(map(' '.join, versions.items()))}")


def _checks(store: Store, now: str, source: EncoderSource, ingest: IngestConfig) -> Iterator[Check]:
    yield from store.maintenance.checks(partial(_rechunk_note, store))
    yield Check("pending", partial(_pending, store))
    yield Check("model", partial(_model, store, source))
    yield Check("files", partial(_files, store, ingest))
    yield Check("roots", partial(_roots, store))
    yield Check("expired", partial(_expired_documents, store, now))
    yield Check("disk", partial(_disk, store))


def _examine(check: Check, fix: bool) -> Finding:
    """Run a check; with `fix`, repair what it finds and check again."""
    finding = _run(check)
    if not fix or finding.state == "ok" or check.repair is None:
        return finding
    try:
        to_do = check.repair() or ""
    except StoreReadOnly:
        raise
    except KbError as error:
        return replace(finding, to_do=f"it could not be repaired: {error.message}; {_RESTORE}")
    # As below: other parts can still be repaired.
    except Exception as error:  # noqa: BLE001
        return replace(finding, to_do=f"it could not be repaired: {error}; {_RESTORE}")
    again = _run(check)
    return replace(finding, to_do=to_do, fixed=True) if again.state == "ok" else again


def _run(check: Check) -> Finding:
    try:
        return check.run()
    except KbError as error:
        return Finding(check.part, "error", error.message, error.hint)
    # A damaged page can raise anything, and the other checks are still useful.
    except Exception as error:  # noqa: BLE001
        return Finding(check.part, "error", f"cannot be read: {error}", _RESTORE)


def _rechunk_note(store: Store, doc_id: int) -> None:
    """Split the text of a note into chunks again."""
    text = store.catalog.body(doc_id) or ""
    note = build_note(text, Attributes(), 0, Config().chunk.max_chars)
    title = store.catalog.documents_by_id([doc_id])[doc_id].title
    store.catalog.write_chunks(doc_id, replace(note.draft, title=title), note.chunks)


# --- vectors and models ---------------------------------------------------------------------------


def _pending(store: Store) -> Finding:
    for model in store.vectors.model_counts()[:1]:
        ready, pending, failed = model["ready"], model["pending"], model["failed"]
        have = "1 chunk has" if ready == 1 else f"{ready} chunks have"
        parts = f"(sparse {model['sparse']}, tokens {model['tokens']})"
        what = f"{have} vectors {parts}, {pending} {'waits' if pending == 1 else 'wait'} for them"
        if failed:
            has = "has" if failed == 1 else "have"
            what += f", {failed} {has} failed permanently: {model['last_error']}"
        to_do = "kb embed --retry" if failed else "kb embed" if pending else ""
        return Finding("pending", "warning" if to_do else "ok", what, to_do)
    return Finding("pending", "ok", "no model has been used yet")


def _model(store: Store, source: EncoderSource) -> Finding:
    """Whether the model of the store's vectors can be used. Without vectors, a missing model is a
    warning only: search by words works without one."""
    stored = next((model for model in store.vectors.models() if model.ready), None)
    try:
        encoder = checked_encoder(source)
    except KbError as error:
        serious = stored is not None or isinstance(error, ModelBroken)
        return Finding("model", "error" if serious else "warning", error.message, error.hint)
    if encoder is None:
        return Finding("model", "ok", "disabled: search uses words only")
    spec = encoder.spec
    if stored is None or (stored.name, stored.version) == (spec.name, spec.version):
        return Finding("model", "ok", f"{spec.name} {spec.version}")
    what = (
        f"the vectors were computed by {stored.name} {stored.version}, not by {spec.name} "
        f"{spec.version}: search uses words only"
    )
    return Finding("model", "warning", what, "kb embed --anew")


# --- folders and files ----------------------------------------------------------------------------


def _files(store: Store, ingest: IngestConfig) -> Finding:
    """For a sample of documents: whether the file exists, whether it is unchanged, and whether a
    citation leads to the indexed text."""
    sample = store.catalog.sample_files(_SAMPLED_FILES)
    documents = store.catalog.documents_by_id(doc_id for doc_id, _ in sample)
    present = {root.root_id for root in store.catalog.roots() if not is_missing(root)}
    sample = [each for each in sample if documents[each[0]].root_id in present]
    states = Counter(
        _file_state(store, documents[doc_id], location, ingest) for doc_id, location in sample
    )
    what = f"{_count(len(sample), 'file')} checked"
    for state in ("misplaced", "extracted differently", "gone", "not readable", "changed"):
        what += f", {states[state]} {state}" if states[state] else ""
    if states["misplaced"]:
        return Finding(
            "files", "error", what, "remove the documents with kb rm, and ingest their folder again"
        )
    if set(states) - {"exact"}:
        return Finding("files", "warning", what, "kb ingest")
    return Finding("files", "ok", f"{what}, all unchanged")


def _file_state(
    store: Store, document: Document, location: FileLocation, ingest: IngestConfig
) -> str:
    try:
        content_hash = content_digest(file_data(location, ingest))
    except (FileNotFoundError, NotADirectoryError):
        return "gone"
    except OSError:
        return "not readable"
    if content_hash != document.content_hash:
        return "changed"
    return _citation_state(store, document, ingest)


def _citation_state(store: Store, document: Document, ingest: IngestConfig) -> str:
    """Whether the citation of a random chunk leads to its text."""
    chunks = [
        chunk
        for chunk in store.catalog.chunks(document.doc_id)
        if chunk.spans and chunk.spans[0].kind in _OPENABLE_SPANS
    ]
    if not chunks:
        return "exact"
    chunk = random.choice(chunks)
    uri = cite(document.doc_path, chunk.spans[0], chunk.section_label).uri
    with suppress(NotFound, InvalidCitation):  # no such line or page
        if open_passage(store, uri, ingest).state == "exact":
            return "exact"
    # A newer PDF library may extract different text, which is not the store's fault.
    return "misplaced" if document.type in LINE_TYPES else "extracted differently"


def _roots(store: Store) -> Finding:
    roots = store.catalog.roots()
    attached = [root for root in roots if not root.detached]
    detached = [root.name for root in roots if root.detached]
    missing = [_visible(root.path) for root in attached if is_missing(root)]
    also = f"; detached: {_first(detached)}" if detached else ""
    if missing:
        to_do = "mount or restore the folder, or remove it from the store with: kb rm NAME/"
        return Finding("roots", "warning", f"missing: {_first(missing)}{also}", to_do)
    what = f"{_count(len(attached), 'folder')}, none missing{also}"
    to_do = "to read their files: kb attach NAME FOLDER" if detached else ""
    return Finding("roots", "ok", what, to_do)


def _expired_documents(store: Store, now: str) -> Finding:
    count = len(store.catalog.expired(now))
    what = f"{_count(count, 'expired document')} to remove"
    return Finding("expired", "warning" if count else "ok", what, "kb gc" if count else "")


def _disk(store: Store) -> Finding:
    """Whether the disk has space for a checkpoint of the log, and for another copy of the store."""
    usage = store.maintenance.disk_usage()
    what = f"the store takes {format_bytes(usage.size_bytes)}"
    if usage.free_bytes is None or usage.total_bytes is None:
        return Finding("disk", "ok", what)
    what += f"; {format_bytes(usage.free_bytes)} free on its disk"
    reserve = min(usage.total_bytes // 20, 2 * usage.size_bytes)
    if usage.free_bytes < 2 * usage.log_bytes or usage.free_bytes < reserve:
        return Finding("disk", "warning", what, "free some space")
    return Finding("disk", "ok", what)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _first(names: list[str]) -> str:
    return ", ".join(names[:5]) + (" ..." if names[5:] else "")


def _visible(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
