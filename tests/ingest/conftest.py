"""A real store, an indexer over it, and a folder of files whose times are in the past."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kb.config import Config, IngestConfig
from kb.ingest.indexer import Indexer, OnEvent
from kb.regular_files import OpenFile, open_file
from kb.store.sqlite.store import SqliteStore
from kb.types import Document, Filters, IngestReport
from tests.conftest import NOON, Clock

HOUR_NS = 3_600 * 10**9

any_bytes_in_names = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux takes any bytes as a file's name"
)


@dataclass
class Library:
    """A folder with files, and a store for them."""

    folder: Path
    store: SqliteStore
    clock: Clock
    config: Config = field(default_factory=Config)

    def put(
        self, path: str, content: str | bytes = "some text\n", *, hours_ago: float = 24
    ) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.age(path, hours_ago)
        return file

    def age(self, path: str, hours_ago: float) -> None:
        time_ns = int(self.clock.seconds * 1e9 - hours_ago * HOUR_NS)
        os.utime(self.folder / path, ns=(time_ns, time_ns))

    @property
    def indexer(self) -> Indexer:
        return Indexer(self.store, self.config, self.clock)

    def ingest(
        self,
        *paths: str | Path,
        dry_run: bool = False,
        force: bool = False,
        on_event: OnEvent | None = None,
    ) -> IngestReport:
        """Ingest paths inside the folder; with an empty one, the folder itself."""
        asked = [self.folder / path for path in paths]
        return self.indexer.ingest(asked, dry_run=dry_run, force=force, on_event=on_event)

    def configure(self, **settings: object) -> None:
        self.config = replace(self.config, ingest=IngestConfig(**settings))  # type: ignore[arg-type]

    def documents(self) -> dict[str, Document]:
        listed = self.store.catalog.documents(Filters(), None)
        return {document.doc_path: document for document in listed}

    def text(self, doc_path: str) -> str:
        chunks = self.store.catalog.chunks(self.documents()[doc_path].doc_id)
        return "\n\n".join(chunk.text for chunk in chunks)


@pytest.fixture
def library(tmp_path: Path, clock: Clock) -> Iterator[Library]:
    assert clock.seconds == NOON
    folder = tmp_path / "library"
    folder.mkdir()
    store = SqliteStore(tmp_path / "store" / "kb.sqlite", clock=clock)
    store.create()
    yield Library(folder, store, clock)
    store.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that an ingest opens, in order."""
    from kb.ingest import file_reader

    names: list[str] = []

    def spying(path: str, **options: Any) -> AbstractContextManager[OpenFile]:
        names.append(os.path.basename(path))
        return open_file(path, **options)

    monkeypatch.setattr(file_reader, "open_file", spying)
    return names
