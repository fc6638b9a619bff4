"""Loads the model at startup, so that the first search does not wait for it."""

from __future__ import annotations

import threading

from kb.library.knowledge_base import KnowledgeBase
from kb.logs import logger
from kb.server.events import Events

_log = logger("kb.serve")


class Warmup:
    """Loads the model in a thread and publishes the event `model`: `loading`, then `loaded`."""

    def __init__(self, kb: KnowledgeBase, events: Events) -> None:
        self._kb = kb
        self._events = events
        self._thread = threading.Thread(target=self._run, name="kb-warmup", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wait for the thread. Loading takes about a second and cannot be interrupted."""
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        self._events.publish("model", {"state": "loading"})
        try:
            self._load()
        except Exception as error:  # noqa: BLE001  # any error of a model; a search reports it too
            _log.info("the model could not be loaded: %s", error)
        self._events.publish("model", {"state": "loaded"})

    def _load(self) -> None:
        encoder = self._kb.encoder()
        if encoder is None:
            return
        # Load first, so that the warm-up is not logged as a slow search.
        encoder.encode(["warm"], as_query=True)
        self._kb.search("warm", top=1)
