"""The indexer: what changed in the folders goes into the store, a document per transaction.

Last stage of ingest, and the only one that writes. One bad file never stops a run; a store that
cannot be written does.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

from kb.config import Config
from kb.errors import InvalidRequest, KbError
from kb.ingest import dates, document_builder, file_names, parser_pool
from kb.ingest.changes import Site, survey
from kb.ingest.decode import Unavailable, Unsupported
from kb.ingest.file_entry import Found, within
from kb.ingest.file_reader import load
from kb.ingest.parse import Parsers
from kb.ingest.parser_limits import Limits
from kb.ingest.plan import Visit, make_plan
from kb.ingest.progress import Meter, OnEvent, Progress
from kb.ingest.renames import Lost, Moved
from kb.ingest.report import Tally, reason_of
from kb.ingest.secret_files import included_paths
from kb.ports import Clock, Source, Store
from kb.regular_files import ReadRefused
from kb.types import Attributes, FileNote, FileState, IngestReport, Renamed, Root, Written

__all__ = ["Indexer", "OnEvent", "Progress"]

# A file changed this shortly before it was indexed may have changed again within the same tick of
# its file system's clock: its time proves nothing.
_RACY_NS = 2_000_000_000


class Indexer:
    """Brings a store up to date with the folders and files it was asked to know."""

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
        """Index `paths`, or refresh all known roots when there are none.

        `dry_run` reads, and only says what would be written. `force` reads files again that did
        not change. `uploaded` files belong to the folder they are in, and one that cannot be read
        leaves the document that it was before. Without `resolve_links`, a path that leads through
        a link is skipped.
        """
        started = time.perf_counter()
        paths = [os.fspath(path) for path in paths]
        known = {root.path for root in self._store.roots()}
        if any(os.path.abspath(path) not in known for path in paths):
            parser_pool.prepare()  # there will be something to parse: it starts meanwhile
        parsers = Parsers(self._config.chunk.max_chars)
        meter = Meter(on_event)
        run = _Run(self._store, self._config, self._clock, parsers, dry_run, force, uploaded, meter)
        run.go(paths, resolve_links)
        return run.tally.report(seconds=time.perf_counter() - started, dry_run=dry_run)

    def note(self, text: str, attributes: Attributes | None = None) -> Written:
        """Store a note that has no file; the store gives it the path `note:<id>`."""
        if not text.strip():
            raise InvalidRequest("a note needs text", "give it as an argument, or with - on stdin")
        prepared = document_builder.prepare_note(
            text, attributes or Attributes(), int(self._clock() * 1e9), self._config.chunk.max_chars
        )
        return self._store.write_document(prepared.document, prepared.chunks)


@dataclass(slots=True)
class _File:
    """A file on its way into the store. There is no `parsing` of one that is the same as before;
    `touched` if its bytes had to be read to know."""

    site: Site
    found: Found
    state: FileState | None
    doc_path: str
    is_read: bool = False
    touched: bool = False
    content_hash: str = ""
    version: str = ""
    parsing: parser_pool.Parsing | None = None
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
    meter: Meter
    tally: Tally = field(default_factory=Tally)
    versions: frozenset[str] = frozenset()
    lost: Lost = field(default_factory=Lost)
    included: tuple[str, ...] = ()  # although they look like secrets
    files: Iterator[tuple[Site, Found]] = field(default_factory=lambda: iter(()))
    ahead: _File | None = None

    def go(self, paths: Iterable[str | os.PathLike[str]], resolve_links: bool) -> None:
        self.included = included_paths(self.config.ingest.include_secrets)
        max_chars = self.config.chunk.max_chars
        self.versions = frozenset(
            document_builder.chunker_version(one, max_chars) for one in self.parsers
        )
        sites = self._survey(paths, resolve_links)
        total, done = sum(len(site.walked.files) for site in sites), 0
        self.lost = Lost.of(sites)
        self.files = ((site, found) for site in sites for found in site.walked.files)
        try:
            while (file := self._next_file()) is not None:
                with closing(file):
                    self.meter.at("read", done, total, file.doc_path)
                    self._take(file)
                done += 1
        finally:
            if self.ahead is not None:
                self.ahead.close()
        # Last, since a file that is gone here may have come to another place.
        for site in sites:
            self._remove(site)
        self.meter.at("read", done, total)
        self.tally.warnings += self.parsers.problems

    # --- which files ------------------------------------------------------------------------------

    def _survey(self, paths: Iterable[str | os.PathLike[str]], resolve_links: bool) -> list[Site]:
        roots = self.store.roots()
        plan = make_plan(
            paths,
            roots,
            self._knows,
            uploaded=self.uploaded,
            resolve_links=resolve_links,
            include_secrets=self.included,
        )
        self.tally.missing_roots += plan.missing
        self.tally.skipped += plan.skipped
        self.tally.failed += plan.failed
        self.tally.warnings += [
            FileNote(f"{root.name}/", f"detached; to read its files: kb attach {root.name} FOLDER")
            for root in plan.detached
        ]
        known = [(visit, self._root(visit)) for visit in plan.visits]
        roots = [root for root in self.store.roots() if not root.detached]
        sites: list[Site] = []
        for visit, root in known:
            self.meter.at("walk", len(sites), len(known), file_names.portable_path(visit.path))
            site = survey(visit, root, self.store, roots, self.config.ingest)
            self.tally.skipped += site.notes(site.walked.skipped)
            self.tally.warnings += site.notes(site.walked.warnings)
            sites.append(site)
        return sites

    def _knows(self, root: Root, path: str) -> bool:
        return any(within(known, path) for known in self.store.file_states(root.root_id))

    def _root(self, visit: Visit) -> Root | None:
        """The root in the store. One of single files is made when the first of them is written."""
        if self.dry_run or (visit.root is None and not visit.whole):
            return visit.root
        known = visit.root
        if known is not None and known.whole == visit.whole and not known.detached:
            return known
        return self.store.ensure_root(visit.path, whole=visit.whole)

    # --- one file ---------------------------------------------------------------------------------

    def _next_file(self) -> _File | None:
        """The file that was read ahead, else the next one."""
        file, self.ahead = self.ahead, None
        if file is None and (following := next(self.files, None)) is not None:
            site, found = following
            file = _File(site, found, site.states.get(found.path), site.doc_path(found.path))
        return file

    def _look_ahead(self) -> None:
        """Have the next file parsed while this one is written. What goes wrong with it is raised
        in its turn."""
        if (file := self._next_file()) is not None:
            self.ahead = file
            try:
                self._read(file)
            except Exception as error:  # noqa: BLE001 (which `_bring` raises)
                file.error = error

    def _read(self, file: _File) -> None:
        """Read the file and have it parsed, unless it is the same as before."""
        file.is_read = True
        state = file.state
        if state is not None and not self.force and self._is_unchanged(state, file.found):
            return
        ingest, max_chars = self.config.ingest, self.config.chunk.max_chars
        file.found, parser, data = load(
            file.site.visit.path,
            file.found,
            self.parsers,
            ingest.max_file_bytes,
            follow_links=ingest.follow_links,
            include_secrets=self.included,
        )
        file.content_hash = document_builder.digest(data)
        file.version = document_builder.chunker_version(parser, max_chars)
        now = (file.content_hash, file.version)
        if state and not self.force and now == (state.content_hash, state.chunker_version):
            file.touched = True
            return
        name = os.path.basename(file.found.path)
        source = Source(name, data, file.found.mtime_ns, self.meter.within)
        location, limits = self.parsers.location(parser), Limits.of(ingest)
        file.parsing = parser_pool.start(location, source, max_chars, limits, self.meter.wait)

    def _take(self, file: _File) -> None:
        doc_path = file.doc_path
        try:
            self._bring(file)
        except KbError:
            raise  # of the store, or of all parsers: no other file would fare better
        except Unsupported as unsupported:
            self.tally.skipped.append(FileNote(doc_path, unsupported.reason))
            if not isinstance(unsupported, Unavailable) and not self.uploaded:
                return
        except FileNotFoundError:
            # The next run will see whether it is gone for good.
            self.tally.skipped.append(FileNote(doc_path, "vanished while it was to be read"))
        except ReadRefused as refused:  # replaced since the walk: the same
            self.tally.skipped.append(FileNote(doc_path, refused.reason))
        # Parsers read files of any origin, and some are other people's: what goes wrong in one
        # file, a bug included, must not cost the others. What was known of it stays.
        except Exception as error:  # noqa: BLE001
            self.tally.failed.append(FileNote(doc_path, reason_of(error)))
        file.site.kept.add(file.found.path)

    def _bring(self, file: _File) -> None:
        """Bring the store up to date with the file. A long one is parsed while it is written, so
        that what is wrong in it may only be found out then."""
        if file.error is not None:
            raise file.error
        if not file.is_read:
            self._read(file)
        state = file.state
        if file.parsing is None:
            assert state is not None, "only a known file can be the same as before"
            self.tally.unchanged += 1
            if file.touched:
                self._touch(state, file.found)
            return
        with file.parsing as parsing:
            document = parsing.document()
            prepared = document_builder.prepare(
                file.found, document, file.content_hash, file.version
            )
            if parsing.is_complete:
                self._look_ahead()
            if state is None and self._is_over(prepared):
                expired = prepared.document.attributes.expires_at
                self.tally.skipped.append(FileNote(file.doc_path, f"expired {expired}"))
            elif state is None and (moved := self.lost.take(prepared.document)) is not None:
                self._write(file.site, file.doc_path, prepared, moved=moved)
            else:
                self._write(file.site, file.doc_path, prepared, is_new=state is None)

    def _is_unchanged(self, state: FileState, found: Found) -> bool:
        return (
            _stat_of(state) == (found.size, found.mtime_ns, found.ctime_ns, found.os_path)
            and not state.detached
            and state.chunker_version in self.versions
            and state.indexed_ns - found.mtime_ns >= _RACY_NS
        )

    def _is_over(self, prepared: document_builder.Prepared) -> bool:
        """Whether the ttl of a new document has passed: `kb gc` would only remove it again."""
        expires_at = prepared.document.attributes.expires_at
        now = dates.iso(dates.from_ns(int(self.clock() * 1e9)))
        return expires_at is not None and expires_at <= now

    # --- into the store ---------------------------------------------------------------------------

    def _touch(self, state: FileState, found: Found) -> None:
        """The same bytes as before. Their new times are noted if that will spare the next hash."""
        now = replace(
            state,
            size_bytes=found.size,
            mtime_ns=found.mtime_ns,
            ctime_ns=found.ctime_ns,
            device=found.device,
            os_path=found.os_path,
            detached=False,
        )
        still_racy = self.clock() * 1e9 - found.mtime_ns < _RACY_NS
        if not self.dry_run and not (now == state and still_racy):
            self.store.touch_file(now)

    def _write(
        self,
        site: Site,
        doc_path: str,
        prepared: document_builder.Prepared,
        *,
        is_new: bool = False,
        moved: Moved | None = None,
    ) -> None:
        chunks = self.meter.counted(prepared.chunks)
        if self.dry_run:
            deque(chunks, maxlen=0)  # what is wrong further on in the file is to be found out too
        else:
            if site.root is None:
                site.root = self.store.ensure_root(site.visit.path, whole=False)
            document = prepared.placed(site.root)
            doc_path = document.doc_path
            was = moved.doc_id if moved is not None else None
            self.tally.count(self.store.write_document(document, chunks, was=was))
        self.tally.warnings += [FileNote(doc_path, text) for text in prepared.warnings]
        if moved is not None:
            moved.arrive()
            self.tally.renamed.append(Renamed(moved.before, doc_path))
        else:
            (self.tally.added if is_new else self.tally.changed).append(doc_path)

    def _remove(self, site: Site) -> None:
        gone, unmounted = site.gone()
        self.tally.missing_roots += unmounted
        if not gone:
            return
        self.meter.at("remove", 0, len(gone))
        if not self.dry_run:
            self.store.delete_documents([state.doc_id for state in gone])
        self.tally.removed += sorted(site.doc_path(state.path) for state in gone)


def _stat_of(state: FileState) -> tuple[int, int, int, bytes | None]:
    return state.size_bytes, state.mtime_ns, state.ctime_ns, state.os_path
