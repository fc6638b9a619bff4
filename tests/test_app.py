"""KnowledgeBase as a user of the library meets it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kb import Filters, KnowledgeBase, wire
from kb.errors import InvalidRequest, NotFound, StoreMissing
from tests.conftest import Clock
from tests.schemas import validate

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
    root = library({"a.md": "words\n", "bad.md": "caf\xe9".encode("latin-1")})  # type: ignore[dict-item]
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
    with pytest.raises(InvalidRequest, match="nothing was ingested yet"):
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
    asked = wire.read_request(request)
    assert kb.search(asked.pop("query"), **asked).returned == 1
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
    """Every answer is one of the states between two documents: never half of one."""
    root = library(
        {f"{number}.md": f"# {number}\n\nneedle\n\n## b\n\nneedle\n" for number in range(40)}
    )
    kb.create()
    problems: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            found = kb.search("needle", top=200)
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
    assert kb.search("needle", top=200).returned == 80
