"""The indexer: what changed in the folders goes into the store, a document per transaction.

Last stage of ingest, and the only one that writes. One bad file never stops a run; a store that
cannot be written does.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kb.config import Config
from kb.errors import InvalidRequest, KbError
from kb.ingest import dates, draft, names
from kb.ingest.decode import Unavailable, Unsupported
from kb.ingest.found import Found, within
from kb.ingest.load import load
from kb.ingest.moved import Lost, Moved
from kb.ingest.parse import Parsers
from kb.ingest.plan import Visit, make_plan
from kb.ingest.progress import Meter, OnEvent, Progress
from kb.ingest.report import Tally, reason_of
from kb.ingest.secret_files import included_paths
from kb.ingest.survey import Site, survey
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
        parsers = Parsers(self._config.chunk.max_chars)
        meter = Meter(on_event)
        run = _Run(self._store, self._config, self._clock, parsers, dry_run, force, uploaded, meter)
        run.go(paths, resolve_links)
        return run.tally.report(seconds=time.perf_counter() - started, dry_run=dry_run)

    def note(self, text: str, attributes: Attributes | None = None) -> Written:
        """Store a note that has no file; the store gives it the path `note:<id>`."""
        if not text.strip():
            raise InvalidRequest("a note needs text", "give it as an argument, or with - on stdin")
        prepared = draft.prepare_note(
            text, attributes or Attributes(), int(self._clock() * 1e9), self._config.chunk.max_chars
        )
        return self._store.write_document(prepared.document, prepared.chunks)


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

    def go(self, paths: Iterable[str | os.PathLike[str]], resolve_links: bool) -> None:
        self.included = included_paths(self.config.ingest.include_secrets)
        max_chars = self.config.chunk.max_chars
        self.versions = frozenset(draft.chunker_version(one, max_chars) for one in self.parsers)
        sites = self._survey(paths, resolve_links)
        total, done = sum(len(site.walked.files) for site in sites), 0
        self.lost = Lost.of(sites)
        for site in sites:
            for found in site.walked.files:
                self.meter.at("read", done, total, site.doc_path(found.path))
                self._take(site, found)
                done += 1
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
            self.meter.at("walk", len(sites), len(known), names.portable_path(visit.path))
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

    def _take(self, site: Site, found: Found) -> None:
        state = site.states.get(found.path)
        if state is not None and not self.force and self._is_unchanged(state, found):
            site.kept.add(found.path)
            self.tally.unchanged += 1
            return
        doc_path = site.doc_path(found.path)
        try:
            self._bring(site, found, state, doc_path)
        except KbError:
            raise  # of the store: no other file would fare better
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
        site.kept.add(found.path)

    def _bring(self, site: Site, found: Found, state: FileState | None, doc_path: str) -> None:
        """Read the file and bring the store up to date with it. A long one is parsed while it is
        written, so that what is wrong in it may only be found out then."""
        prepared = self._read(site, found, state)
        if prepared is None:
            assert state is not None, "only a known file is the same as before"
            self._touch(state, found)
        elif state is None and self._is_over(prepared):
            expired = prepared.document.attributes.expires_at
            self.tally.skipped.append(FileNote(doc_path, f"expired {expired}"))
        elif state is None and (moved := self.lost.take(prepared.document)) is not None:
            self._write(site, doc_path, prepared, moved=moved)
        else:
            self._write(site, doc_path, prepared, is_new=state is None)

    def _is_unchanged(self, state: FileState, found: Found) -> bool:
        return (
            _stat_of(state) == (found.size, found.mtime_ns, found.ctime_ns, found.os_path)
            and not state.detached
            and state.chunker_version in self.versions
            and state.indexed_ns - found.mtime_ns >= _RACY_NS
        )

    def _is_over(self, prepared: draft.Prepared) -> bool:
        """Whether the ttl of a new document has passed: `kb gc` would only remove it again."""
        expires_at = prepared.document.attributes.expires_at
        now = dates.iso(dates.from_ns(int(self.clock() * 1e9)))
        return expires_at is not None and expires_at <= now

    def _read(self, site: Site, found: Found, state: FileState | None) -> draft.Prepared | None:
        """The document that the file is now; None: the same bytes as before."""
        ingest = self.config.ingest
        found, parser, data = load(
            site.visit.path,
            found,
            self.parsers,
            ingest.max_file_bytes,
            follow_links=ingest.follow_links,
            include_secrets=self.included,
        )
        max_chars = self.config.chunk.max_chars
        now = (draft.digest(data), draft.chunker_version(parser, max_chars))
        if state and not self.force and now == (state.content_hash, state.chunker_version):
            return None
        name = os.path.basename(found.path)
        source = Source(name, data, found.mtime_ns, self.meter.within)
        return draft.prepare(found, source, parser, max_chars)

    # --- into the store ---------------------------------------------------------------------------

    def _touch(self, state: FileState, found: Found) -> None:
        """The same bytes as before. Their new times are noted if that will spare the next hash."""
        self.tally.unchanged += 1
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
        prepared: draft.Prepared,
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
