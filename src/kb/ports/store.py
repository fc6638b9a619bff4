"""The store port: five smaller ports over one set of data."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kb.ports.catalog import Catalog
    from kb.ports.fulltext import Fulltext
    from kb.ports.maintenance import Maintenance
    from kb.ports.queue import Queue
    from kb.ports.vectors import Vectors
    from kb.types import Degraded


class Store(Protocol):
    """Documents, chunks, vectors and the indexes over them. Threads may share one store.

    Opening a store neither connects nor creates anything. The first write creates the store;
    reading a store that does not exist raises `StoreMissing`.
    """

    @property
    def catalog(self) -> Catalog: ...

    @property
    def fulltext(self) -> Fulltext: ...

    @property
    def vectors(self) -> Vectors: ...

    @property
    def queue(self) -> Queue: ...

    @property
    def maintenance(self) -> Maintenance: ...

    @property
    def location(self) -> str:
        """Where the store is, as shown to users; it contains no password."""
        ...

    @property
    def path(self) -> Path:
        """The local path that identifies this store on this machine. Trust records and sockets are
        keyed by it, and its folder holds settings and uploads. For a store in a file, it is that
        file."""
        ...

    def exists(self) -> bool:
        """Whether the store has been created."""
        ...

    def create(self) -> None:
        """Create the store if it does not exist, and migrate it to the newest schema."""
        ...

    def store_id(self) -> str:
        """The random id that the store got when it was created. It does not depend on the path or
        the URL by which the store is opened, nor on the order of shards; a copy of the file has
        the same id."""
        ...

    def snapshot(self) -> AbstractContextManager[object]:
        """A block in which all reads of this thread see one state of the store. Blocks may be
        nested: the state is that of the outermost one."""
        ...

    def degraded(self) -> tuple[Degraded, ...]:
        """The problems of the state that the snapshot of this thread shows: on a standby, the state
        may be too old."""
        ...

    def close(self) -> None:
        """Release all connections and caches, of every thread."""
        ...
