"""What the processes of `test_endurance.py` do: `python -m tests.endurance ROLE STORE ARGS...`

Each ends by itself after a number of operations, and with a traceback if anything went wrong.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from pathlib import Path

from kb import KnowledgeBase
from tests.store.builders import put

CHUNKS = 4  # of every document, all of the same version
SECTION = "## part {part}\n\nneedle version{version} of {name}\n\n"


def text(name: str, version: int) -> str:
    sections = (SECTION.format(part=part, version=version, name=name) for part in range(CHUNKS))
    return f"# {name}\n\n" + "".join(sections)


def write(store: str, writer: str, operations: str) -> None:
    """Adds, changes and removes documents."""
    chance = random.Random(writer)
    with KnowledgeBase(store) as kb:
        for version in range(int(operations)):
            path = f"{writer}/{chance.randrange(5)}"
            put(kb._store, path, *(f"needle version{version} {part}" for part in range(CHUNKS)))
            if chance.random() < 0.2:
                kb.remove(path)


def ingest(store: str, folder: str, operations: str) -> None:
    """Changes files between two ingest runs."""
    chance = random.Random(folder)
    with KnowledgeBase(store) as kb:
        for version in range(int(operations)):
            for _ in range(5):
                name = f"{chance.randrange(10)}.md"
                (Path(folder) / name).write_text(text(name, version), encoding="utf-8")
            assert not kb.ingest(folder).failed


def read(store: str, reader: str, operations: str) -> None:
    """Check that every response contains complete documents, each in a single version."""
    with KnowledgeBase(store) as kb:
        for number in range(int(operations)):
            if number % 4 == 0:
                counts = {document.chunks for document in kb.documents()}
                assert counts <= {CHUNKS}, f"{reader}: {counts}"
            found = kb.search("needle", top=1000)
            assert found.hits
            assert not found.degraded, found.degraded
            versions = defaultdict(list)
            for hit in found:
                versions[hit.doc_path].append(hit.snippet.partition("version")[2].split()[0])
            for path, seen in versions.items():
                assert len(seen) == CHUNKS, f"{reader}: {path} has {seen}"
                assert len(set(seen)) == 1, f"{reader}: {path} has {seen}"


if __name__ == "__main__":
    {"write": write, "ingest": ingest, "read": read}[sys.argv[1]](*sys.argv[2:])
