"""Checks, backups, exports and imports."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kb.errors import BrokenImport, InvalidRequest
from kb.ingest.document_builder import content_digest
from kb.ports import Store
from kb.types import Filters, LexicalQuery
from tests.conformance.store.conftest import Stores
from tests.conformance.store.samples import EVERYTHING, embed, put


@pytest.fixture
def filled(store: Store) -> Store:
    root = store.catalog.ensure_root("/lib", whole=True)
    put(store, "a.md", "one", "two", root_id=root.root_id, doc_path="lib/a.md", tags=("t",))
    digest = content_digest(b"three")
    put(store, "", "three", body="three", content_hash=digest, metadata={"n": 1.5})
    embed(store)
    return store


def ignore(_done: int, _total: int) -> None:
    """Progress that nothing reports."""


def export(store: Store, **options: Any) -> list[bytes]:
    return list(store.maintenance.export(**options))


def load(store: Store, lines: list[bytes], *, merge: bool = False) -> Any:
    return store.maintenance.load(iter(lines), merge=merge, on_progress=ignore)


def test_versions_and_sizes(filled: Store) -> None:
    versions = filled.maintenance.versions()
    assert "schema" in versions
    assert all(versions.values())
    usage = filled.maintenance.disk_usage()
    assert usage.size_bytes == filled.maintenance.size_bytes() > 0
    assert usage.log_bytes >= 0
    if usage.free_bytes is not None and usage.total_bytes is not None:
        assert 0 < usage.free_bytes <= usage.total_bytes
    filled.maintenance.checkpoint()
    assert len(filled.catalog.documents(Filters(), None)) == 2


def test_a_healthy_store_passes_its_checks(filled: Store) -> None:
    def rechunk(_doc_id: int) -> None:
        pytest.fail("nothing is damaged")

    checks = list(filled.maintenance.checks(rechunk))
    assert checks
    assert len({check.part for check in checks}) == len(checks)
    findings = [check.run() for check in checks]
    assert [one.part for one in findings] == [check.part for check in checks]
    assert {one.state for one in findings} == {"ok"}


def test_repairs_keep_what_is_sound(filled: Store) -> None:
    before = export(filled, vectors=True)[1:]  # without the header, which counts changes
    for check in filled.maintenance.checks(lambda _: None):
        if check.repair is not None:
            assert not check.repair()
    assert export(filled, vectors=True)[1:] == before


def test_a_backup_is_a_store(stores: Stores, filled: Store, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    target = tmp_path / "copy.kb"
    filled.maintenance.backup(target, overwrite=False, on_progress=lambda *step: steps.append(step))
    assert steps[-1][0] == steps[-1][1]
    with pytest.raises(InvalidRequest):
        filled.maintenance.backup(target, overwrite=False, on_progress=ignore)
    filled.maintenance.backup(target, overwrite=True, on_progress=ignore)
    restored = stores.restore(target)
    assert export(restored, vectors=True) == export(filled, vectors=True)


@pytest.mark.parametrize("vectors", [True, False])
def test_an_export_restores_the_store(stores: Stores, filled: Store, vectors: bool) -> None:
    lines = export(filled, vectors=vectors)
    header = json.loads(lines[0])
    assert header["schema_version"] == "export.v1"
    assert sum(header["counts"].values()) == len(lines) - 1
    other = stores.open("other")
    report = load(other, lines)
    assert (report.added, report.replaced, report.kept, report.chunks) == (2, 0, 0, 3)
    assert export(other, vectors=vectors) == lines
    assert bool(other.vectors.models()) == vectors
    (root,) = other.catalog.roots()
    assert root.detached  # until the user attaches it
    assert other.catalog.sample_files(10) == []


@pytest.fixture
def removed(store: Store) -> Store:
    """A store that keeps the tags of a removed document."""
    root = store.catalog.ensure_root("/lib", whole=True)
    doc_id = put(store, "gone.md", "one", root_id=root.root_id, doc_path="lib/gone.md")
    store.catalog.tag(doc_id, ["ä", "mine", "\U0001f600"], [])
    store.catalog.record_access(doc_id)
    store.catalog.delete_documents([doc_id], restorable=True)
    return store


def _back(store: Store, root: str = "/lib") -> dict[str, str]:
    made = store.catalog.ensure_root(root, whole=True)
    fields: dict[str, Any] = {"root_id": made.root_id, "doc_path": f"{made.name}/gone.md"}
    return store.catalog.tag_sources(put(store, "gone.md", "one", **fields))


def test_an_export_carries_what_is_kept_of_removed_documents(
    stores: Stores, removed: Store
) -> None:
    lines = export(removed)
    record = json.loads(lines[-1])
    assert record.pop("removed_id") == 1
    assert record == {
        "record": "removed_document", "root_path": "/lib", "path": "gone.md", "access_count": 1,
        "user_tags": ["mine", "ä", "\U0001f600"],
    }  # fmt: skip
    other = stores.open("other")
    load(other, lines)
    assert export(other) == lines
    (root,) = other.catalog.roots()
    other.catalog.attach_root(root.root_id, "/mnt/lib")
    assert set(_back(other, "/mnt/lib")) == {"mine", "ä", "\U0001f600"}


@pytest.mark.parametrize("has", ["nothing", "document", "removed document"])
def test_a_merge_unites_tags_of_removed_documents(stores: Stores, removed: Store, has: str) -> None:
    other = stores.open("other")
    root = other.catalog.ensure_root("/lib", whole=True)
    if has != "nothing":
        doc_id = put(other, "gone.md", "own", root_id=root.root_id, doc_path="lib/gone.md")
        other.catalog.tag(doc_id, ["own"], [])
        if has == "removed document":
            other.catalog.delete_documents([doc_id], restorable=True)
    for _ in range(2):
        load(other, export(removed), merge=True)
    if has == "document":
        (document,) = other.catalog.documents(Filters(), None)
        assert (document.access_count, "mine" in document.tags) == (1, True)
    own = set() if has == "nothing" else {"own"}
    assert set(_back(other)) == {"mine", "ä", "\U0001f600"} | own


def test_a_merged_document_gets_the_tags_that_this_store_kept(
    stores: Stores, removed: Store
) -> None:
    other = stores.open("other")
    root = other.catalog.ensure_root("/lib", whole=True)
    put(other, "gone.md", "returns", root_id=root.root_id, doc_path="lib/gone.md")
    load(removed, export(other), merge=True)
    (document,) = removed.catalog.documents(Filters(), None)
    assert document.tags == ("mine", "ä", "\U0001f600")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("root_path", "lib"),
        ("root_path", "/l\0"),
        ("path", "../x"),
        ("path", ""),
        ("access_count", -1),
        ("user_tags", [1]),
        ("user_tags", "mine"),
        ("user_tags", ["x" * 1_000_001]),
        ("user_tags", ["\ud800"]),
    ],
)
def test_a_removed_document_that_kb_cannot_have_written(
    stores: Stores, removed: Store, field: str, value: object
) -> None:
    *lines, last = export(removed)
    changed = json.dumps(json.loads(last) | {field: value}).encode()
    with pytest.raises(BrokenImport, match=f"line {len(lines) + 1}"):
        load(stores.open("other"), [*lines, changed])


def test_an_export_is_of_one_state(stores: Stores, filled: Store) -> None:
    writer = stores.open()
    expected = export(filled)
    lines = filled.maintenance.export()
    read = [next(lines)]
    put(writer, "new", "text")
    assert [*read, *lines] == expected


def test_a_store_with_documents_is_only_merged_into(stores: Stores, filled: Store) -> None:
    other = stores.open("other")
    put(other, "mine", "four")
    with pytest.raises(InvalidRequest, match="not empty"):
        load(other, export(filled))
    assert load(other, export(filled), merge=True).added == 2
    paths = [one.doc_path for one in other.catalog.documents(Filters(), None)]
    assert len(paths) == 3
    assert {"mine", "lib/a.md"} < set(paths)


def test_a_broken_import_changes_nothing(stores: Stores, filled: Store) -> None:
    lines = export(filled)
    for broken in ([*lines[:-1], b"{}\n"], lines[:-1], [b"no JSON\n"], []):
        other = stores.open("other")
        with pytest.raises(BrokenImport):
            load(other, broken)
        assert not other.exists()
    put(stores.open("other"), "mine", "four")
    with pytest.raises(BrokenImport):
        load(stores.open("other"), lines[:-1], merge=True)
    assert len(stores.open("other").catalog.documents(Filters(), None)) == 1


def test_compacting_keeps_everything_and_frees_space(store: Store) -> None:
    chance = random.Random(3)  # its text cannot be compressed
    for number in range(30):
        texts = (f"word{number} {chance.randbytes(2000).hex()}" for _ in range(20))
        put(store, f"d{number}", *texts)
    store.catalog.delete_documents(
        one.doc_id
        for one in store.catalog.documents(Filters(), None)
        if one.doc_path not in ("d3", "d4", "d5")
    )
    before = store.maintenance.size_bytes()
    freed = store.maintenance.compact()
    assert freed > before / 2
    assert store.maintenance.size_bytes() <= before - freed
    left = {one.doc_path for one in store.catalog.documents(Filters(), None)}
    assert left == {"d3", "d4", "d5"}
    assert store.maintenance.compact() >= 0
    words = LexicalQuery((("word4",),))
    assert store.fulltext.match(words, every=True, **EVERYTHING).chunks


def test_an_import_in_steps_continues_where_it_stopped(
    stores: Stores, filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb.store.import_rows.STEP", 2)
    lines = export(filled, vectors=True)
    for broken_at in range(2, len(lines)):
        other = stores.open(f"part{broken_at}")
        cut = [*lines[:broken_at], b"not a line\n"]
        with pytest.raises(BrokenImport):
            other.maintenance.load_in_steps(iter(cut), on_progress=ignore)
        report = other.maintenance.load_in_steps(iter(lines), on_progress=ignore)
        assert (report.added, report.chunks) == (2, 3)
        assert export(other, vectors=True)[1:] == lines[1:]
        assert {check.run().state for check in other.maintenance.checks(lambda _: None)} == {"ok"}
        with pytest.raises(InvalidRequest):
            other.maintenance.load_in_steps(iter([*lines[:1]]), on_progress=ignore)
