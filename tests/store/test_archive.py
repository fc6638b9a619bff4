"""Export and import: an import restores what was exported."""

from __future__ import annotations

import gc
import gzip
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kb import KnowledgeBase, wire
from kb.errors import (
    BrokenImport,
    DiskFull,
    InvalidRequest,
    StoreTooNew,
    StoreUnusable,
)
from kb.ingest.document_builder import content_digest
from kb.library import archive
from kb.store import export_format
from kb.store.sqlite.connection import Database
from kb.store.sqlite.schema_check import INDEXES
from kb.types import Attributes, ChunkDraft, DocumentDraft, Span
from tests import schemas
from tests.conftest import Clock
from tests.store.builders import check_integrity, sqlite_store
from tests.store.library import answers, exported, opened

# --- export and import ----------------------------------------------------------------------------


@pytest.fixture
def fresh(tmp_path: Path, clock: Clock) -> Iterator[KnowledgeBase]:
    with opened(tmp_path / "fresh" / "kb.sqlite", clock) as kb:
        yield kb


def test_every_column_is_exported(kb: KnowledgeBase) -> None:
    """A column that a migration adds has to be exported, or named here as derived."""
    derived = {"chunks": {"parts", "cjk"}}
    kb.create()
    with sqlite_store(kb)._database.reading() as connection:
        for kind, table in export_format.TABLES.items():
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            kept = [name for name in columns if name not in derived.get(table, ())]
            assert list(export_format.RECORDS[kind]) == kept
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE TABLE %'"
        )
        # derived, or in other records
        others = ("sqlite_", "sparse_", "text_changes", "vector_pieces", *INDEXES)
        own = {name for (name,) in tables if not str(name).startswith(others)}
        vectors = {"models", "embeddings", "vector_changes", "vector_indexes", "jobs"}
        vectors |= {"detached_roots", "detached_documents"}  # imports are detached anyway
        rows = {"roots", "documents", "document_tags", "chunks", "removed_documents"}
        assert own == {"state"} | rows | vectors
        found = {row[1] for row in connection.execute("PRAGMA table_info(models)")}
        ours = {"ready", "failed", "sparse", "tokens"}  # counted again
        ours |= {"keep_old"}  # of a switch in progress in this store
        assert found - set(export_format.MODEL) == ours
        found = {row[1] for row in connection.execute("PRAGMA table_info(embeddings)")}
        ours = {"embedding_id", "chunk_id", "state", "attempts", "error"}  # of ready embeddings
        assert found - set(export_format.EMBEDDING) == ours


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


def test_an_export_of_schema_12(filled: KnowledgeBase, fresh: KnowledgeBase) -> None:
    """The export has no records of removed documents."""
    first, *rest = exported(filled).splitlines(keepends=True)
    header = json.loads(first) | {"store_schema": 12}
    for name in ("counts", "sequences"):
        del header[name]["removed_documents"]
    fresh.import_(io.BytesIO(json.dumps(header).encode() + b"\n" + b"".join(rest)))
    assert exported(fresh) == exported(filled)


def test_every_line_fits_the_schema(filled: KnowledgeBase) -> None:
    first, *rest = map(json.loads, exported(filled).splitlines())
    schemas.validate(first)
    whole = wire.schema("export.v1")
    for record in rest:
        Draft202012Validator(
            {"$ref": f"#/$defs/{record['record']}", "$defs": whole["$defs"]}
        ).validate(record)
    kinds = [record["record"] for record in rest]
    assert kinds == sorted(kinds, key=list(export_format.RECORDS).index)


@pytest.mark.skipif(os.name == "nt", reason="file names that are any bytes")
def test_names_that_are_not_valid_utf8(
    kb: KnowledgeBase, fresh: KnowledgeBase, tmp_path: Path
) -> None:
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
        place = fresh._store.catalog.file_location(document.doc_id)
        own = kb._store.catalog.file_location(document.doc_id)
        assert place is not None
        assert own is not None
        assert (place.root, place.inside) == (own.root, own.inside)
        assert fresh.get(document.doc_path).state == "stale"
    fresh.ingest(os.fsdecode(root))
    assert [fresh.get(one.doc_path).state for one in fresh.documents()] == ["exact"] * 3


def test_into_a_store_that_is_not_empty(filled: KnowledgeBase, fresh: KnowledgeBase) -> None:
    fresh.add("mine")
    before = exported(fresh)
    with pytest.raises(InvalidRequest) as error:
        fresh.import_(io.BytesIO(exported(filled)))
    assert "--merge" in error.value.hint
    assert exported(fresh) == before


def test_into_a_store_that_was_emptied(filled: KnowledgeBase, fresh: KnowledgeBase) -> None:
    """No id is reused, and no index version repeats."""
    for number in range(60):
        fresh.remove(fresh.add(f"note {number}").doc_path)
    before = fresh.index_version()
    fresh.import_(io.BytesIO(exported(filled)))
    assert [one["hits"] for one in answers(fresh)] == [one["hits"] for one in answers(filled)]
    assert fresh.index_version() != before
    assert fresh.add("next").doc_id == 61


def _broken(lines: list[bytes]) -> dict[str, tuple[list[bytes], int]]:
    """Damaged exports, with the line that the error must name."""
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
def test_files_that_are_not_exports(fresh: KnowledgeBase, content: bytes) -> None:
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
        (0, b'"store_schema":15', b'"store_schema":16'),
        (0, b"export.v1", b"export.v2"),
        (0, b'{"schema', b'{"more":1,"schema'),
        (1, b'"record":"root"', b'"record":"root","more":1'),
        (1, b'"record":"root"', b'"record":"job"'),
        (-1, b'"record":"chunk"', b'"record":"chunk","colour":"red"'),
    ],
)
def test_exports_of_a_newer_kb(
    filled: KnowledgeBase, fresh: KnowledgeBase, number: int, old: bytes, new: bytes
) -> None:
    lines = exported(filled).splitlines(keepends=True)
    lines[number] = lines[number].replace(old, new, 1)
    with pytest.raises(StoreTooNew) as error:
        fresh.import_(io.BytesIO(b"".join(lines)))
    assert "upgrade" in error.value.hint
    assert not fresh.path.exists()


def test_a_damaged_column_is_named(filled: KnowledgeBase) -> None:
    with sqlite_store(filled)._database.writing() as connection:
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
    kb.ingest(root)
    fresh.import_(io.BytesIO(exported(kb)))
    fresh.add("a note of the one")
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
    assert (report.added, report.replaced, report.kept) == (1, 1, 1)
    assert fresh.document("lib/a.md").doc_id == ours
    assert fresh.document("lib/a.md").tags == ("new", "ours")
    assert fresh.document("lib/a.md").access_count == 1
    assert fresh.document("lib/b.md").tags == ("theirs",)
    assert sorted(document.title for document in fresh.documents() if document.type == "note") == [
        "a note of the one", "a note of the other",
    ]  # fmt: skip
    assert fresh.search("old", match="all").returned == 0
    assert fresh.search("new words", match="all").returned == 1
    assert len(fresh._store.catalog.roots()) == 1
    assert fresh.doctor().healthy

    again = exported(fresh)
    report = fresh.import_(io.BytesIO(data), merge=True)
    assert (report.added, report.replaced, report.kept) == (0, 0, 3)
    assert exported(fresh).splitlines()[1:] == again.splitlines()[1:]


def test_merging_keeps_newer_documents(
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
    fresh.attach("notes-2")
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
    check_integrity(sqlite_store(fresh))


# --- false claims of an archive -------------------------------------------------------------------


def forged(kb: KnowledgeBase, **changes: dict[str, Any]) -> io.BytesIO:
    """What `kb` exports, with other values in its records of some kinds."""
    records = [json.loads(line) for line in exported(kb).splitlines()]
    changed = [record | changes.get(record.get("record", ""), {}) for record in records]
    return io.BytesIO("".join(json.dumps(record) + "\n" for record in changed).encode())


LATER = {"indexed_at": "2099-01-01T00:00:00Z", "indexed_ns": 4_070_908_800_000_000_000}


def test_a_note_of_another_text_is_another_note(kb: KnowledgeBase) -> None:
    """Whatever hash the archive claims for it."""
    kb.add("the only copy")
    evil = forged(kb, document={**LATER, "body": "EVIL"}, chunk={"text": "EVIL"})
    report = kb.import_(evil, merge=True)
    assert (report.added, report.replaced, report.kept) == (1, 0, 0)
    assert [kb.get(one.doc_path).text for one in kb.documents()] == ["the only copy", "EVIL"]
    hashes = [one.content_hash for one in kb.documents()]
    assert hashes == [content_digest(text) for text in (b"the only copy", b"EVIL")]
    assert kb.doctor().healthy
    evil.seek(0)
    assert kb.import_(evil, merge=True).kept == 1


def test_a_note_of_the_same_text_stays_as_it_is(kb: KnowledgeBase) -> None:
    kb.add("the only copy", title="mine")
    before = exported(kb).splitlines()[1:]
    changes = {**LATER, "title": "EVIL", "expires_at": "2000-01-01T00:00:00Z"}
    report = kb.import_(forged(kb, document=changes, chunk={"text": "EVIL"}), merge=True)
    assert (report.added, report.replaced, report.kept) == (0, 0, 1)
    assert exported(kb).splitlines()[1:] == before


def test_a_note_without_its_text_replaces_nothing(kb: KnowledgeBase) -> None:
    kb.add("the only copy")
    kb.import_(forged(kb, document={**LATER, "body": None}), merge=True)
    assert kb.get("note:1").text == "the only copy"


@pytest.mark.parametrize(
    "changes",
    [
        {"chunk": {"text": "POISON"}},
        {"document": {"expires_at": "2000-01-01T00:00:00Z"}},
        {"document": {"root_id": None}},
    ],
)
def test_a_merge_keeps_documents_of_attached_files(
    kb: KnowledgeBase, library: Callable[..., Path], changes: dict[str, dict[str, Any]]
) -> None:
    kb.ingest(library({"a.md": "# A\n\nwords\n"}))
    before = exported(kb).splitlines()[1:]
    changes = changes | {"document": {**LATER, **changes.get("document", {})}}
    report = kb.import_(forged(kb, **changes), merge=True)
    assert (report.added, report.replaced, report.kept) == (0, 0, 1)
    assert exported(kb).splitlines()[1:] == before
    assert kb.get("lib/a.md").state == "exact"


def test_imported_passages_are_compared_with_the_file(
    kb: KnowledgeBase, fresh: KnowledgeBase, library: Callable[..., Path]
) -> None:
    root = library({"a.md": "# A\n\nwords\n"})
    kb.ingest(root)
    fresh.import_(forged(kb, chunk={"text": "POISON"}))
    assert fresh.search("POISON").returned == 1
    report = fresh.ingest(root)
    assert (report.changed, report.unchanged) == (("lib/a.md",), 0)
    assert fresh.search("POISON").returned == 0
    assert fresh.search("words").returned == 1


def test_imported_documents_without_passages_are_read_again(
    kb: KnowledgeBase, fresh: KnowledgeBase, library: Callable[..., Path]
) -> None:
    root = library({"a.md": "# A\n\nwords\n"})
    kb.ingest(root)
    header, *records = map(json.loads, exported(kb).splitlines())
    header["counts"]["chunks"] = 0
    lines = [header, *(record for record in records if record["record"] != "chunk")]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    fresh.import_(io.BytesIO(data))
    assert fresh.ingest(root).changed == ("lib/a.md",)
    assert fresh.search("words").returned == 1


def test_an_imported_document_is_replaced_by_a_later_one_with_passages(
    kb: KnowledgeBase, fresh: KnowledgeBase, library: Callable[..., Path]
) -> None:
    """A later version that is empty or has expired does not replace it."""
    kb.ingest(library({"a.md": "# A\n\nwords\n"}))
    fresh.import_(io.BytesIO(exported(kb)))
    header, *records = map(json.loads, exported(kb).splitlines())
    header["counts"]["chunks"] = 0
    lines = [header, *(record | LATER for record in records if record["record"] == "document")]
    lines[1:1] = [record for record in records if record["record"] == "root"]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert fresh.import_(io.BytesIO(data), merge=True).kept == 1
    assert fresh.search("words").returned == 1
    later = {**LATER, "expires_at": "2000-01-01T00:00:00Z"}
    report = fresh.import_(forged(kb, document=later, chunk={"text": "newer"}), merge=True)
    assert report.replaced == 1
    assert fresh.search("newer").returned == 1
    assert fresh.document("lib/a.md").expires_at is None


def test_a_note_under_another_number_is_refused(kb: KnowledgeBase, fresh: KnowledgeBase) -> None:
    kb.add("a note")
    for merge in (False, True):
        with pytest.raises(BrokenImport, match="cannot be 'note:7'"):
            fresh.import_(forged(kb, document={"doc_path": "note:7"}), merge=merge)
        fresh.add("mine")


# --- random documents -----------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
SPANS = st.builds(
    Span, st.sampled_from(["line", "page", "code", "region"]), st.none() | st.integers(1, 50),
    st.none() | st.integers(50, 99), extra=st.dictionaries(st.just("box"), JSON_VALUES, max_size=1),
)  # fmt: skip
CHUNKS = st.builds(
    ChunkDraft, TEXTS, st.lists(TEXTS, max_size=3).map(tuple), st.none() | TEXTS,
    st.lists(SPANS, min_size=1, max_size=2).map(tuple),
)  # fmt: skip
SAID = st.builds(
    Attributes, tags=st.lists(TEXTS.filter(bool), max_size=3, unique=True).map(tuple),
    kind=st.sampled_from([None, "decision"]), lang=st.none() | TEXTS,
    expires_at=st.none() | st.datetimes().map(lambda time: f"{time:%Y-%m-%dT%H:%M:%SZ}".zfill(20)),
    metadata=st.dictionaries(TEXTS, JSON_VALUES, max_size=3),
)  # fmt: skip
NUMBERS = st.integers(-(2**63), 2**63 - 1)
PATHS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
OS_PATHS = st.binary(min_size=1, max_size=20).filter(lambda name: 0 not in name)
DOCUMENTS = st.lists(
    st.tuples(
        PATHS, TEXTS, SAID, NUMBERS, st.none() | OS_PATHS, st.none() | TEXTS,
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
                "-" if body is None else content_digest(body.encode()),
                "1",
                1,
                mtime_ns,
                os_path=os_path,
                body=body,
            )
            one._store.catalog.write_document(draft, chunks)
        data = exported(one)
        other.import_(io.BytesIO(data))
        assert exported(other) == data
        check_integrity(sqlite_store(other))


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
