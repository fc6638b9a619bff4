"""Runs an ingest, for paths that a caller gives and for files that the server has received."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kb.errors import InvalidRequest, KbError
from kb.ingest.indexer import Indexer
from kb.ingest.plan import contains

if TYPE_CHECKING:
    from kb.ingest.progress import Progress
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import FileState, IngestReport


def ingest(
    kb: KnowledgeBase,
    paths: Sequence[str | os.PathLike[str]],
    *,
    dry_run: bool = False,
    force: bool = False,
    uploaded: bool = False,
    resolve_links: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
) -> IngestReport:
    """See `KnowledgeBase.ingest`. `uploaded` files belong to the folder for uploads, and a file
    that cannot be parsed keeps its earlier document."""
    if not paths and not kb.roots():
        raise InvalidRequest("nothing has been ingested yet", "give a folder: kb ingest FOLDER")
    if not all(isinstance(path, str | os.PathLike) and os.fspath(path) for path in paths):
        raise InvalidRequest("a path to ingest is empty or not a string", "give a file or folder")
    report = Indexer(kb._store, kb.config, kb._clock).ingest(
        [os.path.expanduser(os.fspath(path)) for path in paths],
        dry_run=dry_run,
        force=force,
        uploaded=uploaded,
        resolve_links=resolve_links,
        on_event=on_progress,
    )
    if not dry_run and (report.added or report.changed or report.removed):
        kb._store.fulltext.build_index()
    return replace(report, notes=_notes(kb, report))


def ingest_upload(kb: KnowledgeBase, path: Path, *, dry_run: bool = False) -> IngestReport:
    """Ingest a file that the server has written to the folder for uploads."""
    return ingest(kb, [path], dry_run=dry_run, uploaded=True)


def single_files(kb: KnowledgeBase) -> set[str]:
    """The paths of the files that were ingested one by one, uploads included."""
    return {
        os.path.join(root.path, state.path if state.os_path is None else os.fsdecode(state.os_path))
        for root in kb.roots()
        if not root.whole and not root.detached
        for state in kb._store.catalog.file_states(root.root_id).values()
        if not state.detached
    }


def ensure_store(kb: KnowledgeBase) -> None:
    """Create the store if there is none. Raises `StoreMissing` if it was moved while it was
    open."""
    if not kb._store.exists():
        kb._store.create()


def unchanged_files(kb: KnowledgeBase, folder: Path) -> set[str]:
    """The names of the files directly in `folder` that the store has indexed and that are unchanged
    since."""
    path, names = os.path.realpath(folder), set()
    for root in kb.roots():
        if root.detached or not contains(root.path, path):
            continue
        for state in kb._store.catalog.file_states(root.root_id).values():
            parent, name = os.path.split(os.path.join(root.path, state.path))
            if parent == path and not state.detached and _is_unchanged(parent, name, state):
                names.add(name)
    return names


def _is_unchanged(folder: str, name: str, state: FileState) -> bool:
    try:
        info = os.lstat(os.path.join(folder, name))
    except OSError:
        return False
    now = (info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    return now == (state.size_bytes, state.mtime_ns, state.ctime_ns)


def _notes(kb: KnowledgeBase, report: IngestReport) -> tuple[str, ...]:
    """Suggest another model if the active one cannot read the languages of the documents."""
    from kb import models
    from kb.embedding.language_coverage import suggestion

    if report.dry_run or not (report.added or report.changed):
        return ()
    try:
        encoder = kb.encoder()
    except KbError:  # an unusable model is reported elsewhere
        return ()
    if encoder is None:
        return ()
    languages = kb._store.catalog.languages()
    other = models.info(kb.config, models.KB_MINI).spec
    text = suggestion(languages, encoder.spec, other) if other is not None else ""
    return (text,) if text else ()
