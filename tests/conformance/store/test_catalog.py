"""The catalog: documents, chunks, tags, roots and filters."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kb.errors import EditConflict, InvalidRequest
from kb.ports import Store
from kb.text import globs
from kb.types import (
    KINDS,
    TRUSTS,
    TYPES,
    BoostFields,
    Chunk,
    ChunkChanges,
    ChunkDraft,
    DocumentWrite,
    Filters,
    LexicalQuery,
)
from tests.conformance.store.samples import EVERYTHING, NOW, chunk_ids, chunks, draft, embed, put
from tests.conftest import Clock

LATER = "2026-05-28T20:26:41Z"


def ids_by_text(store: Store, doc_id: int) -> dict[str, int]:
    return {chunk.text: chunk.chunk_id for chunk in store.catalog.chunks(doc_id)}


# --- documents and chunks -------------------------------------------------------------------------


def test_a_document_is_read_as_it_was_written(store: Store) -> None:
    metadata = {"owner": "Ada", "n": [1, {"deep": None}], "ключ": "значение"}
    doc_id = put(
        store, "x/a.md", "one", "two", title="A", kind="lesson", scope="project", lang="de",
        trust="secondary", tags=("b", "a"), date="2026-01-31", expires_at="2030-01-01T00:00:00Z",
        metadata=metadata, body="one\ntwo", size_bytes=7, content_hash="hash",
    )  # fmt: skip
    document = store.catalog.documents_by_id([doc_id, 4711])[doc_id]
    assert (document.doc_path, document.title, document.type) == ("x/a.md", "A", "note")
    assert (document.kind, document.scope, document.lang) == ("lesson", "project", "de")
    assert (document.trust, document.tags, document.date) == ("secondary", ("a", "b"), "2026-01-31")
    assert (document.expires_at, document.metadata) == ("2030-01-01T00:00:00Z", metadata)
    assert (document.size_bytes, document.content_hash, document.chunks) == (7, "hash", 2)
    assert (document.indexed_at, document.access_count) == (NOW, 0)
    assert store.catalog.document_by_path("x/a.md") == document
    assert store.catalog.document_by_path("x/A.md") is None
    assert store.catalog.body(doc_id) == "one\ntwo"
    (bare,) = store.catalog.documents_by_id([doc_id], metadata=False).values()
    assert bare == replace(document, metadata={})


def test_a_note_is_named_by_its_id(store: Store) -> None:
    doc_id = put(store, "", "one", body="one")
    assert store.catalog.documents_by_id([doc_id])[doc_id].doc_path == f"note:{doc_id}"


def test_chunks_are_read_in_the_order_of_the_text(store: Store) -> None:
    doc_id = put(store, "a", "one", "two", "three")
    read = store.catalog.chunks(doc_id)
    assert [(chunk.text, chunk.ordinal, chunk.doc_id) for chunk in read] == [
        ("one", 0, doc_id), ("two", 1, doc_id), ("three", 2, doc_id),
    ]  # fmt: skip
    assert [chunk.spans[0].start for chunk in read] == [1, 2, 3]
    numbers = [chunk.chunk_id for chunk in read]
    assert store.catalog.chunks_by_id([*numbers, 4711]) == dict(zip(numbers, read, strict=True))
    assert store.catalog.document_ids([*numbers, 4711]) == dict.fromkeys(numbers, doc_id)


def test_the_fields_that_boosts_use(store: Store) -> None:
    doc_id = put(store, "a", "one", "two", kind="decision")
    put(store, "b", "three")
    store.catalog.record_access(doc_id)
    first, second = (chunk.chunk_id for chunk in store.catalog.chunks(doc_id))
    expected = BoostFields(doc_id, "a", "decision", 1)
    assert store.catalog.boost_fields([first, second, 4711]) == {first: expected, second: expected}


def test_texts_of_chunks(store: Store) -> None:
    texts = ("plain text", "Le café ouvre dès l'été", "移行を行います", "половина and half")
    doc_id = put(store, "a", *texts)
    numbers = [chunk.chunk_id for chunk in store.catalog.chunks(doc_id)]
    assert list(store.catalog.chunk_texts([*numbers, 4711]).values()) == list(texts)
    wide = store.catalog.chunk_texts(numbers, wide=True)
    assert wide == {numbers[2]: texts[2], numbers[3]: texts[3]}
    assert store.catalog.chunk_texts([]) == {}


def test_texts_with_the_number_of_documents_that_repeat_them(store: Store) -> None:
    root, other = (store.catalog.ensure_root(path, whole=True) for path in ("/a", "/b"))
    footer, long = "the same footer", "x" * 201
    for number in range(6):
        put(
            store,
            f"{number}",
            footer,
            footer,
            long,
            f"page {number}",
            root_id=root.root_id,
            doc_path=f"a/{number}",
        )
    for number in range(3):
        put(store, f"{number}", footer, root_id=other.root_id, doc_path=f"b/{number}")
    note = put(store, "", footer, body=footer)
    read = [each for path in ("a/0", "b/0") for each in _chunks_of(store, path)]
    read += store.catalog.chunks(note)
    found = store.catalog.texts_with_copies([*(chunk.chunk_id for chunk in read), 4711])
    assert [found[chunk.chunk_id].chunk() for chunk in read] == read
    assert [found[chunk.chunk_id].text for chunk in read] == [chunk.text for chunk in read]
    assert [found[chunk.chunk_id].doc_id for chunk in read] == [chunk.doc_id for chunk in read]
    assert [found[chunk.chunk_id].copies for chunk in read] == [5, 5, 0, 1, 3, 0]
    assert len(found) == len(read)


def _chunks_of(store: Store, path: str) -> list[Chunk]:
    document = store.catalog.document_by_path(path)
    assert document is not None
    return store.catalog.chunks(document.doc_id)


def test_unchanged_chunks_keep_their_ids(store: Store) -> None:
    doc_id = put(store, "a", "one", "two", "three")
    before = ids_by_text(store, doc_id)
    written = store.catalog.write_document(draft("a"), chunks("zero", "one", "three"))
    assert written == ChunkChanges(doc_id, 1, 2, 1)
    after = ids_by_text(store, doc_id)
    assert list(after) == ["zero", "one", "three"]
    assert (after["one"], after["three"]) == (before["one"], before["three"])


def test_repeated_chunks_keep_their_ids(store: Store) -> None:
    doc_id = put(store, "a", "same", "same", "other")
    before = chunk_ids(store, doc_id)
    put(store, "a", "same", "same", "other")
    assert chunk_ids(store, doc_id) == before
    assert len(set(before)) == 3


def test_ids_are_never_used_twice(store: Store) -> None:
    first = put(store, "a", "one")
    (chunk,) = chunk_ids(store, first)
    store.catalog.delete_documents([first])
    second = put(store, "a", "one")
    assert second != first
    assert chunk_ids(store, second) != [chunk]


def test_several_documents_in_one_write(store: Store) -> None:
    moved = put(store, "old.md", "one")
    first, second, third = store.catalog.write_documents(
        [
            DocumentWrite(draft("a"), chunks("one", "two")),
            DocumentWrite(draft("a"), chunks("two", "three")),
            DocumentWrite(draft("new.md", title="old.md"), chunks("one"), moved),
        ]
    )
    assert second == ChunkChanges(first.doc_id, 1, 1, 1)
    assert third == ChunkChanges(moved, 0, 1, 0)
    assert store.catalog.write_documents([]) == []


def test_several_documents_are_written_together_or_not_at_all(store: Store) -> None:
    put(store, "a", "one")

    def broken() -> Iterator[ChunkDraft]:
        yield from chunks("three")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.catalog.write_documents(
            [DocumentWrite(draft("a"), chunks("two")), DocumentWrite(draft("b"), broken())]
        )
    assert [chunk.text for chunk in _chunks_of(store, "a")] == ["one"]
    assert store.catalog.document_by_path("b") is None


def test_a_moved_document_keeps_its_id(store: Store) -> None:
    doc_id = put(store, "old.md", "one")
    before = chunk_ids(store, doc_id)
    drafted = draft("new.md", title="old.md")
    written = store.catalog.write_document(drafted, chunks("one"), moved_from=doc_id)
    assert written.doc_id == doc_id
    assert chunk_ids(store, doc_id) == before
    assert store.catalog.document_by_path("old.md") is None
    moved = store.catalog.document_by_path("new.md")
    assert moved is not None
    assert moved.doc_id == doc_id


def test_a_document_that_moves_away_makes_room(store: Store) -> None:
    a, b = put(store, "a", "one", body="x"), put(store, "b", "two")
    store.catalog.write_documents(
        [
            DocumentWrite(draft("b"), chunks("one"), moved_from=a, displaces=b),
            DocumentWrite(draft("c"), chunks("two"), moved_from=b),
        ]
    )
    read = store.catalog.documents_by_id([a, b])
    assert [(read[each].path, read[each].doc_path) for each in (a, b)] == [("b", "b"), ("c", "c")]
    store.catalog.write_documents(
        [
            DocumentWrite(draft("c"), chunks("one"), moved_from=a, displaces=b),
            DocumentWrite(draft("b"), chunks("two"), moved_from=b, displaces=a),
        ]
    )
    paths = {each.doc_id: each.doc_path for each in store.catalog.documents(Filters(), None)}
    assert paths == {a: "c", b: "b"}


def test_chunks_alone_are_replaced(store: Store) -> None:
    doc_id = put(store, "a", "one", "two", tags=("kept",), body="one\ntwo")
    document = store.catalog.documents_by_id([doc_id])[doc_id]
    store.catalog.write_chunks(doc_id, draft("a"), chunks("other"))
    assert [chunk.text for chunk in store.catalog.chunks(doc_id)] == ["other"]
    assert store.catalog.documents_by_id([doc_id])[doc_id] == replace(document, chunks=1)


def test_deleted_documents_leave_nothing(store: Store) -> None:
    doc_id, kept = put(store, "a", "one", tags=("t",)), put(store, "b", "two")
    numbers = chunk_ids(store, doc_id)
    assert store.catalog.delete_documents([doc_id, 4711]) == 1
    assert store.catalog.delete_documents([doc_id]) == 0
    assert store.catalog.documents_by_id([doc_id, kept]).keys() == {kept}
    assert store.catalog.chunks_by_id(numbers) == {}
    assert store.catalog.tags() == {}
    assert store.catalog.chunk_count() == 1


def test_access_is_counted(store: Store) -> None:
    doc_id = put(store, "a", "one")
    store.catalog.record_access(doc_id)
    store.catalog.record_access(doc_id)
    put(store, "a", "two")  # a new version is the same document
    assert store.catalog.documents_by_id([doc_id])[doc_id].access_count == 2


def test_the_version_changes_with_what_a_search_could_notice(store: Store) -> None:
    versions = [store.catalog.version()]
    doc_id = put(store, "a", "one")
    versions.append(store.catalog.version())
    store.catalog.tag(doc_id, ["t"], [])
    versions.append(store.catalog.version())
    store.catalog.delete_documents([doc_id])
    versions.append(store.catalog.version())
    assert len(set(versions)) == 4
    store.catalog.roots()
    assert store.catalog.version() == versions[-1]


# --- tags -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["text", "title", "kind", "tag", "nothing"])
def test_a_document_is_replaced_only_as_it_was_read(store: Store, change: str) -> None:
    put(store, "note:1", "one", tags=("file",))
    read = store.catalog.document_by_path("note:1")
    assert read is not None
    if change == "tag":
        store.catalog.tag(read.doc_id, ["mine"], [])
    elif change != "nothing":
        values = {"title": read.title, "kind": read.kind, "content_hash": read.content_hash}
        name = "content_hash" if change == "text" else change
        put(store, "note:1", "one", tags=("file",), **(values | {name: "decision"}))
    changed = store.catalog.document_by_path("note:1")
    write = DocumentWrite(draft("note:1", tags=("new",)), chunks("two"), replaces=read)
    if change == "nothing":
        store.catalog.write_documents([write])
        assert store.catalog.tag_sources(read.doc_id) == {"new": "file"}
    else:
        with pytest.raises(EditConflict):
            store.catalog.write_documents([write])
        assert store.catalog.document_by_path("note:1") == changed


def test_a_replacement_has_no_tags_but_its_own(store: Store) -> None:
    doc_id = put(store, "note:1", "one", tags=("file",))
    store.catalog.tag(doc_id, ["mine"], [])
    read = store.catalog.document_by_path("note:1")
    store.catalog.write_documents([DocumentWrite(draft("note:1"), chunks("two"), replaces=read)])
    assert store.catalog.tag_sources(doc_id) == {}


def test_tags_of_the_file_are_replaced_and_tags_of_the_user_stay(store: Store) -> None:
    doc_id = put(store, "a", "one", tags=("draft", "ops"))
    store.catalog.tag(doc_id, ["mine", "ops"], [])
    put(store, "a", "one", tags=("ops", "final"))
    assert store.catalog.documents_by_id([doc_id])[doc_id].tags == ("final", "mine", "ops")
    assert store.catalog.tag_sources(doc_id) == {"final": "file", "mine": "user", "ops": "file"}
    store.catalog.tag(doc_id, [], ["mine", "unknown"])
    put(store, "b", "two", tags=("ops",))
    assert list(store.catalog.tags().items()) == [("final", 1), ("ops", 2)]


# --- roots and files ------------------------------------------------------------------------------


def test_roots_are_named_by_their_folders(store: Store) -> None:
    notes = store.catalog.ensure_root("/home/ada/notes", whole=True)
    again = store.catalog.ensure_root("/home/ada/notes", whole=False)
    assert again == notes
    assert (notes.name, notes.whole, notes.detached) == ("notes", True, False)
    other = store.catalog.ensure_root("/backup/notes", whole=False)
    assert other.name not in ("", "notes")
    assert store.catalog.roots() == [other, notes]  # ordered by path
    store.catalog.attach_root(notes.root_id, "/mnt/notes")
    assert store.catalog.roots()[1] == replace(notes, path="/mnt/notes")


def test_files_are_remembered(store: Store) -> None:
    root = store.catalog.ensure_root("/lib", whole=True)
    doc_id = put(
        store, "p/a.md", "one", root_id=root.root_id, doc_path="lib/p/a.md", size_bytes=3,
        mtime_ns=5, ctime_ns=7, device=9, content_hash="hash",
    )  # fmt: skip
    note = put(store, "", "two", body="two")
    (state,) = store.catalog.file_states(root.root_id).values()
    assert (state.doc_id, state.path, state.size_bytes) == (doc_id, "p/a.md", 3)
    assert (state.mtime_ns, state.ctime_ns, state.device, state.content_hash) == (5, 7, 9, "hash")
    place = store.catalog.file_location(doc_id)
    assert place is not None
    assert (place.root, place.inside, place.detached) == ("/lib", "p/a.md", False)
    assert store.catalog.file_location(note) is None
    assert store.catalog.file_locations([doc_id, note, 999]) == {doc_id: place}
    assert store.catalog.file_locations([]) == {}
    assert store.catalog.sample_files(10) == [(doc_id, place)]
    assert store.catalog.sample_files(0) == []
    store.catalog.touch_file(replace(state, mtime_ns=50, size_bytes=30))
    (touched,) = store.catalog.file_states(root.root_id).values()
    assert (touched.mtime_ns, touched.size_bytes, touched.content_hash) == (50, 30, "hash")


def test_the_root_goes_with_its_last_document(store: Store) -> None:
    root = store.catalog.ensure_root("/lib", whole=True)
    doc_id = put(store, "a", "one", root_id=root.root_id, doc_path="lib/a")
    store.catalog.delete_documents([], roots=["lib"])
    assert len(store.catalog.roots()) == 1
    store.catalog.delete_documents([doc_id])
    assert len(store.catalog.roots()) == 1
    store.catalog.delete_documents([], roots=["lib"])
    assert store.catalog.roots() == []


# --- lists ----------------------------------------------------------------------------------------


def test_documents_are_listed_by_path(store: Store) -> None:
    for path in ("b/2", "a/10", "a/1", "b/1", "c"):
        put(store, path, "text", expires_at=NOW if path == "c" else None)

    def listed(now: str | None = NOW, **options: Any) -> list[str]:
        return [one.doc_path for one in store.catalog.documents(Filters(), now, **options)]

    assert listed() == ["a/1", "a/10", "b/1", "b/2"]
    assert listed(None) == ["a/1", "a/10", "b/1", "b/2", "c"]
    assert listed(limit=2) == ["a/1", "a/10"]
    assert listed(limit=2, offset=3) == ["b/2"]
    assert listed(limit=0) == []
    assert [one.doc_path for one in store.catalog.documents_below("a/")] == ["a/1", "a/10"]
    assert [one.doc_path for one in store.catalog.expired(NOW)] == ["c"]
    assert store.catalog.expired("2026-05-28T20:26:39Z") == []
    assert store.catalog.has_folder("a/")
    assert not store.catalog.has_folder("d/")
    assert store.catalog.paths_with_suffix("/1", 5) == ["a/1", "b/1"]
    assert store.catalog.paths_with_suffix("/1", 1) == ["a/1"]
    assert store.catalog.neighboring_paths("b", 1) == ["a/10", "b/1"]
    assert store.catalog.neighboring_paths("b/1", 2) == ["a/1", "a/10", "b/2", "c"]


def test_pages_are_bounded_by_bytes(store: Store) -> None:
    for path in "abc":
        put(store, path, "text", metadata={"long": "x" * 100})

    def page(offset: int, limit: int, max_bytes: int) -> tuple[list[str], int | None]:
        documents, following = store.catalog.documents_page(
            Filters(), NOW, limit=limit, offset=offset, max_bytes=max_bytes
        )
        return [one.doc_path for one in documents], following

    assert page(0, 2, 10_000) == (["a", "b"], 2)
    assert page(2, 2, 10_000) == (["c"], None)
    assert page(0, 3, 10_000) == (["a", "b", "c"], None)
    assert page(0, 3, 1) == (["a"], 1)


def test_totals(store: Store) -> None:
    root = store.catalog.ensure_root("/lib", whole=True)
    put(store, "a", "one", "two", lang="en", root_id=root.root_id, doc_path="lib/a")
    put(store, "b", "three", lang="en", kind="lesson", scope="project", type="code")
    put(store, "c", "four", expires_at=NOW)
    counts = store.catalog.counts()
    assert (counts.documents, counts.chunks, counts.by_root) == (3, 4, {"lib": 1})
    assert counts.by_type == {"code": 1, "note": 2}
    assert (counts.by_kind, counts.by_scope) == (
        {"lesson": 1, "none": 2}, {"global": 2, "project": 1},
    )  # fmt: skip
    assert store.catalog.languages() == {"en": 2, None: 1}
    assert store.catalog.chunk_count() == 3  # without the expired document


def test_documents_expire_by_the_clock(store: Store, clock: Clock) -> None:
    put(store, "a", "one", expires_at=LATER)
    assert store.catalog.chunk_count() == 1
    clock.seconds += 1
    assert store.catalog.chunk_count() == 0


# --- filters --------------------------------------------------------------------------------------


def _passes(filters: Filters, document: dict[str, Any]) -> bool:
    tags = set(document["tags"])
    return (
        (document["expires_at"] is None or document["expires_at"] > NOW)
        and set(filters.tags) <= tags
        and (not filters.tags_any or bool(set(filters.tags_any) & tags))
        and (not filters.type or document["type"] in filters.type)
        and (not filters.kind or document["kind"] in filters.kind)
        and (filters.scope is None or document["scope"] == filters.scope)
        and (filters.lang is None or document["lang"] == filters.lang)
        and (filters.after is None or document["date"] >= filters.after)
        and (filters.before is None or document["date"] < filters.before)
        and (
            filters.trust_min is None
            or TRUSTS.index(document["trust"]) >= TRUSTS.index(filters.trust_min)
        )
        and (filters.path_glob is None or globs.matches(filters.path_glob, document["path"]))
    )


def test_filters_equal_brute_force(store: Store) -> None:
    """Filters select the same documents in lists and in every kind of search."""
    chance = random.Random(3)
    written: dict[int, dict[str, Any]] = {}
    for number in range(150):
        attributes: dict[str, Any] = {
            "kind": chance.choice([None, *KINDS]),
            "scope": chance.choice(["global", "project"]),
            "trust": chance.choice(TRUSTS),
            "lang": chance.choice(["en", "de", None]),
            "date": f"2026-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}",
            "tags": tuple(sorted(chance.sample(["a", "b", "c"], chance.randint(0, 3)))),
            "expires_at": chance.choice(
                [None, None, "2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z"]
            ),
        }
        path = f"{chance.choice(['x', 'y'])}/{chance.choice(['p', 'p/q'])}/{number}.md"
        kind = chance.choice(TYPES)
        doc_id = put(store, path, "word one", "word two", type=kind, **attributes)
        written[doc_id] = attributes | {"path": path, "type": kind}
    model_id = embed(store)
    query = _words("word")
    for _ in range(100):
        filters = Filters(
            tags=tuple(chance.sample(["a", "b", "c"], chance.choice([0, 0, 1, 2]))),
            tags_any=tuple(chance.sample(["a", "b", "zz"], chance.choice([0, 0, 1, 2]))),
            type=tuple(chance.sample(TYPES, chance.choice([0, 0, 1, 3]))),
            kind=tuple(chance.sample(KINDS, chance.choice([0, 0, 1, 3]))),
            scope=chance.choice([None, None, "global", "project"]),
            lang=chance.choice([None, None, "en", "xx"]),
            path_glob=chance.choice([None, None, "x/**", "x/*/*.md", "**/1?.md", "y/"]),
            trust_min=chance.choice([None, *TRUSTS]),
            after=chance.choice([None, "2026-06-01"]),
            before=chance.choice([None, "2026-09-15"]),
        )
        expected = {doc_id for doc_id, one in written.items() if _passes(filters, one)}
        listed = store.catalog.documents(filters, NOW)
        assert {document.doc_id for document in listed} == expected
        options: dict[str, Any] = {"filters": filters, "now": NOW, "limit": 1000}
        for found in (
            store.fulltext.match(query, every=False, **options).chunks,
            store.fulltext.match_substrings(["word"], **options).chunks,
            store.vectors.nearest_dense(model_id, [1.0, 0.0, 0.0], **options).chunks,
        ):
            # Expired documents are not embedded, and not found.
            owners = store.catalog.document_ids(one.chunk_id for one in found)
            assert set(owners.values()) == expected
            assert len(found) == 2 * len(expected)


def _words(*words: str) -> LexicalQuery:
    return LexicalQuery(tuple((word,) for word in words))


@pytest.mark.parametrize(
    "filters",
    [
        Filters(type=("exe",)),
        Filters(kind=("idea",)),
        Filters(scope="galaxy"),
        Filters(trust_min="x"),
    ],
)
def test_an_unknown_value_is_refused_with_the_valid_ones(store: Store, filters: Filters) -> None:
    put(store, "a", "word")
    with pytest.raises(InvalidRequest) as error:
        store.fulltext.match(_words("word"), every=False, **EVERYTHING | {"filters": filters})
    assert "valid values" in error.value.hint


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-02-31", ""])
def test_an_invalid_date_is_refused(store: Store, text: str) -> None:
    with pytest.raises(InvalidRequest, match="after"):
        store.catalog.documents(Filters(after=text), NOW)


def test_a_type_of_a_plug_in_can_be_filtered_by(store: Store) -> None:
    put(store, "a", "word", type="drawing")
    put(store, "b", "word")
    assert len(store.catalog.documents(Filters(type=("drawing",)), NOW)) == 1
