"""Copies between stores of both kinds, and what the comparison afterwards finds."""

from __future__ import annotations

import random
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kb import KnowledgeBase
from kb.errors import InvalidRequest, StoreError, StoreMissing
from kb.library import store_copy
from kb.ports import Store
from kb.store import open_store
from tests.conformance.store.samples import SPEC, chunk_ids, finish, outcome, put
from tests.postgres import Server


@pytest.fixture
def schema() -> str:
    return f"c{uuid.uuid4().hex[:12]}"


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Store]:
    """A SQLite store with files, notes, tags and vectors."""
    store = open_store(tmp_path / "kb.sqlite")
    chance = random.Random(3)
    words = "boat harbor key storm database lock retry 東京の港 index".split()
    root = store.catalog.ensure_root("/lib", whole=True)
    for number in range(12):
        texts = [" ".join(chance.choices(words, k=9)) for _ in range(20)]
        fields: dict[str, Any] = {"root_id": root.root_id, "doc_path": f"lib/{number}"}
        put(store, f"{number}", *texts, tags=("t",), **fields if number % 3 else {})
    gone = put(store, "gone", "one", root_id=root.root_id, doc_path="lib/gone")
    store.catalog.tag(gone, ["kept", "ä"], [])
    store.catalog.delete_documents([gone], restorable=True)
    model_id = store.vectors.use_model(SPEC).model_id
    ids = [one for doc in range(1, 13) for one in chunk_ids(store, doc)]
    vectors = {one: [chance.gauss(0, 1) for _ in range(3)] for one in ids}
    weights = {one: {word: chance.random() for word in words[:4]} for one in ids}
    finish(store, model_id, [outcome(one, *vectors[one], sparse=weights[one]) for one in ids])
    yield store
    store.close()


def ignore(_done: int, _total: int) -> None:
    """Progress that nothing reports."""


def lines(url: str) -> list[bytes]:
    store = open_store(url)
    try:
        return list(store.maintenance.export(vectors=True))[1:]
    finally:
        store.close()


def test_there_and_back(filled: Store, postgres: Server, schema: str, tmp_path: Path) -> None:
    team, back = postgres.url(schema=schema), str(tmp_path / "back.sqlite")
    report = store_copy.copy(filled.location, team, ignore)
    assert (report.documents, report.chunks, report.detached) == (12, 240, ("lib",))
    assert 20 < report.searches <= 50
    assert report.copy == team
    store_copy.copy(team, back, ignore)
    assert lines(back) == lines(team) == lines(filled.location)


def test_texts_with_a_character_that_postgresql_does_not_have(
    postgres: Server, schema: str, tmp_path: Path
) -> None:
    team, back = postgres.url(schema=schema), str(tmp_path / "back.sqlite")
    with KnowledgeBase(tmp_path / "nul.sqlite") as kb:
        kb.add("a\0b buoy \\u0000", title="t\0", tags=["x\0y", "xz"], metadata={"k\0": ["\0"]})
        kb.add("a \ufffd here")
        assert store_copy.copy(str(kb.path), team, ignore).documents == 2
    store_copy.copy(team, back, ignore)
    with KnowledgeBase(team) as kb:
        assert kb.doctor().healthy
        assert kb.document("note:1").tags == ("xz", "x\ufffdy")
        assert kb.search("buoy").returned == 1


def test_a_store_with_documents_is_not_overwritten(
    filled: Store, postgres: Server, schema: str
) -> None:
    team = postgres.url(schema=schema)
    other = open_store(team)
    put(other, "mine", "text")
    with pytest.raises(InvalidRequest, match="has documents") as error:
        store_copy.copy(filled.location, team, ignore)
    assert "new store" in error.value.hint
    assert other.catalog.counts().documents == 1
    other.close()


def test_a_store_is_not_copied_to_itself(filled: Store) -> None:
    with pytest.raises(InvalidRequest, match="itself"):
        store_copy.copy(filled.location, filled.location, ignore)


@pytest.mark.parametrize("names", [("", "x.sqlite"), ("x.sqlite", "")])
def test_a_name_that_is_empty_is_not_the_default_store(names: tuple[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="is empty"):
        store_copy.copy(*names, ignore)


@pytest.mark.parametrize("url", ["postgresql:/h/db", "postgresql:db", "sqlite:/x.sqlite"])
def test_a_url_without_slashes_is_not_a_path(filled: Store, url: str) -> None:
    with pytest.raises(InvalidRequest, match="//"):
        store_copy.copy(filled.location, url, ignore)


def test_a_missing_source_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing):
        store_copy.copy(str(tmp_path / "no.sqlite"), str(tmp_path / "copy.sqlite"), ignore)
    assert not (tmp_path / "no.sqlite").exists()
    assert not (tmp_path / "copy.sqlite").exists()


# Copies a store in small steps, and prints a line after each.
COPY = """
import sys
from kb.library import store_copy
from kb.store import import_rows

import_rows.STEP = 20
store_copy.copy(sys.argv[1], sys.argv[2], lambda done, total: print(done, flush=True))
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_killed_copy_continues(
    filled: Store, postgres: Server, schema: str, tmp_path: Path, kind: str
) -> None:
    target = postgres.url(schema=schema) if kind == "postgresql" else str(tmp_path / "to.sqlite")
    done = [0]
    for least in (40, 120, 200):
        process = subprocess.Popen(
            [sys.executable, "-c", COPY, filled.location, target], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= least:
                break
        process.kill()
        process.communicate()
        store = open_store(target)
        counts = store.catalog.counts()
        store.close()
        done.append(counts.documents + counts.chunks)
    assert done == sorted(done)
    assert 0 < done[1] < 252
    resumed: list[int] = []
    report = store_copy.copy(filled.location, target, lambda now, _total: resumed.append(now))
    assert (report.documents, report.chunks) == (12, 240)
    assert lines(target) == lines(filled.location)
    with pytest.raises(InvalidRequest, match="has documents"):  # it is complete
        store_copy.copy(filled.location, target, ignore)


def test_a_part_of_a_copy_is_not_mixed_with_a_later_state(
    filled: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb.store.import_rows.STEP", 20)
    target = str(tmp_path / "to.sqlite")

    def stop(done: int, _total: int) -> None:
        if done >= 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store_copy.copy(filled.location, target, stop)
    put(filled, "later", "one more text")
    with pytest.raises(InvalidRequest, match="as it was earlier"):
        store_copy.copy(filled.location, target, ignore)


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        ("DELETE FROM document_tags WHERE doc_id = 3", "differ"),
        ("DELETE FROM removed_documents", "differ"),
        ("UPDATE chunks SET text = text || '.' WHERE chunk_id = 7", "differ"),
        ("UPDATE state SET chunks = chunks - 1", "passages"),
        ("DELETE FROM blocks", "ranks differently"),
    ],
)
def test_a_copy_that_differs_is_noticed(
    filled: Store,
    postgres: Server,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
    damage: str,
    finding: str,
) -> None:
    """Another program changes the copy before it is compared."""
    verify = store_copy._verify_rows

    def damaged(*arguments: Any) -> None:
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute(f"SET search_path = {schema}, public; {damage}".encode())
        verify(*arguments)

    monkeypatch.setattr(store_copy, "_verify_rows", damaged)
    with pytest.raises(StoreError, match=finding) as error:
        store_copy.copy(filled.location, postgres.url(schema=schema), ignore)
    assert "kb doctor" in error.value.hint
