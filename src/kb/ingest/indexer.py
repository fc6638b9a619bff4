"""The indexer: brings the store up to date with the folders.

The last stage of ingest, and the only one that writes. Short documents share a transaction; a long
one has its own. A bad file never stops a run; a store that cannot be written does.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from kb.config import Config
from kb.errors import InvalidRequest, KbError
from kb.ingest import document_builder, file_names, parser_pool
from kb.ingest.changes import RootScan, scan_root
from kb.ingest.decode import Unavailable, Unsupported
from kb.ingest.file_entry import FileEntry, is_within
from kb.ingest.file_reader import read_and_detect
from kb.ingest.parse import Parsers
from kb.ingest.parser_limits import Limits
from kb.ingest.parser_pipeline import ParserPipeline, PipelinedParsing
from kb.ingest.plan import ScanTarget, make_plan
from kb.ingest.progress import OnEvent, Progress, ProgressReporter
from kb.ingest.renames import MissingDocument, RenameIndex
from kb.ingest.report import ReportBuilder, reason_of
from kb.ingest.secret_files import included_paths, is_included
from kb.ingest.small_files import (
    LocalParsing,
    can_parse_locally,
    is_short_text,
    may_need_process,
)
from kb.ingest.walk import WalkResult
from kb.ingest.write_batch import WriteBatch
from kb.logs import logger
from kb.ports import Clock, Source, Store
from kb.regular_files import ReadRefused
from kb.text.timestamps import utc_timestamp
from kb.types import (
    Attributes,
    ChunkChanges,
    Document,
    DocumentWrite,
    FileNote,
    FileState,
    IngestReport,
    Renamed,
    Root,
)

__all__ = ["Indexer", "OnEvent", "Progress"]

# A file modified this shortly before it was indexed may have changed again within the same tick of
# the file system's clock, so its modification time proves nothing.
_RACY_NS = 2_000_000_000
_MAX_AHEAD = 32  # how many files may be read ahead
_WORTH_PIPELINE = 200  # new files; with fewer, starting a process takes longer than it saves


class Indexer:
    """Brings a store up to date with the ingested folders and files."""

    def __init__(self, store: Store, config: Config, clock: Clock = time.time) -> None:
        self._store = store
        self._config = config
        self._clock = clock

    def ingest(
        self,
        paths: Iterable[str | os.PathLike[str]] = (),
        *,
        dry_run: bool = False,
        force: bool = False,
        uploaded: bool = False,
        resolve_links: bool = True,
        on_event: OnEvent | None = None,
    ) -> IngestReport:
        """Index `paths`, or refresh all roots if `paths` is empty.

        `dry_run` only reports what would be written. `force` also reads unchanged files. `uploaded`
        files belong to their own folder, and one that cannot be read keeps its earlier document.
        Without `resolve_links`, a path that leads through a link is skipped.
        """
        started = time.perf_counter()
        parsers = Parsers(self._config.chunk.max_chars)
        progress = ProgressReporter(on_event)
        batch = WriteBatch(self._store.catalog)
        run = _Run(
            self._store, self._config, self._clock, parsers, dry_run, force, uploaded, progress,
            batch,
        )  # fmt: skip
        run.run([os.fspath(path) for path in paths], resolve_links)
        return run.report.build(seconds=time.perf_counter() - started, dry_run=dry_run)

    def note(
        self,
        text: str,
        attributes: Attributes | None = None,
        *,
        replaces: Document | None = None,
        on_warning: Callable[[str], None] | None = None,
    ) -> ChunkChanges:
        """Store a note, which has no file; the store assigns it the path `note:<id>`. With
        `replaces`, it takes the place of that note with all of its tags. The note must be
        unchanged: otherwise `EditConflict` is raised.

        `on_warning` is called for each part of its front matter that is ignored, and for a secret
        token in its text; without it, the warnings are logged.
        """
        if not text.strip():
            raise InvalidRequest(
                "a note needs text", "give it as an argument, or use - to read stdin"
            )
        note = document_builder.build_note(
            text, attributes or Attributes(), int(self._clock() * 1e9), self._config.chunk.max_chars
        )
        draft = note.draft
        if replaces is not None:
            draft = replace(draft, path=replaces.doc_path, doc_path=replaces.doc_path)
        write = DocumentWrite(draft, note.chunks, replaces=replaces)
        (written,) = self._store.catalog.write_documents([write])
        for warning in note.warnings:
            (on_warning or logger(__name__).warning)(warning)
        return written


@dataclass(slots=True)
class _File:
    """A file that is being indexed.

    `parsing` stays None if the file is unchanged; `touched` means that its bytes had to be read to
    detect that. `looks_same` means that the stored hash and parser are the same, but came from an
    import: only parsing shows whether the stored passages are those of the file.
    """

    scan: RootScan
    entry: FileEntry
    state: FileState | None
    doc_path: str
    displaces: int | None = None  # the document that occupies its path and is moved away
    is_read: bool = False
    touched: bool = False
    looks_same: bool = False
    content_hash: str = ""
    version: str = ""
    parsing: parser_pool.Parsing | LocalParsing | None = None
    error: Exception | None = None

    def close(self) -> None:
        if self.parsing is not None:
            self.parsing.close()


@dataclass(slots=True)
class _Run:
    """One run of `Indexer.ingest`."""

    store: Store
    config: Config
    clock: Clock
    parsers: Parsers
    dry_run: bool
    force: bool
    uploaded: bool
    progress: ProgressReporter
    batch: WriteBatch
    report: ReportBuilder = field(default_factory=ReportBuilder)
    versions: frozenset[str] = frozenset()
    renames: RenameIndex = field(default_factory=RenameIndex)
    included: tuple[str, ...] = ()  # files to read although they look like secrets
    files: Iterator[tuple[RootScan, FileEntry]] = field(default_factory=lambda: iter(()))
    ahead: deque[_File] = field(default_factory=deque)  # files that were read ahead
    pipeline: ParserPipeline | None = None

    def run(self, paths: Iterable[str | os.PathLike[str]], resolve_links: bool) -> None:
        self.included = included_paths(self.config.ingest.include_secrets)
        max_chars = self.config.chunk.max_chars
        self.versions = frozenset(
            document_builder.chunker_version(parser, max_chars) for parser in self.parsers
        )
        scans = self._scan(paths, resolve_links)
        total, done = sum(len(scan.walk.files) for scan in scans), 0
        if any(_may_need_process(scan) for scan in scans):
            parser_pool.warm_up()
        if _is_worth_pipeline(scans):
            limits = Limits.from_config(self.config.ingest)
            self.pipeline = ParserPipeline(max_chars, limits, self._on_wait)
        # An upload is a copy, never a file that was moved from another folder.
        other_scans = tuple if self.uploaded else partial(self._other_scans, scans)
        self.renames = RenameIndex.build(scans, self._digest, other_scans)
        self.files = ((scan, entry) for scan in scans for entry in scan.walk.files)
        try:
            while (file := self._next_file()) is not None:
                with closing(file):
                    self.progress.start("read", done, total, file.doc_path)
                    self._process(file)
                done += 1
        finally:
            for file in self.ahead:
                file.close()
            if self.pipeline is not None:
                self.pipeline.close()
            self.batch.write()  # finished files are kept, however the run ends
        if not self.dry_run:
            self._keep_tags()
        # Last, since a file that is missing here may have appeared in another root.
        for scan in scans:
            self._remove(scan)
        if self.report.renamed and not self.dry_run:
            self.store.catalog.delete_documents(())  # deletes empty roots of single files too
        self.progress.start("read", done, total)
        self.report.warnings += self.parsers.problems

    # --- which files ------------------------------------------------------------------------------

    def _scan(self, paths: Iterable[str | os.PathLike[str]], resolve_links: bool) -> list[RootScan]:
        roots = self.store.catalog.roots()
        plan = make_plan(
            paths,
            roots,
            self._has_documents,
            uploaded=self.uploaded,
            resolve_links=resolve_links,
            include_secrets=self.included,
        )
        self.report.missing_roots += plan.missing
        self.report.skipped += plan.skipped
        self.report.failed += plan.failed
        self.report.warnings += [
            FileNote(
                f"{root.name}/", f"detached; to read its files, run: kb attach {root.name} FOLDER"
            )
            for root in plan.detached
        ]
        scanned = {target.path for target in plan.targets}
        self.report.warnings += [
            FileNote(
                f"{root.name}/",
                f"belonged to the machine {root.machine}, where it is detached from now on; "
                f"to return it, run there: kb attach {root.name} FOLDER",
            )
            for root in roots
            if root.machine is not None and root.path in scanned
        ]
        known = [(target, self._root(target)) for target in plan.targets]
        roots = [root for root in self.store.catalog.roots() if not root.detached]
        scans: list[RootScan] = []
        for target, root in known:
            self.progress.start(
                "walk", len(scans), len(known), file_names.portable_path(target.path)
            )
            scan = scan_root(target, root, self.store, roots, self.config.ingest)
            self.report.skipped += scan.notes(scan.walk.skipped)
            self.report.warnings += scan.notes((*scan.walk.warnings, *scan.unread_changes()))
            scans.append(scan)
        return scans

    def _has_documents(self, root: Root, path: str) -> bool:
        return any(is_within(known, path) for known in self.store.catalog.file_states(root.root_id))

    def _root(self, target: ScanTarget) -> Root | None:
        """Find or create the root in the store. A root of single files is created with its first
        document."""
        if self.dry_run or (target.root is None and not target.whole):
            return target.root
        known = target.root
        if known is not None and known.whole == target.whole and not known.detached:
            return known
        return self.store.catalog.ensure_root(target.path, whole=target.whole)

    def _other_scans(self, scans: Sequence[RootScan]) -> Iterator[RootScan]:
        """The documents of attached folders that this run does not scan, as scans without files."""
        for root in self.store.catalog.roots():
            if root.detached:
                continue
            parts = [scan.target.part for scan in scans if scan.target.path == root.path]
            states = {
                path: state
                for path, state in self.store.catalog.file_states(root.root_id).items()
                if not state.detached and not any(is_within(path, part) for part in parts)
            }
            if states:
                target = ScanTarget(root.path, root.whole, root)
                yield RootScan(target, root, WalkResult((), (), ()), states)

    # --- one file ---------------------------------------------------------------------------------

    def _next_file(self) -> _File | None:
        """Return the first file that was read ahead, or else the next one."""
        if self.ahead:
            return self.ahead.popleft()
        if (following := next(self.files, None)) is None:
            return None
        scan, entry = following
        state = scan.states.get(entry.path)
        doc_path = scan.doc_path(entry.path)
        if state is not None and state.doc_id in self.renames.leaving:
            return _File(scan, entry, None, doc_path, displaces=state.doc_id)
        return _File(scan, entry, state, doc_path)

    def _digest(self, scan: RootScan, entry: FileEntry) -> str | None:
        """The digest of a file's content; None if the file cannot be read."""
        ingest = self.config.ingest
        try:
            _, _, data = read_and_detect(
                scan.target.path, entry, self.parsers, ingest.max_file_bytes,
                follow_links=ingest.follow_links, include_secrets=self.included,
            )  # fmt: skip
        except (OSError, Unsupported, ReadRefused):
            return None
        return document_builder.content_digest(data)

    def _read_ahead(self) -> None:
        """Start parsing the next files while this one is written: several short ones, or a long
        one. Their errors are raised later, when they are processed."""
        ahead, self.ahead = self.ahead, deque()
        while len(ahead) < _MAX_AHEAD and (not ahead or self._is_pipelined(ahead[-1])):
            if (file := self._next_file()) is None:
                break
            ahead.append(file)
            try:
                self._read(file)
            except Exception as error:  # noqa: BLE001 (`_update` raises it)
                file.error = error
        self.ahead = ahead

    def _is_pipelined(self, file: _File) -> bool:
        return self.pipeline is not None and (
            file.parsing is None or isinstance(file.parsing, PipelinedParsing)
        )

    def _read(self, file: _File) -> None:
        """Read the file and start parsing it, unless it is unchanged."""
        file.is_read = True
        state = file.state
        if state is not None and not self.force and self._is_unchanged(state, file.entry):
            return
        ingest, max_chars = self.config.ingest, self.config.chunk.max_chars
        file.entry, parser, data = read_and_detect(
            file.scan.target.path,
            file.entry,
            self.parsers,
            ingest.max_file_bytes,
            follow_links=ingest.follow_links,
            include_secrets=self.included,
        )
        file.content_hash = document_builder.content_digest(data)
        file.version = document_builder.chunker_version(parser, max_chars)
        now = (file.content_hash, file.version)
        if state and not self.force and now == (state.content_hash, state.chunker_version):
            if not state.detached:
                file.touched = True
                return
            file.looks_same = True
        name = os.path.basename(file.entry.path)
        source = Source(name, data, file.entry.mtime_ns, self.progress.parse_progress)
        if self.pipeline is not None and is_short_text(parser, data):
            file.parsing = self.pipeline.start(self.parsers.location(parser), source)
            return
        if can_parse_locally(parser, data):
            file.parsing = LocalParsing(parser, source, max_chars)
            return
        location, limits = self.parsers.location(parser), Limits.from_config(ingest)
        file.parsing = parser_pool.start(location, source, max_chars, limits, self._on_wait)

    def _on_wait(self) -> None:
        """Called a few times a second while a file is parsed."""
        self.progress.repeat()
        self.batch.write_if_old()

    def _process(self, file: _File) -> None:
        doc_path = file.doc_path
        try:
            self._update(file)
        except KbError:
            # The store or the parser processes have failed, so every other file would fail too.
            raise
        except Unsupported as unsupported:
            self.report.skipped.append(FileNote(doc_path, unsupported.reason))
            if not isinstance(unsupported, Unavailable) and not self.uploaded:
                return
        except FileNotFoundError:
            # The next run decides whether it was really removed.
            self.report.skipped.append(FileNote(doc_path, "vanished before it was read"))
        except ReadRefused as refused:  # replaced after the walk; the next run decides
            self.report.skipped.append(FileNote(doc_path, refused.reason))
        # Files and parsers may come from anywhere: an error in one file, even a bug, must not
        # affect the others. The file keeps its earlier document.
        except Exception as error:  # noqa: BLE001
            self.report.failed.append(FileNote(doc_path, reason_of(error)))
        file.scan.kept_paths.add(file.entry.path)

    def _update(self, file: _File) -> None:
        """Bring the store up to date with the file. It is parsed to its end before it is written:
        otherwise other writers would wait for the parser."""
        if file.error is not None:
            raise file.error
        if not file.is_read:
            self._read(file)
        state = file.state
        if file.parsing is None:
            assert state is not None, "only a file with a record can be unchanged"
            self.report.unchanged += 1
            if file.touched:
                self._touch(state, file.entry)
            return
        with file.parsing as parsing:
            document = document_builder.build_document(
                file.entry,
                parsing.document(),
                file.content_hash,
                file.version,
                secret_allowed=self._is_included(file),
            )
            parsing.receive_all()
            self._read_ahead()
            if state is None and self._is_expired(document):
                expired = document.draft.attributes.expires_at
                self.report.skipped.append(FileNote(file.doc_path, f"expired {expired}"))
                return
            match = self.renames.pop_match(file.scan, document.draft) if state is None else None
            self._write(file, document, parsing, renamed_from=match)

    def _is_included(self, file: _File) -> bool:
        """Whether the settings name the file as one to read even if it holds a secret."""
        if not self.included:
            return False
        path = os.path.join(file.scan.target.path, file.entry.disk_path)
        return is_included(os.path.realpath(path), self.included)

    def _is_unchanged(self, state: FileState, entry: FileEntry) -> bool:
        return (
            _stat_of(state) == (entry.size, entry.mtime_ns, entry.ctime_ns, entry.os_path)
            and not state.detached
            and state.chunker_version in self.versions
            and state.indexed_ns - entry.mtime_ns >= _RACY_NS
        )

    def _is_expired(self, document: document_builder.PreparedDocument) -> bool:
        """Whether a new document has already expired: `kb gc` would only remove it again."""
        expires_at = document.draft.attributes.expires_at
        now = utc_timestamp(self.clock())
        return expires_at is not None and expires_at <= now

    # --- into the store ---------------------------------------------------------------------------

    def _touch(self, state: FileState, entry: FileEntry) -> None:
        """Record the new times of an unchanged file if that saves hashing it in the next run."""
        now = replace(
            state,
            size_bytes=entry.size,
            mtime_ns=entry.mtime_ns,
            ctime_ns=entry.ctime_ns,
            device=entry.device,
            os_path=entry.os_path,
            detached=False,
        )
        still_racy = self.clock() * 1e9 - entry.mtime_ns < _RACY_NS
        if not self.dry_run and not (now == state and still_racy):
            self.store.catalog.touch_file(now)

    def _write(
        self,
        file: _File,
        document: document_builder.PreparedDocument,
        parsing: parser_pool.Parsing | LocalParsing,
        *,
        renamed_from: MissingDocument | None,
    ) -> None:
        chunks = self.progress.count(document.chunks)
        if self.dry_run:
            deque(chunks, maxlen=0)  # parse to the end, so that all errors are reported
            self._report(file, file.doc_path, document, renamed_from, None)
            return
        scan = file.scan
        if scan.root is None:
            scan.root = self.store.catalog.ensure_root(scan.target.path, whole=False)
        draft = document.in_root(scan.root)
        moved_from = renamed_from.doc_id if renamed_from is not None else None
        on_written = partial(self._report, file, draft.doc_path, document, renamed_from)
        if parsing.is_short:
            write = DocumentWrite(draft, list(chunks), moved_from, file.displaces)
            self.batch.add(write, on_written)
            return
        self.batch.write()
        write = DocumentWrite(draft, chunks, moved_from, file.displaces)
        on_written(self.store.catalog.write_documents([write])[0])

    def _report(
        self,
        file: _File,
        doc_path: str,
        document: document_builder.PreparedDocument,
        renamed_from: MissingDocument | None,
        written: ChunkChanges | None,
    ) -> None:
        """Add a document to the report, with the chunks `written` for it; None in a dry run."""
        is_unchanged = file.looks_same
        if written is not None:
            self.report.add_chunks(written)
            is_unchanged &= not (written.chunks_added or written.chunks_removed)
        self.report.warnings += [FileNote(doc_path, text) for text in document.warnings]
        if renamed_from is not None:
            renamed_from.mark_renamed()
            self.report.renamed.append(Renamed(renamed_from.doc_path, doc_path))
        elif is_unchanged:
            self.report.unchanged += 1
        else:
            (self.report.added if file.state is None else self.report.changed).append(doc_path)

    def _keep_tags(self) -> None:
        """Transfer the user's tags: if the file of a document was replaced with that of another
        document, which is removed, the document gets the other one's tags."""
        catalog = self.store.catalog
        for doc_id, other in self.renames.replaced:
            sources = catalog.tag_sources(other.doc_id)
            if tags := [tag for tag, source in sources.items() if source == "user"]:
                catalog.tag(doc_id, tags, [])

    def _remove(self, scan: RootScan) -> None:
        removed, unmounted = scan.removed_files()
        removed = self._still_recorded(scan, removed)
        self.report.missing_roots += unmounted
        if count := len(scan.unselected_files()):
            what = "1 document is" if count == 1 else f"{count} documents are"
            self.report.warnings.append(
                FileNote(
                    scan.doc_path(""),
                    f"{what} kept, but not updated without --hidden or --follow-links; "
                    "to remove one: kb rm",
                )
            )
        if not removed:
            return
        self.progress.start("remove", 0, len(removed))
        if not self.dry_run:
            self.store.catalog.delete_documents(
                [state.doc_id for state in removed], restorable=True
            )
        self.report.removed += sorted(scan.doc_path(state.path) for state in removed)

    def _still_recorded(self, scan: RootScan, states: list[FileState]) -> list[FileState]:
        """The records that still have these paths in the store: in the meantime, another process
        may have found the files at other paths."""
        if not states or scan.root is None:
            return []
        known = self.store.catalog.file_states(scan.root.root_id)
        return [
            state
            for state in states
            if (now := known.get(state.path)) is not None and now.doc_id == state.doc_id
        ]


def _may_need_process(scan: RootScan) -> bool:
    """Whether a parser process will probably be needed for a new file."""
    return any(
        file.path not in scan.states and may_need_process(file.path) for file in scan.walk.files
    )


def _is_worth_pipeline(scans: Sequence[RootScan]) -> bool:
    new = sum(file.path not in scan.states for scan in scans for file in scan.walk.files)
    return new >= _WORTH_PIPELINE and (os.cpu_count() or 1) > 1


def _stat_of(state: FileState) -> tuple[int, int, int, bytes | None]:
    return state.size_bytes, state.mtime_ns, state.ctime_ns, state.os_path
