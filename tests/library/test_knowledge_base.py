"""KnowledgeBase as a library user calls it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kb import Filters, KnowledgeBase, wire
from kb.errors import InvalidRequest, NotFound, StoreMissing
from tests.conftest import Clock
from tests.schemas import validate
from tests.store.builders import sqlite_store

Library = Callable[[dict[str, str]], Path]


def test_ingest_twice_equals_ingest_once(kb: KnowledgeBase, library: Library) -> None:
    root = library({"a.md": "# A\n\nwords\n", "b.py": "x = 1\n", "c.txt": "text\n"})
    first = kb.ingest(root)
    assert sorted(first.added) == ["lib/a.md", "lib/b.py", "lib/c.txt"]
    before = (kb.index_version(), kb.documents())
    second = kb.ingest(root)
    assert second.unchanged == 3
    assert (second.added, second.changed, second.removed) == ((), (), ())
    assert (kb.index_version(), kb.documents()) == before


def test_dry_run_writes_nothing(kb: KnowledgeBase, library: Library) -> None:
    root = library({"a.md": "words\n"})
    report = kb.ingest(root, dry_run=True)
    assert report.added == ("lib/a.md",)
    assert report.dry_run
    assert not kb.path.exists() or kb.documents() == []


def test_reports_fit_their_schema(kb: KnowledgeBase, library: Library) -> None:
    root = library({"a.md": "words\n", "bad.md": b"caf\x90\xff"})  # type: ignore[dict-item]
    report = kb.ingest(root)
    assert [note.path for note in report.failed] == ["lib/bad.md"]
    validate(wire.ingest_report(report))
    validate(kb.status())
    validate(wire.document(kb.document("lib/a.md")))
    validate(wire.response(kb.search("words", explain=True)))


def test_a_changed_file_keeps_the_ids_of_what_did_not_change(
    kb: KnowledgeBase, library: Library
) -> None:
    body = "# T\n\n## One\n\nfirst\n\n## Two\n\nsecond\n"
    root = library({"a.md": body})
    kb.ingest(root)
    before = {chunk.text: chunk.chunk_id for chunk in kb.chunks("lib/a.md")}
    library({"a.md": body.replace("second", "changed")})
    report = kb.ingest(root)
    after = {chunk.text: chunk.chunk_id for chunk in kb.chunks("lib/a.md")}
    kept = set(before) & set(after)
    assert kept
    assert all(before[text] == after[text] for text in kept)
    assert (report.chunks_added, report.chunks_removed) == (1, 1)


def test_remove_one_document_or_all_below_a_folder(kb: KnowledgeBase, library: Library) -> None:
    root = library({"a.md": "one\n", "sub/b.md": "two\n", "sub/c.md": "three\n"})
    kb.ingest(root)
    assert kb.remove("lib/a.md") == ["lib/a.md"]
    assert (root / "a.md").exists()
    assert sorted(kb.remove("lib/sub/")) == ["lib/sub/b.md", "lib/sub/c.md"]
    assert kb.documents() == []
    with pytest.raises(NotFound):
        kb.remove("lib/nosuch.md")
    with pytest.raises(NotFound):
        kb.remove("nosuch/")


def test_removing_a_whole_root_forgets_it(kb: KnowledgeBase, library: Library) -> None:
    kb.ingest(library({"a.md": "one\n"}))
    kb.remove("lib/")
    assert kb.status()["roots"] == []
    with pytest.raises(InvalidRequest, match="nothing has been ingested yet"):
        kb.ingest()


def test_nothing_is_removed_if_one_name_is_wrong(kb: KnowledgeBase) -> None:
    note = kb.add("text")
    with pytest.raises(NotFound):
        kb.remove(note.doc_path, "note:99")
    assert len(kb.documents()) == 1


def test_tags(kb: KnowledgeBase, library: Library) -> None:
    root = library({"a.md": "---\ntags: [file]\n---\n# A\n\nwords\n"})
    kb.ingest(root)
    assert kb.tag("lib/a.md", add=["mine", "#other"]).tags == ("file", "mine", "other")
    assert kb.search("words", filters=Filters(tags=("mine",))).returned == 1
    assert kb.tag("lib/a.md", remove=["other"]).tags == ("file", "mine")
    with pytest.raises(InvalidRequest) as error:
        kb.tag("lib/a.md", remove=["file"])
    assert "front matter" in error.value.message
    with pytest.raises(NotFound):
        kb.tag("lib/a.md", remove=["nosuch"])
    library({"a.md": "---\ntags: [new]\n---\n# A\n\nwords\n"})
    kb.ingest(root)
    assert kb.document("lib/a.md").tags == ("mine", "new")
    assert kb.tags() == {"mine": 1, "new": 1}


@pytest.mark.parametrize("ttl", ["", "7", "d7", "-1d", "7 years", "99999999999d"])
def test_a_ttl_that_is_none_is_refused(kb: KnowledgeBase, ttl: str) -> None:
    with pytest.raises(InvalidRequest, match="ttl"):
        kb.add("text", ttl=ttl)


def test_an_expired_file_is_not_added_again(
    kb: KnowledgeBase, library: Library, clock: Clock
) -> None:
    root = library({"a.md": "---\ndate: 2026-05-01\nttl: 40d\n---\nwords\n"})
    assert kb.ingest(root).added == ("lib/a.md",)
    clock.seconds += 60 * 86_400
    assert kb.gc() == ["lib/a.md"]
    report = kb.ingest(root)
    assert report.added == ()
    assert [note.reason for note in report.skipped] == ["expired 2026-06-10T00:00:00Z"]


def test_an_empty_note_is_refused(kb: KnowledgeBase) -> None:
    with pytest.raises(InvalidRequest):
        kb.add(" \n")


def test_a_missing_store_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "none.sqlite") as kb:
        for ask in (lambda: kb.search("x"), kb.status, kb.documents, lambda: kb.get("a")):
            with pytest.raises(StoreMissing) as error:
                ask()
            assert "kb ingest" in error.value.hint


def test_search_request_shapes(kb: KnowledgeBase) -> None:
    kb.add("a word", tags=["t"])
    request = {"query": "word", "top": 3, "filters": {"tags": "t", "type": ["note"]}}
    assert kb.execute(wire.read_request(request)).returned == 1
    for bad in (
        {},
        {"query": 3},
        {"query": "x", "nosuch": 1},
        {"query": "x", "top": "3"},
        {"query": "x", "top": True},
        {"query": "x", "filters": {"nosuch": 1}},
        {"query": "x", "filters": {"tags": [1]}},
        {"query": "x", "filters": []},
    ):
        with pytest.raises(InvalidRequest):
            wire.read_request(bad)


def test_eight_readers_while_one_ingests(kb: KnowledgeBase, library: Library) -> None:
    """Every response shows a state between two documents, never a part of one."""
    root = library(
        {f"{number}.md": f"# {number}\n\nneedle\n\n## b\n\nneedle\n" for number in range(40)}
    )
    kb.create()
    problems: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            found = kb.search("needle", top=200, settings={"collapse": False})
            per_document: dict[str, int] = {}
            for hit in found:
                per_document[hit.doc_path] = per_document.get(hit.doc_path, 0) + 1
            if found.degraded or set(per_document.values()) - {2}:
                problems.append(f"{found.degraded} {per_document}")

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    kb.ingest(root)
    done.set()
    for reader in readers:
        reader.join()
    assert problems == []
    assert kb.search("needle", top=200, settings={"collapse": False}).returned == 80


def test_removing_a_folder_takes_its_name_to_the_letter(
    kb: KnowledgeBase, library: Library
) -> None:
    root = library({"[slug]/p.md": "one\n", "s/p.md": "two\n", "l/p.md": "three\n"})
    kb.ingest(root)
    assert kb.remove("lib/[slug]/") == ["lib/[slug]/p.md"]
    assert [document.doc_path for document in kb.documents()] == ["lib/l/p.md", "lib/s/p.md"]


def test_composed_and_decomposed_text_are_the_same(kb: KnowledgeBase, tmp_path: Path) -> None:
    folder = tmp_path / "cafe\u0301"
    folder.mkdir()
    (folder / "x.md").write_text("words\n")
    kb.ingest(folder)
    kb.add("words", tags=["cafe\u0301"])
    for name in ("caf\u00e9", "cafe\u0301"):
        assert kb.get(f"{name}/x.md").text == "words"
        assert len(kb.documents(Filters(path_glob=f"{name}/*"))) == 1
        assert len(kb.documents(Filters(tags=(name,)))) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda kb: kb.search("x", filters={"tags": ["a"]}),
        lambda kb: kb.search("x", top="5"),
        lambda kb: kb.search("x", top=10**20),
        lambda kb: kb.search("x", threshold="a"),
        lambda kb: kb.search(None),
        lambda kb: kb.search("x", filters=Filters(tags="xy")),  # type: ignore[arg-type]
        lambda kb: kb.search("x", filters=Filters(tags=5)),  # type: ignore[arg-type]
        lambda kb: kb.search("x", filters=Filters(tags=None)),  # type: ignore[arg-type]
        lambda kb: kb.search("x", filters=Filters(type=5)),  # type: ignore[arg-type]
        lambda kb: kb.search("x", filters=Filters(kind=True)),  # type: ignore[arg-type]
        lambda kb: kb.search("x", filters=Filters(tags_any=b"x")),  # type: ignore[arg-type]
        lambda kb: kb.search("x", filters=Filters(tags=("",))),
        lambda kb: kb.search("x", filters=Filters(path_glob=3)),  # type: ignore[arg-type]
        lambda kb: kb.search("x", filters=Filters(after="0001-01-01T00:00:00+14:00")),
        lambda kb: kb.add(None),
        lambda kb: kb.add("x", title=3),
        lambda kb: kb.add("x", tags=[1]),
        lambda kb: kb.add("x", ttl=3),
        lambda kb: kb.add("x", metadata={"a": object()}),
        lambda kb: kb.add("x", metadata={"a": float("nan")}),
        lambda kb: kb.get(None),
        lambda kb: kb.ingest(""),
        lambda kb: kb.ingest(b"x"),
        lambda kb: kb.documents(limit=10**20),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(
    kb: KnowledgeBase, ask: Callable[[KnowledgeBase], object]
) -> None:
    kb.add("x")
    with pytest.raises(InvalidRequest) as error:
        ask(kb)
    assert error.value.hint


@pytest.mark.parametrize("form", ["2026-01-31", "20260131", "2026-W05-6", "2026-01-31T00:00:00Z"])
def test_a_day_is_the_same_in_every_form(kb: KnowledgeBase, library: Library, form: str) -> None:
    kb.ingest(library({"a.md": "---\ndate: 2026-01-31\n---\nwords\n"}))
    assert len(kb.documents(Filters(after=form))) == 1
    assert len(kb.documents(Filters(before=form))) == 0


def test_connections_go_with_their_threads(kb: KnowledgeBase) -> None:
    kb.add("x")
    for _ in range(30):
        thread = threading.Thread(target=kb.search, args=("x",))
        thread.start()
        thread.join()
    assert len(sqlite_store(kb)._database._open) <= 4


def test_an_empty_file_is_no_store_and_is_not_made_one(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    path.touch()
    with KnowledgeBase(path) as kb, pytest.raises(StoreMissing):
        kb.search("x")
    assert path.stat().st_size == 0
