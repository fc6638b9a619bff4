"""The loop of `kb watch`: waits until changes pause, updates the store, emits events.

It keeps no state across restarts: it first reads everything that has changed in the meantime, by a
`stat` of every file. It repeats this scan at intervals, for changes that the operating system did
not report.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kb.embedding.worker import WorkerState
from kb.errors import Cancelled, InvalidRequest, KbError, ModelError, PathMissing, WatchFailed
from kb.ingest.progress import Progress
from kb.library.knowledge_base import KnowledgeBase
from kb.types import IngestReport
from kb.watch.changes import Target, folders_to_read, inspect, inspect_all

CHECK_MS = 500  # how often to check whether a folder still exists
QUIET_MS = 300  # how long a folder must be unchanged before it is read
MAX_DELAY_MS = 3_000  # the longest delay while changes keep coming
RESCAN_S = 600.0
FREQUENT_RESCAN_S = 20.0  # if the system does not report changes in all folders
_FIRST_RETRY_S, _MAX_RETRY_S = 2.0, 60.0
_HINT = "raise fs.inotify.max_user_watches (Linux), or set WATCHFILES_FORCE_POLLING=1"


@dataclass(frozen=True, slots=True)
class Event:
    """An event. `kind` is `ready` (everything was read once), `batch` (changes were read),
    `missing` or `back` (a path disappeared or returned), `embedded`, `failed` or `stopped`."""

    kind: str
    paths: tuple[str, ...] = ()
    report: IngestReport | None = None
    embedded: int = 0
    error: KbError | None = None
    retry_s: float = 0.0


OnEvent = Callable[[Event], None]


class Watcher:
    """Keeps `kb` up to date with `paths`, by default all ingested folders. `on_event` is called
    from several threads, but never from two at once."""

    def __init__(
        self,
        kb: KnowledgeBase,
        paths: Sequence[str] = (),
        on_event: OnEvent = lambda _event: None,
        *,
        stop: threading.Event | None = None,
        quiet_ms: int = QUIET_MS,
        rescan_s: float = RESCAN_S,
    ) -> None:
        self.stop = stop or threading.Event()
        self._kb = kb
        self._paths = [os.path.realpath(os.path.expanduser(path)) for path in paths]
        self._on_event = on_event
        self._quiet_ms = quiet_ms
        self._rescan_s = rescan_s
        self._targets: dict[str, Target] = {}
        self._reported: dict[str, bool] = {}  # whether each path existed when last inspected
        self._rescan_at = 0.0  # when to read everything again
        self._retry_s = _FIRST_RETRY_S
        self._embedded = 0
        self._emit_lock = threading.Lock()

    def run(self) -> None:
        """Watch until `stop` is set. Errors at the start are raised; later ones are emitted as
        events, and the work is retried."""
        paths = self._paths_to_watch()
        with self._kb.worker(self._on_worker_state) as worker, suppress(Cancelled):
            is_ready = False
            while not self.stop.is_set():
                self._targets = inspect_all(paths)
                self._report_existence(self._targets.values())
                for changed in self._ticks():
                    if not is_ready:
                        self._read_all("ready")
                        is_ready = True
                    elif self._handle_changes(changed):
                        worker.wake()
                    if not self._targets_unchanged():
                        break
        self._emit(Event("stopped"))

    # --- watching ---------------------------------------------------------------------------------

    def _paths_to_watch(self) -> list[str]:
        """Return the given paths; by default, all whole roots and the single files of others."""
        if self._paths:
            return self._paths
        roots = {root.root_id: root for root in self._kb.roots() if not root.detached}
        if not roots:
            raise InvalidRequest("nothing has been ingested yet", "give a folder: kb watch FOLDER")
        single = [
            os.path.join(roots[each.root_id].path, each.path)
            for each in self._kb.documents(expired=True)
            if each.root_id in roots and not roots[each.root_id].whole
        ]
        return [*(root.path for root in roots.values() if root.whole), *single]

    def _ticks(self) -> Iterator[list[str]]:
        """Yield changed paths once changes pause, and empty lists at intervals. Ends when the
        folders must be inspected again."""
        folders = [target.path for target in self._targets.values() if target.is_folder]
        for paths in self._notifications(folders) if folders else self._idle():
            yield [*paths, *self._changed_files()]

    def _notifications(self, folders: Sequence[str]) -> Iterator[list[str]]:
        is_watching = False
        try:
            try:
                for changed in self._changes(folders, ignore=False):
                    is_watching = True
                    yield changed
            except PermissionError:  # a subfolder cannot be read; see `_changes`
                self._rescan_s = min(self._rescan_s, FREQUENT_RESCAN_S)
                yield from self._changes(folders, ignore=True)
        except FileNotFoundError:
            return  # deleted before it could be watched
        except (OSError, RuntimeError) as error:
            if "decode path" in str(error):  # a name that is not UTF-8, which ingest reads
                self._rescan_at = 0.0
                if not is_watching:
                    self._rescan_s = min(self._rescan_s, FREQUENT_RESCAN_S)
                    yield from self._idle()
                return
            raise WatchFailed(f"cannot watch the folders: {error}", _HINT) from error

    def _changes(self, folders: Sequence[str], *, ignore: bool) -> Iterator[list[str]]:
        """Yield the changed paths below `folders`. With `ignore`, a folder that cannot be watched
        is not an error. In that case, the folders listed after it are not watched either, so
        everything must be scanned more often."""
        from watchfiles import watch

        for changes in watch(
            *folders,
            watch_filter=None,  # a filter would delay wake-ups while files are written
            step=self._quiet_ms,
            debounce=max(MAX_DELAY_MS, self._quiet_ms),
            rust_timeout=CHECK_MS,
            yield_on_timeout=True,
            stop_event=self.stop,
            ignore_permission_denied=ignore,
        ):
            yield [path for _, path in changes]

    def _idle(self) -> Iterator[list[str]]:
        while not self.stop.wait(CHECK_MS / 1000):
            yield []

    def _changed_files(self) -> list[str]:
        changed = []
        for path, target in self._targets.items():
            now = inspect(path)
            if not target.is_folder and not now.is_folder and now.identity != target.identity:
                self._targets[path] = now
                changed.append(path)
        return changed

    def _targets_unchanged(self) -> bool:
        """Whether the watched folders still exist and are the same. If not, everything is read
        again once the new folders are watched."""
        changed = [now for target in self._targets.values()
                   if (now := inspect(target.path)).identity != target.identity
                   and (now.is_folder or target.is_folder)]  # fmt: skip
        self._report_existence(changed)
        if changed:
            self._rescan_at = 0.0
        return not changed

    def _report_existence(self, targets: Iterable[Target]) -> None:
        for target in targets:
            existed = self._reported.get(target.path, target.exists)
            self._reported[target.path] = target.exists
            if existed != target.exists:
                self._emit(Event("back" if target.exists else "missing", (target.path,)))

    # --- updating the store -----------------------------------------------------------------------

    def _handle_changes(self, changed: Sequence[str]) -> bool:
        """Update the store after changes. Return whether anything was read."""
        if time.monotonic() >= self._rescan_at:
            self._read_all("batch")
            return True
        targets = self._targets.values()
        folders = folders_to_read(
            changed,
            [target.path for target in targets if target.is_folder],
            hidden=self._kb.config.ingest.hidden,
            store=os.path.realpath(self._kb.path),  # resolved, like the reported paths
        )
        known = self._targets
        paths = [*folders, *(one for one in changed if one in known and not known[one].is_folder)]
        if paths:
            self._read(paths)
        return bool(paths)

    def _read_all(self, kind: str) -> None:
        """Read all changes. The documents of missing folders are kept."""
        if kind == "ready":
            self._emit(Event(kind, tuple(self._targets), self._ingest(self._paths)))
            self._rescan_at = time.monotonic() + self._rescan_s
            return
        self._rescan_at = time.monotonic() + self._rescan_s
        if paths := [target.path for target in self._targets.values() if target.exists]:
            self._read(paths)

    def _read(self, paths: Sequence[str]) -> None:
        try:
            report = self._ingest(paths)
        except PathMissing:
            self._rescan_at = 0.0  # deleted just now: inspect the targets again
        except Cancelled:
            raise
        except KbError as error:
            self._rescan_at = time.monotonic() + self._retry_s
            self._emit(Event("failed", tuple(paths), error=error, retry_s=self._retry_s))
            self._retry_s = min(2 * self._retry_s, _MAX_RETRY_S)
        else:
            self._retry_s = _FIRST_RETRY_S
            self._emit(Event("batch", tuple(paths), report))

    def _ingest(self, paths: Sequence[str]) -> IngestReport:
        """Ingest paths that are already resolved, without following links created since. Stops
        between two files when the watcher is stopped: the next run reads the rest."""

        def check(_progress: Progress) -> None:
            if self.stop.is_set():
                raise Cancelled("the watcher was stopped")

        return self._kb.ingest(*paths, resolve_links=False, on_progress=check)

    # --- events -----------------------------------------------------------------------------------

    def _on_worker_state(self, state: WorkerState) -> None:
        """Emit the progress and failures of the embedding worker, from its thread."""
        if state.state == "failed":
            error = ModelError(state.error or "unknown error", "for details: kb jobs")
            self._emit(Event("failed", error=error, retry_s=state.wait_s))
        elif state.embedded > self._embedded:
            count, self._embedded = state.embedded - self._embedded, state.embedded
            self._emit(Event("embedded", embedded=count))

    def _emit(self, event: Event) -> None:
        with self._emit_lock:
            self._on_event(event)
