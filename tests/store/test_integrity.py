"""`kb doctor` finds and repairs planted damage, and a backup equals its store."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from kb import KnowledgeBase, wire
from kb.errors import (
    InvalidRequest,
    StoreMissing,
    StoreReadOnly,
)
from kb.store.sqlite import checks as store_checks
from kb.store.sqlite.schema_check import INDEXES
from kb.store.sqlite.store import SqliteStore
from tests import schemas
from tests.conftest import Clock
from tests.store.builders import check_integrity, put, sqlite_store
from tests.store.library import answers, exported, finding, opened

# --- doctor ---------------------------------------------------------------------------------------


def test_a_store_in_use_is_healthy(filled: KnowledgeBase) -> None:
    diagnosis = filled.doctor()
    assert {one.part: one.what for one in diagnosis.findings if one.state != "ok"} == {}
    assert diagnosis.healthy
    schemas.validate(wire.diagnosis(diagnosis))


def _without_triggers(connection: apsw.Connection, sql: str) -> None:
    triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
    saved = triggers.fetchall()
    for name, _ in saved:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(sql)
    for _, text in saved:
        connection.execute(str(text))


# The damage, whether it bypasses triggers, and the checks that find it.
FAULTS: dict[str, tuple[str, bool, set[str]]] = {
    "a chunk deleted": (
        "DELETE FROM chunks WHERE chunk_id = 3", True, {"counters", "chunks_fts"},
    ),
    "a text changed": (
        "UPDATE chunks SET text = text || ' tampered' WHERE text LIKE 'a note that stays%'", True,
        {"text", "chunks_fts"},
    ),
    "the counter": ("UPDATE state SET chunks = chunks + 7", False, {"counters"}),
    "the ids": ("UPDATE sqlite_sequence SET seq = 1 WHERE name = 'chunks'", False, {"counters"}),
    "no state": ("DELETE FROM state", False, {"counters"}),
    "orphan chunks": (
        "INSERT INTO chunks SELECT 9000, 9000, ordinal, section_label, chunker_version, "
        "content_hash, indexed_at, spans, heading_path, heading, text, parts, cjk FROM chunks "
        "WHERE chunk_id = 3", False, {"orphans", "counters"},
    ),
    "orphan tags": ("INSERT INTO document_tags VALUES (9000, 'x', 'user')", False, {"orphans"}),
    "an orphan root": (
        "INSERT INTO roots (name, path, whole) VALUES ('x', '/', 0)", False, {"orphans"},
    ),
    "a stale column, not in the index": (
        "UPDATE chunks SET cjk = 'x y z' WHERE chunk_id = 3", True, {"columns", "chunks_cjk"},
    ),
    "a stale column, in the index too": (
        "UPDATE chunks SET cjk = 'x y z', parts = 'no' WHERE chunk_id = 3", False, {"columns"},
    ),
    "garbage in an index": (
        "UPDATE chunks_fts_data SET block = x'00ff00ff' WHERE id > 10", False, {"chunks_fts"},
    ),
    "garbage in the structure of an index": (
        "UPDATE chunks_cjk_data SET block = x'ffffffffff' WHERE id = 10", False, {"chunks_cjk"},
    ),
    "an empty index": ("DELETE FROM chunks_fts_data WHERE id > 10", False, {"chunks_fts"}),
    "no trigger": ("DROP TRIGGER chunks_delete", False, {"schema"}),
    "another trigger": (
        "DROP TRIGGER chunks_insert; CREATE TRIGGER chunks_insert AFTER INSERT ON chunks "
        "BEGIN SELECT 1; END", False, {"schema"},
    ),
    "no index": ("DROP INDEX chunks_doc", False, {"schema"}),
    "no full-text table": ("DROP TABLE chunks_cjk", False, {"schema", "chunks_cjk"}),
}  # fmt: skip
UNFIXED = {"text"}  # the original text is unknown


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_repaired(filled: KnowledgeBase, fault: str) -> None:
    sql, behind, parts = FAULTS[fault]
    before = answers(filled)
    filled.close()
    connection = apsw.Connection(str(filled.path))
    connection.execute("PRAGMA foreign_keys = OFF")
    if behind:
        _without_triggers(connection, sql)
    else:
        connection.execute(sql)
    connection.close()

    found = filled.doctor()
    assert {one.part for one in found.findings if one.state != "ok"} == parts
    assert found.healthy is (fault == "an orphan root")  # a warning
    assert all(one.to_do for one in found.findings if one.state != "ok")

    mended = filled.doctor(fix=True)
    assert mended.healthy is not bool(parts & UNFIXED)
    assert any(one.fixed for one in mended.findings)
    after = filled.doctor()
    assert {one.part for one in after.findings if one.state != "ok"} == parts & UNFIXED
    check_integrity(sqlite_store(filled))
    if fault not in ("a chunk deleted", "a text changed"):
        keep = ("query", "hits")
        assert [[one[key] for key in keep] for one in answers(filled)] == [
            [one[key] for key in keep] for one in before
        ]


def test_fixing_a_healthy_store_changes_nothing(filled: KnowledgeBase) -> None:
    before = exported(filled)
    assert not any(one.fixed for one in filled.doctor(fix=True).findings)
    assert exported(filled) == before


def test_a_document_whose_root_is_unknown_is_kept(filled: KnowledgeBase) -> None:
    filled.close()
    connection = apsw.Connection(str(filled.path))
    connection.execute("PRAGMA foreign_keys = OFF; DELETE FROM roots")
    connection.close()
    before = len(filled.documents(expired=True))
    found = finding(filled, "orphans", fix=True)
    assert (found.state, found.fixed) == ("error", False)
    assert "kb rm" in found.to_do
    assert len(filled.documents(expired=True)) == before


def test_files_roots_and_time(
    kb: KnowledgeBase, library: Callable[..., Path], clock: Clock
) -> None:
    root = library({"a.md": "# A\n\none\n", "b.md": "# B\n\ntwo\n", "c.md": "three\n"})
    kb.ingest(root)
    kb.add("short", ttl="1h")
    assert finding(kb, "files").what == "3 files checked, all unchanged"
    (root / "a.md").rename(root / "elsewhere.md")
    (root / "b.md").write_text("# B\n\nother words\n")
    moved = finding(kb, "files")
    assert (moved.state, moved.to_do) == ("warning", "kb ingest")
    assert moved.what == "3 files checked, 1 gone, 1 changed"
    kb.ingest()
    assert finding(kb, "files").state == "ok"

    with sqlite_store(kb)._database.writing() as connection:
        connection.execute(
            "UPDATE chunks SET spans = replace(spans, '\"start\": ', '\"start\": 7')"
        )
    wrong = finding(kb, "files")
    assert wrong.state == "error"
    assert "misplaced" in wrong.what

    clock.seconds += 7200
    assert finding(kb, "expired").what == "1 expired document to remove"
    root.rename(root.with_name("away"))
    missing = finding(kb, "roots")
    assert (missing.state, missing.what) == ("warning", f"missing: {root}")
    assert finding(kb, "files").what == "0 files checked, all unchanged"


def test_the_journal(filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.close()
    connection = apsw.Connection(str(filled.path))
    connection.pragma("journal_mode", "delete")
    connection.close()
    assert finding(filled, "journal").state == "warning"
    assert finding(filled, "journal", fix=True).fixed
    assert finding(filled, "journal").state == "ok"
    monkeypatch.setattr(store_checks, "_LOG_BYTES", 100)
    filled.add("some words")
    assert finding(filled, "log").state == "warning"
    assert finding(filled, "log", fix=True).fixed


def test_little_room(filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"total": 10**9, "free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    assert finding(filled, "disk").state == "warning"
    assert filled.doctor().healthy


def test_large_stores_are_sampled(filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_checks, "SAMPLED_CHUNKS", 10)
    looked_at = int(finding(filled, "columns").what.split()[-2])
    assert 1 <= looked_at <= 15


@pytest.mark.parametrize("where", [100, 4096, 20_000, 100_000])
def test_a_damaged_file_is_reported(filled: KnowledgeBase, where: int) -> None:
    filled.close()
    raw = bytearray(filled.path.read_bytes())
    raw[where:] = b"\xff" * (len(raw) - where)
    filled.path.write_bytes(raw)
    for fix in (False, True):
        diagnosis = filled.doctor(fix=fix)
        assert not diagnosis.healthy
        schemas.validate(wire.diagnosis(diagnosis))


def test_files_that_are_not_stores(tmp_path: Path, filled: KnowledgeBase) -> None:
    letter = tmp_path / "letter.sqlite"
    letter.write_bytes(b"dear reader " * 500)
    diagnosis = KnowledgeBase(letter).doctor(fix=True)
    assert [one.part for one in diagnosis.findings] == ["file"]
    assert not diagnosis.healthy
    with pytest.raises(StoreMissing):
        KnowledgeBase(tmp_path / "none.sqlite").doctor()
    with sqlite_store(filled)._database.writing() as connection:
        connection.execute("PRAGMA user_version = 999")
    filled.close()
    newer = filled.doctor().findings[0]
    assert (newer.state, "newer" in newer.what) == ("error", True)


def test_a_store_that_is_only_read(filled: KnowledgeBase) -> None:
    with KnowledgeBase(filled.path, read_only=True) as reader:
        diagnosis = reader.doctor()
        assert diagnosis.healthy
        warned = {one.part for one in diagnosis.findings if one.state == "warning"}
        assert warned >= set(INDEXES)
        with pytest.raises(StoreReadOnly):
            reader.doctor(fix=True)


# --- backup ---------------------------------------------------------------------------------------


def test_a_backup_answers_like_the_store(
    filled: KnowledgeBase, tmp_path: Path, clock: Clock
) -> None:
    folder = tmp_path / "copies"
    copy = filled.backup(folder / "b.sqlite")
    assert [path.name for path in folder.iterdir()] == ["b.sqlite"]
    with opened(copy, clock) as other:
        assert answers(other) == answers(filled)
        assert exported(other) == exported(filled)
        assert other.doctor().healthy
    assert [path.name for path in folder.iterdir()] == ["b.sqlite"]


def test_a_backup_overwrites_only_on_request(filled: KnowledgeBase, tmp_path: Path) -> None:
    target = tmp_path / "b.sqlite"
    target.write_text("precious")
    with pytest.raises(InvalidRequest, match="already exists"):
        filled.backup(target)
    assert target.read_text() == "precious"
    filled.backup(target, overwrite=True)
    assert KnowledgeBase(target).doctor().healthy
    for wrong in (filled.path, tmp_path):
        with pytest.raises(InvalidRequest):
            filled.backup(wrong, overwrite=True)
    log = tmp_path / "b.sqlite-wal"
    log.write_bytes(b"a log of somebody else")
    with pytest.raises(InvalidRequest, match="was not closed"):
        filled.backup(target, overwrite=True)
    assert log.exists()


def test_an_interrupted_backup_leaves_nothing(filled: KnowledgeBase, tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()

    def interrupt(done: int, total: int) -> None:
        assert len(list(folder.iterdir())) == 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        filled.backup(folder / "b.sqlite", on_progress=interrupt)
    assert list(folder.iterdir()) == []
    filled.backup(folder / "b.sqlite")  # the store is not affected


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_a_backup_is_as_private_as_the_store(filled: KnowledgeBase, tmp_path: Path) -> None:
    filled.path.chmod(0o600)
    assert filled.backup(tmp_path / "b.sqlite").stat().st_mode & 0o777 == 0o600


def test_a_damaged_store_cannot_be_backed_up(filled: KnowledgeBase, tmp_path: Path) -> None:
    filled.close()
    raw = bytearray(filled.path.read_bytes())
    raw[40_000:] = b"\xff" * (len(raw) - 40_000)
    filled.path.write_bytes(raw)
    with pytest.raises(Exception, match="damaged"):
        filled.backup(tmp_path / "b.sqlite")
    assert not (tmp_path / "b.sqlite").exists()


def test_a_backup_while_others_write(
    kb: KnowledgeBase, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each copy is one state: documents have all their chunks, and all notes before the last one
    exist."""
    monkeypatch.setattr("kb.store.sqlite.maintenance._STEP_PAGES", 3)
    put(kb._store, "0", *("needle",) * 5)
    stop = threading.Event()
    other = SqliteStore(kb.path, clock=clock)  # as another process would have it

    def write() -> None:
        for number in range(1, 300):
            put(other, f"{number}", *("needle",) * 5)
            if stop.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    copies = [kb.backup(tmp_path / f"{number}.sqlite") for number in range(5)]
    stop.set()
    writer.join()
    other.close()
    for copy in copies:
        with opened(copy, clock) as each:
            counts = {document.doc_path: document.chunks for document in each.documents()}
            assert set(counts.values()) == {5}
            assert set(counts) == {str(number) for number in range(len(counts))}
            assert [one for one in each.doctor().findings if one.state != "ok"] == []
