"""The model, loaded when the server starts and not when somebody waits for the first answer."""

from __future__ import annotations

import threading

from kb.library.knowledge_base import KnowledgeBase
from kb.logs import logger
from kb.server.events import Events

_log = logger("kb.serve")


class Warming:
    """One load in a thread of its own, told as the event `model`: `loading`, then `loaded`."""

    def __init__(self, kb: KnowledgeBase, events: Events) -> None:
        self._kb = kb
        self._events = events
        self._thread = threading.Thread(target=self._run, name="kb-warming", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """A load cannot be broken off; it takes a second or so."""
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        self._events.tell("model", {"state": "loading"})
        try:
            self._load()
        except Exception as error:  # noqa: BLE001  # of a model or a library: a search will tell
            _log.info("the model was not loaded: %s", error)
        self._events.tell("model", {"state": "loaded"})

    def _load(self) -> None:
        encoder = self._kb.encoder()
        if encoder is None:
            return
        encoder.encode(["warm"], as_query=True)  # before, or the search would be a slow one
        self._kb.search("warm", top=1)
