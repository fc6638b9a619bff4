"""Views of a knowledge base for callers that may see only some of its documents."""

from __future__ import annotations

import threading

from kb.library.knowledge_base import KnowledgeBase
from kb.library.services import ServicesOfView
from kb.store.limited import LimitedStore
from kb.types import Identity, Limits

_MAX_VIEWS = 64


class LimitedKnowledgeBase(KnowledgeBase):
    """A view of `base` that contains only the documents within `limits`. Uses the models of `base`.

    Notes can be added, tagged and removed within the limits; files cannot be ingested. Operations
    on the whole store raise `Forbidden`.
    """

    def __init__(self, base: KnowledgeBase, limits: Limits) -> None:
        store = LimitedStore(base._store, limits)
        super().__init__(config=base.config, clock=base._clock, store=store)
        self._services = ServicesOfView(base._services, store, base.config, base._clock)


class Views:
    """The views of a knowledge base, by the limits of the caller. Threads may share it."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb
        self._lock = threading.Lock()
        self._limited: dict[Limits, LimitedKnowledgeBase] = {}

    def of(self, identity: Identity | None) -> KnowledgeBase:
        """The knowledge base itself, or a view of it if the identity has limits."""
        if identity is None or not identity.limits:
            return self._kb
        with self._lock:
            view = self._limited.pop(identity.limits, None)
            view = view or LimitedKnowledgeBase(self._kb, identity.limits)
            self._limited[identity.limits] = view  # the most recently used view comes last
            if len(self._limited) > _MAX_VIEWS:
                del self._limited[next(iter(self._limited))]
            return view
