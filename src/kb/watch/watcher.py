"""The loop of `kb watch`: waits for changes, brings the store up to date, tells what it did.

It keeps nothing that a restart would need: the first thing it does is to read everything that has
changed while it was away, which costs a look at every file. The same look is repeated now and then,
for changes that a system did not tell of.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kb.embedding.worker import WorkerState
from kb.errors import Cancelled, InvalidRequest, KbError, ModelError, PathMissing, WatchFailed
from kb.ingest.progress import Progress
from kb.library.knowledge_base import KnowledgeBase
from kb.types import IngestReport
from kb.watch.changes import folders_of
from kb.watch.targets import Place, look, look_at

LOOK_MS = 500  # between two looks whether a folder is still there
QUIET_MS = 300  # a folder that is being written to is left alone for so long
LONGEST_MS = 3_000  # but no longer than that
RESCAN_S = 600.0
BLIND_RESCAN_S = 20.0  # where the system does not tell of all folders
_FIRST_WAIT_S, _LONGEST_WAIT_S = 2.0, 60.0
_HINT = "on Linux, fs.inotify.max_user_watches limits it; WATCHFILES_FORCE_POLLING=1 does without"


@dataclass(frozen=True, slots=True)
class Event:
    """What the watcher tells. `kind` is `ready` (everything was read once), `batch` (changes were),
    `missing` and `back` (a path has gone, or come again), `embedded`, `failed` or `stopped`."""

    kind: str
    paths: tuple[str, ...] = ()
    report: IngestReport | None = None
    embedded: int = 0
    error: KbError | None = None
    retry_s: float = 0.0


OnEvent = Callable[[Event], None]


class Watcher:
    """Keeps `kb` in step with `paths`, or, without any, with every root it knows. `on_event` hears
    of everything, from more than one thread, but never from two at once."""

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
        self._given = [os.path.realpath(os.path.expanduser(path)) for path in paths]
        self._on_event = on_event
        self._quiet_ms = quiet_ms
        self._rescan_s = rescan_s
        self._places: dict[str, Place] = {}
        self._all_at = 0.0  # when everything is read again
        self._wait_s = _FIRST_WAIT_S
        self._embedded = 0
        self._telling = threading.Lock()

    def run(self) -> None:
        """Watch until `stop` is set. What is wrong from the beginning is raised; what goes wrong
        later is told, and tried again."""
        asked = self._asked()
        with self._kb.worker(self._heard) as worker, suppress(Cancelled):
            is_ready = False
            while not self.stop.is_set():
                self._places = look_at(asked)
                for changed in self._ticks():
                    if not is_ready:
                        self._read_all("ready")
                        is_ready = True
                    elif self._follow(changed):
                        worker.wake()
                    if not self._is_as_it_was():
                        break
        self._tell(Event("stopped"))

    # --- what there is to watch -------------------------------------------------------------------

    def _asked(self) -> list[str]:
        """What was given; else whole roots, and the files of the others."""
        if self._given:
            return self._given
        roots = {root.root_id: root for root in self._kb.roots() if not root.detached}
        if not roots:
            raise InvalidRequest("nothing was ingested yet", "name a folder: kb watch FOLDER")
        single = [
            os.path.join(roots[each.root_id].path, each.path)
            for each in self._kb.documents(expired=True)
            if each.root_id in roots and not roots[each.root_id].whole
        ]
        return [*(root.path for root in roots.values() if root.whole), *single]

    def _ticks(self) -> Iterator[list[str]]:
        """Paths that have changed, as soon as it is quiet again; none, now and then. Ends when the
        folders have to be looked at anew."""
        folders = [place.path for place in self._places.values() if place.folder]
        for told in self._notified(folders) if folders else self._idle():
            yield [*told, *self._changed_files()]

    def _notified(self, folders: Sequence[str]) -> Iterator[list[str]]:
        try:
            try:
                yield from self._changes(folders, ignore=False)
            except PermissionError:  # of a folder below, which leaves others untold of: see there
                self._rescan_s = min(self._rescan_s, BLIND_RESCAN_S)
                yield from self._changes(folders, ignore=True)
        except FileNotFoundError:
            return  # gone before it could be watched
        except (OSError, RuntimeError) as error:
            raise WatchFailed(f"cannot watch: {error}", _HINT) from error

    def _changes(self, folders: Sequence[str], *, ignore: bool) -> Iterator[list[str]]:
        """With `ignore`, a folder that cannot be watched is no error, whatever the reason; but then
        none behind it is watched either, so that everything has to be looked at more often."""
        from watchfiles import watch

        for changes in watch(
            *folders,
            watch_filter=None,  # or it would not wake us while others write
            step=self._quiet_ms,
            debounce=max(LONGEST_MS, self._quiet_ms),
            rust_timeout=LOOK_MS,
            yield_on_timeout=True,
            stop_event=self.stop,
            ignore_permission_denied=ignore,
        ):
            yield [path for _, path in changes]

    def _idle(self) -> Iterator[list[str]]:
        while not self.stop.wait(LOOK_MS / 1000):
            yield []

    def _changed_files(self) -> list[str]:
        changed = []
        for path, place in self._places.items():
            now = look(path)
            if not place.folder and not now.folder and now.mark != place.mark:
                self._places[path] = now
                changed.append(path)
        return changed

    def _is_as_it_was(self) -> bool:
        """Whether the folders are still those that are watched. If not, everything is read again
        once the new ones are."""
        other = [(place, now) for place in self._places.values()
                 if (now := look(place.path)).mark != place.mark
                 and (now.folder or place.folder)]  # fmt: skip
        for place, now in other:
            if place.is_there != now.is_there:
                self._tell(Event("back" if now.is_there else "missing", (place.path,)))
        if other:
            self._all_at = 0.0
        return not other

    # --- bringing the store up to date ------------------------------------------------------------

    def _follow(self, changed: Sequence[str]) -> bool:
        """Whether something was read."""
        if time.monotonic() >= self._all_at:
            self._read_all("batch")
            return True
        places = self._places.values()
        folders = folders_of(
            changed,
            [place.path for place in places if place.folder],
            hidden=self._kb.config.ingest.hidden,
            store=os.path.realpath(self._kb.path),  # as what changed is named
        )
        known = self._places
        paths = [*folders, *(one for one in changed if one in known and not known[one].folder)]
        if paths:
            self._read(paths)
        return bool(paths)

    def _read_all(self, kind: str) -> None:
        """Read what has changed anywhere. What is not there now removes nothing."""
        if kind == "ready":
            self._tell(Event(kind, tuple(self._places), self._ingest(self._given)))
            self._all_at = time.monotonic() + self._rescan_s
            return
        self._all_at = time.monotonic() + self._rescan_s
        if paths := [place.path for place in self._places.values() if place.is_there]:
            self._read(paths)

    def _read(self, paths: Sequence[str]) -> None:
        try:
            report = self._ingest(paths)
        except PathMissing:
            self._all_at = 0.0  # it has gone in this moment: look at what is there
        except Cancelled:
            raise
        except KbError as error:
            self._all_at = time.monotonic() + self._wait_s
            self._tell(Event("failed", tuple(paths), error=error, retry_s=self._wait_s))
            self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)
        else:
            self._wait_s = _FIRST_WAIT_S
            self._tell(Event("batch", tuple(paths), report))

    def _ingest(self, paths: Sequence[str]) -> IngestReport:
        """Of paths that were resolved before: a link that has come since leads elsewhere. Stops
        between two files when the watch is over: the next one reads the others."""

        def check(_progress: Progress) -> None:
            if self.stop.is_set():
                raise Cancelled("the watch is over")

        return self._kb.ingest(*paths, resolve_links=False, on_progress=check)

    # --- telling ----------------------------------------------------------------------------------

    def _heard(self, state: WorkerState) -> None:
        """In the worker's thread."""
        if state.state == "failed":
            error = ModelError(state.error or "unknown", "kb jobs tells more")
            self._tell(Event("failed", error=error, retry_s=state.wait_s))
        elif state.embedded > self._embedded:
            made, self._embedded = state.embedded - self._embedded, state.embedded
            self._tell(Event("embedded", embedded=made))

    def _tell(self, event: Event) -> None:
        with self._telling:
            self._on_event(event)
