"""Renames: a moved file is the same document. Removed files: their tags are kept."""

from __future__ import annotations

import pytest

from kb import KnowledgeBase
from kb.ingest.indexer import Indexer
from kb.types import Renamed
from tests.ingest.conftest import Library
from tests.models.weightless import Weightless

TEXT = "# Buoys\n\nThey drift.\n\n## Anchors\n\nThey hold.\n"


@pytest.mark.parametrize("to", ["b.md", "sub/a.md", "sub/deep/b.md"])
def test_a_file_that_was_moved_is_the_same_document(library: Library, to: str) -> None:
    library.put("a.md", TEXT)
    library.put("other.md", "# Other\n\nsomething else\n")
    library.ingest("")
    before = library.documents()["library/a.md"]
    chunks = library.store.catalog.chunks(before.doc_id)
    library.store.catalog.tag(before.doc_id, ["mine"], [])
    library.store.catalog.record_access(before.doc_id)
    (library.folder / to).parent.mkdir(parents=True, exist_ok=True)
    (library.folder / "a.md").rename(library.folder / to)
    report = library.ingest("")
    assert report.renamed == (Renamed("library/a.md", f"library/{to}"),)
    assert (report.added, report.changed, report.removed) == ((), (), ())
    assert report.chunks_kept == len(chunks)
    after = library.documents()[f"library/{to}"]
    assert (after.doc_id, after.access_count, after.tags) == (before.doc_id, 1, ("mine",))
    assert (after.path, len(library.documents())) == (to, 2)
    assert library.store.catalog.chunks(after.doc_id) == chunks
    assert library.ingest("").unchanged == 2


def test_a_moved_file_keeps_its_vectors(library: Library) -> None:
    library.put("a.md", TEXT)
    encoder = Weightless()
    with KnowledgeBase(library.store.path, encoder=encoder) as kb:
        kb.ingest(library.folder)
        made = kb.embed().embedded
        assert made > 0
        (library.folder / "a.md").rename(library.folder / "b.md")
        assert kb.ingest(library.folder).renamed
        assert kb.pending() == 0
        assert kb.embed().embedded == 0


def test_a_folder_that_was_moved(library: Library) -> None:
    for name in ("x.md", "y.md", "z/x.md"):
        library.put(f"old/{name}", f"text of {name}\n")
    library.ingest("")
    (library.folder / "old").rename(library.folder / "new")
    moved = {(one.before, one.after) for one in library.ingest("").renamed}
    names = ("x.md", "y.md", "z/x.md")
    assert moved == {(f"library/old/{name}", f"library/new/{name}") for name in names}


def test_among_copies_the_one_of_the_same_name_is_taken(library: Library) -> None:
    library.put("one/x.md", TEXT)
    library.put("one/y.md", TEXT)
    library.ingest("")
    (library.folder / "one").rename(library.folder / "two")
    assert {(one.before, one.after) for one in library.ingest("").renamed} == {
        ("library/one/x.md", "library/two/x.md"),
        ("library/one/y.md", "library/two/y.md"),
    }


def test_a_copy_is_another_document(library: Library) -> None:
    library.put("a.md", TEXT)
    library.ingest("")
    library.put("b.md", TEXT)
    report = library.ingest("")
    assert (report.added, report.renamed, report.removed) == (("library/b.md",), (), ())


def test_one_of_two_copies_goes_where_the_file_went(library: Library) -> None:
    library.put("a.md", TEXT)
    library.ingest("")
    (library.folder / "a.md").unlink()
    library.put("b.md", TEXT)
    library.put("c.md", TEXT)
    report = library.ingest("")
    assert report.renamed == (Renamed("library/a.md", "library/b.md"),)
    assert (report.added, report.removed) == (("library/c.md",), ())


def test_what_is_changed_on_the_way_is_another_document(library: Library) -> None:
    library.put("a.md", TEXT)
    library.ingest("")
    (library.folder / "a.md").unlink()
    library.put("b.md", TEXT + "More.\n")
    report = library.ingest("")
    assert (report.added, report.removed) == (("library/b.md",), ("library/a.md",))
    assert report.renamed == ()


def test_from_one_root_to_another(library: Library) -> None:
    library.put("one/a.md", TEXT)
    library.put("two/b.md", "something\n")
    library.ingest("one", "two")
    doc_id = library.documents()["one/a.md"].doc_id
    (library.folder / "one/a.md").rename(library.folder / "two/a.md")
    assert library.ingest("one", "two").renamed == (Renamed("one/a.md", "two/a.md"),)
    assert library.documents()["two/a.md"].doc_id == doc_id
    (library.folder / "two/a.md").rename(library.folder / "one/a.md")
    assert library.ingest("one", "two").renamed == (Renamed("two/a.md", "one/a.md"),)
    assert set(library.documents()) == {"one/a.md", "two/b.md"}


@pytest.mark.parametrize(
    ("before", "after", "ingested"),
    [
        ("one/a.md", "two/a.md", "two"),
        ("one/a.md", "one/sub/a.md", "one/sub"),
        ("one/a.md", "one/b.md", "one/b.md"),
        ("alone/a.md", "three/b.md", "three/b.md"),
    ],
)
def test_a_file_moves_from_a_place_that_is_not_read(
    library: Library, before: str, after: str, ingested: str
) -> None:
    library.put("one/other.md", "something\n")
    library.put("two/b.md", "something else\n")
    library.put(before, TEXT)
    library.ingest("one", "two", before)
    found = library.documents()[before]
    library.store.catalog.tag(found.doc_id, ["mine"], [])
    (library.folder / after).parent.mkdir(parents=True, exist_ok=True)
    (library.folder / before).rename(library.folder / after)
    assert library.ingest(ingested).renamed == (Renamed(before, after),)
    moved = library.documents()[after]
    assert (moved.doc_id, moved.tags) == (found.doc_id, ("mine",))
    assert before not in library.documents()
    roots = {root.name for root in library.store.catalog.roots()}
    assert roots - {"three"} == {"one", "two"}
    report = library.ingest("one", "two")
    assert (report.added, report.removed, report.renamed) == ((), (), ())


@pytest.mark.parametrize("how", ["copy", "missing folder"])
def test_a_file_that_may_exist_elsewhere_has_not_moved(library: Library, how: str) -> None:
    library.put("one/a.md", TEXT)
    library.put("two/b.md", "something\n")
    library.ingest("one", "two")
    library.put("two/a.md", TEXT)
    if how == "missing folder":
        (library.folder / "one").rename(library.folder / "away")
    report = library.ingest("two")
    assert (report.added, report.renamed) == (("two/a.md",), ())
    assert set(library.documents()) == {"one/a.md", "two/a.md", "two/b.md"}


def test_a_document_that_another_run_has_moved_is_not_removed(library: Library) -> None:
    library.put("one/b.md", "something\n")
    library.put("two/a.md", TEXT)
    library.put("two/b.md", "something else\n")
    library.ingest("one", "two")
    (library.folder / "two/a.md").rename(library.folder / "one/a.md")
    moved: list[Renamed] = []

    def on_event(event: object) -> None:
        if not moved:  # the folder `two` has been listed
            moved.extend(library.ingest("one").renamed)

    (library.folder / "two/b.md").write_text("changed\n")
    report = library.ingest("two", on_event=on_event)
    assert moved == [Renamed("two/a.md", "one/a.md")]
    assert report.removed == ()
    assert set(library.documents()) == {"one/a.md", "one/b.md", "two/b.md"}


def test_a_dry_run_moves_nothing(library: Library) -> None:
    library.put("a.md", TEXT)
    library.ingest("")
    (library.folder / "a.md").rename(library.folder / "b.md")
    report = library.ingest("", dry_run=True)
    assert (report.renamed, report.removed) == ((Renamed("library/a.md", "library/b.md"),), ())
    assert set(library.documents()) == {"library/a.md"}


def test_the_title_follows_the_name_where_it_comes_from_it(library: Library) -> None:
    library.put("first-name.txt", "only text\n")
    library.ingest("")
    (library.folder / "first-name.txt").rename(library.folder / "second-name.txt")
    library.ingest("")
    fresh = library.documents()["library/second-name.txt"].title
    assert "second" in fresh.lower()


# --- chains of renames ----------------------------------------------------------------------------


def _tagged(library: Library, *names: str) -> dict[str, int]:
    """Files with different texts and tags; returns the ids of their documents."""
    for name in names:
        library.put(f"{name}.md", f"# {name}\n\nthe text of {name * 3}\n")
    library.ingest("")
    ids = {name: library.documents()[f"library/{name}.md"].doc_id for name in names}
    for name, doc_id in ids.items():
        library.store.catalog.tag(doc_id, [f"T{name}"], [])
    return ids


def _move(library: Library, before: str, after: str) -> None:
    (library.folder / f"{before}.md").replace(library.folder / f"{after}.md")


def _tags_by_path(library: Library) -> dict[str, tuple[str, ...]]:
    return {path.removeprefix("library/"): one.tags for path, one in library.documents().items()}


def test_a_chain_of_renames(library: Library) -> None:
    ids = _tagged(library, "a", "b")
    _move(library, "b", "c")
    _move(library, "a", "b")
    report = library.ingest("")
    assert {(one.before, one.after) for one in report.renamed} == {
        ("library/a.md", "library/b.md"), ("library/b.md", "library/c.md"),
    }  # fmt: skip
    assert (report.added, report.changed, report.removed) == ((), (), ())
    assert _tags_by_path(library) == {"b.md": ("Ta",), "c.md": ("Tb",)}
    assert library.documents()["library/b.md"].doc_id == ids["a"]
    assert library.documents()["library/b.md"].path == "b.md"
    assert "aaa" in library.text("library/b.md")
    assert library.ingest("").unchanged == 2


@pytest.mark.parametrize("copy", ["aa.md", "z.md"])
def test_a_chain_of_renames_and_a_copy(library: Library, copy: str) -> None:
    """The copy is a new document, even if it is read before the file that was renamed."""
    library.put("a.md", "text of a\n")
    library.put("b.md", "text of b\n")
    library.ingest("")
    before = library.documents()
    (library.folder / "b.md").rename(library.folder / "c.md")
    (library.folder / "a.md").rename(library.folder / "b.md")
    library.put(copy, "text of a\n")
    report = library.ingest("")
    after = library.documents()
    assert sorted(after) == sorted(["library/b.md", "library/c.md", f"library/{copy}"])
    assert report.added == (f"library/{copy}",)
    assert len(report.renamed) == 2
    assert after["library/b.md"].doc_id == before["library/a.md"].doc_id
    assert after["library/c.md"].doc_id == before["library/b.md"].doc_id


def test_two_files_that_swap_their_names(library: Library) -> None:
    _tagged(library, "a", "b")
    _move(library, "a", "t")
    _move(library, "b", "a")
    _move(library, "t", "b")
    library.ingest("")
    assert _tags_by_path(library) == {"a.md": ("Tb",), "b.md": ("Ta",)}
    assert "bbb" in library.text("library/a.md")
    assert library.ingest("").unchanged == 2


def test_a_rotation_with_a_new_file_at_its_head(library: Library) -> None:
    _tagged(library, "1", "2", "3")
    for before, after in (("3", "4"), ("2", "3"), ("1", "2")):
        _move(library, before, after)
    library.put("1.md", "# today\n\nanother text\n", hours_ago=1)
    report = library.ingest("")
    assert (report.added, report.removed) == (("library/1.md",), ())
    assert _tags_by_path(library) == {
        "1.md": (), "2.md": ("T1",), "3.md": ("T2",), "4.md": ("T3",),
    }  # fmt: skip
    assert "another" in library.text("library/1.md")


def test_a_rename_over_another_file_keeps_the_tags_of_both(library: Library) -> None:
    _tagged(library, "a", "b")
    _move(library, "a", "b")
    assert library.ingest("").removed == ("library/a.md",)
    assert _tags_by_path(library) == {"b.md": ("Ta", "Tb")}
    assert "aaa" in library.text("library/b.md")


def test_files_that_are_edited_stay_where_they_are(library: Library) -> None:
    ids = _tagged(library, "a", "b")
    for name in ids:
        library.put(f"{name}.md", f"# {name}\n\nTHE TEXT of {name * 3}\n", hours_ago=1)
    assert len(library.ingest("").changed) == 2
    assert _tags_by_path(library) == {"a.md": ("Ta",), "b.md": ("Tb",)}


def test_a_file_that_is_copied_and_then_edited_keeps_its_tags(library: Library) -> None:
    ids = _tagged(library, "a", "b")
    text = (library.folder / "a.md").read_text()
    library.put("a.old.md", text)
    library.put("a.md", text + "one more line\n", hours_ago=1)
    report = library.ingest("")
    assert (report.added, report.changed) == (("library/a.old.md",), ("library/a.md",))
    assert _tags_by_path(library) == {"a.md": ("Ta",), "a.old.md": (), "b.md": ("Tb",)}
    assert library.documents()["library/a.md"].doc_id == ids["a"]


def test_an_interrupted_chain_is_completed_by_the_next_run(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tagged(library, "a", "b")
    _move(library, "b", "c")
    _move(library, "a", "b")
    run = Indexer.ingest

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("kb.ingest.indexer._Run._report", stop)
        patch.setattr("kb.ingest.write_batch._MAX_CHARS", 1)
        with pytest.raises(KeyboardInterrupt):
            run(library.indexer, [library.folder])
    library.ingest("")
    assert _tags_by_path(library) == {"b.md": ("Ta",), "c.md": ("Tb",)}


# --- files that return ----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["deleted", "ignored", "emptied", "expired"])
def test_tags_of_the_user_wait_for_a_file_that_returns(library: Library, how: str) -> None:
    """This happens after checking out a branch without the file, and then the first branch
    again."""
    library.put("sub/a.md", TEXT)
    library.put("b.md", "stays\n")
    with KnowledgeBase(library.store.path, clock=library.clock) as kb:
        kb.ingest(library.folder)
        kb.tag("library/sub/a.md", add=["mine"])
        kb.get("library/sub/a.md")
        match how:
            case "deleted":
                (library.folder / "sub/a.md").unlink()
            case "ignored":
                library.put(".kbignore", "sub/\n")
            case "emptied":
                library.put("sub/a.md", b"", hours_ago=1)
            case "expired":
                library.put("sub/a.md", f"---\nexpires: 2020-01-01\n---\n{TEXT}", hours_ago=1)
        kb.ingest(library.folder)
        kb.gc()
        assert "library/sub/a.md" not in library.documents()
        (library.folder / ".kbignore").unlink(missing_ok=True)
        library.put("sub/a.md", TEXT, hours_ago=0.5)
        assert kb.ingest(library.folder).added == ("library/sub/a.md",)
        back = kb.document("library/sub/a.md")
        assert (back.tags, back.access_count) == (("mine",), 1)


@pytest.mark.parametrize("name", ["library/a.md", "library/"])
def test_kb_rm_forgets_tags(library: Library, name: str) -> None:
    file = library.put("a.md", TEXT)
    library.put("b.md", "stays\n")
    with KnowledgeBase(library.store.path, clock=library.clock) as kb:
        kb.ingest(library.folder)
        kb.tag("library/a.md", add=["mine"])
        if name.endswith("/"):
            file.unlink()
            kb.ingest(library.folder)
        kb.remove(name)
        library.put("a.md", TEXT)
        kb.ingest(library.folder)
        assert kb.document("library/a.md").tags == ()


def test_a_dry_run_keeps_nothing_for_later(library: Library) -> None:
    file = library.put("a.md", TEXT)
    library.ingest("")
    library.store.catalog.tag(library.documents()["library/a.md"].doc_id, ["mine"], [])
    file.unlink()
    assert library.ingest("", dry_run=True).removed == ("library/a.md",)
    assert library.documents()["library/a.md"].tags == ("mine",)
