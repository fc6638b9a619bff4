from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.ingest import file_names


def test_portable_leaves_plain_names_alone() -> None:
    plain = ["a.md", "b c#%.md", "中文.md", "é.md"]
    assert file_names.portable(plain) == plain


def test_portable_composes() -> None:
    assert file_names.portable(["cafe\u0301.md"]) == ["café.md"]


def test_portable_escapes_bytes_that_are_not_utf_8() -> None:
    assert file_names.portable([os.fsdecode(b"caf\xe9.md")]) == ["caf\\xe9.md"]


def test_portable_keeps_two_spellings_apart() -> None:
    assert file_names.portable(["cafe\u0301", "caf\u00e9"]) == ["cafe\\xcc\\x81", "café"]


def test_portable_keeps_a_literal_escape_apart() -> None:
    raw = os.fsdecode(b"caf\xe9")
    assert file_names.portable(["caf\\xe9", raw]) == ["caf\\x5cxe9", "caf\\xe9"]


@given(st.sets(st.binary(min_size=1, max_size=4), max_size=8))
def test_portable_names_are_text_and_stay_different(raw: set[bytes]) -> None:
    present = sorted(os.fsdecode(name) for name in raw)
    texts = file_names.portable(present)
    assert len(set(texts)) == len(present)
    for text in texts:
        text.encode("utf-8")


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("2026-03-01.md", "2026-03-01"),
        ("2026-03-01 call.md", "2026-03-01"),
        ("2026-02-31.md", None),
        ("2026-03-012.md", None),
        ("call 2026-03-01.md", None),
        ("notes.md", None),
    ],
)
def test_day_of(name: str, day: str | None) -> None:
    assert file_names.day_of(name) == day


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("first_call-notes.md", "first call notes"),
        ("2026-03-01-first_call.md", "2026-03-01 first call"),
        ("2026-03-01.md", "2026-03-01"),
        ("README", "README"),
        (".profile", ".profile"),
        ("___.md", "___.md"),
    ],
)
def test_title_of(name: str, title: str) -> None:
    assert file_names.title_of(name) == title


@pytest.mark.parametrize(
    ("name", "suffix", "title"),
    [
        ("asyncio-task.rst.txt", ".rst", "asyncio task"),
        ("README.MD", ".md", "README"),
        ("notes.v2.txt", ".txt", "notes.v2"),
        (".profile", "", ".profile"),
    ],
)
def test_sources_as_they_are_served(name: str, suffix: str, title: str) -> None:
    assert (file_names.suffix_of(name), file_names.title_of(name)) == (suffix, title)
