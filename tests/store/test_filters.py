"""Filters as SQL, by the documents that they leave. `make mutants` runs these against changes of
`kb.store.sqlite.filters`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kb.errors import InvalidRequest
from kb.store.filter_values import MAX_VALUE_CHARS, MAX_VALUES
from kb.store.sqlite.filters import condition
from kb.store.sqlite.store import SqliteStore
from kb.types import NOTES_ROOT, Filters, LexicalQuery, Limits
from tests.conftest import Clock
from tests.store.builders import put

NOW = "2026-05-28T20:26:40Z"


@pytest.fixture
def store(store: SqliteStore) -> SqliteStore:
    store.create()
    return store


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path_factory.mktemp("filled") / "kb.sqlite", clock=Clock())
    put(store, "x/plain.md", "word", date="2026-01-30")
    put(store, "x/p/rust.md", "word", type="code", date="2026-01-31", tags=("rust", "notes"))
    put(store, "x/p/zig.md", "word", type="pdf", date="2026-01-31T12:30:00Z", tags=("zig", "X"))
    put(store, "y/lesson.md", "word", date="2026-02-01", kind="lesson", scope="project")
    put(store, "y/decision.md", "word", date="2026-02-02", kind="decision", lang="de")
    put(store, "y/second.md", "word", date="2026-02-03", trust="secondary", lang="en")
    put(store, "z/third.md", "word", date="2026-02-04", trust="generated", tags=("caf\u00e9",))
    put(store, "z/passing.md", "word", date="2026-02-05", expires_at=NOW)
    put(store, "z/lasting.md", "word", date="2026-02-06", expires_at="2026-05-28T20:26:41Z")
    yield store
    store.close()


def left(store: SqliteStore, *at: str | None, **said: Any) -> list[str]:
    """The names of the documents that a filter leaves at the time `at`, by default `NOW`."""
    found = store.catalog.documents(Filters(**said), *at or (NOW,))
    return sorted(document.doc_path.rpartition("/")[2][:-3] for document in found)


EVERY = ["decision", "lasting", "lesson", "plain", "rust", "second", "third", "zig"]


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({}, EVERY),
        ({"tags": ("rust",)}, ["rust"]),
        ({"tags": ("rust", "notes")}, ["rust"]),
        ({"tags": ("rust", "zig")}, []),
        ({"tags": ("#rust",)}, ["rust"]),
        ({"tags": ["##rust"]}, ["rust"]),
        ({"tags": ("#X",)}, ["zig"]),
        ({"tags": ("cafe\u0301",)}, ["third"]),  # in NFC, as it is stored
        ({"tags_any": ("rust", "zig", "nothing")}, ["rust", "zig"]),
        ({"tags_any": {"#zig"}}, ["zig"]),
        ({"tags": ("notes",), "tags_any": ("rust", "zig")}, ["rust"]),
        ({"type": ("code",)}, ["rust"]),
        ({"type": ("code", "pdf")}, ["rust", "zig"]),
        ({"type": frozenset({"pdf"})}, ["zig"]),
        ({"kind": ("lesson",)}, ["lesson"]),
        ({"kind": ("lesson", "decision")}, ["decision", "lesson"]),
        ({"scope": "project"}, ["lesson"]),
        ({"scope": "global"}, [name for name in EVERY if name != "lesson"]),
        ({"lang": "de"}, ["decision"]),
        ({"lang": "d"}, []),
        ({"trust_min": "primary"}, [n for n in EVERY if n not in ("second", "third")]),
        ({"trust_min": "secondary"}, [name for name in EVERY if name != "third"]),
        ({"trust_min": "generated"}, EVERY),
        ({"path_glob": "x/*"}, ["plain"]),
        ({"path_glob": "x/**"}, ["plain", "rust", "zig"]),
        ({"path_glob": "x/p/zig.md"}, ["zig"]),
        ({"path_glob": "?/p/*.md"}, ["rust", "zig"]),
        ({"path_glob": "**/l*.md"}, ["lasting", "lesson"]),
        ({"path_glob": "[yz]/*"}, ["decision", "lasting", "lesson", "second", "third"]),
        ({"path_glob": "z/[st]*"}, ["third"]),
        ({"path_glob": "x"}, []),
        ({"after": "2026-02-04"}, ["lasting", "third"]),
        ({"before": "2026-01-31"}, ["plain"]),
        ({"after": "2026-01-31", "before": "2026-02-01"}, ["rust", "zig"]),
        ({"after": "2026-01-31", "before": "2026-02-01", "type": ("pdf",)}, ["zig"]),
        ({"scope": "global", "lang": "en", "trust_min": "secondary"}, ["second"]),
    ],
    ids=str,
)
def test_what_a_filter_leaves(filled: SqliteStore, said: dict[str, Any], names: list[str]) -> None:
    assert left(filled, **said) == names


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """Documents in two roots and a note."""
    store = SqliteStore(tmp_path_factory.mktemp("shared") / "kb.sqlite", clock=Clock())
    store.create()
    for name in ("work", "home"):
        root = store.catalog.ensure_root(f"/{name}", whole=True).root_id
        links = {"links_to": ["anchors" if name == "work" else "sea/anchors", "x"]}
        put(store, f"{name}/a.md", "word", root_id=root, scope="project", tags=(name, "a"),
            metadata=links)  # fmt: skip
        put(store, f"{name}/b.md", "word", root_id=root, scope="global", tags=(name, "b"))
    put(store, "note:c.md", "word", tags=("c",))
    yield store
    store.close()


@pytest.mark.parametrize(
    ("limits", "paths"),
    [
        (Limits(), ["home/a.md", "home/b.md", "note:c.md", "work/a.md", "work/b.md"]),
        (Limits(scopes=("project",)), ["home/a.md", "work/a.md"]),
        (Limits(scopes=("project", "global")),
         ["home/a.md", "home/b.md", "note:c.md", "work/a.md", "work/b.md"]),
        (Limits(roots=("work",)), ["work/a.md", "work/b.md"]),
        (Limits(roots=("work", NOTES_ROOT)), ["note:c.md", "work/a.md", "work/b.md"]),
        (Limits(roots=(NOTES_ROOT,)), ["note:c.md"]),
        (Limits(roots=("elsewhere",)), []),
        (Limits(tags=("a",)), ["home/a.md", "work/a.md"]),
        (Limits(tags=("a", "c")), ["home/a.md", "note:c.md", "work/a.md"]),
        (Limits(tags=("other",)), []),
        (Limits(scopes=("global",), roots=("home",), tags=("b", "a")), ["home/b.md"]),
        (Limits(scopes=("global",), roots=("home",), tags=("work",)), []),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_token_may_see(shared: SqliteStore, limits: Limits, paths: list[str]) -> None:
    documents = shared.catalog.documents(Filters(limits=limits), NOW)
    assert sorted(one.doc_path for one in documents) == paths


@pytest.mark.parametrize(
    ("target", "paths"),
    [
        ("sea/anchors.md", ["home/a.md", "work/a.md"]),
        ("anchors.md", ["home/a.md", "work/a.md"]),
        ("chors.md", []),
        ("deep/sea/anchors.md", ["home/a.md", "work/a.md"]),
        ("sky/anchors.md", ["work/a.md"]),
        ("moorings.md", []),
    ],
)
def test_what_links_to_a_document(shared: SqliteStore, target: str, paths: list[str]) -> None:
    documents = shared.catalog.documents(Filters(links_to=target), NOW)
    assert sorted(one.doc_path for one in documents) == paths


def test_tags_are_counted_in_what_a_filter_leaves(shared: SqliteStore) -> None:
    assert shared.catalog.tags(Filters(path_glob="work/*")) == {"work": 2, "a": 1, "b": 1}
    every = {"a": 2, "b": 2, "c": 1, "home": 2, "work": 2}
    assert shared.catalog.tags(Filters()) == every
    assert shared.catalog.tags(None) == every


def test_retrievers_see_the_chunks_of_those_documents(filled: SqliteStore) -> None:
    words = LexicalQuery((("word",),))
    found = filled.fulltext.match(
        words, every=False, filters=Filters(lang="de"), now=NOW, limit=9
    ).chunks
    (chunk,) = filled.catalog.chunks_by_id(one.chunk_id for one in found).values()
    (document,) = filled.catalog.documents_by_id([chunk.doc_id]).values()
    assert document.doc_path == "y/decision.md"


def test_what_has_expired_is_out_from_its_second_on(filled: SqliteStore) -> None:
    assert left(filled, "2026-05-28T20:26:39Z") == sorted([*EVERY, "passing"])
    assert left(filled, "2026-05-28T20:26:41Z") == [name for name in EVERY if name != "lasting"]
    assert left(filled, None) == sorted([*EVERY, "passing"])


@pytest.mark.parametrize(
    ("after", "names"),
    [
        ("2026-01-31", ["rust", "zig"]),
        ("2026-01-31T00:00:00", ["rust", "zig"]),  # midnight is the day itself
        ("2026-01-31T00:00:00Z", ["rust", "zig"]),
        ("2026-01-31T02:00:00+02:00", ["rust", "zig"]),
        ("2026-01-31T00:00:01", ["zig"]),
        ("2026-01-31T12:30:00Z", ["zig"]),
        ("2026-01-31T14:30:00+02:00", ["zig"]),
        ("2026-01-31T12:30:01", []),
        ("20260131T123000Z", ["zig"]),
    ],
)
def test_times_are_compared_in_utc(filled: SqliteStore, after: str, names: list[str]) -> None:
    assert left(filled, after=after, before="2026-02-01") == names


@pytest.mark.parametrize("name", ["after", "before"])
@pytest.mark.parametrize("value", ["yesterday", "2026-02-31", "0001-01-01T00:00:00+23:00"])
def test_what_is_no_date_is_refused(store: SqliteStore, name: str, value: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        left(store, **{name: value})
    assert error.value.message == f"{name} cannot be {value!r}"
    assert error.value.hint == "dates look like 2026-01-31 or 2026-01-31T12:00:00"


@pytest.mark.parametrize(
    ("said", "name", "valid"),
    [
        ({"type": ("film",)}, "type", "pdf, markdown, code, note"),
        ({"kind": ("idea",)}, "kind", "decision, lesson, summary, temp_note"),
        ({"scope": "galaxy"}, "scope", "global, project"),
        ({"trust_min": "blind"}, "trust_min", "primary"),
    ],
)
def test_an_unknown_value_of_a_closed_set(
    store: SqliteStore, said: dict[str, Any], name: str, valid: str
) -> None:
    with pytest.raises(InvalidRequest) as error:
        left(store, **said)
    assert error.value.message.startswith(f"{name} ")
    assert valid in error.value.hint


def test_a_type_of_a_plug_in_is_known_once_there_is_one(store: SqliteStore) -> None:
    with pytest.raises(InvalidRequest):
        left(store, type=("drawing",))
    put(store, "a.drw", "word", type="drawing")
    put(store, "b.abc", "word", type="abc")
    put(store, "c.md", "word")
    assert left(store, type=("drawing", "note")) == ["a.", "c"]
    with pytest.raises(InvalidRequest) as error:
        left(store, type=("film", "note"))
    assert error.value.hint.endswith("abc, drawing")


@pytest.mark.parametrize("name", ["tags", "tags_any", "type", "kind"])
def test_a_list_is_given_as_one(store: SqliteStore, name: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        left(store, **{name: "code"})
    assert (error.value.message, error.value.hint) == (
        f"{name} is a string",
        "give a tuple: ('code',)",
    )
    with pytest.raises(InvalidRequest) as error:
        left(store, **{name: 3})
    assert (error.value.message, error.value.hint) == (
        f"{name} has type int",
        "give a tuple of strings",
    )
    with pytest.raises(InvalidRequest, match=name):
        left(store, **{name: (3,)})


def test_filters_are_filters(store: SqliteStore) -> None:
    with pytest.raises(InvalidRequest) as error:
        store.catalog.documents({"lang": "en"}, NOW)  # type: ignore[arg-type]  # as a caller may
    assert error.value.message.startswith("filters cannot be ")
    assert error.value.hint == "give Filters(...)"


@pytest.mark.parametrize("name", ["scope", "lang", "path_glob", "trust_min", "after", "before"])
def test_one_value_is_a_text(store: SqliteStore, name: str) -> None:
    with pytest.raises(InvalidRequest, match=name):
        left(store, **{name: 3})
    with pytest.raises(InvalidRequest) as error:
        left(store, **{name: ""})
    assert error.value.message == f"{name} is empty"
    assert error.value.hint == f"omit {name} to match everything"


def test_an_empty_tag_is_refused(store: SqliteStore) -> None:
    for name in ("tags", "tags_any"):
        with pytest.raises(InvalidRequest, match=f"{name} is empty"):
            left(store, **{name: ("#",)})
    assert left(store, lang="#") == []  # a hash means something in tags alone


def test_bounds_on_values(store: SqliteStore) -> None:
    assert (MAX_VALUES, MAX_VALUE_CHARS) == (256, 1000)
    tags = tuple(f"tag {number}" for number in range(257))
    assert left(store, tags_any=tags[1:]) == []
    with pytest.raises(InvalidRequest) as error:
        left(store, tags_any=tags)
    assert (error.value.message, error.value.hint) == (
        "tags_any has 257 values", "give at most 256",
    )  # fmt: skip
    assert left(store, lang="x" * 1000) == []
    with pytest.raises(InvalidRequest) as error:
        left(store, lang="x" * 1001)
    assert error.value.message == "lang is longer than 1,000 characters"
    assert error.value.hint == "give a shorter lang"


def test_the_beginning_of_a_path_narrows_by_index(store: SqliteStore) -> None:
    """A glob is not matched against every document."""
    with store._database.reading() as connection:
        assert condition(connection, Filters(), None) == ("1", [])
        narrowed = condition(connection, Filters(path_glob="lib/a*"), None)
        whole = condition(connection, Filters(path_glob="*.md"), None)
    assert narrowed == (
        "d.doc_path >= ? AND d.doc_path < ? AND kb_glob(?, d.doc_path)",
        ["lib/a", "lib/a\U0010ffff", "lib/a*"],
    )
    assert whole == ("kb_glob(?, d.doc_path)", ["*.md"])
