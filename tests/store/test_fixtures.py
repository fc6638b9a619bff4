"""Stores of older versions: the current code opens each, migrates it, and returns the same
results."""

from __future__ import annotations

import gzip
import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from kb import KnowledgeBase
from kb.store.sqlite import schema
from tests.store.builders import check_integrity, sqlite_store
from tests.store.make_fixture import FIXTURES, NOW, found

STORES = sorted(FIXTURES.glob("*.sqlite.gz"))


def test_there_is_one_of_every_version() -> None:
    names = {f"v{number}.sqlite.gz" for number in range(1, schema.VERSION + 1)}
    assert {path.name for path in STORES} == names


@pytest.mark.parametrize("stored", STORES, ids=lambda path: path.name)
def test_an_old_store_that_cannot_be_written(stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    path.write_bytes(gzip.decompress(stored.read_bytes()))
    before = path.read_bytes()
    said = json.loads(stored.with_name(stored.name.replace(".sqlite.gz", ".json")).read_bytes())
    with KnowledgeBase(path, clock=lambda: NOW + 60, read_only=True) as kb:
        assert found(kb).items() >= said.items()
        assert kb.status()["documents"] == 8
        kb.export(io.BytesIO(), vectors=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("stored", STORES, ids=lambda path: path.name)
def test_an_old_store_opens(stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    path.write_bytes(gzip.decompress(stored.read_bytes()))
    said = json.loads(stored.with_name(stored.name.replace(".sqlite.gz", ".json")).read_bytes())
    with KnowledgeBase(path, clock=lambda: NOW + 60) as kb:
        assert found(kb).items() >= said.items()
        assert kb.index_version()["lexical"].startswith(f"v{schema.VERSION}.")
        assert kb.status()["documents"] == 8
        assert kb.document("library/guides/retry.md").tags == ("incident", "mine")
        assert kb.document("note:4").access_count == 1
        assert [one for one in kb.doctor().findings if one.state == "error"] == []
        check_integrity(sqlite_store(kb))
        assert kb.add("another").doc_id == 10  # 8 was used

        stream = io.BytesIO()
        kb.export(stream, vectors=True)
        with KnowledgeBase(tmp_path / "copy.sqlite", clock=lambda: NOW + 60) as copy:
            copy.import_(io.BytesIO(stream.getvalue()))
            assert found(copy) == found(kb)


_KILLED_MIGRATION = """
import os, signal, sys
import apsw
from kb.store.sqlite import schema

path, left = sys.argv[1], int(sys.argv[2])

def trace(*_):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return True

connection = apsw.Connection(path)
connection.exec_trace = trace
schema.migrate(connection, path)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize(
    ("version", "statements"),
    [
        *((schema.VERSION - 1, number) for number in (1, 2)),
        *((10, number) for number in (5, 8, 10)),
        (1, 30),
        (2, 40),
        (3, 20),
    ],
)
def test_a_migration_that_is_killed(version: int, statements: int, tmp_path: Path) -> None:
    """The store stays as it was, and the next process migrates it."""
    stored, path = FIXTURES / f"v{version}.sqlite.gz", tmp_path / "kb.sqlite"
    path.write_bytes(gzip.decompress(stored.read_bytes()))
    ended = subprocess.run(
        [sys.executable, "-c", _KILLED_MIGRATION, str(path), str(statements)], check=False
    )
    assert ended.returncode == -signal.SIGKILL
    connection = apsw.Connection(str(path))
    assert schema.version(connection, str(path)) == version
    connection.close()
    said = json.loads((FIXTURES / f"v{version}.json").read_bytes())
    with KnowledgeBase(path, clock=lambda: NOW + 60) as kb:
        assert found(kb).items() >= said.items()
        assert [one for one in kb.doctor().findings if one.state == "error"] == []
