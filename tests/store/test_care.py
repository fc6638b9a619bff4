"""Care for data: doctor finds what was planted and mends it; copies are what they are copies of."""

from __future__ import annotations

import gc
import gzip
import io
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kb import KnowledgeBase, archive, wire
from kb.doctor import in_store
from kb.errors import (
    BrokenImport,
    DiskFull,
    InvalidRequest,
    StoreMissing,
    StoreReadOnly,
    StoreTooNew,
    StoreUnusable,
)
from kb.store import SqliteStore, records
from kb.store.connection import Database
from kb.store.shape import INDEXES
from kb.types import Attributes, ChunkDraft, DocumentDraft, Finding, Span
from tests import schemas
from tests.conftest import Clock
from tests.store.builders import check_integrity, put

LIBRARY = Path(__file__).parents[2] / "examples" / "library"
QUERIES = (
    "retry storm", "dedupe key unique index", "How wide are the radio slots?", "targetHost",
    "東京", "首都", "用kb搜索", "storm OR window", "'retry AND storm'", "zzz",
)  # fmt: skip


@pytest.fixture
def filled(kb: KnowledgeBase, clock: Clock) -> KnowledgeBase:
    """The example library, notes in other scripts, and holes in the ids."""
    kb.ingest(LIBRARY)
    kb.add("東京は日本の首都です。用kb搜索 targetHost", tags=["地名"], title="東京")
    gone = kb.add("北京是中国的首都。", ttl="7d")
    kb.add("a note that stays", metadata={"base64": "eA==", "n": 1.5}, kind="lesson")
    kb.remove(gone.doc_path)
    kb.add("and one that goes", ttl="1h")
    kb.tag("library/lessons/retry-storm.md", add=["mine"])
    kb.get("library/lessons/retry-storm.md")
    return kb


def answers(kb: KnowledgeBase) -> list[dict[str, Any]]:
    """Everything a search tells but the time it took."""
    shapes = [wire.response(kb.search(query, top=30)) for query in QUERIES]
    return [{key: value for key, value in shape.items() if key != "timing_ms"} for shape in shapes]


def exported(kb: KnowledgeBase) -> bytes:
    stream = io.BytesIO()
    kb.export(stream)
    return stream.getvalue()


def finding(kb: KnowledgeBase, part: str, *, fix: bool = False) -> Finding:
    return next(one for one in kb.doctor(fix=fix).findings if one.part == part)


def opened(path: Path, clock: Clock) -> KnowledgeBase:
    return KnowledgeBase(path, clock=clock)


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


FAULTS: dict[str, tuple[str, bool, set[str]]] = {  # what is done, behind the triggers, found in
    "a chunk deleted": (
        "DELETE FROM chunks WHERE chunk_id = 3", True, {"counters", "chunks_fts", "chunks_trigram"},
    ),
    "a text changed": (
        "UPDATE chunks SET text = text || ' tampered' WHERE text LIKE 'a note that stays%'", True,
        {"text", "chunks_fts", "chunks_trigram"},
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
    "an empty index": ("DELETE FROM chunks_trigram_data WHERE id > 10", False, {"chunks_trigram"}),
    "no trigger": ("DROP TRIGGER chunks_delete", False, {"schema"}),
    "another trigger": (
        "DROP TRIGGER chunks_insert; CREATE TRIGGER chunks_insert AFTER INSERT ON chunks "
        "BEGIN SELECT 1; END", False, {"schema"},
    ),
    "no index": ("DROP INDEX chunks_doc", False, {"schema"}),
    "no full-text table": ("DROP TABLE chunks_trigram", False, {"schema", "chunks_trigram"}),
}  # fmt: skip
UNFIXED = {"text"}  # what was written is known by nobody


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_mended(filled: KnowledgeBase, fault: str) -> None:
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
    check_integrity(filled._store)
    if fault not in ("a chunk deleted", "a text changed"):
        keep = ("query", "hits")
        assert [[one[key] for key in keep] for one in answers(filled)] == [
            [one[key] for key in keep] for one in before
        ]


def test_fixing_what_is_well_changes_nothing(filled: KnowledgeBase) -> None:
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
    assert finding(kb, "files").what == "3 files looked at, as they were read"
    (root / "a.md").rename(root / "elsewhere.md")
    (root / "b.md").write_text("# B\n\nother words\n")
    moved = finding(kb, "files")
    assert (moved.state, moved.to_do) == ("warning", "kb ingest")
    assert moved.what == "3 files looked at, 1 gone, 1 changed"
    kb.ingest()
    assert finding(kb, "files").state == "ok"

    with kb._store._database.writing() as connection:
        connection.execute(
            "UPDATE chunks SET spans = replace(spans, '\"start\": ', '\"start\": 7')"
        )
    wrong = finding(kb, "files")
    assert wrong.state == "error"
    assert "misplaced" in wrong.what

    clock.seconds += 7200
    assert finding(kb, "expired").what == "1 document waiting to be removed"
    root.rename(root.with_name("away"))
    missing = finding(kb, "roots")
    assert (missing.state, missing.what) == ("warning", f"not there: {root}")
    assert finding(kb, "files").what == "0 files looked at, as they were read"


def test_the_journal(filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.close()
    connection = apsw.Connection(str(filled.path))
    connection.pragma("journal_mode", "delete")
    connection.close()
    assert finding(filled, "journal").state == "warning"
    assert finding(filled, "journal", fix=True).fixed
    assert finding(filled, "journal").state == "ok"
    monkeypatch.setattr(in_store, "_LOG_BYTES", 100)
    filled.add("some words")
    assert finding(filled, "log").state == "warning"
    assert finding(filled, "log", fix=True).fixed


def test_little_room(filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"total": 10**9, "free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    assert finding(filled, "disk").state == "warning"
    assert filled.doctor().healthy


def test_large_stores_are_sampled(filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_store, "SAMPLED_CHUNKS", 10)
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


def test_files_that_are_no_stores(tmp_path: Path, filled: KnowledgeBase) -> None:
    letter = tmp_path / "letter.sqlite"
    letter.write_bytes(b"dear reader " * 500)
    diagnosis = KnowledgeBase(letter).doctor(fix=True)
    assert [one.part for one in diagnosis.findings] == ["file"]
    assert not diagnosis.healthy
    with pytest.raises(StoreMissing):
        KnowledgeBase(tmp_path / "none.sqlite").doctor()
    with filled._store._database.writing() as connection:
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


def test_a_backup_overwrites_only_if_told(filled: KnowledgeBase, tmp_path: Path) -> None:
    target = tmp_path / "b.sqlite"
    target.write_text("precious")
    with pytest.raises(InvalidRequest, match="is there already"):
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
    filled.backup(folder / "b.sqlite")  # the store is not in the way


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_a_backup_is_as_private_as_the_store(filled: KnowledgeBase, tmp_path: Path) -> None:
    filled.path.chmod(0o600)
    assert filled.backup(tmp_path / "b.sqlite").stat().st_mode & 0o777 == 0o600


def test_a_damaged_store_gives_no_backup(filled: KnowledgeBase, tmp_path: Path) -> None:
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
    """Each copy is one state: documents have all their chunks, and every note before the last."""
    monkeypatch.setattr("kb.store.backup._STEP_PAGES", 3)
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


# --- export and import ----------------------------------------------------------------------------


@pytest.fixture
def fresh(tmp_path: Path, clock: Clock) -> Iterator[KnowledgeBase]:
    with opened(tmp_path / "fresh" / "kb.sqlite", clock) as kb:
        yield kb


def test_every_column_is_exported(kb: KnowledgeBase) -> None:
    """A column that a migration adds has to be exported, or named here as derived."""
    derived = {"chunks": {"parts", "cjk"}}
    kb.create()
    with kb._store._database.reading() as connection:
        for kind, table in records.TABLES.items():
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            kept = [name for name in columns if name not in derived.get(table, ())]
            assert list(records.RECORDS[kind]) == kept
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE TABLE %'"
        )
        others = ("sqlite_", "sparse_", *INDEXES)  # derived
        own = {name for (name,) in tables if not str(name).startswith(others)}
        vectors = {"models", "embeddings", "vector_changes", "vector_indexes", "jobs"}
        assert own == {"state", "roots", "documents", "document_tags", "chunks"} | vectors
        found = {row[1] for row in connection.execute("PRAGMA table_info(models)")}
        ours = {"ready", "failed", "sparse", "tokens"}  # counted anew
        ours |= {"keep_old"}  # of a change that is under way here
        assert found - set(records.MODEL) == ours
        found = {row[1] for row in connection.execute("PRAGMA table_info(embeddings)")}
        ours = {"embedding_id", "chunk_id", "state", "attempts", "error"}  # of those that are ready
        assert found - set(records.EMBEDDING) == ours


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz"])
def test_an_import_is_the_store_again(
    filled: KnowledgeBase, fresh: KnowledgeBase, tmp_path: Path, name: str
) -> None:
    header = filled.export(tmp_path / name)
    schemas.validate(header)
    report = fresh.import_(tmp_path / name)
    schemas.validate(wire.import_report(report))
    assert (report.added, report.replaced, report.kept) == (header["counts"]["documents"], 0, 0)
    assert answers(fresh) == answers(filled)
    assert exported(fresh) == exported(filled)
    assert fresh.documents(expired=True) == filled.documents(expired=True)
    assert fresh.doctor().healthy
    assert [path.name for path in fresh.path.parent.glob(".*")] == []
    assert fresh.add("next").doc_id == filled.add("next").doc_id


@pytest.mark.parametrize("packed", [False, True])
def test_a_stream_is_left_open(filled: KnowledgeBase, fresh: KnowledgeBase, packed: bool) -> None:
    whole = exported(filled)
    stream = io.BytesIO(gzip.compress(whole) if packed else whole)
    fresh.import_(stream)
    gc.collect()
    assert not stream.closed
    broken = io.BytesIO(b"nonsense")
    with pytest.raises(BrokenImport):
        fresh.import_(broken, merge=True)
    gc.collect()
    assert not broken.closed


def test_every_line_fits_the_schema(filled: KnowledgeBase) -> None:
    first, *rest = map(json.loads, exported(filled).splitlines())
    schemas.validate(first)
    whole = wire.schema("export.v1")
    for record in rest:
        Draft202012Validator(
            {"$ref": f"#/$defs/{record['record']}", "$defs": whole["$defs"]}
        ).validate(record)
    assert [record["record"] for record in rest] == sorted(
        (record["record"] for record in rest), key=["root", "document", "chunk"].index
    )


@pytest.mark.skipif(os.name == "nt", reason="file names that are any bytes")
def test_names_that_are_no_text(kb: KnowledgeBase, fresh: KnowledgeBase, tmp_path: Path) -> None:
    root = os.fsencode(tmp_path) + b"/r\xffoot"
    os.mkdir(root)
    for name in (b"n\xffame.md", b"new\nline.md", "é 東京#%.md".encode()):
        with open(root + b"/" + name, "wb") as file:
            file.write(b"# T\n\n words \x1b[2J \xe2\x80\xa8 end\n")
    kb.ingest(os.fsdecode(root))
    assert len(kb.documents()) == 3
    fresh.import_(io.BytesIO(exported(kb)))
    assert exported(fresh) == exported(kb)
    for document in fresh.documents():
        assert fresh._store.os_path(document.doc_id) == kb._store.os_path(document.doc_id)
        assert fresh.get(document.doc_path).state == "exact"


def test_into_a_store_that_is_not_empty(filled: KnowledgeBase, fresh: KnowledgeBase) -> None:
    fresh.add("mine")
    before = exported(fresh)
    with pytest.raises(InvalidRequest) as error:
        fresh.import_(io.BytesIO(exported(filled)))
    assert "--merge" in error.value.hint
    assert exported(fresh) == before


def test_into_a_store_that_was_emptied(filled: KnowledgeBase, fresh: KnowledgeBase) -> None:
    """No id is used twice, and no index version comes back."""
    for number in range(60):
        fresh.remove(fresh.add(f"note {number}").doc_path)
    before = fresh.index_version()
    fresh.import_(io.BytesIO(exported(filled)))
    assert [one["hits"] for one in answers(fresh)] == [one["hits"] for one in answers(filled)]
    assert fresh.index_version() != before
    assert fresh.add("next").doc_id == 61


def _broken(lines: list[bytes]) -> dict[str, tuple[list[bytes], int]]:
    """Damaged exports, with the line that has to be named."""
    last = len(lines)
    chunk = json.loads(lines[-1])
    document = next(line for line in lines if b'"record":"document"' in line)
    at = lines.index(document) + 1

    def changed(**fields: Any) -> list[bytes]:
        return [*lines[:-1], json.dumps(chunk | fields).encode()]

    return {
        "cut between lines": (lines[:-1], last - 1),
        "cut inside a line": ([*lines[:-1], lines[-1][:40]], last),
        "not JSON": ([*lines[:5], b"garbage\n", *lines[5:]], 6),
        "not UTF-8": ([*lines[:5], b'{"record": "\xff"}\n', *lines[5:]], 6),
        "no object": ([*lines[:5], b"[1]\n", *lines[5:]], 6),
        "deeply nested": ([*lines[:5], b"[" * 100_000 + b"\n", *lines[5:]], 6),
        "a number too long": ([*lines[:5], b"9" * 5000 + b"\n", *lines[5:]], 6),
        "an empty line": ([*lines[:5], b"\n", *lines[5:]], 6),
        "a document twice": ([*lines[:at], document, *lines[at:]], at + 1),
        "a chunk twice": ([*lines, lines[-1]], last + 1),
        "a chunk of no document": (changed(doc_id=4711), last),
        "an id that is text": (changed(chunk_id="1"), last),
        "an id that is true": (changed(chunk_id=True), last),
        "an id beyond 64 bits": (changed(chunk_id=1 << 70), last),
        "no text": (changed(text=None), last),
        "half a surrogate": (changed(text="\ud800"), last),
        "a span that is none": (changed(spans=[{"start": "x"}]), last),
        "a heading that is none": (changed(heading_path=[1]), last),
        "a field missing": (
            [*lines[:-1], json.dumps({"record": "chunk", "chunk_id": 1}).encode()], last,
        ),
        "base64 that is none": (
            [document.replace(b'"os_path":null', b'"os_path":{"base64":"?"}')
             if line is document else line for line in lines], at,
        ),
        "an unknown kind": (
            [document.replace(b'"kind":null', b'"kind":"x"', 1) if line is document else line
             for line in lines], at,
        ),
    }  # fmt: skip


@pytest.mark.parametrize("case", _broken([b'{"record":"document"}', b"{}"] * 5))
def test_a_broken_line_is_named_and_nothing_is_imported(
    filled: KnowledgeBase, fresh: KnowledgeBase, case: str
) -> None:
    lines, number = _broken(exported(filled).splitlines(keepends=True))[case]
    with pytest.raises(BrokenImport) as error:
        fresh.import_(io.BytesIO(b"".join(lines)))
    assert error.value.message.startswith(f"line {number}: ")
    assert not fresh.path.parent.exists() or list(fresh.path.parent.iterdir()) == []
    fresh.create()
    before = exported(fresh)
    with pytest.raises(BrokenImport):
        fresh.import_(io.BytesIO(b"".join(lines)))
    assert exported(fresh) == before


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"garbage", b"{}", b'{"schema_version": 1}', b"\x1f\x8bgarbage"]
)
def test_what_is_no_export(fresh: KnowledgeBase, content: bytes) -> None:
    with pytest.raises(BrokenImport, match="line 1"):
        fresh.import_(io.BytesIO(content))
    assert not fresh.path.exists()


def test_a_cut_archive(filled: KnowledgeBase, fresh: KnowledgeBase, tmp_path: Path) -> None:
    filled.export(tmp_path / "e.gz")
    raw = (tmp_path / "e.gz").read_bytes()
    (tmp_path / "e.gz").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(BrokenImport, match="damaged compression"):
        fresh.import_(tmp_path / "e.gz")
    assert not fresh.path.exists()


def test_a_line_without_an_end(
    filled: KnowledgeBase, fresh: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BrokenImport, match="line 1: longer"):
        fresh.import_(io.BytesIO(b"x" * (2 << 20)))
    monkeypatch.setattr(archive, "_LINE_BYTES", 10_000)
    lines = exported(filled).splitlines(keepends=True)
    with pytest.raises(BrokenImport, match="line 4: longer"):
        fresh.import_(io.BytesIO(b"".join([*lines[:3], b"y" * 20_000, *lines[3:]])))


@pytest.mark.parametrize(
    ("number", "old", "new"),
    [
        (0, b'"store_schema":5', b'"store_schema":6'),
        (0, b"export.v1", b"export.v2"),
        (0, b'{"schema', b'{"more":1,"schema'),
        (1, b'"record":"root"', b'"record":"root","more":1'),
        (1, b'"record":"root"', b'"record":"job"'),
        (-1, b'"record":"chunk"', b'"record":"chunk","colour":"red"'),
    ],
)
def test_what_a_newer_kb_wrote(
    filled: KnowledgeBase, fresh: KnowledgeBase, number: int, old: bytes, new: bytes
) -> None:
    lines = exported(filled).splitlines(keepends=True)
    lines[number] = lines[number].replace(old, new, 1)
    with pytest.raises(StoreTooNew) as error:
        fresh.import_(io.BytesIO(b"".join(lines)))
    assert "upgrade" in error.value.hint
    assert not fresh.path.exists()


def test_a_damaged_column_is_named(filled: KnowledgeBase) -> None:
    with filled._store._database.writing() as connection:
        connection.execute("UPDATE chunks SET spans = '[{' WHERE chunk_id = 3")
    with pytest.raises(StoreUnusable, match="the spans of chunk 3 are damaged"):
        exported(filled)


def test_no_room_for_an_import(
    filled: KnowledgeBase, fresh: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = Database._connect

    def limited(self: Database, name: str, flags: int) -> apsw.Connection:
        connection = connect(self, name, flags)
        connection.execute("PRAGMA max_page_count = 50")
        return connection

    data = exported(filled)
    monkeypatch.setattr(Database, "_connect", limited)
    with pytest.raises(DiskFull, match="nothing was imported"):
        fresh.import_(io.BytesIO(data))
    assert list(fresh.path.parent.iterdir()) == []


def test_the_place_for_embeddings_may_be_empty(filled: KnowledgeBase, fresh: KnowledgeBase) -> None:
    text = exported(filled).replace(b'"record":"chunk"', b'"record":"chunk","embeddings":[]')
    fresh.import_(io.BytesIO(text))
    assert exported(fresh) == exported(filled)


# --- merging --------------------------------------------------------------------------------------


def test_merging(
    kb: KnowledgeBase, fresh: KnowledgeBase, library: Callable[..., Path], clock: Clock
) -> None:
    root = library({"a.md": "# A\n\nold words\n", "b.md": "# B\n\nsame\n"})
    fresh.add("a note of the one")
    fresh.ingest(root)
    fresh.tag("lib/a.md", add=["ours"])
    fresh.get("lib/a.md")
    ours = fresh.document("lib/a.md").doc_id

    clock.seconds += 100
    kb.add("a note of the other")
    library({"a.md": "---\ntags: [new]\n---\n# A\n\nnew words\n\n## more\n\nof them\n"})
    kb.ingest(root)
    kb.tag("lib/b.md", add=["theirs"])
    data = exported(kb)

    report = fresh.import_(io.BytesIO(data), merge=True)
    assert (report.added, report.replaced, report.kept) == (1, 2, 0)
    assert fresh.document("lib/a.md").doc_id == ours
    assert fresh.document("lib/a.md").tags == ("new", "ours")
    assert fresh.document("lib/a.md").access_count == 1
    assert fresh.document("lib/b.md").tags == ("theirs",)
    assert sorted(document.title for document in fresh.documents() if document.type == "note") == [
        "a note of the one", "a note of the other",
    ]  # fmt: skip
    assert fresh.search("old", match="all").returned == 0
    assert fresh.search("new words", match="all").returned == 1
    assert len(fresh._store.roots()) == 1
    assert fresh.doctor().healthy

    again = exported(fresh)
    report = fresh.import_(io.BytesIO(data), merge=True)
    assert (report.added, report.replaced, report.kept) == (0, 0, 3)
    assert exported(fresh).splitlines()[1:] == again.splitlines()[1:]


def test_merging_keeps_what_is_newer_here(
    kb: KnowledgeBase, fresh: KnowledgeBase, library: Callable[..., Path], clock: Clock
) -> None:
    root = library({"a.md": "older\n"})
    kb.ingest(root)
    clock.seconds += 100
    library({"a.md": "newer\n"})
    fresh.ingest(root)
    report = fresh.import_(io.BytesIO(exported(kb)), merge=True)
    assert (report.added, report.replaced, report.kept) == (0, 0, 1)
    assert fresh.search("newer").returned == 1


def test_merging_folders_of_the_same_name(
    kb: KnowledgeBase, fresh: KnowledgeBase, tmp_path: Path
) -> None:
    for place in ("x", "y"):
        (tmp_path / place / "notes").mkdir(parents=True)
        (tmp_path / place / "notes" / "a.md").write_text(f"in {place}\n")
    kb.ingest(tmp_path / "x" / "notes")
    fresh.ingest(tmp_path / "y" / "notes")
    fresh.import_(io.BytesIO(exported(kb)), merge=True)
    assert [each.doc_path for each in fresh.documents()] == ["notes-2/a.md", "notes/a.md"]
    assert fresh.get("notes-2/a.md").text == "in x"
    assert fresh.ingest().unchanged == 2


def test_a_broken_merge_leaves_the_store_as_it_was(
    filled: KnowledgeBase, fresh: KnowledgeBase
) -> None:
    fresh.add("mine")
    before = exported(fresh)
    lines = exported(filled).splitlines(keepends=True)
    for broken in (lines[:-1], [*lines[:-1], lines[-1].replace(b'"doc_id":', b'"doc_id":999')]):
        with pytest.raises(BrokenImport):
            fresh.import_(io.BytesIO(b"".join(broken)), merge=True)
        assert exported(fresh) == before
    check_integrity(fresh._store)


# --- any documents --------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
SPANS = st.builds(
    Span, st.sampled_from(["line", "page", "code", "region"]), st.none() | st.integers(1, 99),
    st.none() | st.integers(1, 99), extra=st.dictionaries(st.just("box"), JSON_VALUES, max_size=1),
)  # fmt: skip
CHUNKS = st.builds(
    ChunkDraft, TEXTS, st.lists(TEXTS, max_size=3).map(tuple), st.none() | TEXTS,
    st.lists(SPANS, min_size=1, max_size=2).map(tuple),
)  # fmt: skip
SAID = st.builds(
    Attributes, tags=st.lists(TEXTS, max_size=3, unique=True).map(tuple),
    kind=st.sampled_from([None, "decision"]), lang=st.none() | TEXTS,
    expires_at=st.none() | TEXTS, metadata=st.dictionaries(TEXTS, JSON_VALUES, max_size=3),
)  # fmt: skip
NUMBERS = st.integers(-(2**63), 2**63 - 1)
DOCUMENTS = st.lists(
    st.tuples(
        TEXTS, TEXTS, SAID, NUMBERS, st.none() | st.binary(max_size=20), st.none() | TEXTS,
        st.lists(CHUNKS, max_size=4),
    ),
    max_size=5,
)  # fmt: skip


@given(DOCUMENTS)
def test_any_documents_survive(tmp_path_factory: pytest.TempPathFactory, drafts: Any) -> None:
    folder = tmp_path_factory.mktemp("any")
    with KnowledgeBase(folder / "a.sqlite") as one, KnowledgeBase(folder / "b.sqlite") as other:
        one.create()
        for path, title, said, mtime_ns, os_path, body, chunks in drafts:
            draft = DocumentDraft(
                None,
                path,
                path,
                title,
                "note",
                said,
                "-",
                "1",
                1,
                mtime_ns,
                os_path=os_path,
                body=body,
            )
            one._store.write_document(draft, chunks)
        data = exported(one)
        other.import_(io.BytesIO(data))
        assert exported(other) == data
        check_integrity(other._store)


def test_merging_keeps_tags_by_hand_of_documents_that_stay(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.md").write_text("words\n")
    with (
        KnowledgeBase(tmp_path / "one.sqlite", clock=clock) as one,
        KnowledgeBase(tmp_path / "two.sqlite", clock=clock) as two,
    ):
        for kb in (one, two):
            kb.ingest(tmp_path / "lib")
        one.tag("lib/a.md", add=["theirs"])
        two.tag("lib/a.md", add=["ours"])
        told = io.BytesIO()
        one.export(told)
        told.seek(0)
        assert two.import_(told, merge=True).kept == 1
        assert two.document("lib/a.md").tags == ("ours", "theirs")
