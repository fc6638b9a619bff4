"""Hostile values in the Python API: random ones, and those that once caused errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb import Filters, KnowledgeBase
from kb.errors import InvalidRequest, KbError, PathMissing
from kb.metadata import (
    LANG_CHARS,
    MAX_TAGS,
    METADATA_BYTES,
    METADATA_DEPTH,
    TAG_CHARS,
    check_metadata,
)
from kb.store.filter_values import MAX_VALUES
from tests.fuzz_api import Fuzzer

HALF = "half\ud83d"  # of a character


def test_random_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fuzzer = Fuzzer(tmp_path, "suite")
    fuzzer.run(1500)
    assert fuzzer.problems == {}
    assert fuzzer.outcomes["answered"] > 300


@pytest.mark.parametrize(
    "ask",
    [
        lambda kb: kb.search("x", filters=Filters(tags=(HALF,))),
        lambda kb: kb.search("x", filters=Filters(tags_any=(HALF,))),
        lambda kb: kb.search("x", filters=Filters(path_glob=HALF)),
        lambda kb: kb.search("x", filters=Filters(lang=HALF)),
        lambda kb: kb.documents(Filters(tags=(HALF,))),
        lambda kb: kb.similar(HALF),
        lambda kb: kb.highlights(HALF, "x"),
        lambda kb: kb.highlights("x", HALF),
        lambda kb: kb.get(HALF),
        lambda kb: kb.document(HALF),
        lambda kb: kb.chunks(HALF),
        lambda kb: kb.embed(document=HALF),
        lambda kb: kb.remove(HALF),
        lambda kb: kb.remove(f"{HALF}/"),
        lambda kb: kb.tag("note:1", add=[HALF]),
        lambda kb: kb.tag("note:1", remove=[HALF]),
        lambda kb: kb.add(HALF),
        lambda kb: kb.add("x", title=HALF),
        lambda kb: kb.add("x", lang=HALF),
        lambda kb: kb.add("x", tags=[HALF]),
        lambda kb: kb.add("x", metadata={HALF: 1}),
        lambda kb: kb.add("x", metadata={"a": [HALF]}),
        lambda kb: kb.backup(HALF),
        lambda kb: kb.export(HALF),
        lambda kb: kb.import_(HALF),
    ],
)
def test_half_a_character_is_refused(
    kb: KnowledgeBase, ask: Callable[[KnowledgeBase], object]
) -> None:
    kb.add("x")
    before = kb.index_version()
    with pytest.raises(InvalidRequest) as error:
        ask(kb)
    assert error.value.hint
    error.value.message.encode()  # the message is valid Unicode
    assert kb.index_version() == before


def test_a_query_with_half_a_character_is_answered(kb: KnowledgeBase) -> None:
    kb.add("half a moon")
    for query in (HALF, f"{HALF} moon", f"'moon OR {HALF}'"):
        assert kb.search(query, malformed="empty").query
    assert kb.compare(f"moon {HALF}").query


@pytest.mark.parametrize("count", [1_200, 100_000])
@pytest.mark.parametrize("name", ["tags", "tags_any", "type", "kind"])
def test_filters_of_too_many_values(kb: KnowledgeBase, name: str, count: int) -> None:
    kb.add("radio")
    many: Any = {name: tuple(f"tag{number}" for number in range(count))}
    filters = Filters(**many)
    for ask in (kb.documents, lambda given: kb.search("radio", filters=given)):
        with pytest.raises(InvalidRequest, match=f"{name} has {count:,} values"):
            ask(filters)


def test_filters_of_many_values(kb: KnowledgeBase) -> None:
    kb.add("radio one", tags=["a", "b", "c"])
    kb.add("radio two", tags=["a", "b"])
    count = MAX_VALUES - 1
    many = tuple(f"tag{number}" for number in range(count))
    assert kb.documents(Filters(tags=many)) == []
    assert len(kb.documents(Filters(tags=("a", "b", "a") * (count // 3)))) == 2
    assert len(kb.documents(Filters(tags=("a", "b", "c")))) == 1
    assert len(kb.documents(Filters(tags_any=(*many, "c")))) == 1
    assert len(kb.documents(Filters(type=("note", "markdown") * (count // 2)))) == 2
    assert kb.documents(Filters(kind=("lesson", "summary") * (count // 2))) == []
    assert len(kb.search("radio", filters=Filters(tags=("a",), tags_any=(*many, "c"))).hits) == 1


def _nested(depth: int, *, lists: bool = False) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if lists else {"a": value}
    return {"a": value}


@pytest.mark.parametrize("lists", [False, True])
def test_metadata_has_a_depth(kb: KnowledgeBase, *, lists: bool) -> None:
    deepest = _nested(METADATA_DEPTH - 1, lists=lists)
    assert kb.add("x", metadata=deepest).metadata == deepest
    for depth in (METADATA_DEPTH, 947, 100_000):
        with pytest.raises(InvalidRequest, match="nested deeper"):
            kb.add("x", metadata=_nested(depth, lists=lists))
    assert len(kb.documents()) == 1


@pytest.mark.parametrize(
    "metadata",
    [
        5, "x", [1], {1: 2}, {"a": b"x"}, {"a": {1, 2}}, {"a": float("inf")}, {"a": 2**63},
        {"a": -(2**63) - 1}, {"a": 10**5000}, {"a": "x" * METADATA_BYTES}, {"a": object()},
    ],
)  # fmt: skip
def test_invalid_metadata(metadata: Any) -> None:
    with pytest.raises(InvalidRequest) as error:
        check_metadata(metadata)
    assert error.value.hint
    assert len(error.value.message) < 300


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"tags": [f"t{n}" for n in range(MAX_TAGS + 1)]}, "1,001 tags are too many"),
        ({"tags": ["x" * (TAG_CHARS + 1)]}, "longer than 200 characters"),
        ({"tags": "x" * 900_000}, "longer than 200 characters"),
        ({"lang": "x" * (LANG_CHARS + 1)}, "lang is longer than 35 characters"),
    ],
)
def test_tags_and_languages_are_bounded(kb: KnowledgeBase, given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as error:
        kb.add("x", **given)
    assert error.value.hint
    assert len(error.value.message) < 300
    assert not kb.path.exists()


def test_as_many_and_as_long_as_they_may_be(kb: KnowledgeBase) -> None:
    tags = tuple(f"{n:04}".ljust(TAG_CHARS, "x") for n in range(MAX_TAGS))
    note = kb.add("x", tags=tags, lang="x" * LANG_CHARS)
    assert (note.tags, note.lang) == (tags, "x" * LANG_CHARS)
    with pytest.raises(InvalidRequest, match="1,001 tags"):
        kb.tag(note.doc_path, add=["one more"])
    with pytest.raises(InvalidRequest, match="longer than 200"):
        kb.tag(note.doc_path, add=["x" * (TAG_CHARS + 1)])
    exchanged = kb.tag(note.doc_path, add=["one more"], remove=[tags[0]])
    assert set(exchanged.tags) == {*tags[1:], "one more"}


def test_metadata_has_a_length(kb: KnowledgeBase) -> None:
    longest = {"a": "é" * ((METADATA_BYTES - len('{"a": ""}')) // 2)}
    assert kb.add("x", metadata=longest).metadata == longest
    with pytest.raises(InvalidRequest, match="longer than 65,536 bytes"):
        kb.add("x", metadata={"a": longest["a"] + "éé"})


def test_metadata_comes_back_as_json(kb: KnowledgeBase) -> None:
    given = {"a": (1, 2.5, None, True), "b": {"c": "\u00e9", "n": -(2**63)}}
    assert kb.add("x", metadata=given).metadata == {"a": [1, 2.5, None, True], "b": given["b"]}


def test_files_that_cannot_be_read_or_written(kb: KnowledgeBase, tmp_path: Path) -> None:
    kb.add("x")
    with pytest.raises(PathMissing):
        kb.import_(tmp_path / "none.jsonl")
    for name in ("", "a\0b", b"x", 5, tmp_path, tmp_path / ("x" * 300)):
        for call in (kb.backup, kb.export, kb.import_):
            with pytest.raises(KbError):
                call(name)  # type: ignore[arg-type]  # that is what is tried
