"""Stores with damaged cells and pages: only kb's own errors, and repairs by `kb doctor`."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from kb.errors import StoreUnusable
from kb.store.sqlite import column_checks
from tests.store import damage
from tests.store.builders import sqlite_store


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "sound.sqlite"
    damage.build(path)
    return path


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sound, tmp_path / "kb.sqlite"))


def test_a_sound_store_has_nothing_to_repair(path: Path) -> None:
    with damage.opened(path) as kb:
        assert sqlite_store(kb).maintenance.integrity.faults() == []
        before = list(kb._store.maintenance.export(vectors=True))
        assert not any(one.fixed for one in kb.doctor(fix=True).findings)
        assert list(kb._store.maintenance.export(vectors=True)) == before
    assert damage.left_after_repair(path) == {}


def test_every_column_is_known(path: Path) -> None:
    keys = {"only", "root_id", "doc_id", "chunk_id", "model_id", "embedding_id", "change",
            "segment", "term_id", "posting", "job_id", "removed_id", "piece"}  # fmt: skip
    for table, column in damage.columns(path):
        assert column in column_checks.CELLS[table] or column in keys, f"{table}.{column}"


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("documents", "metadata", "array"),
        ("documents", "metadata", "deep"),
        ("documents", "title", "not UTF-8"),
        ("documents", "doc_path", "bytes"),
        ("documents", "mtime_ns", "word"),
        ("chunks", "text", "bytes"),
        ("chunks", "text", "not UTF-8"),
        ("chunks", "spans", "cut"),
        ("chunks", "heading_path", "object"),
        ("chunks", "doc_id", "word"),
        ("chunks", "parts", "bytes"),
        ("embeddings", "sparse", "bytes"),
        ("embeddings", "sparse", "not UTF-8"),
        ("embeddings", "dense", "no bytes"),
        ("embeddings", "tokens", "bytes"),
        ("models", "ready", "word"),
        ("models", "name", "not UTF-8"),
        ("sparse_segments", "chunk_ids", "bytes"),
        ("sparse_postings", "block", "bytes"),
        ("document_tags", "tag", "not UTF-8"),
        ("roots", "path", "surrogate"),
        ("state", "changes", "word"),
        ("jobs", "chunk_ids", "cut"),
    ],
)
def test_a_damaged_cell(path: Path, table: str, column: str, value: str) -> None:
    assert damage.damage_cell(path, table, column, value)
    again = Path(shutil.copy(path, path.with_name("again.sqlite")))
    assert damage.problems(path) == {}
    with damage.opened(again) as kb:
        assert not kb.doctor().healthy
    assert damage.left_after_repair(again) == {}


@pytest.mark.slow
@pytest.mark.parametrize("value", [*damage.VALUES])
def test_every_column_with_a_value(sound: Path, tmp_path: Path, value: str) -> None:
    """Every third of them; `python -m tests.store.damage` takes all."""
    wrong: dict[str, str] = {}
    chance = random.Random(value)
    for table, column in damage.columns(sound):
        if chance.random() < 1 / 3:
            path = Path(shutil.copy(sound, tmp_path / f"{table}-{column}.sqlite"))
            if damage.damage_cell(path, table, column, value):
                wrong |= {f"{table}.{column} {name}": why
                          for name, why in damage.problems(path).items()}  # fmt: skip
    assert wrong == {}


@pytest.mark.parametrize("seed", range(4))
def test_damaged_pages(path: Path, seed: int) -> None:
    damage.damage_pages(path, random.Random(seed))
    assert damage.problems(path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 60))
def test_many_damaged_pages(path: Path, seed: int) -> None:
    damage.damage_pages(path, random.Random(seed))
    assert damage.problems(path) == {}


# --- recovered and lost values --------------------------------------------------------------------


def test_a_damaged_file_document_comes_back_with_the_next_ingest(path: Path) -> None:
    with damage.opened(path) as kb:
        before = kb.document("files/a.md"), [one.text for one in kb.chunks("files/a.md")]
    for table, column in (("documents", "metadata"), ("chunks", "text"), ("chunks", "spans")):
        damage.damage_cell(path, table, column, "bytes")
    with damage.opened(path) as kb:
        with pytest.raises(StoreUnusable, match="damaged"):
            kb.get("files/a.md")
        diagnosis = kb.doctor(fix=True)
        assert diagnosis.healthy
        (found,) = (one for one in diagnosis.findings if one.part == "cells")
        assert found.fixed
        assert "kb ingest reads the damaged files again" in found.to_do
        kb.ingest()
        after = kb.document("files/a.md")
        assert (after.metadata, after.title, after.tags) == (
            before[0].metadata, before[0].title, before[0].tags,
        )  # fmt: skip
        assert [one.text for one in kb.chunks("files/a.md")] == before[1]
        assert kb.search("buoy").hits


def test_a_note_keeps_its_text_and_losses_are_reported(path: Path) -> None:
    with damage.opened(path) as kb:
        doc_id = kb.document("note:4").doc_id
        text = kb.get("note:4").text
        with sqlite_store(kb)._database.writing() as connection:
            connection.execute("UPDATE documents SET metadata = x'00' WHERE doc_id = ?", (doc_id,))
            connection.execute("UPDATE chunks SET spans = '{' WHERE doc_id = ?", (doc_id,))
        (found,) = (one for one in kb.doctor(fix=True).findings if one.part == "cells")
        assert "metadata of note:4" in found.to_do
        assert kb.get("note:4").text == text
        assert kb.document("note:4").metadata == {}
        assert [one.text for one in kb.chunks("note:4")] == [text]
        assert any(hit.doc_path == "note:4" for hit in kb.search("radio note").hits)


def test_a_damaged_note_is_rebuilt_from_its_passages(path: Path) -> None:
    with damage.opened(path) as kb:
        text = kb.get("note:4").text
        with sqlite_store(kb)._database.writing() as connection:
            connection.execute("UPDATE documents SET body = x'ff' WHERE doc_path = 'note:4'")
        kb.doctor(fix=True)
        assert kb.get("note:4").text == text


def test_a_bug_in_kb_is_not_reported_as_damage(path: Path) -> None:
    with (
        damage.opened(path) as kb,
        pytest.raises(TypeError, match="ours"),
        sqlite_store(kb)._database.reading(),
    ):
        raise TypeError("ours")
